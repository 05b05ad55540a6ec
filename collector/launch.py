"""Recording without a line in the script: what `rankscope run` puts into its children's environment, and what they do.

A child watches for the import of torch's optimizers and begins to record when the first one has stepped. A process that
never trains, such as a launcher or a loader's worker, leaves nothing.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from rankscope.collector.hooks.first_step import FirstStep
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
        FirstStep(begin, at_end=True)


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
