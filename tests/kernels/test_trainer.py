"""The reference trainer on CPU ranks over gloo: every way of sharing the work trains the same model."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch is not installed (extra `train`)")

from rankscope.kernels.trainer.data import Batches
from rankscope.kernels.trainer.faults import Fault
from rankscope.kernels.trainer.model import ModelShape, Transformer
from rankscope.kernels.trainer.options import parse

ROOT = Path(__file__).parents[2]
# several jobs one after the other in one set of processes: starting torch costs more than the steps
JOBS = """
import json, sys
from rankscope.kernels.trainer import train
from rankscope.kernels.trainer.options import parse
device = train.begin()
found = [train.Training(parse(arguments), device).run() for arguments in json.loads(sys.argv[1])]
import torch.distributed as dist
if dist.is_initialized():
    dist.barrier()
    first = dist.get_rank() == 0
    dist.destroy_process_group()
else:
    first = True
if first:
    print(json.dumps(found))
"""
SMALL = [
    "--batch",
    "8",
    "--length",
    "32",
    "--dim",
    "32",
    "--hidden",
    "64",
    "--layers",
    "2",
    "--heads",
    "4",
    "--kv-heads",
    "2",
]
SMALL += ["--workers", "0", "--log-every", "1", "--steps", "5", "--warmup", "2"]


def losses(ranks: int, *jobs: list[str]) -> list[list[float]]:
    """The losses of each job, run by this many ranks."""
    launcher = [sys.executable]
    if ranks > 1:
        launcher += [
            "-m",
            "torch.distributed.run",
            "--standalone",
            "--nproc-per-node",
            str(ranks),
            "--no-python",
            *launcher,
        ]
    command = [*launcher, "-c", JOBS, json.dumps([SMALL + job for job in jobs])]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.strip().splitlines()[-1])


@pytest.fixture(scope="module")
def alone() -> list[float]:
    """The losses of one process."""
    return losses(1, [])[0]


SHARED = {
    "ddp": ["--parallel", "ddp"],
    "fsdp": ["--parallel", "fsdp"],
    "tensor": ["--parallel", "tensor"],
    "pipeline": ["--parallel", "pipeline"],
    "fsdp, accumulated and recomputed": ["--parallel", "fsdp", "--micro-batches", "2", "--recompute"],
    "ddp, accumulated": ["--parallel", "ddp", "--micro-batches", "2"],
}


@pytest.fixture(scope="module")
def together() -> dict[str, list[float]]:
    """The losses of two ranks, by how they share the work."""
    return dict(zip(SHARED, losses(2, *SHARED.values()), strict=True))


@pytest.mark.parametrize("sharing", SHARED)
def test_ranks_together_train_what_one_trains_alone(
    sharing: str, alone: list[float], together: dict[str, list[float]]
) -> None:
    assert alone[-1] < alone[0] - 0.05  # it learns: equal losses of a model that stands still would prove nothing
    # float32 sums in another order; 1e-4 is what is asked of the trainer
    assert together[sharing] == pytest.approx(alone, abs=1e-4)


def test_shards_within_groups_and_both_kinds_at_once_train_the_same(alone: list[float]) -> None:
    for found in losses(4, ["--parallel", "hsdp"], ["--parallel", "fsdp+tensor"]):
        assert found == pytest.approx(alone, abs=1e-4)


@pytest.mark.parametrize(
    "how", [["--parallel", "fsdp"], ["--parallel", "ddp", "--checkpoint-async"]], ids=["sync", "thread"]
)
def test_a_resumed_run_goes_on_bit_for_bit(how: list[str], tmp_path: Path) -> None:
    how = [*how, "--checkpoint", str(tmp_path), "--checkpoint-every", "3"]
    whole = losses(2, how)[0]
    newest = tmp_path / "step-000005"
    assert sorted(folder.name for folder in tmp_path.iterdir()) == ["step-000003", "step-000005"]
    (newest / ".metadata").unlink()  # as if it had been killed while writing
    assert losses(2, [*how, "--resume"])[0] == whole[3:]


def test_bfloat16_stays_near_and_is_not_the_same(alone: list[float]) -> None:
    found = losses(2, ["--parallel", "fsdp", "--bf16"])[0]
    assert found != alone
    assert found == pytest.approx(alone, rel=2**-7)  # bfloat16 keeps eight bits


def test_the_same_seed_trains_the_same_bits_and_another_does_not(alone: list[float]) -> None:
    same, other = losses(1, [], ["--seed", "1"])
    assert same == alone != other


def test_every_rank_sees_its_own_part_and_all_see_the_whole() -> None:
    whole = [list(batch) for batch in Batches(50, 8, 0, 1, 3, range(12))]
    parts = [[list(batch) for batch in Batches(50, 8, part, 4, 3, range(12))] for part in range(4)]
    assert [[index for part in parts for index in part[step]] for step in range(12)] == whole
    assert [list(batch) for batch in Batches(50, 8, 0, 1, 3, range(7, 12))] == whole[7:]
    assert len({index for batch in whole[:6] for index in batch}) == 48  # an epoch repeats nothing


def test_a_batch_that_does_not_divide_is_refused() -> None:
    with pytest.raises(ValueError, match="does not divide by 3"):
        Batches(50, 8, 0, 3, 0, range(1))


def test_flops_are_six_a_weight_and_twelve_for_attention() -> None:
    shape = ModelShape()
    model = Transformer(shape)
    weights = sum(parameter.numel() for parameter in model.parameters())
    head = shape.dim // shape.heads
    assert weights == 2 * 256 * 128 + 128 + 4 * (2 * 128 + 128 * (2 * 128 + 2 * 4 * head) + 3 * 128 * 352)
    assert shape.flops_per_token(64, weights) == 6 * weights + 12 * 4 * 128 * 64


def test_faults_are_read_and_bad_ones_explained() -> None:
    assert Fault.parse("slow-forward:rank=2,ms=80.5,every=3") == Fault("slow-forward", 2, 80.5, 3)
    assert [step for step in range(9) if Fault("gc", start=2, every=3).hits(step)] == [2, 5, 8]
    for text, said in (
        ("slow", "there is no fault"),
        ("gc:rank", "is none of"),
        ("gc:size=3", "is none of"),
        ("gc:every=0", "at least 1"),
    ):
        with pytest.raises(ValueError, match=said):
            Fault.parse(text)


def test_bad_options_end_with_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        parse(["--heads", "3"])
    assert "must divide" in capsys.readouterr().err
