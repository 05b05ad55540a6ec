"""How a run ends: signals, exceptions, exits and kills leave readable lines, and change nothing for the program."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from recorded import SCRIPTS, one, python, recorded, start

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")
LOOP = SCRIPTS / "loop.py"


def until(process: subprocess.Popen[str], word: str) -> None:
    """Read its output up to this word."""
    assert process.stdout is not None
    while (said := process.stdout.readline()) and said.strip() != word:
        pass
    assert said, process.communicate()[1]


def signalled(run_dir: Path, how: str, number: int, word: str = "running") -> subprocess.CompletedProcess[str]:
    """The loop, sent this signal once it has said the word."""
    process = start(LOOP, run_dir, how)
    until(process, word)
    process.send_signal(number)
    out, error = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, error)


def test_a_killed_run_leaves_whole_lines_and_an_open_manifest(tmp_path: Path) -> None:
    done = signalled(tmp_path / "run", "forever", signal.SIGKILL)
    found = one(tmp_path / "run")
    assert done.returncode == -signal.SIGKILL
    assert [line["step"] for line in found.pulse][:20] == list(range(20))
    assert found.manifest.ended is None and found.manifest.ended_unix_ns is None


def test_sigterm_ends_the_process_as_it_would_have_and_the_manifest_says_so(tmp_path: Path) -> None:
    done = signalled(tmp_path / "run", "forever", signal.SIGTERM)
    found = one(tmp_path / "run")
    assert done.returncode == -signal.SIGTERM
    assert found.manifest.ended == "signal 15" and found.manifest.steps == len(found.pulse) >= 20


def test_a_users_handler_still_runs_and_may_exit(tmp_path: Path) -> None:
    done = signalled(tmp_path / "run", "handled-exit", signal.SIGTERM)
    assert (done.returncode, done.stdout.strip()) == (3, "user 15")
    assert one(tmp_path / "run").manifest.ended == "signal 15"


def test_training_that_goes_on_after_a_users_handler_is_recorded_to_its_end(tmp_path: Path) -> None:
    done = signalled(tmp_path / "run", "handled", signal.SIGTERM)
    found = one(tmp_path / "run")
    assert (done.returncode, done.stdout.strip()) == (0, "user 15")
    assert found.manifest.ended == "signal 15" and found.manifest.steps == len(found.pulse) == 60


def test_an_ignored_signal_stays_ignored(tmp_path: Path) -> None:
    process = start(LOOP, tmp_path / "run", "ignored")
    until(process, "running")
    process.send_signal(signal.SIGTERM)
    (tmp_path / "run" / "enough").touch()
    process.communicate(timeout=60)
    assert process.returncode == 0 and one(tmp_path / "run").manifest.ended == "finished"


def test_a_process_that_stands_in_c_code_ends_on_sigterm_all_the_same(tmp_path: Path) -> None:
    done = signalled(tmp_path / "run", "stand", signal.SIGTERM, "standing")
    found = one(tmp_path / "run")
    assert done.returncode == -signal.SIGTERM
    assert found.manifest.ended == "signal 15" and len(found.pulse) == 20


def test_an_uncaught_exception_is_named_and_still_printed(tmp_path: Path) -> None:
    done = python(LOOP, tmp_path / "run", "raise")
    assert done.returncode == 1 and "LookupError: what training says" in done.stderr
    assert one(tmp_path / "run").manifest.ended == "exception: LookupError: what training says"


def test_an_exit_without_stop_finishes_the_run_and_keeps_its_status(tmp_path: Path) -> None:
    done = python(LOOP, tmp_path / "run", "exit")
    found = one(tmp_path / "run")
    assert done.returncode == 5 and found.manifest.ended == "finished" and len(found.pulse) == 20
    assert f"rankscope: 20 steps in {tmp_path / 'run'}" in done.stderr


def test_an_exit_that_can_not_be_seen_keeps_the_lines(tmp_path: Path) -> None:
    done = python(LOOP, tmp_path / "run", "os-exit")
    found = one(tmp_path / "run")
    assert done.returncode == 6 and found.manifest.ended is None and len(found.pulse) == 20


def test_handlers_are_put_back_at_the_end(tmp_path: Path) -> None:
    assert python(LOOP, tmp_path / "run", "stop").returncode == 0


def test_forked_children_keep_out_of_it_and_end_on_sigterm(tmp_path: Path) -> None:
    done = python(LOOP, tmp_path / "run", "fork")
    assert done.stdout.split("\n")[:3] == ["child 0", "child 0", "child -15"]
    found = one(tmp_path / "run")
    assert found.manifest.ended == "finished" and found.manifest.steps == len(found.pulse) == 20
    assert one(Path(f"{tmp_path / 'run'}-child")).manifest.steps == 1


def test_each_attempt_has_a_folder_of_its_own_and_knows_of_the_one_before(tmp_path: Path) -> None:
    python(LOOP, tmp_path / "run", "os-exit")
    time.sleep(0.01)
    python(LOOP, tmp_path / "run", "exit")
    first, second = sorted(recorded(tmp_path / "run"), key=lambda found: found.manifest.started_unix_ns)
    assert first.folder != second.folder and first.manifest.ended is None
    assert (second.manifest.job["restarts"], second.manifest.job["lost_steps"]) == (1, 20)
