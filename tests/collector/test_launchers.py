"""Which rank a process is, and what it was made with, from the environment alone."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest

from rankscope.collector.environment import MAX_VALUE, environment
from rankscope.collector.ranks import LAUNCHERS, Seat, groups, seat


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """No launcher, and no process group of another test's."""
    for launcher in LAUNCHERS:
        for variable in filter(None, launcher[1:]):
            monkeypatch.delenv(variable, raising=False)
    monkeypatch.delitem(sys.modules, "torch.distributed", raising=False)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, Seat()),
        (
            {"RANK": "3", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "TORCHELASTIC_RUN_ID": "a", "TORCHELASTIC_RESTART_COUNT": "2"},
            Seat(3, 8, 1, "a", 2),
        ),
        (
            {"SLURM_PROCID": "5", "SLURM_NTASKS": "16", "SLURM_LOCALID": "5", "SLURM_JOB_ID": "77", "SLURM_RESTART_COUNT": "1"},
            Seat(5, 16, 5, "77", 1),
        ),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, Seat(1, 2, 1)),
        ({"PMI_RANK": "1", "PMI_SIZE": "4"}, Seat(1, 4, None)),
        ({"RANK": "1", "WORLD_SIZE": "2", "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}, Seat(1, 2, None)),
        ({"RANK": "8", "WORLD_SIZE": "8"}, Seat()),
        ({"RANK": "-1", "WORLD_SIZE": "8"}, Seat()),
        ({"RANK": "one", "WORLD_SIZE": "8", "PMI_RANK": "1", "PMI_SIZE": "4"}, Seat(1, 4, None)),
        ({"RANK": "\u0663", "WORLD_SIZE": "8"}, Seat()),
    ],
    ids=["nobody", "torchrun", "slurm", "open-mpi", "pmi", "torchrun-in-slurm", "too-large", "negative", "junk", "digits"],
)  # fmt: skip
def test_rank_and_world_come_from_the_launcher(
    variables: dict[str, str], expected: Seat, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert seat() == expected


def test_an_initialised_process_group_says_more_than_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    group = SimpleNamespace(group_desc="default_pg")
    world = SimpleNamespace(pg_names={_Hashed(group): "0"}, pg_group_ranks={})
    distributed = SimpleNamespace(
        is_available=lambda: True, is_initialized=lambda: True, get_rank=lambda: 2, get_world_size=lambda: 4,
        get_backend=lambda: "nccl", distributed_c10d=SimpleNamespace(_world=world),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch.distributed", distributed)
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "1")
    monkeypatch.setenv("LOCAL_RANK", "0")
    assert seat() == Seat(2, 4, 0, "", 0, "nccl")
    assert [found["name"] for found in groups()] == ["0"]


class _Hashed:
    def __init__(self, inner: SimpleNamespace) -> None:
        self.group_desc = inner.group_desc


def test_the_environment_is_an_allow_list_without_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    kept = {"NCCL_DEBUG": "INFO", "SLURM_JOB_ID": "7", "WORLD_SIZE": "8", "CUDA_VISIBLE_DEVICES": "0"}
    secret = {"SLURM_JWT": "x", "NCCL_AUTH": "x", "TORCH_API_KEY": "x", "SLURM_PASSWORD": "x", "OMP_SECRET_PART": "x"}
    others = {"HOME": "/somewhere", "AWS_PROFILE": "x", "MY_NCCL_DEBUG": "x", "WORLD_SIZES": "x"}
    for name, value in {**kept, **secret, **others}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TORCH_HOME", "https://user:pass@example.org/models")
    monkeypatch.setenv("SLURM_NODELIST", "n" * 5_000)
    found = environment()
    assert found.pop("TORCH_HOME") == "https://example.org/models"
    assert len(found.pop("SLURM_NODELIST")) == MAX_VALUE
    assert found == kept
