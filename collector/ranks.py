"""Which rank of which run this process is: from torch.distributed where it is up, else from its launcher's variables."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from typing import Any, Final

# rank, world size, local rank, run, restarts; the first launcher that says a rank is believed
LAUNCHERS: Final = (
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_MCA_ess_base_jobid", ""),
    ("MPI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "PMI_JOBID", ""),
    ("Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_JOB_ID", "SLURM_RESTART_COUNT"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Seat:
    """One process's place in its run."""

    rank: int = 0
    world_size: int = 1
    local_rank: int | None = None
    run_id: str = ""
    attempt: int = 0
    backend: str | None = None


def seat() -> Seat:
    """Where this process sits. A process that nobody launched is rank 0 of 1."""
    found = _launched()
    distributed = initialised()
    if distributed is None:
        return found
    return Seat(
        distributed.get_rank(), distributed.get_world_size(), found.local_rank, found.run_id, found.attempt,
        str(distributed.get_backend()),
    )  # fmt: skip


def initialised() -> Any:
    """`torch.distributed` where the user's program has initialised it, else None; imports nothing."""
    distributed = sys.modules.get("torch.distributed")
    if distributed is None or not getattr(distributed, "is_available", bool)():
        return None
    return distributed if distributed.is_initialized() else None


def groups() -> list[dict[str, Any]]:
    """The process groups of this rank: name, description, global ranks."""
    distributed = initialised()
    world = getattr(getattr(distributed, "distributed_c10d", None), "_world", None)
    found = []
    for group, name in dict(getattr(world, "pg_names", {})).items():
        ranks = getattr(world, "pg_group_ranks", {}).get(group, {})
        found.append({"name": str(name), "description": str(getattr(group, "group_desc", "")), "ranks": sorted(ranks)})
    return found


def _launched() -> Seat:
    for _, rank, world, local, run, restarts in LAUNCHERS:
        found, size = _number(rank), _number(world)
        if found is not None and size is not None and 0 <= found < size:
            return Seat(found, size, _number(local), os.environ.get(run, ""), _number(restarts) or 0)
    return Seat()


def _number(variable: str) -> int | None:
    text = os.environ.get(variable, "")
    return int(text) if text.isascii() and text.isdigit() else None
