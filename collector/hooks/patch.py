"""Replacing one function of a library for a while, and putting it back."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


class Patch:
    """`owner.name` calls `around(original)` until `undo`; several patches of one place may end in any order.

    A patch that another one was laid over can no longer be taken out; it then passes every call straight on.
    """

    def __init__(self, owner: Any, name: str, around: Callable[[Function], Function]) -> None:
        self.owner, self.name = owner, name
        self.own = name in vars(owner)
        self.before = vars(owner)[name] if self.own else getattr(owner, name)
        original: Function = getattr(owner, name)
        self._call = around(original)

        @functools.wraps(original)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return self._call(*args, **kwargs)

        self._original, self._patched = original, patched
        setattr(owner, name, patched)

    def undo(self) -> None:
        """Put the original back."""
        self._call = self._original
        if vars(self.owner).get(self.name) is not self._patched:
            return
        if self.own:
            setattr(self.owner, self.name, self.before)
        else:
            delattr(self.owner, self.name)


def patch(owner: Any, name: str, around: Callable[[Function], Function]) -> list[Patch]:
    """The patch of one place, or nothing where this version of the library has no such place."""
    return [Patch(owner, name, around)] if callable(getattr(owner, name, None)) else []
