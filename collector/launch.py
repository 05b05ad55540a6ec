"""Recording without a line in the script: what `rankscope run` puts into its children's environment, and what they do.

A child watches for the import of torch's optimizers and begins to record when the first one has stepped. A process that
never trains, such as a launcher or a loader's worker, leaves nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, Final

from rankscope.collector.hooks import optimizer
from rankscope.collector.options import Options, options, switched_off

AUTOSTART: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "autostart")
OPTIONS: Final = "RANKSCOPE_RUN_OPTIONS"  # keyword arguments of `rankscope.profile`, as JSON


def child_environment(run_dir: str, chosen: Mapping[str, Any]) -> dict[str, str]:
    """What is added to the environment of a command so that its training processes record themselves."""
    below = os.environ.get("PYTHONPATH")
    return {
        "PYTHONPATH": AUTOSTART if not below else os.pathsep.join((AUTOSTART, below)),
        "RANKSCOPE_RUN_DIR": os.path.abspath(run_dir),
        OPTIONS: json.dumps(dict(chosen)),
    }


def command(words: Sequence[str]) -> list[str]:
    """The words of a command, a Python script by itself given to this interpreter."""
    if words[0].endswith(".py") and not os.access(words[0], os.X_OK):
        return [sys.executable, *words]
    return list(words)


def watch() -> None:
    """In a child: begin to record once it trains."""
    if not switched_off() and OPTIONS in os.environ:
        sys.meta_path.insert(0, _Watch())


def begin() -> None:
    """Record from now on; a session of the user's own goes before this one."""
    from rankscope.collector import profile

    if profile.active() is None:
        profile.Profile(_chosen()).start()


def _chosen() -> Options:
    """Options from the environment; what can not be read is left at its default."""
    try:
        given = json.loads(os.environ.get(OPTIONS, "{}"))
        return options(None, **given)
    except (TypeError, ValueError):
        return options(None)


class _Watch(MetaPathFinder):
    """Lets torch's optimizers be imported as ever, and then listens for their first step."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != optimizer.MODULE:
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loaded(spec.loader)
        return spec


class _Loaded(Loader):
    """The loader of one module, after which optimizers are listened to."""

    def __init__(self, loader: Loader) -> None:
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        optimizer.STEPS.add(_first_step)


def _first_step(over: bool, of: Any) -> None:
    if over:
        begin()
        optimizer.STEPS.remove(_first_step)
