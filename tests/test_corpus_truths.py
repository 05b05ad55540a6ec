"""What is known about the real runs is what the report says."""

from __future__ import annotations

import gzip
import json
import re
from decimal import Decimal
from pathlib import Path

import pytest
from corpus import corpus
from runs import analysed

import rankscope
from rankscope.analyzers.findings import Diagnosis

SECOND = 10**9


def diagnosed(folder: str) -> Diagnosis:
    return rankscope.diagnose(corpus(folder), cache=False, jobs=1)


def test_the_rank_that_comes_a_second_late_is_charged_with_nine_of_rank_time() -> None:
    found = diagnosed("kineto-torchrec-4rank/late-rank").collectives
    assert max(found.caused_ns, key=lambda rank: found.caused_ns[rank]) == "2"
    assert 8.5 * SECOND < found.caused_ns["2"] < 9.5 * SECOND
    assert found.caused_ns["2"] > 0.98 * sum(found.waited_ns.values())
    assert sum(found.caused_ns.values()) == sum(found.waited_ns.values())
    assert 2.7 * SECOND < found.alone_ns["2"] < 3.3 * SECOND


def test_rank_seven_is_last_in_four_of_five_all_to_alls() -> None:
    table = rankscope.load(corpus("kineto-dlrm-8rank"), cache=False, jobs=1).collectives()
    last = table[table["last"] & (table["collective"] == "all_to_all")]
    assert last["rank"].tolist().count(7) == 4
    exchanges = table[(table["collective"] == "all_to_all")].groupby("collective_id").size()
    assert exchanges.tolist() == [8] * 5


def test_of_two_ranks_the_same_is_always_last() -> None:
    found = diagnosed("kineto-torchrec-4rank/resnet18-2rank").collectives
    assert found.last_arrivals.get("0", 0) == 0 and found.last_arrivals["1"] == found.matched > 0


def test_the_slow_rank_on_the_cpu_is_charged_most() -> None:
    found = diagnosed("gloo-4rank/fsdp_slow_rank").collectives
    assert max(found.caused_ns, key=lambda rank: found.caused_ns[rank]) == "2"
    assert found.waited_ns["2"] == min(found.waited_ns.values())


def test_exposed_communication_of_one_file_is_mostly_the_hosts_lateness() -> None:
    row = next(r for r in diagnosed("hta/nccl_data.json.gz").attribution if r.step is None)
    assert row.communication_ns == pytest.approx(39_600_000, rel=0.01)
    assert row.communication.host_late_ns == pytest.approx(37_600_000, rel=0.01)


def test_runs_in_one_folder_are_not_merged() -> None:
    found = diagnosed("kineto-torchrec-4rank/two-runs-in-one-folder")
    assert len(found.run.files) == 4 and found.run.ranks == [0, 1, 2, 3]
    assert [len(other.files) for other in found.other_runs] == [4]


def ahead(path: Path, seconds: str) -> str:
    """The file's text as another host with a clock so far ahead would have written it."""
    whole = gzip.decompress(path.read_bytes()).decode()
    moved = re.sub(r'("ts": *)([\d.]+)', lambda m: f"{m[1]}{Decimal(m[2]) + Decimal(seconds) * 10**6}", whole)
    return json.dumps({"host_name": "elsewhere"})[:-1] + "," + moved.lstrip()[1:]


@pytest.mark.parametrize("folder", ["kineto-dlrm-8rank", "kineto-torchrec-4rank/late-rank"])
def test_a_clock_eleven_seconds_ahead_changes_no_wait(folder: str, tmp_path: Path) -> None:
    paths = sorted(corpus(folder).glob("*.json.gz"))
    before = analysed(paths).waits.waited.sum(axis=1)
    copies = [tmp_path / f"{position}.json" for position in range(len(paths))]
    for position, (path, copy) in enumerate(zip(paths, copies, strict=True)):
        copy.write_text(ahead(path, "11.56") if position == 1 else gzip.decompress(path.read_bytes()).decode())
    analysis = analysed(copies)
    after = analysis.waits.waited.sum(axis=1)
    assert after == pytest.approx(before, rel=0.02, abs=1_000_000)
    assert after.argmin() == before.argmin()
    fitted = analysis.matches.clocks
    offset = fitted.hosts[fitted.host_of[1]].offset_ns
    assert offset == pytest.approx(11_560_000_000, abs=1_000_000)
