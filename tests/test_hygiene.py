"""What is set aside, and that nothing else is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from corpus import FOLDER, corpus
from kineto_text import event, kernel, kineto, operator

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.one_rank.hygiene import Hygiene, set_aside
from rankscope.analyzers.trace.readers import read
from rankscope.analyzers.trace.tables import DeviceEvents, HostEvents, PythonFunctions

BASE = 4_458_000_000_000_000
CLEAN = sorted(
    path.relative_to(FOLDER).as_posix()
    for folder in ("hta", "tracelens", "kineto-dlrm-8rank", "gloo-4rank/ddp")
    for path in (FOLDER / folder).glob("*.json.gz")
) or ["hta/nccl_data.json.gz"]


def judged(folder: Path, *events: dict) -> tuple[Hygiene, list[int]]:
    """The verdict, and the offsets of the device events that are kept."""
    path = folder / "a.json"
    path.write_text(kineto(list(events)))
    trace = read(path)
    hygiene = set_aside(trace)
    device = trace.get(DeviceEvents)
    return hygiene, sorted((device.start_ns[hygiene.kept(DeviceEvents)] - BASE).tolist())


def kernels(*spans: tuple[int, int]) -> list[dict]:
    return [kernel(BASE + start, end - start, correlation=100 + n) for n, (start, end) in enumerate(spans)]


def test_absurd_duration_that_swallows_two_starts_is_set_aside(tmp_path: Path) -> None:
    hygiene, kept = judged(tmp_path, *kernels((0, 5_000), (10_000, 3_000_000_000), (20_000, 25_000), (30_000, 35_000)))
    assert kept == [0, 20_000, 30_000]
    assert hygiene.counts["absurd_duration"] == hygiene.total == 1
    assert hygiene.aside_ns(0).tolist() == [BASE + 10_000]


def test_times_that_no_capture_reaches_are_set_aside_and_the_rest_stays(tmp_path: Path) -> None:
    late, long = 9 * 10**18 - BASE, 8 * 10**18
    hygiene, kept = judged(
        tmp_path, *kernels((0, 5_000), (10_000, 15_000), (20_000, 25_000), (late, late + 9), (30, long))
    )
    assert kept == [0, 10_000, 20_000]
    assert hygiene.counts["out_of_reach"] == hygiene.total == 2


def test_long_kernel_that_swallows_one_start_is_left_alone(tmp_path: Path) -> None:
    hygiene, _ = judged(tmp_path, *kernels((0, 5_000), (10_000, 200_000), (190_000, 195_000), (200_000, 205_000)))
    assert hygiene.total == 0


def test_overlap_is_legal_when_the_first_kernel_is_like_its_kind(tmp_path: Path) -> None:
    hygiene, _ = judged(tmp_path, *kernels((10_011, 60_013), (50_015, 90_017), (55_011, 65_013)))
    assert hygiene.total == 0


def test_two_starts_at_one_instant_behind_it_are_two(tmp_path: Path) -> None:
    hygiene, _ = judged(tmp_path, *kernels((0, 5_000), (10_000, 900_000), (20_000, 25_000), (20_000, 26_000)))
    assert hygiene.counts["absurd_duration"] == 1


def test_events_that_start_together_do_not_swallow_each_other(tmp_path: Path) -> None:
    hygiene, _ = judged(tmp_path, *kernels((0, 5_000), (10_000, 900_000), (10_000, 15_000), (10_000, 16_000)))
    assert hygiene.total == 0


def test_starts_on_other_streams_are_not_swallowed(tmp_path: Path) -> None:
    others = [kernel(BASE + 20_000 + n, 5_000, stream=20 + n) for n in range(4)]
    hygiene, _ = judged(tmp_path, *kernels((0, 5_000), (10_000, 900_000)), *others)
    assert hygiene.total == 0


def test_only_kernel_of_its_name_has_nothing_to_be_absurd_against(tmp_path: Path) -> None:
    events = [kernel(BASE, 10**9, name="once"), *kernels((10_000, 15_000), (20_000, 25_000))]
    assert judged(tmp_path, *events)[0].total == 0


def test_absurd_is_measured_against_the_others_and_not_against_itself(tmp_path: Path) -> None:
    spans = [(n * 10_000, n * 10_000 + 5_000) for n in range(8)]
    hygiene, kept = judged(tmp_path, *kernels((5_500, 10**9), *spans))
    assert hygiene.counts["absurd_duration"] == 1
    assert 5_500 not in kept


def test_exact_copies_are_set_aside_and_the_first_stays(tmp_path: Path) -> None:
    first = kernel(BASE, 5_000)
    hygiene, kept = judged(tmp_path, first, kernel(BASE, 5_000, correlation=2), first, first)
    assert kept == [0, 0]
    assert hygiene.counts["duplicate"] == hygiene.total == 2


def test_equal_host_events_without_ids_may_be_two_events(tmp_path: Path) -> None:
    twice = event("user_annotation", "range", BASE, 0)
    hygiene, _ = judged(tmp_path, twice, twice, operator(BASE, external=5), operator(BASE, external=5))
    assert hygiene.counts["duplicate"] == 1
    assert hygiene.kept(HostEvents).tolist().count(False) == 1


def test_negative_duration_and_negative_start_are_set_aside(tmp_path: Path) -> None:
    hygiene, kept = judged(tmp_path, kernel(BASE, -5_000), *kernels((10, 20), (30, 40)), kernel(-3_000, 5))
    assert hygiene.counts["negative"] == 2
    assert kept == [10, 30]


def test_zero_start_is_damage_in_a_file_that_counts_from_far_away(tmp_path: Path) -> None:
    hygiene, kept = judged(tmp_path, kernel(0, 5_000), *kernels((10, 20), (30, 40)))
    assert hygiene.counts["zero_start"] == 1
    assert kept == [10, 30]


def test_zero_start_is_the_first_event_of_a_file_that_counts_from_zero(tmp_path: Path) -> None:
    hygiene, _ = judged(tmp_path, *(kernel(1_000 * n, 500, correlation=n) for n in range(5)))
    assert hygiene.total == 0


def test_table_that_was_not_recorded_has_an_empty_mask(tmp_path: Path) -> None:
    hygiene, _ = judged(tmp_path, operator(BASE))
    assert len(hygiene.kept(PythonFunctions)) == 0
    assert hygiene.kept(HostEvents).tolist() == [True]


@pytest.mark.parametrize("relative", CLEAN)
def test_clean_files_lose_nothing(relative: str) -> None:
    path = corpus(relative)
    try:
        hygiene = set_aside(read(path))
    except UnreadableTrace as error:
        pytest.skip(f"not a trace: {error}")
    assert hygiene.total == 0
    assert all(bool(np.all(mask)) for mask in hygiene.masks.values())
