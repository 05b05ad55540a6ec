"""The reader of rocprofiler-sdk's JSON (AMD): records of kernels, copies and HIP calls in nanoseconds of the boot clock.

One object holds everything and names stand behind the records that use them, so that the text is read whole.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.trace.model import Trace, TraceMeta
from rankscope.analyzers.trace.readers.columns import Batch, Tables
from rankscope.analyzers.trace.readers.heads import Head
from rankscope.analyzers.trace.readers.opening import Progress, Text
from rankscope.analyzers.trace.readers.rocprofiler_json import File, Handle, Record, Session
from rankscope.analyzers.trace.table import Array, Bools
from rankscope.analyzers.trace.tables import DeviceEvents, RuntimeCalls

TOP = re.compile(rb'\s*\{\s*"rocprofiler-sdk-tool"\s*:')
MOST = 2 << 30  # bytes of text, which are held at once
PIECE = 1 << 20
NOTHING = "is rocprofiler output without kernels, copies or HIP calls"
GPU = 2  # type of an agent
MOST_NS = 2**62


def sniff(head: bytes, name: str) -> bool:
    """Whether text that begins so is rocprofiler-sdk's; its name counts for nothing."""
    return TOP.match(head) is not None


def heads_of(path: str) -> list[Head]:
    """What the file says of its process. Cost: its text is read whole."""
    session = _sessions(path, None)[0]
    if not any(len(memoryview(session.buffer_records.get(kind, b""))) > len("[]") for kind in TAKEN):
        raise UnreadableTrace(path, NOTHING)
    process = session.metadata
    return [Head(path, None, None, 0, process.node.hostname, None, process.init_time, process.pid)]


def read(path: str, *, progress: Progress | None = None) -> Trace:
    """Everything the file recorded; UnreadableTrace where that is nothing."""
    sessions = _sessions(path, progress)
    try:
        rows = Rows(sessions[0])
    except (msgspec.DecodeError, RecursionError, OverflowError) as error:
        raise UnreadableTrace(path, f"is rocprofiler output of a form that is not known: {error}") from None
    found = rows.tables.finish()
    if not found:
        raise UnreadableTrace(path, NOTHING)
    more = [f"holds {len(sessions)} processes: only the first was read"] if sessions[1:] else []
    return Trace(_meta(path, sessions[0], rows, [*more, *rows.tables.warnings()]), rows.tables.names.texts, found)


def _sessions(path: str, progress: Progress | None) -> list[Session]:
    text = bytearray()
    piece = bytearray(PIECE)
    with Text(path, progress) as source, memoryview(piece) as view:
        while got := source.readinto(view):
            text += view[:got]
            if len(text) > MOST:
                raise UnreadableTrace(
                    path, f"is rocprofiler output of over {MOST >> 30} GiB, which is read whole or not"
                )
        if source.damage:
            raise UnreadableTrace(path, source.damage)
    try:
        sessions = msgspec.json.decode(text, type=File).sessions
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableTrace(path, f"is rocprofiler output that is damaged, or of a form not known: {error}") from None
    if not sessions:
        raise UnreadableTrace(path, "is rocprofiler output without a process")
    return sessions


class Rows:
    """The records of one process as tables. `left_out`: how many records have no place there, by kind."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.tables = Tables()
        self.gpus = {a.id.handle: a.logical_node_type_id for a in session.agents if a.type == GPU}
        self.entries = self.damaged = 0
        self.left_out: dict[str, int] = {}
        for records in (session.buffer_records, session.callback_records):
            for kind, text in records.items():
                take = TAKEN.get(kind)
                if take is None or records is session.callback_records:
                    self._leave_out(kind, text)
                else:
                    take(self, self._sound(text))

    def _leave_out(self, kind: str, text: msgspec.Raw) -> None:
        n = len(msgspec.json.decode(text, type=list[msgspec.Raw]))
        if n:
            self.left_out[kind] = self.left_out.get(kind, 0) + n

    def _sound(self, text: msgspec.Raw) -> list[Record]:
        """Records whose times can be times."""
        records = msgspec.json.decode(text, type=list[Record])
        self.entries += len(records)
        sound = [r for r in records if 0 <= r.start_timestamp <= r.end_timestamp < MOST_NS]
        self.damaged += len(records) - len(sound)
        return sound

    def kernels(self, records: list[Record]) -> None:
        """Dispatches: on the HIP stream where the file says it, else on the queue."""
        known = {s.kernel_id: s.formatted_kernel_name or s.kernel_name for s in self.session.kernel_symbols}
        ran = [(r, r.dispatch_info) for r in records if r.dispatch_info is not None]
        self._on_device(
            [r for r, _ in ran],
            "kernel",
            [known.get(at.kernel_id) or f"kernel {at.kernel_id}" for _, at in ran],
            [self.gpus.get(at.agent_id.handle, at.agent_id.handle) for _, at in ran],
            [(r.stream_id or at.queue_id).handle for r, at in ran],
        )

    def copies(self, records: list[Record]) -> None:
        """Copies: between which processors says of which kind."""
        ends = [((r.src_agent_id or Handle()).handle, (r.dst_agent_id or Handle()).handle) for r in records]
        names = ["Memcpy " + "to".join("D" if end in self.gpus else "H" for end in pair) for pair in ends]
        devices = [self.gpus.get(to, self.gpus.get(source, 0)) for source, to in ends]
        both = np.array([source in self.gpus and to in self.gpus for source, to in ends], np.bool_)
        places = [[self.gpus.get(end, 0) for end in side] for side in zip(*ends, strict=True)] or [[], []]
        told = {
            "bytes": ([r.bytes or 0 for r in records], np.array([r.bytes is not None for r in records], np.bool_)),
            "from_device": (places[0], both),
            "to_device": (places[1], both),
        }
        streams = [(r.stream_id or Handle()).handle for r in records]
        self._on_device(records, "gpu_memcpy", names, devices, streams, told)

    def calls(self, records: list[Record]) -> None:
        """Calls of the HIP runtime and its compiler."""
        n = len(records)
        columns, valid = self._timed(records, [self._operation(r) for r in records])
        columns["pid"] = np.full(n, self.session.metadata.pid or 0)
        columns["tid"] = np.array([r.thread_id for r in records], np.int64)
        self.tables.append([Batch(RuntimeCalls, columns, {**valid, "external_id": np.zeros(n, np.bool_)})] if n else [])

    def _on_device(
        self,
        records: list[Record],
        category: str,
        names: list[str],
        devices: list[int],
        streams: list[int],
        told: Mapping[str, tuple[list[int], Bools]] | None = None,
    ) -> None:
        columns, valid = self._timed(records, names)
        columns |= {"device": np.array(devices, np.int64), "stream": np.array(streams, np.int64)}
        columns["cat_id"] = np.full(len(records), int(self.tables.names[category]), np.int32)
        valid |= dict.fromkeys(("external_id", "bytes", "from_device", "to_device"), np.zeros(len(records), np.bool_))
        for column, (values, known) in (told or {}).items():
            columns[column], valid[column] = np.array(values, np.int64), known
        self.tables.append([Batch(DeviceEvents, columns, valid)] if records else [])

    def _timed(self, records: list[Record], names: list[str]) -> tuple[dict[str, Array], dict[str, Bools]]:
        start = np.array([r.start_timestamp for r in records], np.int64)
        correlation = np.array([r.correlation_id.internal for r in records], np.int64)
        columns: dict[str, Array] = {
            "start_ns": start,
            "dur_ns": np.array([r.end_timestamp for r in records], np.int64) - start,
            "name_id": np.array([self.tables.names[name] for name in names]).astype(np.int32),
            "correlation": correlation,
        }
        return columns, {"correlation": correlation > 0}

    def _operation(self, record: Record) -> str:
        kinds = self.session.strings.buffer_records
        operations = kinds[record.kind].operations if 0 <= record.kind < len(kinds) else []
        known = 0 <= record.operation < len(operations)
        return operations[record.operation] if known else f"HIP call {record.kind}.{record.operation}"


TAKEN: Mapping[str, Callable[[Rows, list[Record]], None]] = {
    "kernel_dispatch": Rows.kernels,
    "memory_copy": Rows.copies,
    "hip_api": Rows.calls,
}


def _meta(path: str, session: Session, rows: Rows, warnings: list[str]) -> TraceMeta:
    process = session.metadata
    devices = [(a.logical_node_type_id, a.product_name) for a in session.agents if a.type == GPU]
    if rows.damaged:
        warnings.append(f"{rows.damaged} records with impossible times were left out")
    return TraceMeta(
        path=path,
        rank=None,
        world_size=None,
        backend=None,
        host=process.node.hostname,
        base_ns=0,
        trace_id=None,
        devices=tuple(devices),
        groups=(),
        flags={},
        events=rows.entries,
        skipped_events=rows.damaged,
        truncated=False,
        unknown_categories=rows.left_out,
        warnings=tuple(warnings),
    )
