"""The first look at a file: enough to tell runs apart, and cheap."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

from kineto_text import event, kernel, kineto, operator, plain

from rankscope.analyzers.trace.readers import Head, head, opening

BASE = 4_458_676_522_690_655
EPOCH = 1_767_189_312_000_000_000


def written(tmp_path: Path, text: str, name: str = "a.json") -> Path:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    return path


def test_head_says_what_the_file_says(tmp_path: Path) -> None:
    events = [kernel(BASE - 5), operator(BASE + 3), {**operator(BASE), "pid": 44}]
    events.insert(0, event("Trace", "PyTorch Profiler (0)", BASE - 99, 10**9, "Spans", "x"))
    path = written(tmp_path, kineto(events, host_name="n1", trace_id="T", baseTimeNanoseconds=EPOCH))
    assert head(path) == Head(str(path), 3, 8, EPOCH, "n1", "T", BASE - 5, 1)


def test_head_reads_a_megabyte_of_a_large_file(tmp_path: Path, monkeypatch) -> None:
    path = written(tmp_path, kineto([operator(BASE + n) for n in range(60_000)]))
    assert path.stat().st_size > 8 << 20
    taken: list[int] = []
    close = opening.Text.close
    monkeypatch.setattr(opening.Text, "close", lambda self: (taken.append(self.taken), close(self)))
    assert head(path).first_ns == BASE
    assert sum(taken) < 3 << 20


def test_keys_behind_the_events_are_found_in_plain_files(tmp_path: Path) -> None:
    entries = [json.loads(plain(operator(BASE + n))) for n in range(60_000)]
    text = json.dumps({"traceEvents": entries, "x": [{"a": [1]}, 2], "baseTimeNanoseconds": EPOCH, "host_name": "n2"})
    plain_head, packed_head = head(written(tmp_path, text)), head(written(tmp_path, text, "b.json.gz"))
    assert (plain_head.base_ns, plain_head.host) == (EPOCH, "n2")
    assert (packed_head.base_ns, packed_head.host) == (None, None)  # behind what a first look reads
    assert plain_head.first_ns == packed_head.first_ns


def test_absolute_times_have_no_base(tmp_path: Path) -> None:
    path = written(tmp_path, kineto([operator(1_683_564_901_548_726_000 + n) for n in range(60_000)]), "a.json.gz")
    assert head(path).base_ns == 0


def test_device_events_do_not_give_the_process(tmp_path: Path) -> None:
    assert head(written(tmp_path, kineto([kernel(BASE)]))).pid is None
