"""The first step of an optimizer, though torch may not even be imported yet: what waits for training begins there."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from rankscope.collector.hooks.optimizer import MODULE, STEPS


class FirstStep(MetaPathFinder):
    """Calls once, at the begin or the end of the first step of any optimizer; never imports torch.

    Where torch is not loaded, its import is watched: the module is imported as ever, and then listened to.
    """

    def __init__(self, call: Callable[[], None], at_end: bool) -> None:
        self._call, self._at_end = call, at_end
        if MODULE in sys.modules:
            STEPS.add(self._stepped)
        else:
            sys.meta_path.insert(0, self)

    def undo(self) -> None:
        """Wait no longer."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        STEPS.remove(self._stepped)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Only of one module; all others are none of ours."""
        if fullname != MODULE:
            return None
        sys.meta_path.remove(self)
        others = (finder.find_spec(fullname, path, target) for finder in list(sys.meta_path))
        spec = next((found for found in others if found is not None), None)
        if spec is not None and spec.loader is not None:
            spec.loader = _Followed(spec.loader, lambda: STEPS.add(self._stepped))
        return spec

    def _stepped(self, over: bool, _: Any) -> None:
        if over is self._at_end:
            STEPS.remove(self._stepped)
            self._call()


class _Followed(Loader):
    """The loader of one module, and a call when it is loaded."""

    def __init__(self, loader: Loader, loaded: Callable[[], None]) -> None:
        self._loader, self._loaded = loader, loaded

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loaded()
