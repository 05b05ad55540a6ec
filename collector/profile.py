"""What a training script holds: `with rankscope.profile("runs/a") as p`, a decorator, or `start` and `stop`.

One session records a process at a time: a `profile` inside another one adds its steps, spans and values to the outer.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from rankscope.collector.ending import exception
from rankscope.collector.hooks.loader import WrappedLoader
from rankscope.collector.options import Options, options, switched_off
from rankscope.collector.session import Session
from rankscope.collector.stages import NUMBER, StageClock, now_ns

P = ParamSpec("P")
R = TypeVar("R")

_active: Session | None = None


def active() -> Session | None:
    """The session that records this process now."""
    return _active if _active is not None and _active.alive else None


class Profile:
    """One recording, not begun yet. Nothing in here raises into training once the options are right."""

    def __init__(self, chosen: Options) -> None:
        self.options = chosen
        self._session: Session | None = None  # the one begun here
        self._depth = 0
        self._added: list[Any] = []

    def add(self, probe: Any) -> Profile:
        """A probe of your own, such as those of `collector/integrations` that pass figures on; before the start."""
        self._added.append(probe)
        return self

    # ---- begin and end -----------------------------------------------------------------------------------------------

    def start(self) -> Profile:
        """Begin, unless the environment says RANKSCOPE=0 or this process is recorded already."""
        global _active
        self._depth += 1
        if self._depth > 1 or switched_off() or active() is not None:
            return self
        session = Session.begin(self.options)
        if session is not None:
            self._session = _active = session
            for probe in self._added:
                session.add(probe)
        return self

    def stop(self, ended: str = "finished") -> None:
        """End what was begun here, and say where it is."""
        global _active
        self._depth = max(0, self._depth - 1)
        session = self._session
        if self._depth or session is None:
            return
        self._session = None
        if session is _active:
            _active = None
        session.stop(ended)

    def __enter__(self) -> Profile:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop(_ended(error))

    def __call__(self, function: Callable[P, R]) -> Callable[P, R]:
        """Record each call of the function; generators and coroutines until they are done."""
        if inspect.isgeneratorfunction(function):

            @functools.wraps(function)
            def generated(*args: P.args, **kwargs: P.kwargs) -> Any:
                with Profile(self.options):
                    return (yield from function(*args, **kwargs))

            return generated
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def awaited(*args: P.args, **kwargs: P.kwargs) -> Any:
                with Profile(self.options):
                    return await function(*args, **kwargs)

            return awaited  # type: ignore[return-value]

        @functools.wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> R:
            with Profile(self.options):
                return function(*args, **kwargs)

        return called

    # ---- in the loop -------------------------------------------------------------------------------------------------

    def step(self) -> None:
        """A training step ends here."""
        session = active()
        if session is not None:
            session.step()

    def log(self, **values: Any) -> None:
        """Values of the present step, such as loss, grad_norm, tokens: numbers or tensors of one element.

        Tensors are copied without blocking and read some steps later; nothing is synchronised.
        """
        session = active()
        if session is not None:
            session.log(values)

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """A stretch of the step: a stage's name (see `run_dir.STAGES`) moves the stage clock, others are summed up."""
        session = active()
        if session is None:
            yield
            return
        stage = NUMBER.get(name)
        clock = session.clock
        if stage is not None and clock.mine:
            before = clock.enter(stage)
            try:
                yield
            finally:
                clock.leave(before)
            return
        began = now_ns()
        try:
            yield
        finally:
            if stage is None:
                session.span(name, now_ns() - began)


def profile(
    run_dir: str | os.PathLike[str] | None = None,
    *,
    mode: str = "pulse",
    windows: Any = None,
    budget_share: float = 0.01,
    probes: Mapping[str, Any] | None = None,
    max_bytes: int = 1 << 30,
) -> Profile:
    """See `rankscope.profile`. Raises ValueError for options that mean nothing."""
    return Profile(options(run_dir, mode, windows, budget_share, probes, max_bytes))


def wrap_loader(loader: Any) -> WrappedLoader:
    """See `rankscope.wrap_loader`."""
    return WrappedLoader(loader, _clock)


def _clock() -> StageClock | None:
    session = active()
    return None if session is None else session.clock


def _ended(error: BaseException | None) -> str:
    """How a manifest says the end of a `with` block. A generator that is closed early ends as its user wished."""
    if error is None or isinstance(error, GeneratorExit):
        return "finished"
    if isinstance(error, SystemExit) and error.code in (None, 0):
        return "finished"
    return exception(error)


def _forked() -> None:
    """In a forked child, such as a loader's worker: it is not the process that is recorded."""
    global _active
    if _active is not None:
        _active.forget()
        _active = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
