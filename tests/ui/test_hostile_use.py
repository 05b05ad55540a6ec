"""The command line as a hostile or unlucky person uses it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kineto_file import write

from rankscope.simulator import Scenario, simulate

COMMAND = (sys.executable, "-m", "rankscope")


def run(script: str, *args: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """A shell script in which `"$@"` is rankscope with these arguments."""
    words = ["sh", "-c", script, "sh", *COMMAND, *map(str, args)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120, check=False, env=os.environ | environment)


@pytest.fixture
def traces(tmp_path: Path) -> Path:
    for rank in range(2):
        write(tmp_path / "traces" / f"rank-{rank}.json", rank)
    return tmp_path / "traces"


@pytest.mark.parametrize("place", ["terminal", "html", "json", "markdown"])
def test_closed_standard_output_is_said_in_one_line(traces: Path, place: str) -> None:
    done = run('"$@" >&-', "report", traces, "--no-cache", "--format", place)
    assert (done.returncode, done.stderr) == (2, "rankscope: standard output is closed; -o FILE writes elsewhere\n")


def test_closed_standard_error_loses_messages_and_nothing_else(traces: Path) -> None:
    assert run('"$@" 2>&-', "report", traces / "absent").stdout == ""
    done = run('"$@" 2>&-', "report", traces, "--no-cache")
    assert done.returncode == 0 and "rank" in done.stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--rules", ","], ["--rules", "none-such"], ["--ranks", "x"], ["--ranks", "7"], ["--ranks", ""], ["--steps", "3-1"],
        ["--steps", "99"], ["--steps", "0-9999999"], ["--run", "none-such"], ["--jobs", "0"], ["--jobs", "-1"],
        ["--jobs", "two"], ["--gpu-hour-price", "-1"], ["--gpu-hour-price", "nan"],
        ["--format", "pdf"], ["--fail-on", "always"],
        ["--none-such"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_wrong_option_is_said_in_one_line(traces: Path, words: list[str]) -> None:
    done = run('exec "$@"', "report", traces, "--no-cache", *words)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.startswith("rankscope: ") and done.stderr.count("\n") == 1


def lives(group: int) -> bool:
    """Whether a process of this group still runs; one whose parent ended while it was started needs a moment to notice."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.1)
    return True


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
@pytest.mark.parametrize("wait_s", [0.3, 0.9])
def test_being_ended_leaves_no_process_and_no_unfinished_file(number: int, wait_s: float, tmp_path: Path) -> None:
    simulate(Scenario(ranks=4, steps=20, layers=8)).write(tmp_path / "traces")
    words = (
        "report",
        tmp_path / "traces",
        "--jobs",
        "2",
        "--cache-dir",
        tmp_path / "cache",
        "-o",
        tmp_path / "page.html",
    )
    process = subprocess.Popen(
        [*COMMAND, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
    )
    time.sleep(wait_s)
    process.send_signal(number)
    _, said = process.communicate(timeout=60)
    assert b"Traceback" not in said
    assert not lives(process.pid)
    left = [path.name for path in tmp_path.rglob("*") if path.name.startswith(".rankscope-") or ".tmp" in path.name]
    assert left == []
