"""Real traces: the report against an independent evaluation of every elementary segment, to the nanosecond."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus import FOLDER, corpus
from evaluator.report import broken_sums, evaluated, row_differences
from runs import analysed

ALONE = (
    *(f"hta/{name}.json.gz" for name in (
        "benchmark_result_2869224_1695835535_trace", "distributed_info_not_found", "event_sync_trace",
        "inference_rank_1", "mi250_minitoy_train_ROCm6_2_kineto", "mtia_inference_rank_0", "nccl_data", "rank0",
        "rank-70.Mar_25_20_48_12.2861.pt.trace", "rank_non_gpu", "sampled_rank-0", "sampled_rank-1",
        "step_based_trace_2543932", "test", "control", "triton_example")),
    *(f"tracelens/{name}.json.gz" for name in (
        "cuda_graph_execution", "eager_trace", "gpu_only_trace", "h100_qwen1.5-0.5b", "mi300_qwen1.5-0.5b",
        "resnet_act_checkpoint", "train_resnet18")),
)  # fmt: skip
EVERY_FILE_OF = (
    "kineto-dlrm-8rank",
    "kineto-torchrec-4rank/late-rank",
    "kineto-torchrec-4rank/resnet18-2rank",
    "kineto-torchrec-4rank/two-runs-in-one-folder",
    "kineto-tb-samples/num_workers_0",
    "kineto-tb-samples/num_workers_4",
    "kineto-tb-samples/top_level_list",
    "gloo-4rank/ddp",
)
SINGLE = [
    *ALONE,
    *(path.relative_to(FOLDER).as_posix() for name in EVERY_FILE_OF for path in (FOLDER / name).glob("*")),
]


@pytest.mark.parametrize("name", SINGLE)
def test_every_nanosecond_of_a_file_is_where_the_page_puts_it(name: str) -> None:
    path = corpus(name)
    rows = analysed([path]).rows
    ((_, mine),) = evaluated([path], matched=False)[0].items()
    assert rows and list(row_differences(rows[0].rank, mine, rows)) == []
    assert list(broken_sums(rows)) == []


@pytest.mark.parametrize("name", ["ddp", "fsdp_slow_rank", "fsdp_slow_loader"])
def test_four_ranks_on_one_clock_wait_and_are_charged_as_the_page_says(name: str) -> None:
    paths = sorted(corpus(f"gloo-4rank/{name}").glob("*.json.gz"))
    analysis = analysed(paths)
    rows, charges = evaluated(paths, matched=True)
    assert [s for rank, mine in rows.items() for s in row_differences(rank, mine, analysis.rows)] == []
    waits = analysis.waits
    assert waits.waited.sum(axis=1).tolist() == [charges.waited[rank] for rank in analysis.ranks]
    assert waits.caused.sum(axis=1) == pytest.approx([float(charges.caused[r]) for r in analysis.ranks], abs=1000)
    assert waits.caused.sum() == waits.waited.sum()


def test_the_evaluation_can_fail() -> None:
    path: Path = corpus("hta/triton_example.json.gz")
    rows = analysed([path]).rows
    ((_, mine),) = evaluated([path], matched=False)[0].items()
    mine[0].parts["kernel_ns"] += 1
    assert len(list(row_differences(rows[0].rank, mine, rows))) == 1
