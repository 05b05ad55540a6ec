"""Where ranks meet: collectives begin when the last rank arrives, receives when the bytes were sent."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from rankscope.simulator.engine import Moved, Program, Worker
from rankscope.simulator.recording import Arrival
from rankscope.simulator.truth import Handover, Meeting


class Rendezvous:
    """Runs the ranks' programs against each other and keeps who met whom, in the order in which they came together."""

    def __init__(self, workers: Sequence[Worker], program: Callable[[Worker], Program]) -> None:
        self.meetings: list[Meeting] = []
        self.handovers: list[Handover] = []
        self._programs = {worker.rank: program(worker) for worker in workers}
        self._gathering: dict[tuple[str, int], list[Arrival]] = {}
        self._sent: dict[tuple[int, int], deque[Arrival]] = {}
        self._awaited: dict[tuple[int, int], Arrival] = {}
        self._resume: list[tuple[int, Moved | None]] = [(rank, None) for rank in self._programs]

    def run(self) -> None:
        """Run every program to its end."""
        while self._resume:
            rank, moved = self._resume.pop()
            program = self._programs[rank]
            try:
                arrival = next(program) if moved is None else program.send(moved)
            except StopIteration:
                continue
            if arrival.peer is None:
                self._gather(arrival)
            else:
                self._hand_over(arrival, arrival.peer)
        if self._gathering or self._awaited:
            raise RuntimeError(f"ranks wait for each other for ever: {sorted(self._gathering)} {list(self._awaited)}")

    def _gather(self, arrival: Arrival) -> None:
        """All end together."""
        key = (arrival.group.name, arrival.seq)
        there = self._gathering.setdefault(key, [])
        there.append(arrival)
        if len(there) == len(arrival.group.ranks):
            arrivals = self._gathering.pop(key)
            last = max(a.at_ns for a in arrivals)
            end = last + max(a.transfer_ns for a in arrivals)
            by_rank = {a.rank: a.at_ns for a in sorted(arrivals, key=lambda a: a.rank)}
            size = max(a.bytes for a in arrivals)
            self.meetings.append(Meeting(key[0], key[1], arrival.collective, size, arrival.step, by_rank, end))
            self._resume += [(a.rank, Moved(last, end)) for a in arrivals]

    def _hand_over(self, arrival: Arrival, peer: int) -> None:
        """A sender copies into its receiver's buffer and does not wait; a receiver waits for its sender."""
        if arrival.collective == "send":
            pair = arrival.rank, peer
            self._sent.setdefault(pair, deque()).append(arrival)
            self._resume.append((arrival.rank, Moved(arrival.at_ns, arrival.at_ns + arrival.transfer_ns)))
        else:
            pair = peer, arrival.rank
            self._awaited[pair] = arrival
        if pair in self._awaited and self._sent.get(pair):
            sent, received = self._sent[pair].popleft(), self._awaited.pop(pair)
            begin = max(sent.at_ns, received.at_ns)
            moved = Moved(begin, begin + received.transfer_ns)
            self.handovers.append(
                Handover(
                    group=sent.group.name,
                    source=sent.rank,
                    destination=received.rank,
                    bytes=sent.bytes,
                    step=sent.step,
                    sent_ns=sent.at_ns,
                    send_end_ns=sent.at_ns + sent.transfer_ns,
                    awaited_ns=received.at_ns,
                    end_ns=moved.end_ns,
                )
            )
            self._resume.append((received.rank, moved))
