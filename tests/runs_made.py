"""Run directories made by hand, with a truth that is known: what the collector would leave of such a run."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankscope.collector.run_dir import MANIFEST, PULSE, Manifest, line, rank_folder

MS = 1_000_000
BEGIN = 1_790_000_000 * 10**9
# of an ordinary step, in milliseconds
DDP: Mapping[str, float] = {"data": 4, "forward": 60, "backward": 120, "optimizer": 12, "other": 2}
MEETS_DDP, MEETS_FSDP = ("backward",), ("forward", "backward")
Change = Callable[[int, int, dict[str, Any]], dict[str, Any] | None]  # rank, step, line -> line; None: not written


@dataclass
class Job:
    """A job of some ranks in lockstep: own time a stage, and where ranks meet they leave together.

    `late` adds milliseconds to a rank's stage from the step `late_from` on; `noise` is the standard deviation of every
    own time, as a share of it.
    """

    ranks: int = 4
    steps: int = 60
    stages: Mapping[str, float] = field(default_factory=lambda: DDP)
    meets: tuple[str, ...] = MEETS_DDP
    late: Mapping[tuple[int, str], float] = field(default_factory=dict)
    late_from: int = 0  # the step since which they are late
    noise: float = 0.02
    transfer_ms: float = 6
    seed: int = 1
    device: str | None = None
    attempt: int = 0
    first_step: int = 0
    begin_ns: int = BEGIN
    run_id: str = "job-1"
    manifest: Mapping[str, Any] = field(default_factory=dict)
    change: Change = lambda rank, step, record: record

    def lines(self) -> list[list[dict[str, Any]]]:
        """By rank, the line of each step."""
        chance = random.Random(self.seed)
        clock = [0.0] * self.ranks  # milliseconds on one true clock
        found: list[list[dict[str, Any]]] = [[] for _ in range(self.ranks)]
        for step in range(self.first_step, self.first_step + self.steps):
            begins = list(clock)
            stages: list[dict[str, int]] = [{} for _ in clock]
            waits: list[dict[str, int]] = [{} for _ in clock]
            for stage, ms in self.stages.items():
                late = self.late if step >= self.late_from else {}
                own = [max(0.0, chance.gauss(ms, ms * self.noise)) + late.get((r, stage), 0) for r in range(self.ranks)]
                reached = [at + ms for at, ms in zip(clock, own, strict=True)]
                left = [max(reached) + self.transfer_ms] * self.ranks if stage in self.meets else reached
                for rank in range(self.ranks):
                    stages[rank][stage] = round((left[rank] - clock[rank]) * MS)
                    waits[rank][stage] = round((left[rank] - reached[rank]) * MS)
                clock = left
            for rank in range(self.ranks):
                record = {
                    "step": step,
                    "begin_ns": self.begin_ns + round(begins[rank] * MS),
                    "wall_ns": sum(stages[rank].values()),
                    "stages": stages[rank],
                    "wait": waits[rank],
                    "memory": {"host_bytes": 10**9},
                    "log": {"loss": 4.0 / (1 + step)},
                    "hooks_ns": 90_000,
                }
                changed = self.change(rank, step, record)
                if changed is not None:
                    found[rank].append(changed)
        return found

    def write(self, place: Path) -> list[Path]:
        """The run directory; the folder of each rank."""
        folders = []
        for rank, lines in enumerate(self.lines()):
            token = f"{self.attempt * 1000 + self.seed:04x}{rank:04x}"
            folder = Path(rank_folder(place, rank, token).path)
            folder.mkdir(parents=True)
            folders.append(folder)
            (folder / PULSE).write_text("".join(line(record) for record in lines))
            ended = lines[-1]["begin_ns"] + lines[-1]["wall_ns"] if lines else self.begin_ns
            told: dict[str, Any] = {
                "run_id": self.run_id, "attempt": self.attempt, "rank": rank, "local_rank": rank,
                "world_size": self.ranks, "host": f"host-{rank // 8}", "pid": 1000 + rank,
                "backend": "nccl" if self.device else "gloo", "device": self.device, "started_unix_ns": self.begin_ns,
                "ended_unix_ns": ended, "ended": "finished", "steps": len(lines),
                "probes": {"stages": "on", "gc_pauses": "on", "nvml": "skipped: no NVIDIA driver"},
                "overhead": {"share": 0.0009, "budget_share": 0.01, "every": 1},
            }  # fmt: skip
            told |= {key: value(rank) if callable(value) else value for key, value in self.manifest.items()}
            (folder / MANIFEST).write_text(Manifest(**told).to_json())
        return folders


def append(folder: Path, name: str, *records: Mapping[str, Any]) -> None:
    """Append lines to a file of a rank's folder."""
    with (folder / name).open("a") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)


@dataclass(frozen=True)
class Asked:
    """Rounds of pings that one host asked of rank 0's, a minute apart: its clock is `ahead_ns` when they begin, and drifts."""

    ahead_ns: int = 0
    drift: float = 0.0
    rounds: int = 20
    every_ns: int = 60 * 10**9
    there_ns: int = 50_000  # the ping's way, and the answer's
    back_ns: int = 50_000
    lost: tuple[int, ...] = ()
    begin_ns: int = BEGIN

    def lines(self) -> list[dict[str, Any]]:
        """The lines of `clock.jsonl`."""
        found = []
        for number in range(self.rounds):
            true = self.begin_ns + number * self.every_ns
            ahead = self.ahead_ns + round(self.drift * (true - self.begin_ns))
            if number not in self.lost:
                found.append({
                    "unix_ns": true + ahead + self.there_ns + self.back_ns, "ahead_least_ns": ahead - self.there_ns,
                    "ahead_most_ns": ahead + self.back_ns, "round_trip_ns": self.there_ns + self.back_ns, "pings": 16,
                    "peer_rank": 0, "peer_host": "host-0",
                })  # fmt: skip
        return found
