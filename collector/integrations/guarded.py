"""What a framework calls runs behind the session's guard: what fails is one line in the log and a word in the manifest."""

from __future__ import annotations

from typing import Any

from rankscope.collector.ending import exception
from rankscope.collector.probe import Function
from rankscope.collector.profile import Profile, active


def guarded(name: str, function: Function, *arguments: Any) -> None:
    """Call it for the present session, if there is one; a failure is noted as the probe `name`'s and goes no further."""
    session = active()
    if session is not None:
        session.guard(name, function)(*arguments)


class Recording:
    """A profile whose begin and end are told by a framework, which may forget the end, or begin twice."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self._begun = False

    def begin(self) -> None:
        """Training begins. One that was never ended, because an exception came out of it, ends first."""
        self.end("no end was told")
        self._begun = True
        self.profile.start()

    def end(self, ended: str = "finished") -> None:
        """Training has ended."""
        if self._begun:
            self._begun = False
            self.profile.stop(ended)

    def broke(self, error: BaseException) -> None:
        """Training has ended with this exception."""
        self.end(exception(error))
