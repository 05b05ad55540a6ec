"""The PyTorch Profiler, switched on for some steps and off again at the least cost to them.

PyTorch turns what it recorded into a trace while it holds the interpreter: 3 us an event, 9 with shapes, and 3 more to
write it; no thread can hide that. So on CPUs one recording holds all windows: switching its collection off takes 0.1 ms,
and the traces are made at the end of the run, or at once by a forked child where someone waits for them (`aside.py`).
With a device, or with stacks, a recording is a window: it is ended on the training thread, on all ranks after the same
step, and only the writing is the child's.
"""

from __future__ import annotations

import inspect
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rankscope.collector import aside
from rankscope.collector.hooks.patch import Function, Patch, patch
from rankscope.collector.windows import Window

# what an event takes until the end of the recording is 0.5 kB, and 2 kB more while it ends
PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


@dataclass(slots=True)
class Kept:
    """A window that was recorded; `end_unix_ns` None: its recording ended with it. Costs are of the training thread."""

    window: Window
    path: str
    begin_unix_ns: int
    end_unix_ns: int | None
    costs_ns: dict[str, int]  # begin, end, and write where that was done at once
    cut_short: str = ""


@dataclass(slots=True)
class Writing:
    """Windows that a child writes; no child: they are written."""

    kept: list[Kept]
    child: aside.Child | None


class Recorder:
    """At most one window at a time; only the training thread calls."""

    def __init__(self, folder: str, fork: bool, guard: Callable[[Function], Function]) -> None:
        self._folder, self._fork, self._guard = folder, fork, guard
        self._torch = sys.modules["torch"]
        self._profiler: Any = None  # of torch.profiler, running or between two windows
        self._mark: Any = None
        self._window: Window | None = None
        self._costs: dict[str, int] = {}
        self._began_unix_ns = 0
        self._kept: list[Kept] = []  # windows of the present recording that are not written yet
        self.given_way: Writing | None = None  # what is written because the recording had to end early
        self.lost: Window | None = None  # the window that was open then
        self._bytes_before = 0
        self.grown_bytes = 0  # resident memory, during all windows of the present recording
        self._patches: list[Patch] = []

    @property
    def window(self) -> Window | None:
        """The one that is recorded now."""
        return self._window

    def warm(self) -> None:
        """Load what the first window would load."""
        import torch.profiler  # noqa: F401

        self._patches = _given_way(self._torch, self._guard(self._give_way))

    def busy(self) -> str | None:
        """Who else records, so that a window must be left out; None: nobody."""
        enabled = getattr(self._torch._C._autograd, "_profiler_enabled", bool)
        if self._profiler is None and enabled():
            return "another profiler is active in this process"
        return foreign_tracer() if self._device else None

    def begin(self, window: Window) -> None:
        """Record from here on."""
        began = time.perf_counter_ns()
        self._began_unix_ns = time.time_ns()
        self._bytes_before = resident_bytes()
        if self._profiler is not None and not self._lasting(window):
            self._end_early()
        if self._profiler is None:
            self._profiler = self._new(window)
        else:
            self._profiler.toggle_collection_dynamic(True, self._activities())
        self._window = window
        self._costs = {"begin": time.perf_counter_ns() - began}

    def step(self, step: int) -> None:
        """Mark that this step begins."""
        self.unmark()
        self._mark = self._torch.profiler.record_function(f"ProfilerStep#{step}")
        self._mark.__enter__()

    def unmark(self) -> None:
        """The step has ended."""
        if self._mark is not None:
            self._mark.__exit__(None, None, None)
            self._mark = None

    def end(self, last: int, now: bool, cut_short: str = "") -> Writing | None:
        """Record no more. `last`: the step that ended it; `now`: write it at once, and with it what is kept."""
        window = self._window
        assert window is not None
        self.unmark()
        began = time.perf_counter_ns()
        lasting = self._lasting(window)
        if lasting:
            self._profiler.toggle_collection_dynamic(False, self._activities())
        else:
            self._profiler.stop_trace()
        self._costs["end"] = time.perf_counter_ns() - began
        self.grown_bytes += max(0, resident_bytes() - self._bytes_before)
        self._window = None
        path = os.path.join(self._folder, aside.name(window.first, last))
        ended = time.time_ns() if lasting else None
        self._kept.append(Kept(window, path, self._began_unix_ns, ended, self._costs, cut_short))
        return self.write() if now or not lasting else None

    def write(self) -> Writing | None:
        """Have what is kept written by a child, the recording left as it is; by this thread where there is no fork."""
        if not self._kept:
            return None
        if not self._fork:
            return self._finish()
        began = time.perf_counter_ns()
        kept, profiler = self._kept, self._profiler
        lasting = kept[-1].end_unix_ns is not None
        child = aside.Child(lambda: self._traces(profiler, kept, lasting))
        kept[-1].costs_ns["write"] = time.perf_counter_ns() - began
        self._kept = []
        if not lasting:
            self._profiler = None
        return Writing(kept, child)

    def close(self) -> Writing | None:
        """End the recording, and write what it kept, on this thread."""
        for laid in self._patches:
            laid.undo()
        self._patches = []
        self.unmark()
        return self._finish()

    def grown_now(self) -> int:
        """By how much the resident memory grew in this recording's windows."""
        return self.grown_bytes + max(0, resident_bytes() - self._bytes_before)

    # ---- one recording -----------------------------------------------------------------------------------------------

    @property
    def _device(self) -> bool:
        return bool(self._torch.cuda.is_available() and self._torch.cuda.is_initialized())

    def _lasting(self, window: Window) -> bool:
        """Whether the recording lasts beyond the window."""
        return not window.stacks and not window.memory and not self._device and hasattr(
            self._torch.profiler.profile, "toggle_collection_dynamic"
        )  # fmt: skip

    def _activities(self) -> list[Any]:
        kinds = self._torch.profiler.ProfilerActivity
        return [kinds.CPU, kinds.CUDA] if self._device else [kinds.CPU]

    def _new(self, window: Window) -> Any:
        torch = self._torch
        given: dict[str, Any] = {"experimental_config": None if window.stacks else _trace_only(torch)}
        profiler = torch.profiler.profile(
            activities=self._activities(), record_shapes=True, with_stack=window.stacks, profile_memory=window.memory,
            **{key: value for key, value in given.items() if value is not None},
        )  # fmt: skip
        _prepare(torch, profiler, self._device)
        profiler.start_trace()
        return profiler

    def _finish(self) -> Writing | None:
        """End the recording here, and write what it kept."""
        profiler, self._profiler = self._profiler, None
        kept, self._kept = self._kept, []
        self._window, self.grown_bytes = None, 0
        if profiler is None:
            return None
        if not kept:
            profiler.stop_trace()
            return None
        began = time.perf_counter_ns()
        self._traces(profiler, kept, kept[-1].end_unix_ns is not None)
        kept[-1].costs_ns["write"] = time.perf_counter_ns() - began
        return Writing(kept, None)

    def _end_early(self) -> None:
        """Another recording begins: a child writes what is kept, and this one ends."""
        self.lost, self.given_way = self._window, self.write()
        profiler, self._profiler = self._profiler, None
        self._window, self.grown_bytes = None, 0
        if profiler is not None:
            profiler.stop_trace()

    def _traces(self, profiler: Any, kept: list[Kept], lasting: bool) -> None:
        raw = f"{kept[-1].path}.raw.part"
        os.makedirs(self._folder, exist_ok=True)
        if lasting:
            profiler.stop_trace()
        profiler.export_chrome_trace(raw)
        os.chmod(raw, 0o600)
        for one in kept:
            aside.finish(raw, one.path, (one.begin_unix_ns, one.end_unix_ns) if one.end_unix_ns is not None else None)
        os.unlink(raw)

    def _give_way(self, profiler: Any) -> None:
        """The program starts a profiler of its own: ours ends first."""
        ours = getattr(self._profiler, "profiler", None)
        if self._profiler is not None and ours is not None and profiler is not ours:
            self.unmark()
            self._end_early()


def resident_bytes() -> int:
    """Of this process; 0 where the system does not say."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * PAGE_BYTES
    except OSError:
        return 0


def foreign_tracer() -> str | None:
    """The tool that has the device's tracing interface, which takes one at a time; None: none was seen."""
    for variable, tool in (
        ("NSYS_PROFILING_SESSION_ID", "Nsight Systems"),
        ("NV_NSIGHT_INJECTION_TRANSPORT_TYPE", "Nsight Compute"),
        ("CUDA_INJECTION64_PATH", "a tool injected into CUDA"),
    ):
        if os.environ.get(variable):
            return f"{tool} is active, and the device is traced by one at a time"
    return None


def _trace_only(torch: Any) -> Any:
    """The configuration that leaves out what only tables need; None where this version has none."""
    config = getattr(torch._C._profiler, "_ExperimentalConfig", None)
    return config(trace_only=True) if config is not None and hasattr(config, "trace_only") else None


def _prepare(torch: Any, profiler: Any, device: bool) -> None:
    """As the profiler prepares itself, but without loading torch's compiler, which takes 1 to 2 s and concerns devices."""
    backend = torch.autograd.profiler.profile
    known = inspect.signature(backend).parameters
    if device or not {"use_kineto", "use_cpu", "experimental_config"} <= set(known) or not hasattr(backend, "_prepare_trace"):
        profiler.prepare_trace()
        return
    profiler.profiler = backend(
        use_cpu=True, use_kineto=True, record_shapes=profiler.record_shapes, with_stack=profiler.with_stack,
        profile_memory=profiler.profile_memory, experimental_config=profiler.experimental_config,
    )  # fmt: skip
    profiler.profiler._prepare_trace()


def _given_way(torch: Any, give_way: Callable[[Any], None]) -> list[Patch]:
    def around(original: Function) -> Function:
        def prepare(self: Any, *args: Any, **kwargs: Any) -> Any:
            give_way(self)
            return original(self, *args, **kwargs)

        return prepare

    return patch(torch.autograd.profiler.profile, "_prepare_trace", around)
