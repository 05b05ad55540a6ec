"""What is exported, read by the programs that people open it in: speedscope's schema and page, DevTools' trace engine."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from browser import CHROMIUM, QUIET
from corpus import corpus
from exports.made import simulated
from exports.packages import package

import rankscope
from rankscope.reports.exports import perfetto, speedscope
from rankscope.run import Run

RUNS = ["simulated", "gloo-4rank/fsdp_slow_rank", "tracelens/train_resnet18.json.gz", "tracelens/eager_trace.json.gz"]


def made(name: str) -> Run:
    return simulated() if name == "simulated" else rankscope.load(corpus(name), cache=False, jobs=1)


@pytest.fixture
def release(request: pytest.FixtureRequest) -> Path:
    """speedscope's page and schema."""
    return package("speedscope", "1.25.0", request.config) / "dist/release"


@pytest.mark.parametrize("name", RUNS)
def test_speedscopes_own_schema_holds(name: str, release: Path) -> None:
    file = io.BytesIO()
    speedscope.write(made(name).source(), file)
    schema = json.loads((release / "file-format-schema.json").read_text(encoding="utf-8"))
    jsonschema.validate(json.loads(file.getvalue()), schema)


def test_speedscopes_own_schema_would_refuse_another_document(release: Path) -> None:
    schema = json.loads((release / "file-format-schema.json").read_text(encoding="utf-8"))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"profiles": [{"type": "evented"}], "shared": {"frames": []}}, schema)


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture
def served(release: Path, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """The page's address, and the folder it lies in."""
    place = tmp_path / "page"
    shutil.copytree(release, place)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(place)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/index.html", place
    server.shutdown()
    server.server_close()


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH (set CHROMIUM to its path)")
@pytest.mark.parametrize("name", RUNS[:3])
def test_speedscope_opens_the_file_and_finds_every_thread(name: str, served: tuple[str, Path], tmp_path: Path) -> None:
    address, place = served
    with (place / "run.json").open("wb") as file:
        speedscope.write(made(name).source(), file)
    threads = len(json.loads((place / "run.json").read_text(encoding="utf-8"))["profiles"])
    assert CHROMIUM is not None
    done = subprocess.run(
        [CHROMIUM, *QUIET, "--enable-unsafe-swiftshader", f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom",
         "--virtual-time-budget=15000", f"{address}#profileURL=/run.json&title=run"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert "Importing as speedscope json file" in done.stderr
    assert f"(1/{threads})" in re.sub(r"<[^>]*>", "", done.stdout)
    assert "went wrong" not in done.stdout


ENGINE = """
import fs from 'node:fs';
import * as Trace from './models/trace/trace.js';
const {traceEvents, metadata} = JSON.parse(fs.readFileSync(process.argv[2]));
const model = Trace.TraceModel.Model.createWithAllHandlers();
await model.parse(traceEvents, {metadata: metadata ?? {}});
const parsed = model.parsedTrace(0);
const tracks = {};
for (const [pid, process] of (parsed.data ?? parsed).Renderer.processes)
  for (const [tid, thread] of process.threads)
    tracks[`${pid}/${tid}`] = thread.entries.length;
console.log(JSON.stringify(tracks));
"""


@pytest.mark.parametrize("name", RUNS)
def test_devtools_trace_engine_reads_every_slice_on_its_track(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The parser behind Chrome's performance panel; Perfetto's own is in no package registry."""
    engine = package("@paulirish/trace_engine", "0.0.65", request.config, "third-party-web", "legacy-javascript")
    (engine / "read.mjs").write_text(ENGINE, encoding="utf-8")
    path = tmp_path / "run.json"
    with path.open("wb") as file:
        perfetto.write(made(name).source(), file)
    node = shutil.which("node")
    assert node is not None
    done = subprocess.run([node, "read.mjs", str(path)], cwd=engine, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    events = [event for event in json.loads(path.read_text(encoding="utf-8"))["traceEvents"] if event["ph"] == "X"]
    written = Counter(f"{event['pid']}/{event['tid']}" for event in events)
    assert json.loads(done.stdout) == written
