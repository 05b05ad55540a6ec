"""The reader of torch_npu's `trace_view.json` (Ascend): times are text, and what is the device is said by process names.

Those names may stand anywhere, so that the file is read twice: first for them. Its events are then put into Kineto's
words: hardware tasks and whole collectives are kernels, CANN is the runtime, the arrow to a task is its launch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from rankscope.analyzers.trace.model import Trace
from rankscope.analyzers.trace.readers import foreign
from rankscope.analyzers.trace.readers.categories import DROPPED, HOST, KINDS, TRACE_SPAN
from rankscope.analyzers.trace.readers.columns import Batch, Names
from rankscope.analyzers.trace.readers.forgiving import ForgivingTier, integer
from rankscope.analyzers.trace.readers.heads import heads_of as heads_of
from rankscope.analyzers.trace.readers.kineto import Reading
from rankscope.analyzers.trace.readers.opening import Progress, Text

TIME_AS_TEXT = re.compile(rb'"ts"\s*:\s*"-?\d')
DEVICE, RUNTIME, PROJECTION, HOST_SIDE = "Ascend Hardware", "CANN", "Overlap Analysis", "Python"
COLLECTIVES = frozenset({"HCCL", "Communication"})
WHOLE_COLLECTIVES = "Group "  # such a track holds whole collectives, the Plane tracks beside it their parts
LAUNCH = "HostToDevice"  # the arrow's id is the task's connection_id in its upper 32 bits
CALL_PREFIX = "AscendCL@"
COPY_TASKS = ("MEMCPY", "SDMA")
WAITING_TASKS = re.compile(r"(?:EVENT|NOTIFY)_(?:WAIT|RECORD|RESET)", re.IGNORECASE)
WORDS = {
    **KINDS,
    **dict.fromkeys(("enqueue", "dequeue"), HOST),
    **dict.fromkeys(("async_npu", "async_task_queue", LAUNCH), DROPPED),
}
Event = dict[str, Any]


def sniff(head: bytes, name: str) -> bool:
    """Whether text that begins so is torch_npu's; its name counts for nothing."""
    return TIME_AS_TEXT.search(head) is not None and foreign.why_not(head) is None


def read(path: str, *, progress: Progress | None = None) -> Trace:
    """Everything the file recorded; UnreadableTrace where that is nothing."""
    with Text(path) as text:
        tracks = Tracks(Names())
        Reading(text, lambda names: tracks).through()
    with Text(path, progress) as text:
        return Reading(text, lambda names: AscendTier(names, tracks)).trace()


class Tracks(ForgivingTier):
    """The names of processes and threads; everything else passes by."""

    def __init__(self, names: Names) -> None:
        super().__init__(names)
        self.processes: dict[object, str] = {}
        self.threads: dict[tuple[object, object], str] = {}

    def batches(self, events: Iterable[object]) -> list[Batch]:
        """No rows: the names are kept."""
        for event in events:
            if not isinstance(event, dict) or event.get("ph") != "M" or not isinstance(event.get("args"), dict):
                continue
            name = str(event["args"].get("name"))
            if event.get("name") == "process_name":
                self.processes[integer(event.get("pid"))] = name
            elif event.get("name") == "thread_name":
                self.threads[integer(event.get("pid")), integer(event.get("tid"))] = name
        return []

    def pids(self, *named: str) -> list[Any]:
        """The processes of these names, ascending."""
        return sorted(pid for pid, name in self.processes.items() if name in named and pid is not None)


class AscendTier(ForgivingTier):
    """Events of torch_npu in Kineto's words."""

    kinds = WORDS

    def __init__(self, names: Names, tracks: Tracks) -> None:
        super().__init__(names)
        self.tracks = tracks
        self.devices = {pid: number for number, pid in enumerate(tracks.pids(DEVICE))}
        self.host = next(iter(tracks.pids(HOST_SIDE)), None)  # CANN has a process id of its own for the same threads

    def batches(self, events: Iterable[object]) -> list[Batch]:
        """Rows of the events, in order within each table."""
        return super().batches(self._reworded(event) if isinstance(event, dict) else event for event in events)

    def _reworded(self, event: Event) -> Event:
        pid = integer(event.get("pid"))
        process = self.tracks.processes.get(pid, "")
        if process == RUNTIME:
            return self._call(event)
        if event.get("ph") != "X":
            return event
        if process == DEVICE:
            return _task(event, self.devices.get(pid, 0))
        if process in COLLECTIVES:
            return self._collective(event, pid)
        if process == PROJECTION:
            return {**event, "cat": TRACE_SPAN}
        return event if event.get("cat") else {**event, "cat": process}

    def _call(self, event: Event) -> Event:
        """A call of CANN; the begin of the arrow to a task is a call without a length."""
        arguments = event.get("args")
        connection = integer(arguments.get("connection_id")) if isinstance(arguments, dict) else None
        name = str(event.get("name", "")).removeprefix(CALL_PREFIX)
        if event.get("ph") == "s" and event.get("cat") == LAUNCH:
            arrow = integer(event.get("id"))
            connection, name = None if arrow is None else arrow >> 32, "launch"
            event = {**event, "ph": "X", "dur": 0}
        pid = event.get("pid") if self.host is None else self.host
        called = {"cat": "privateuse1_runtime", "name": name, "pid": pid, "args": _joined(connection)}
        return {**event, **called} if event.get("ph") == "X" else event

    def _collective(self, event: Event, pid: int | None) -> Event:
        """Whole collectives are work of the device; the parts they are made of (planes) would count twice."""
        track = self.tracks.threads.get((pid, integer(event.get("tid"))), "")
        if not track.startswith(WHOLE_COLLECTIVES):
            return {**event, "cat": TRACE_SPAN if track.startswith("Plane") else track}
        stream = -1 - (integer(event.get("tid")) or 0)  # no stream of the hardware has such a number
        return {**event, "cat": "kernel", "args": {"device": 0, "stream": stream}}


def _task(event: Event, device: int) -> Event:
    """A task of the hardware: kernel, copy, or waiting, which is no work."""
    name = str(event.get("name", ""))
    arguments = event.get("args")
    connection = integer(arguments.get("connection_id")) if isinstance(arguments, dict) else None
    if WAITING_TASKS.search(name):
        return {**event, "cat": "cuda_sync"}
    category = "gpu_memcpy" if name.upper().startswith(COPY_TASKS) else "kernel"
    return {**event, "cat": category, "args": {"device": device, "stream": event.get("tid"), **_joined(connection)}}


def _joined(connection: int | None) -> Event:
    """`correlation` of a connection, which counts from 0; -1 and 2**32 - 1 are none."""
    known = connection is not None and 0 <= connection < 2**32 - 1
    return {"correlation": connection + 1} if known and connection is not None else {}
