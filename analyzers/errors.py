"""What can go wrong with an input, in words for a person. `ui/cli.py` maps these to exit codes."""

from __future__ import annotations


class RankscopeError(Exception):
    """Base of all errors that are the input's or the user's, never a bug."""


class UnreadableTrace(RankscopeError):
    """This file cannot be read as a trace; the message says why, without the file's name."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(f"{path}: {reason}")
        self.path = path
        self.reason = reason


class NothingToRead(RankscopeError):
    """No file among the inputs is a trace."""


class BadSelection(RankscopeError):
    """The ranks, steps, run or rules asked for do not exist or cannot be understood."""


class MissingExtra(RankscopeError):
    """Something asked for needs a package that is not installed; the message says which and how to get it."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(f"{what} needs {package}, which is not installed: pip install 'rankscope[{extra}]'")
