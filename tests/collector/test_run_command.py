"""`rankscope run -- COMMAND`: the command is what it was, and what it trains is recorded."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest
from recorded import SCRIPTS, one, python, recorded, start

PLAIN = SCRIPTS / "plain.py"


def test_status_output_and_arguments_are_the_commands_own(tmp_path: Path) -> None:
    code = "import sys; print(sys.argv[1:]); sys.exit(7)"
    done = python("-m", "rankscope", "run", "-o", tmp_path / "run", "--", sys.executable, "-c", code, "--mode", "x", "--")
    assert (done.returncode, done.stdout, done.stderr) == (7, "['--mode', 'x', '--']\n", "")
    assert not (tmp_path / "run").exists()  # nothing trained


def test_a_command_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    done = python("-m", "rankscope", "run", "-o", tmp_path / "run", "--", tmp_path / "absent")
    assert done.returncode == 2 and done.stderr == f"rankscope: {tmp_path / 'absent'}: No such file or directory\n"


@pytest.mark.parametrize("words", [(), ("--",), ("--", "")])
def test_no_command_is_said_in_one_line(words: tuple[str, ...]) -> None:
    done = python("-m", "rankscope", "run", *words)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "there is no command" in done.stderr


@pytest.mark.parametrize("share", ["0", "-1", "2", "much", "nan"])
def test_a_budget_that_means_nothing_is_said(share: str) -> None:
    done = python("-m", "rankscope", "run", "--budget-share", share, "--", "true")
    assert done.returncode == 2 and "is a share above 0 and up to 1" in done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
def test_signals_reach_the_command(tmp_path: Path) -> None:
    code = "import time; print('running', flush=True); time.sleep(60)"
    process = start("-m", "rankscope", "run", "-o", tmp_path / "run", "--", sys.executable, "-c", code)
    assert process.stdout is not None and process.stdout.readline() == "running\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGTERM


def test_the_sitecustomize_that_there_was_still_runs(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.flag_of_mine = 'set'\n")
    code = "import sys, sitecustomize; print(sys.flag_of_mine, sitecustomize.__file__)"
    done = python("-m", "rankscope", "run", "--", sys.executable, "-c", code, PYTHONPATH=f"{tmp_path}:{SCRIPTS.parents[2]}")
    assert done.stdout.split() == ["set", str(tmp_path / "sitecustomize.py")]


def test_a_child_without_rankscope_says_so_and_runs(tmp_path: Path) -> None:
    from rankscope.collector.launch import AUTOSTART, child_environment

    added = child_environment(str(tmp_path / "run"), {})
    done = python("-S", "-c", f"import sys; sys.path.insert(0, {AUTOSTART!r}); sys.path[:] = [p for p in sys.path if "
                  "'rankscope' not in p or p.endswith('autostart')]; sys.modules['rankscope'] = None; "
                  "import sitecustomize; print('ran')", **{**added, "PYTHONPATH": ""})  # fmt: skip
    assert done.stdout == "ran\n" and "is not installed" in done.stderr


def test_training_without_a_word_of_ours_is_recorded(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    done = python("-m", "rankscope", "run", "-o", tmp_path / "run", "--", PLAIN, "12", "4")
    assert (done.returncode, done.stdout) == (4, "done\n"), done.stderr
    found = one(tmp_path / "run")
    # the first step is over when the first optimizer has stepped and the recording begins
    assert [line["step"] for line in found.pulse] == list(range(11)) and found.manifest.ended == "finished"
    for line in found.pulse:
        assert sum(line["stages"].values()) == line["wall_ns"]
        assert {"forward", "backward", "optimizer"} <= set(line["stages"])
    assert "rankscope: 11 steps in" in done.stderr


def test_the_workers_of_a_launcher_are_recorded_and_the_launcher_is_not(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
    done = python("-m", "rankscope", "run", "-o", tmp_path / "run", "--", *launcher, PLAIN, "6")
    assert done.returncode == 0, done.stderr
    assert [(found.manifest.rank, found.manifest.steps) for found in recorded(tmp_path / "run")] == [(0, 5), (1, 5)]


def test_a_script_that_records_itself_is_recorded_once(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    code = (
        "import rankscope, runpy, sys\n"
        f"with rankscope.profile({str(tmp_path / 'own')!r}):\n"
        f"    sys.argv[1:] = ['6']; runpy.run_path({str(PLAIN)!r})\n"
    )
    (tmp_path / "own.py").write_text(code)
    python("-m", "rankscope", "run", "-o", tmp_path / "run", "--", tmp_path / "own.py")
    assert one(tmp_path / "own").manifest.steps == 6 and not (tmp_path / "run").exists()
    assert "backward" in one(tmp_path / "own").pulse[1]["stages"]


def test_one_variable_switches_it_off(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    done = python("-m", "rankscope", "run", "-o", tmp_path / "run", "--", PLAIN, "3", RANKSCOPE="0")
    assert done.returncode == 0 and done.stderr == "" and not (tmp_path / "run").exists()
