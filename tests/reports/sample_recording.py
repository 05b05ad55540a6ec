"""Diagnoses of run directories without traces, for the tests of reports and for looking at pages."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from runs_made import BEGIN, MS, Job, append

import rankscope
from rankscope.analyzers.findings import Diagnosis


def diagnosed(job: Job, *figures: dict[str, float]) -> Diagnosis:
    """The diagnosis of a job as it would be recorded; `figures`: of the host, the same on all ranks but for the rank."""
    with tempfile.TemporaryDirectory() as made:
        for rank, folder in enumerate(job.write(Path(made) / "llama")):
            for name in ("nvml.jsonl", "host.jsonl"):
                append(folder, name, *({"unix_ns": BEGIN + rank, **figure} for figure in figures))
        return rankscope.load(made, cache=False, jobs=1).diagnose()


@cache
def pulse() -> Diagnosis:
    """Four gloo ranks of one host, one of them late in its forward pass."""

    def crowded(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        return record | {"queued": {"backward": 4 * MS}, "gc_ns": 100_000}

    job = Job(ranks=4, steps=60, late={(2, "forward"): 40}, change=crowded)
    return diagnosed(job, {"cpu_share": 0.9, "io_wait_share": 0.01})


@cache
def pulse_of_many() -> Diagnosis:
    """64 ranks of 8 hosts on devices, long, killed."""

    def on_device(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        return record | {"device": record["stages"], "wait": dict.fromkeys(record["stages"], 0)}

    job = Job(
        ranks=64, steps=400, device="NVIDIA H100", late={(37, "data"): 60}, change=on_device, noise=0.01,
        manifest={"ended": lambda rank: None if rank == 5 else "exception: DistBackendError: peer closed"},
    )  # fmt: skip
    return diagnosed(job, {"sm_clock_mhz": 1980, "power_w": 645.25, "memory_used_bytes": 7.1e10, "busy_share": 0.97})


def hostile_pulse(names: tuple[str, ...]) -> Diagnosis:
    """Names that mean harm, wherever a run directory has a name."""

    def naming(rank: int, step: int, record: dict[str, Any]) -> dict[str, Any]:
        return record | {"log": {name.replace("\ud800", ""): 1.0 for name in names}}

    first, *others = [name.replace("\ud800", "") for name in names]
    told = {
        "host": first, "ended": f"exception: {' '.join(others)}", "probes": {name: f"failed: {first}" for name in others},
        "backend": first, "run_id": first,
    }  # fmt: skip
    return diagnosed(Job(ranks=2, steps=12, change=naming, manifest=told), dict.fromkeys(others, 1.0))


def no_step() -> Diagnosis:
    """A job that died before its first step."""
    return diagnosed(Job(ranks=2, steps=0, manifest={"ended": "exception: FileNotFoundError: shards"}))
