"""One damaged file beside a whole one through the whole path, and what must hold of the result."""

from __future__ import annotations

import json
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fuzz.damage import Damaged, damaged, neighbour

MOST_S = 10.0  # of one CPU
FREE_BYTES = 300 << 20
IMPORTED_BYTES = 80 << 20  # of a process that has imported rankscope and read nothing, which are part of what is free
TIMES_SIZE = 3
PARTS = {
    "compute": ("kernel_ns", "device_copy_ns"),
    "communication": ("wait_ns", "transfer_ns", "unsplit_ns"),
    "io": ("data_loading_ns", "checkpoint_ns", "host_to_device_ns", "device_to_host_ns"),
    "host": ("launch_ns", "sync_ns", "allocator_ns", "gc_ns", "other_ns"),
    "idle": ("kernel_gap_ns", "unexplained_ns"),
}


def problems(number: int, folder: Path) -> list[str]:
    """What does not hold of the file of this number; empty where all is well. `folder`: an empty one to work in."""
    file = damaged(number)
    path = folder / file.name
    path.write_bytes(file.content)
    (folder / "rank-1.json").write_bytes(neighbour())
    _forget_peak()
    before = _status_bytes("VmRSS")  # the test's own process may have grown before
    begun = time.process_time()
    try:
        found = [*_report(folder, path, file)]
    except Exception:  # noqa: BLE001 - whatever it is, it is a finding
        found = ["".join(traceback.format_exc(limit=-6))]
    spent, peak = time.process_time() - begun, _status_bytes("VmHWM") - before + IMPORTED_BYTES
    if spent > MOST_S:
        found.append(f"took {spent:.1f} s of CPU")
    if peak > FREE_BYTES + TIMES_SIZE * len(file.content):
        found.append(f"took {peak >> 20} MiB")
    return [f"file {number} ({file.how}): {problem}" for problem in found]


def _report(folder: Path, path: Path, file: Damaged) -> Iterator[str]:
    import rankscope
    from rankscope.reports.renderers import html, markdown, terminal
    from rankscope.reports.renderers import json as as_json

    run = rankscope.load(folder, cache=False, jobs=1)
    diagnosis = run.diagnose()
    for width in (40, 120):
        shown = terminal.render(diagnosis, width=width, colour=False)
        if "\x1b" in shown or "\u202e" in shown or "\x07" in shown:
            yield "escape sequences reach the terminal"
    page = html.render(diagnosis)
    for text in (page, markdown.render(diagnosis)):
        text.encode("utf-8")
    if "<script>alert" in page or "<!--" in page:
        yield "markup of a name reaches the page"
    report = json.loads(as_json.render(diagnosis), parse_constant=_no_constant)
    yield from _sums(report)
    said = " ".join(report["warnings"])
    if report["rules"]["failed"]:
        yield f"rules failed: {report['rules']['failed']}"
    if "a bug of rankscope" in said:
        yield said
    if (
        file.spoilt and path.name not in said and path.name not in str(report["other_runs"])
    ):  # of those only heads are read
        yield "what is missing is not said"
    for damaged_path in run.damaged:
        if Path(damaged_path).name not in said:
            yield f"{damaged_path} is not named"


def _sums(report: dict[str, Any]) -> Iterator[str]:
    for row in report["attribution"]:
        place = f"rank {row['rank']} device {row['device']} step {row['step']}"
        if row["window_ns"] != sum(row[f"{parent}_ns"] for parent in PARTS):
            yield f"{place}: the parts are not the window"
        for parent, parts in PARTS.items():
            values = [row[parent][part] for part in parts]
            if min(values) < 0:
                yield f"{place}: {parent} has a negative part"
            if row[f"{parent}_ns"] != sum(values):
                yield f"{place}: {parent} is not the sum of its parts"
    collectives = report["collectives"]
    if sum(collectives["waited_ns"].values()) != sum(collectives["caused_ns"].values()):
        yield "charged is not waited"


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} in the JSON report")


def _forget_peak() -> None:
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")


def _status_bytes(name: str) -> int:
    """A figure of this process: VmRSS resident now, VmHWM at its highest since it was forgotten; 0 where nobody says."""
    if sys.platform != "linux":
        return 0
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10
