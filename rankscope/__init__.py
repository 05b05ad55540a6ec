"""rankscope: where every nanosecond of a distributed PyTorch training step went, and what to change.

`profile` records a training run; `load` and `diagnose` read what was recorded: files, folders or patterns. Importing
this module loads no library.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as type checkers read it; importing `typing` takes longer than all of this module
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Collection, Mapping
    from typing import Any

    from rankscope.analyzers.findings import Diagnosis
    from rankscope.collector.profile import Profile
    from rankscope.run import Run

__all__ = ["__version__", "diagnose", "load", "profile", "wrap_loader"]
__version__ = "0.1.0"


def load(
    *paths: str | os.PathLike[str],
    ranks: Collection[int] | None = None,
    steps: Collection[int] | None = None,
    run: str | None = None,
    jobs: int | None = None,
    cache: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    communication: Collection[str] = (),
    checkpoint: Collection[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """Read the newest whole run below these paths, or the one named `run`, and analyse it.

    `ranks` and `steps` (ProfilerStep numbers) narrow it down; `jobs` bounds the worker processes; `communication` and
    `checkpoint` are literal texts in the names of further kernels that communicate and ranges that save a checkpoint;
    `progress` is called with the bytes read and to be read.
    Raises `rankscope.analyzers.errors.RankscopeError` when there is nothing to read or to select.
    """
    from rankscope.analyzers.diagnose import analyse
    from rankscope.analyzers.errors import BadSelection
    from rankscope.analyzers.loading import LoadOptions, load_run
    from rankscope.analyzers.loading.whole import trace_of
    from rankscope.analyzers.one_rank.rank_record import RecordOptions
    from rankscope.analyzers.quantities import spans
    from rankscope.run import Run

    record = RecordOptions(tuple(communication), tuple(checkpoint))
    folder = None if cache_dir is None else str(cache_dir)
    options = LoadOptions(ranks=ranks, run=run, jobs=jobs, use_cache=cache, cache_folder=folder, record=record)
    places = [str(path) for path in paths]
    found = load_run(places, options, progress)
    if steps is not None:
        whole = analyse(found)
        recorded = [step for step in whole.columns if step is not None]
        if whole.pulse is not None:
            recorded += whole.pulse.numbers.tolist()
        if not any(step in steps for step in recorded):
            has = f"has steps {spans(recorded)}" if recorded else "has no step marks"
            raise BadSelection(f"none of the steps asked for is in run {found.id}, which {has}")
    return Run(analyse(found, steps), record, trace_of(found, places, options))


def diagnose(
    *paths: str | os.PathLike[str],
    rules: Collection[str] | None = None,
    gpu_hour_price: float | None = None,
    ranks: Collection[int] | None = None,
    steps: Collection[int] | None = None,
    run: str | None = None,
    jobs: int | None = None,
    cache: bool = True,
    cache_dir: str | os.PathLike[str] | None = None,
    communication: Collection[str] = (),
    checkpoint: Collection[str] = (),
    progress: Callable[[int, int], None] | None = None,
) -> Diagnosis:
    """`load` the run and apply the rules with these ids (None: all). `gpu_hour_price`: of one device."""
    from rankscope.analyzers.rules import load_rules

    load_rules(rules)  # a rule that does not exist is said before anything is read
    found = load(
        *paths, ranks=ranks, steps=steps, run=run, jobs=jobs, cache=cache, cache_dir=cache_dir,
        communication=communication, checkpoint=checkpoint, progress=progress,
    )  # fmt: skip
    return found.diagnose(rules, gpu_hour_price=gpu_hour_price)


def profile(
    run_dir: str | os.PathLike[str] | None = None,
    *,
    mode: str = "pulse",
    windows: Any = None,
    budget_share: float = 0.01,
    probes: Mapping[str, Any] | None = None,
    max_bytes: int = 1 << 30,
) -> Profile:
    """Record this rank of a training run: `with rankscope.profile("runs/a") as p:`, `p.step()` at the end of each step.

    Also a decorator, and an object with `start` and `stop`. `run_dir` is the same on all ranks (None: RANKSCOPE_RUN_DIR,
    else `rankscope-run`). `mode`: `pulse` (stages of each step), `window` (and windows of the PyTorch Profiler, as
    `windows` says), `full`. `budget_share` of the step's wall time is what it may cost before it thins itself out;
    `probes` switches them, {"gc_pauses": False}, or gives them keyword arguments; `max_bytes` bounds each file of lines.
    RANKSCOPE=0 switches it off. Raises ValueError for options that mean nothing, and nothing after that.
    """
    from rankscope.collector.profile import profile as begun

    return begun(
        run_dir, mode=mode, windows=windows, budget_share=budget_share, probes=probes, max_bytes=max_bytes
    )  # fmt: skip


def wrap_loader(loader: Any) -> Any:
    """The loader, the wait for each of its batches counted as data; for loaders that are no torch DataLoader."""
    from rankscope.collector.profile import wrap_loader as wrapped

    return wrapped(loader)
