"""How far the clocks of the hosts are apart, from pings between them, so that it is known without a trace.

Rank 0 answers with its time, one rank of every other host asks. A ping that left at `a`, was answered at `b` on the other
clock and came back at `c` proves that this clock is ahead of the other by at least `a - b` and at most `c - b`.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import struct
import threading
import time
from typing import Any, Final

from rankscope.collector import board, ranks
from rankscope.collector.probe import Place, Unavailable
from rankscope.collector.run_dir import CLOCK
from rankscope.collector.windows import OpenBoard

DEFAULT = True
NEEDS = "torch.distributed"
TOKEN_BYTES: Final = 16
ANSWER: Final = struct.Struct("!Q")
PINGS: Final = 16  # of a round; the best of them bound the offset
PATIENCE_S: Final = 1.0
MOST_LOST: Final = 4  # of a round: then nobody is there, or a wall is between

_sessions = 0  # of this process; all ranks count alike


class Clock:
    """Rounds of pings `every_s` seconds apart; a line of `clock.jsonl` each.

    `ahead_least_ns`, `ahead_most_ns`: by how much this host's clock is ahead of that of `peer_rank`; `round_trip_ns`: of
    the fastest ping. Ranks on the host of rank 0 read the same clock and do not ask, unless `same_host`.
    """

    name = "clock"

    def __init__(self, every_s: float = 60.0, same_host: bool = False) -> None:
        self._every_s, self._same_host = float(every_s), same_host
        self._ends = threading.Event()
        self._socket: socket.socket | None = None

    def start(self, place: Place) -> None:
        """Unavailable on one process, and on ranks whose neighbour on the same host asks."""
        global _sessions
        self._place = place
        seat = ranks.seat()  # as it is by now: a session may begin before there is a process group
        count = seat.world_size
        if count < 2:
            raise Unavailable("one process has one clock")
        if os.environ.get("LOCAL_WORLD_SIZE") == str(count) and not self._same_host:  # then no port is opened
            raise Unavailable("all ranks are on one host")
        if seat.rank and seat.local_rank and not self._same_host:
            raise Unavailable("local rank 0 asks for this host")
        _sessions += 1
        prefix, run_dir = f"rankscope/clock/{_sessions}", place.options.run_dir
        self._boards: list[OpenBoard] = [lambda: board.store_board(prefix), lambda: board.file_board(run_dir, count, "clock")]
        work, name = (self._answer, "answers") if seat.rank == 0 else (self._ask, "asks")
        threading.Thread(target=place.guard(self.name, work), name=f"rankscope-clock-{name}", daemon=True).start()

    def step(self, step: int) -> None:
        """Nothing."""

    def stop(self) -> None:
        """Ask and answer no more."""
        self._ends.set()
        if self._socket is not None:
            self._socket.close()

    # ---- rank 0 ------------------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        token = secrets.token_bytes(TOKEN_BYTES)
        answering = self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        answering.bind(("", 0))
        answering.settimeout(PATIENCE_S)
        port = answering.getsockname()[1]
        place = {"host": socket.gethostname(), "addresses": _addresses(), "port": port, "token": token.hex()}
        found = self._board()
        if found is None:
            return
        found.put(0, json.dumps(place))
        while not self._ends.is_set():
            try:
                asked, asker = answering.recvfrom(64)
                at = time.time_ns()
                if asked[:TOKEN_BYTES] == token:  # anybody else gets no answer
                    answering.sendto(asked + ANSWER.pack(at), asker)
            except TimeoutError:
                continue
            except OSError:  # closed
                return

    # ---- one rank of every other host --------------------------------------------------------------------------------

    def _ask(self) -> None:
        found = self._board()
        text = None
        while found is not None and text is None and not self._ends.wait(0.5):
            text = found.get(0)
        if text is None:
            return
        place: dict[str, Any] = json.loads(text)
        if place["host"] == socket.gethostname() and not self._same_host:
            raise Unavailable("on the host of rank 0: the same clock")
        token = bytes.fromhex(place["token"])
        address = self._reached(token, place)
        if address is None:
            raise Unavailable("rank 0 does not answer pings on any of its addresses")
        while True:
            line = self._round(token, address)
            if line is not None:
                self._place.records.append(CLOCK, {**line, "peer_rank": 0, "peer_host": place["host"]})
            if self._ends.wait(self._every_s):
                return

    def _reached(self, token: bytes, place: dict[str, Any]) -> tuple[str, int] | None:
        for host in place["addresses"]:
            if self._round(token, (host, place["port"]), 1) is not None:
                return host, place["port"]
        return None

    def _round(self, token: bytes, address: tuple[str, int], pings: int = PINGS) -> dict[str, int] | None:
        """The bounds that these pings prove together; None where none came back."""
        least, most, fastest, came, lost = None, None, None, 0, 0
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(PATIENCE_S)
            for number in range(pings):
                if lost >= MOST_LOST or self._ends.is_set():
                    break
                left, answered, back = _ping(asking, address, token + number.to_bytes(4, "big"))
                if answered is None:
                    lost += 1
                    continue
                came += 1
                least = left - answered if least is None else max(least, left - answered)
                most = back - answered if most is None else min(most, back - answered)
                fastest = back - left if fastest is None else min(fastest, back - left)
        if least is None or most is None or fastest is None:
            return None
        return {
            "unix_ns": time.time_ns(), "ahead_least_ns": least, "ahead_most_ns": most, "round_trip_ns": fastest, "pings": came,
        }  # fmt: skip

    def _board(self) -> board.Board | None:
        """The first board that can be reached, when it is there; None where the session ends before."""
        while not self._ends.wait(0.5):
            for open_board in self._boards:
                try:
                    found = open_board()
                except (RuntimeError, OSError):
                    continue
                if found is not None:
                    return found
        return None


def _ping(asking: socket.socket, address: tuple[str, int], asked: bytes) -> tuple[int, int | None, int]:
    """When it left, the other clock's answer if one came, and when that was back."""
    left = time.time_ns()
    try:
        asking.sendto(asked, address)
        while True:  # an answer to an earlier ping may come late
            answer, _ = asking.recvfrom(64)
            back = time.time_ns()
            if answer.startswith(asked) and len(answer) == len(asked) + ANSWER.size:
                return left, ANSWER.unpack(answer[len(asked) :])[0], back
    except OSError:  # no answer, no way
        return left, None, time.time_ns()


def _addresses() -> list[str]:
    """Where other hosts may reach this one: the name the job meets under first."""
    names = [name for name in (os.environ.get("MASTER_ADDR"), socket.gethostname()) if name]
    found: list[str] = []
    for name in names:
        try:
            found += [str(info[4][0]) for info in socket.getaddrinfo(name, None, socket.AF_INET, socket.SOCK_DGRAM)]
        except OSError:
            continue
    return list(dict.fromkeys(found))


PROBE = Clock
