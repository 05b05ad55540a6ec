"""What the collector is asked to do: keyword arguments of `rankscope.profile`, and the environment's switches.

RANKSCOPE=0 switches everything off, RANKSCOPE_QUIET=1 the line at the end, RANKSCOPE_<PROBE>=0 or 1 one probe.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

MODES: Final = ("pulse", "window", "full")
NO: Final = frozenset({"0", "false", "no", "off"})
# one percent of the step is what a user is promised
BUDGET_SHARE: Final = 0.01


@dataclass(frozen=True, slots=True)
class Options:
    """How one run is recorded."""

    run_dir: str
    mode: str = "pulse"  # one of MODES
    windows: Any = None  # the schedule of the deep tier, as its probe reads it; None: its own
    budget_share: float = BUDGET_SHARE  # of the step's wall time, that the collector may cost
    probes: Mapping[str, Any] = field(default_factory=dict)  # name -> on or off, or the probe's own keyword arguments
    max_bytes: int = 1 << 30  # of one file of lines
    quiet: bool = False  # no line at the end
    automatic: bool = False  # started by `rankscope run`, not by the user's code

    def settings(self, probe: str, default: bool) -> Mapping[str, Any] | None:
        """The keyword arguments of this probe, or None where it is off. The environment beats the code."""
        asked = self.probes.get(probe, default)
        said = os.environ.get(f"RANKSCOPE_{probe.upper()}")
        on = bool(asked) or isinstance(asked, Mapping) if said is None else said.lower() not in NO
        if not on:
            return None
        return asked if isinstance(asked, Mapping) else {}


def switched_off() -> bool:
    """Whether the environment switches the collector off."""
    return os.environ.get("RANKSCOPE", "").lower() in NO


def options(
    run_dir: str | os.PathLike[str] | None,
    mode: str = "pulse",
    windows: Any = None,
    budget_share: float = BUDGET_SHARE,
    probes: Mapping[str, Any] | None = None,
    max_bytes: int = 1 << 30,
    automatic: bool = False,
) -> Options:
    """Checked options. Raises ValueError for what no run can mean, in the call and not in the middle of training."""
    where = os.fspath(run_dir) if run_dir is not None else os.environ.get("RANKSCOPE_RUN_DIR", "rankscope-run")
    if mode not in MODES:
        raise ValueError(f"mode is one of {', '.join(MODES)}, not {mode!r}")
    if not 0 < budget_share <= 1:
        raise ValueError(f"budget_share is a share of the step above 0 and up to 1, not {budget_share!r}")
    quiet = os.environ.get("RANKSCOPE_QUIET", "").lower() not in {"", *NO}
    return Options(
        os.path.abspath(where), mode, windows, budget_share, dict(probes or {}), max_bytes, quiet, automatic
    )
