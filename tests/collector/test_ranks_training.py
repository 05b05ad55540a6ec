"""Real gloo runs of two ranks: the pulse alone names rank and stage, and what happens to one rank is written on both."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from recorded import SCRIPTS, Recorded, recorded, torchrun

torch = pytest.importorskip("torch", reason="torch is not installed")
if not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
    pytest.skip("this torch has no gloo", allow_module_level=True)

TRAIN = SCRIPTS / "train.py"
PAUSE_NS = 80_000_000  # as planted by the script, in each step
# of it that has to be seen as the planted rank's own time, and that no other stage of either rank may show: half
SEEN_NS = PAUSE_NS // 2


@dataclass(frozen=True)
class Run:
    done: subprocess.CompletedProcess[str]
    ranks: list[Recorded]


def run(run_dir: Path, *words: str, expected: int = 0) -> Run:
    done = torchrun(2, TRAIN, run_dir, *words)
    assert done.returncode == expected, done.stderr[-3000:]
    return Run(done, recorded(run_dir))


def accused(ranks: list[Recorded], skip: int = 5) -> list[tuple[int, str]]:
    """(rank, stage) whose own time, waiting in collectives left out, is longer than the other rank's by SEEN_NS."""
    local = [{stage: found.median_ns(stage, skip)[1] for stage in ("data", "forward", "backward", "optimizer", "other")}
             for found in ranks]  # fmt: skip
    return [
        (rank, stage) for rank in (0, 1) for stage in local[0] if local[rank][stage] - local[1 - rank][stage] > SEEN_NS
    ]


@pytest.fixture(scope="module")
def slow_backward(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("ddp") / "run", "--slow", "backward", "--accumulate", "2", "--late-half")


@pytest.fixture(scope="module")
def slow_forward(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("fsdp2") / "run", "--slow", "forward", "--parallel", "fsdp2")


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(tmp_path_factory.mktemp("broken") / "run", "--raise-on", "1", expected=1)


def test_ddp_names_the_late_rank_and_stage_though_its_waits_are_in_c(slow_backward: Run) -> None:
    assert accused(slow_backward.ranks) == [(1, "backward")]


def test_the_early_rank_of_ddp_waits_where_the_late_one_works(slow_backward: Run) -> None:
    whole, local = slow_backward.ranks[0].median_ns("backward")
    assert whole - local > SEEN_NS


def test_ddp_learns_anew_when_other_parameters_come_last(slow_backward: Run) -> None:
    second_half = [Recorded(f.folder, f.manifest, f.pulse[10:], f.events) for f in slow_backward.ranks]
    assert all("backward" in line["wait"] for found in second_half for line in found.pulse[1:])
    assert accused(second_half, skip=0) == [(1, "backward")]


def test_fsdp2_names_the_late_rank_and_stage(slow_forward: Run) -> None:
    assert accused(slow_forward.ranks) == [(1, "forward")]


@pytest.mark.parametrize("name", ["slow_backward", "slow_forward"])
def test_stages_of_each_rank_add_up_exactly(name: str, request: pytest.FixtureRequest) -> None:
    for found in request.getfixturevalue(name).ranks:
        assert [line["step"] for line in found.pulse] == list(range(16))
        for line in found.pulse:
            assert sum(line["stages"].values()) == line["wall_ns"]
            assert all(0 <= line["wait"][stage] <= line["stages"][stage] for stage in line["wait"])


def test_each_rank_says_who_and_where_it_is(slow_backward: Run) -> None:
    for rank, found in enumerate(slow_backward.ranks):
        manifest = found.manifest
        assert (manifest.rank, manifest.world_size, manifest.local_rank, manifest.backend) == (rank, 2, rank, "gloo")
        assert manifest.run_id and manifest.groups[0]["ranks"] == [0, 1] and manifest.device is None
        assert manifest.versions["torch"] == torch.__version__ and manifest.probes["stages"] == "on"
        assert manifest.ended == "finished" and manifest.environment["RANK"] == str(rank)
        assert found.folder.name.startswith(f"{rank:05d}-")
    assert len({found.manifest.run_id for found in slow_backward.ranks}) == 1


def test_only_rank_0_says_a_line(slow_backward: Run) -> None:
    assert slow_backward.done.stderr.count("rankscope: 16 steps in ") == 1


def test_logged_tensors_are_numbers_of_every_step(slow_forward: Run) -> None:
    for found in slow_forward.ranks:
        assert all(line["log"]["loss"] > 0 and line["log"]["tokens"] == 256 for line in found.pulse)


def test_an_exception_on_one_rank_is_written_there_and_its_end_on_the_other(broken: Run) -> None:
    ended = [found.manifest.ended for found in broken.ranks]
    assert ended[1] == "exception: RuntimeError: planted"
    # the launcher ends the rank that waits for the other; on a slow machine gloo may say first that its peer is gone
    assert ended[0] is not None and (ended[0] == "signal 15" or ended[0].startswith("exception: "))
    assert len(broken.ranks[1].pulse) == 8 and len(broken.ranks[0].pulse) in (8, 9)  # the other may end the step
    assert "planted" in broken.done.stderr
