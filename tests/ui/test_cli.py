from __future__ import annotations

import json
import os
import re
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from kineto_file import SECOND, write

import rankscope
from rankscope.analyzers import diagnose as judge
from rankscope.analyzers.findings import Diagnosis, Finding
from rankscope.ui import cli, output
from rankscope.ui.commands import report

LATE = Finding("straggler-rank", "time", "warning", "Rank 1 is late.", [1], [], 1, None, 0.9, [], "Look at it.")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test touches the user's cache, and each leaves the interpreter's hooks as they were."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    hook = sys.excepthook
    yield
    sys.excepthook = hook


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    for rank in range(2):
        write(tmp_path / f"traces/rank{rank}.json", rank)
    return tmp_path / "traces"


def command(*args: object, **options: object) -> subprocess.CompletedProcess[str]:
    whole = [sys.executable, "-m", "rankscope", *map(str, args)]
    return subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False, **options)  # type: ignore[call-overload,no-any-return]


def status(*args: object) -> int:
    """Exit status of a command in this process, also when the parser refuses it."""
    try:
        return cli.main([str(arg) for arg in args])
    except SystemExit as end:
        return int(end.code or 0)


def diagnosis(text: str) -> Diagnosis:
    return msgspec.json.decode(text, type=Diagnosis)


# ---- formats and where they go ---------------------------------------------------------------------------------------


def test_the_report_goes_to_standard_output_and_messages_do_not(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (traces / "stray.json").write_text("{}")
    assert status("report", traces, "--format", "json") == 0
    out, err = capsys.readouterr()
    assert diagnosis(out).run.ranks == [0, 1]
    assert "stray.json" in err and all(line.startswith("rankscope: ") for line in err.splitlines())


def test_the_default_is_text_without_colour_or_control_codes_in_a_pipe(
    traces: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status("report", traces) == 0
    out = capsys.readouterr().out
    assert out and "\x1b" not in out and "rank" in out


@pytest.mark.parametrize(("name", "begins"), [("r.html", "<!doctype html"), ("r.json", "{"), ("r.txt", "")])
def test_a_files_name_chooses_the_format(traces: Path, tmp_path: Path, name: str, begins: str) -> None:
    assert status("report", traces, "-o", tmp_path / name) == 0
    assert (tmp_path / name).read_text().lower().startswith(begins)


def test_format_overrules_the_files_name(traces: Path, tmp_path: Path) -> None:
    assert status("report", traces, "-o", tmp_path / "r.html", "--format", "json") == 0
    json.loads((tmp_path / "r.html").read_text())


def test_a_file_replaces_an_older_one_whole_and_keeps_the_usual_mode(traces: Path, tmp_path: Path) -> None:
    target = tmp_path / "r.json"
    target.write_text("old")
    (tmp_path / "link.json").symlink_to(target)
    assert status("report", traces, "-o", tmp_path / "link.json") == 0
    assert (tmp_path / "link.json").is_symlink() and json.loads(target.read_text())
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(target.stat().st_mode) == 0o666 & ~mask
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".rankscope")] == []


def test_a_report_can_be_written_to_a_device(traces: Path) -> None:
    assert status("report", traces, "--format", "json", "-o", "/dev/null") == 0
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)


@pytest.mark.parametrize("target", ["absent/r.json", "traces"])
def test_a_file_that_cannot_be_written_is_one_clear_line(
    traces: Path, tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status("report", traces, "-o", tmp_path / target) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "cannot be written" in line]
    assert target in line


def test_a_full_disk_is_one_clear_line(traces: Path) -> None:
    with open("/dev/full", "w") as full:
        whole = [sys.executable, "-m", "rankscope", "report", str(traces), "--format", "json"]
        done = subprocess.run(whole, stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == 2 and "No space left" in done.stderr and "Traceback" not in done.stderr


def test_a_closed_pipe_is_silent(traces: Path) -> None:
    whole = f"{sys.executable} -m rankscope report {traces} --format json | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", whole], capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == "" and done.returncode == 0


def test_characters_that_the_terminal_lacks_are_escaped(traces: Path) -> None:
    done = command("report", traces, env=os.environ | {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert done.returncode == 0 and done.stdout.isascii()


# ---- selections ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "numbers"), [("3", {3}), ("0,8-10", {0, 8, 9, 10}), (" 1 , 2 ", {1, 2}), ("5-5", {5}), ("1,1-2", {1, 2})]
)
def test_lists_of_numbers(text: str, numbers: set[int]) -> None:
    assert report.numbers(text) == numbers


@pytest.mark.parametrize("text", ["", "a", "1-", "-1", "3-1", "1,,2", "0-99999999999", "9" * 5000, "1.5", "²"])
def test_what_is_no_list_of_numbers_is_bad_usage(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("report", "x", f"--ranks={text}") == 2
    assert "--ranks" in capsys.readouterr().err


def test_steps_are_profiler_step_numbers(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("report", traces, "--steps", "1-2", "--format", "json") == 0
    assert {row.step for row in diagnosis(capsys.readouterr().out).attribution if isinstance(row.step, int)} == {1, 2}


def test_ranks_and_run_narrow_the_report_down(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for rank in range(2):
        write(traces / f"old/rank{rank}.json", rank, begin_ns=-500 * SECOND, pid=9000 + rank)
    assert status("report", traces, "--ranks", "1", "--format", "json") == 0
    first = diagnosis(capsys.readouterr().out)
    assert first.run.ranks == [1]
    assert status("report", traces, "--run", first.other_runs[0].id, "--format", "json") == 0
    assert {Path(file.path).parent.name for file in diagnosis(capsys.readouterr().out).run.files} == {"old"}


def test_only_the_rules_asked_for_are_applied(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert status("report", traces, "--rules", "data-starved,slow-link", "--format", "json") == 0
    done = diagnosis(capsys.readouterr().out)
    outcomes = done.rules
    others = [o.rule for o in [*outcomes.skipped, *outcomes.inconclusive, *outcomes.failed, *done.findings]]
    assert {*outcomes.passed, *others} == {"data-starved", "slow-link"}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["absent"], "no such file or folder"),
        (["TRACES", "--ranks", "7"], "ranks 0, 1"),
        (["TRACES", "--steps", "70-80"], "steps 0-2"),
        (["TRACES", "--run", "zzz"], "zzz"),
        (["TRACES", "--rules", "no-such-rule"], "straggler-rank"),
        (["TRACES", "--jobs", "0"], "--jobs"),
        (["TRACES", "--gpu-hour-price", "nan"], "price"),
        (["TRACES", "--format", "pdf"], "--format"),
        ([], "PATH"),
    ],
)
def test_bad_usage_is_status_2_and_says_what_there_is(
    traces: Path, args: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status("report", *[str(traces) if arg == "TRACES" else arg for arg in args]) == 2
    out, err = capsys.readouterr()
    assert out == "" and words in err


def test_names_that_communicate_can_be_added(traces: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kinds = []
    for extra in ([], ["--communication", "gem"]):
        assert status("report", traces, "--format", "json", *extra) == 0
        kinds.append({kernel.name: kernel.kind for kernel in diagnosis(capsys.readouterr().out).kernels}["gemm"])
    assert kinds == ["compute", "communication"]


def test_no_command_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert status() == 2
    assert "COMMAND" in capsys.readouterr().err


# ---- status ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("severity", "fail_on", "expected"),
    [
        ("critical", None, 0),
        ("critical", "never", 0),
        ("critical", "critical", 1),
        ("critical", "warning", 1),
        ("warning", "critical", 0),
        ("warning", "warning", 1),
        ("note", "warning", 0),
    ],
)
def test_fail_on_turns_findings_into_a_status(
    traces: Path, monkeypatch: pytest.MonkeyPatch, severity: str, fail_on: str | None, expected: int
) -> None:
    real = judge.diagnose
    found = replace(LATE, severity=severity)
    monkeypatch.setattr(judge, "diagnose", lambda *args, **kwargs: replace(real(*args, **kwargs), findings=[found]))
    assert status("report", traces, *(["--fail-on", fail_on] if fail_on else [])) == expected


@pytest.mark.parametrize("damage", ["truncated", "unreadable", "broken event"])
def test_strict_refuses_damage_after_the_report(traces: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = traces / "rank1.json"
    text = file.read_text()
    damaged = {
        "truncated": text[:-200],
        "unreadable": "{}",
        "broken event": text.replace('"name": "gemm"', '"name": "ge\\qmm"', 1),
    }
    file.write_text(damaged[damage])
    assert status("report", traces, "--format", "json") == 0
    capsys.readouterr()
    assert status("report", traces, "--format", "json", "--strict") == 2
    out, err = capsys.readouterr()
    assert diagnosis(out).run.ranks and "not whole" in err and "rank1.json" in err


def test_strict_is_silent_about_whole_files(traces: Path) -> None:
    assert status("report", traces, "--strict") == 0


def test_an_unforeseen_error_is_one_line_and_no_traceback(traces: Path) -> None:
    code = (
        "import sys; from rankscope.ui import cli; from rankscope.analyzers import loading\n"
        "def broken(*args): raise RuntimeError('surprise')\n"
        "loading.discover = broken\n"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    whole = [sys.executable, "-c", code, "report", str(traces)]
    done = subprocess.run(whole, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "RuntimeError: surprise" in done.stderr
    shown = subprocess.run(
        whole, capture_output=True, text=True, timeout=60, check=False, env=os.environ | {"RANKSCOPE_TRACEBACK": "1"}
    )
    assert shown.returncode == 2 and "Traceback" in shown.stderr


def test_signal_handlers_of_the_caller_come_back(traces: Path) -> None:
    before = signal.getsignal(signal.SIGTERM)
    status("report", traces)
    assert signal.getsignal(signal.SIGTERM) is before


# ---- messages --------------------------------------------------------------------------------------------------------


def test_control_characters_in_messages_are_shown_and_not_obeyed(capsys: pytest.CaptureFixture[str]) -> None:
    output.say("a\x1b]0;title\x07b\u202ec\r")
    assert capsys.readouterr().err == "rankscope: a\\x1b]0;title\\x07b\\u202ec\\r\n"


@pytest.mark.parametrize(
    ("terminal", "environment", "coloured"),
    [
        (True, {}, True),
        (True, {"NO_COLOR": "1"}, False),
        (True, {"NO_COLOR": ""}, True),
        (True, {"TERM": "dumb"}, False),
        (False, {}, False),
    ],
)
def test_colour_only_in_a_terminal_that_wants_it(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, environment: dict[str, str], coloured: bool
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: terminal)
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert output.colour() is coloured


def test_the_width_follows_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "77")
    assert output.width() == 77


def test_progress_is_shown_in_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with output.Bar() as bar:
        bar(1, 2)
    assert capsys.readouterr().err == "" and bar.bar is None
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    with output.Bar() as bar:
        bar(1, 2)
        assert bar.bar is not None and bar.bar.tasks[0].completed == 1


# ---- help, rules, demo -----------------------------------------------------------------------------------------------


def test_help_teaches_by_examples_and_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("--help") == 0
    listed = capsys.readouterr().out
    for name in sorted(path.stem.replace("_", "-") for path in Path(report.__file__).parent.glob("[a-z]*.py")):
        assert f"\n    {name} " in listed
        assert status(name, "--help") == 0
        assert "examples:\n  rankscope " in capsys.readouterr().out


def test_every_example_of_report_is_accepted_by_the_parser() -> None:
    examples = re.findall(r"^  rankscope (report .*?)(?:  +| \||$)", report.__doc__ or "", re.MULTILINE)
    assert len(examples) >= 6
    for example in examples:
        cli.parser().parse_args(example.split())


def test_version_is_that_of_the_package(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("--version") == 0
    assert capsys.readouterr().out == f"rankscope {rankscope.__version__}\n"
    project = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert f'version = "{rankscope.__version__}"' in project


def test_python_m_works(traces: Path) -> None:
    done = command("report", traces, "--format", "json")
    assert done.returncode == 0 and diagnosis(done.stdout).run.ranks == [0, 1]


def test_rules_are_listed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("rules") == 0
    ids = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert "straggler-rank" in ids and ids == sorted(ids)
    for rule in ids:
        assert status("rules", rule) == 0
        out = capsys.readouterr().out
        assert all(heading in out for heading in ("Why it matters", "How it is measured", "What to do"))
    assert status("rules", "--format", "json") == 0
    docs = json.loads(capsys.readouterr().out)
    assert [doc["id"] for doc in docs] == ids
    assert all(doc["why_it_matters"] and doc["how_it_is_measured"] and doc["what_to_do"] for doc in docs)
    assert all(threshold["source"] for doc in docs for threshold in doc["thresholds"])
    assert any(doc["thresholds"] for doc in docs)


def test_an_unknown_rule_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("rules", "no-such-rule") == 2
    assert "straggler-rank" in capsys.readouterr().err


def test_the_demo_reports_its_planted_fault_and_says_where_the_page_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status("demo", "-o", tmp_path / "demo") == 0
    out, err = capsys.readouterr()
    assert "Rank 5" in out and str(tmp_path / "demo/report.html") in err
    assert (tmp_path / "demo/report.html").read_text().lower().startswith("<!doctype html")
    assert len(list((tmp_path / "demo/traces").glob("rank*.json"))) == 8


def test_the_demo_s_help_lists_what_can_be_planted_and_no_other_fault_is_taken(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert status("demo", "--help") == 0
    out = capsys.readouterr().out
    assert re.search(r"^  slow-loader +The DataLoader of every rank is slow\.$", out, re.MULTILINE)
    assert status("demo", "--fault", "no-such-fault") == 2
    assert "slow-loader" in capsys.readouterr().err


def test_a_demo_that_cannot_be_written_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert status("demo", "-o", "/dev/null/demo") == 2
    assert capsys.readouterr().err == "rankscope: /dev/null/demo/traces: Not a directory\n"


# ---- the face --------------------------------------------------------------------------------------------------------


def test_the_face_takes_paths_and_the_same_selections(traces: Path) -> None:
    analysis = rankscope.load(traces, ranks=[0], cache=False)
    assert analysis.ranks == [0]
    done = rankscope.diagnose(traces, rules=["slow-link"], steps=range(1, 3), gpu_hour_price=2.5)
    assert done.run.ranks == [0, 1]
    assert {row.step for row in done.attribution if isinstance(row.step, int)} == {1, 2}


def test_a_script_without_a_main_guard_may_use_workers(traces: Path, tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import rankscope\nfrom rankscope.analyzers.loading import reading\nreading.ALONE_BYTES = 0\n"
        f"print(rankscope.diagnose({str(traces)!r}, jobs=2, cache=False).run.ranks)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, check=False,
        env=os.environ | {"PYTHONPATH": str(root)},
    )  # fmt: skip
    assert done.stdout == "[0, 1]\n", done.stderr


def test_the_demo_trains_here_and_names_the_planted_rank(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    assert status("demo", "--train", "-o", tmp_path / "demo", "--fault", "slow-forward:rank=2,ms=400") == 0
    out, err = capfd.readouterr()
    assert "Straggler rank: rank 2" in out and str(tmp_path / "demo/report.html") in err


@pytest.mark.parametrize(
    ("fault", "said"), [("no-such-fault", "slow-forward"), ("gc:rank=4", "ranks 0-3"), ("gc:ms=x", "ms=NUMBER")]
)
def test_a_fault_that_the_demo_can_not_train_with_is_said_in_one_line(
    fault: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("torch", reason="torch is not installed (extra `train`)")
    assert status("demo", "--train", "-o", tmp_path / "demo", "--fault", fault) == 2
    told = capfd.readouterr().err
    assert told.count("\n") == 1 and said in told and not (tmp_path / "demo").exists()
