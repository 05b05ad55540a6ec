"""Reads `clock.jsonl`: rounds of pings between this host and rank 0's (docs/probes.md, Clocks)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Final

import msgspec
import numpy as np

from rankscope.analyzers.pulse.readers.lines import Lines
from rankscope.analyzers.pulse.tables import PingRounds

MOST_ROUNDS: Final = 100_000  # of one file: two months, one a minute
MOST_ROUND_TRIP_NS: Final = 10 * 10**9  # the probe waits a second for an answer
_Time = Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
_Length = Annotated[int, msgspec.Meta(gt=-(1 << 62), lt=1 << 62)]


class _Round(msgspec.Struct):
    unix_ns: _Time
    ahead_least_ns: _Length
    ahead_most_ns: _Length
    round_trip_ns: _Time
    peer_rank: int = 0
    peer_host: str = ""

    @property
    def ahead_ns(self) -> int:
        """The middle of the bounds."""
        return (self.ahead_least_ns + self.ahead_most_ns) // 2

    @property
    def plausible(self) -> bool:
        """Bounds lie no further apart than the fastest ping took; drift within the round may cross them as far."""
        trip = self.round_trip_ns
        bounded = 0 < trip <= MOST_ROUND_TRIP_NS and abs(self.ahead_most_ns - self.ahead_least_ns) <= trip
        return bounded and self.peer_rank == 0 and 0 <= self.unix_ns - self.ahead_ns < 1 << 62


_DECODER = msgspec.json.Decoder(_Round)


def read_pings(path: str) -> tuple[PingRounds, list[str]]:
    """The rounds in the order of the file; a line that cannot be a round is counted as none."""
    lines = Lines(path)
    rounds: list[_Round] = []
    for found in _rounds(lines):
        if len(rounds) == MOST_ROUNDS:
            break
        rounds.append(found)
    problems = lines.problems
    if len(rounds) == MOST_ROUNDS:
        problems.append(f"only its first {MOST_ROUNDS:,} rounds were read")
    hosts = np.empty(len(rounds), object)
    hosts[:] = [found.peer_host[:255] for found in rounds]
    columns = {
        "unix_ns": np.array([found.unix_ns for found in rounds], np.int64),
        "ahead_ns": np.array([found.ahead_ns for found in rounds], np.int64),
        "round_trip_ns": np.array([found.round_trip_ns for found in rounds], np.int64),
        "peer_host": hosts,
    }
    return PingRounds(columns), problems


def _rounds(lines: Lines) -> Iterator[_Round]:
    for piece in lines.pieces():
        for text in lines.each(piece):
            try:
                found = _DECODER.decode(text)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                lines.damaged += 1
                continue
            if found.plausible:
                yield found
            else:
                lines.damaged += 1
