"""The bundle for a ticket: what tells who and where is gone from every file, the figures are the report's."""

from __future__ import annotations

import csv
import io
import json
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from kineto_file import write
from sample import EVERY, straggling
from sample_recording import pulse

from rankscope.analyzers.findings import Diagnosis
from rankscope.reports.redaction import Redactor, sensitive
from rankscope.reports.renderers.json import render
from rankscope.ui import cli

SALT = b"0123456789abcdef"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOGNAME", "alice")
    hook = sys.excepthook
    yield
    sys.excepthook = hook


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A run in a folder of a user, on hosts with names, one file of which is broken."""
    folder = tmp_path / "alice" / "compute" / "project-moonshot"
    for rank in range(2):
        write(folder / f"gpu-node-{rank}.corp.example_rank{rank}.json", rank, host=f"gpu-node-{rank}.corp.example")
    (folder / "broken_rank_trace.json").write_text("{")
    return folder


def packed(folder: Path, *options: str) -> dict[str, str]:
    target = folder.parent / "made.zip"
    assert cli.main(["pack", str(folder), "-o", str(target), *options]) == 0
    with zipfile.ZipFile(target) as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


SECRETS = ("alice", "moonshot", "corp.example", "gpu-node", "broken_rank", "pytest-of")


def test_nothing_tells_who_and_where(secret: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = packed(secret)
    for name, text in files.items():
        for word in SECRETS:
            assert word not in text and word not in name, (word, name)
    said = capsys.readouterr().out
    assert "2 hosts" in said and "`report.html`" in said


def test_without_redaction_names_are_as_recorded(secret: Path) -> None:
    files = packed(secret, "--no-redact")
    for word in ("alice", "moonshot", "gpu-node-1.corp.example"):
        assert word in files["report.json"]
    assert "Nothing was redacted" in files["README.md"]


def test_figures_and_words_of_the_report_stay(secret: Path) -> None:
    plain, hidden = (json.loads(packed(secret, option)["report.json"]) for option in ("--no-redact", "--redact"))
    for key in ("attribution", "kernels", "rules", "peers"):
        assert hidden[key] == plain[key], key
    assert [c["method"] for c in hidden["clock"]] == [c["method"] for c in plain["clock"]]
    assert hidden["run"]["ranks"] == [0, 1] and len(set(c["host"] for c in hidden["clock"])) == 2


def test_the_readme_lists_every_file_with_its_size(secret: Path) -> None:
    files = packed(secret)
    for name, text in files.items():
        if name != "README.md":
            assert f"`{name}`, {len(text.encode()):,} bytes: " in files["README.md"]
    assert "2 hosts" in files["README.md"] and "No trace is in here" in files["README.md"]
    assert {name.split(".")[-1] for name in files} == {"md", "html", "json", "csv"}


def test_one_text_has_one_hash_in_all_files(secret: Path) -> None:
    files = packed(secret)
    report = msgspec.json.decode(files["report.json"], type=Diagnosis)
    rows = list(csv.DictReader(io.StringIO(files["tables/clocks.csv"])))
    assert [row["host"] for row in rows] == [clock.host for clock in report.clock]
    assert all(clock.host in files["report.html"] for clock in report.clock if clock.host)


def test_another_bundle_has_other_hashes(secret: Path) -> None:
    first, second = (json.loads(packed(secret)["report.json"])["run"]["id"] for _ in range(2))
    assert first != second


# ---- what is recognised ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "/lustre/alice/project/train.py", "C:\\People\\alice\\train.py", "~alice/train.py", "~/alice/x", "models/alice.py",
        "/nfs/alice/", "in (/data/alice/x.json)", "alice@corp.example", "'/data/alice/a.so'",
    ],
)  # fmt: skip
def test_paths_and_addresses_are_recognised_wherever_they_stand(text: str) -> None:
    assert "alice" not in Redactor(SALT).text(f"see {text}: it failed")


@pytest.mark.parametrize("text", ["10.0.31.7", "fe80:0:0:0:1ff:fe23:4567:890a", "fe80:1:2:3::1"])
def test_addresses_of_machines_are_recognised(text: str) -> None:
    assert text not in Redactor(SALT).text(f"from {text}, port 5")


@pytest.mark.parametrize(
    "text",
    [
        "input/output and forward/backward", "void at::native::(anonymous namespace)::foo<4, 8>(int*)", "12.5 ms / step",
        "torch 2.13.0+cu121", "n/a", "aten::mm", "c10::BFloat16", "sm90_xmma_gemm_f16f16_f16f32_f32_tn_n", "0 / 0",
        "GB/s", "activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    ],
)  # fmt: skip
def test_words_and_kernels_are_left_alone(text: str) -> None:
    assert Redactor(SALT, [("host", "node7")]).text(text) == text


def test_names_are_replaced_as_words_and_not_inside_others() -> None:
    redactor = Redactor(SALT, [("host", "vm"), ("host", "titan"), ("path", "trace"), ("path", "2024")])
    assert redactor.text("titanium on titan, vm, trace 2024") == f"titanium on {redactor.text('titan')}, vm, trace 2024"
    assert redactor.replaced == {"host": 1}


def test_the_end_of_a_file_says_what_it_was() -> None:
    assert Redactor(SALT).text("/a/b/c.pt.trace.json.gz").endswith(".json.gz")


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_diagnosis_survives(name: str) -> None:
    diagnosis = EVERY[name]()
    hidden = Redactor(SALT, sensitive(diagnosis)).diagnosis(diagnosis)
    assert hidden.attribution == diagnosis.attribution and len(hidden.findings) == len(diagnosis.findings)


def test_a_folder_called_like_a_word_of_ours_breaks_nothing() -> None:
    diagnosis = straggling(4, 5)
    diagnosis = replace(diagnosis, run=replace(diagnosis.run, path="/critical/shared_clock/compute/ns/warning/time"))
    hidden = Redactor(SALT, sensitive(diagnosis)).diagnosis(diagnosis)
    assert [f.severity for f in hidden.findings] == [f.severity for f in diagnosis.findings]
    assert [c.method for c in hidden.clock] == [c.method for c in diagnosis.clock]


def test_hosts_of_a_run_directory_are_hashed() -> None:
    diagnosis = pulse()
    assert diagnosis.job is not None and "host-0" in render(diagnosis)
    redactor = Redactor(SALT, sensitive(diagnosis))
    hidden = render(redactor.diagnosis(diagnosis))
    assert "host-0" not in hidden and '"stage": "forward"' in hidden
    assert all(end.path.rpartition("/")[2] not in hidden for end in diagnosis.job.ends)
