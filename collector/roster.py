"""The probes of a session: found in `rankscope.collector.probes` when it starts, called behind its guard."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Any

from rankscope.collector import probes
from rankscope.collector.probe import Guard, Place
from rankscope.collector.records import LOG
from rankscope.collector.run_dir import Manifest


class Roster:
    """Which probes are on; their state is kept in the manifest."""

    def __init__(self, place: Place, manifest: Manifest, guard: Guard) -> None:
        self._place, self._manifest, self._guard = place, manifest, guard
        self._steps: list[tuple[str, Any]] = []  # the guarded `step` of each probe that is on
        self._every_step: set[str] = set()
        self._started: list[Any] = []
        self._awaited: dict[str, list[Any]] = {}  # by the module that the program has not loaded yet

    def start(self) -> None:
        """Find all probes and begin those that are on."""
        names = sorted(module.name for module in pkgutil.iter_modules(probes.__path__))
        for name in names:
            self._guard(name, self._meet)(name)
        unknown = sorted(set(self._place.options.probes) - set(names))
        if unknown:
            LOG.warning("rankscope has no probe %s; it has %s", ", ".join(unknown), ", ".join(names))

    def add(self, probe: Any) -> None:
        """Begin one that the user made, unless its switch is off."""
        if self._place.options.settings(probe.name, True) is None:
            self._manifest.probes[probe.name] = "off"
        else:
            self._begin(probe)

    def step(self, step: int) -> None:
        """A step has ended."""
        for _, ended in self._steps:
            ended(step)
        if self._awaited:
            self.start_awaited()

    def passed(self, step: int) -> None:
        """A step has ended that the collector does not listen to."""
        for name, ended in self._steps:
            if name in self._every_step:
                ended(step)

    def start_awaited(self) -> None:
        """Begin the probes whose library the program has loaded by now."""
        for needs in [name for name in self._awaited if name in sys.modules]:
            for probe in self._awaited.pop(needs):
                self._guard(probe.name, self._begin)(probe)

    def tell(self, method: str, *arguments: Any) -> None:
        """Call an optional method of all probes that have it."""
        for probe in self._started:
            if hasattr(probe, method):
                self._guard(probe.name, getattr(probe, method))(*arguments)

    def stop(self) -> None:
        """End all, the last begun first."""
        for probe in reversed(self._started):
            self._guard(probe.name, probe.stop)()
        self._started.clear()
        self._steps.clear()

    def drop(self, name: str) -> None:
        """A probe that failed is not called again, except to stop."""
        self._steps = [entry for entry in self._steps if entry[0] != name]

    def _meet(self, name: str) -> None:
        module = importlib.import_module(f"{probes.__name__}.{name}")
        if not hasattr(module, "PROBE"):  # a part of another probe
            return
        default = getattr(module, "DEFAULT", True)
        options = self._place.options
        settings = options.settings(name, default if isinstance(default, bool) else options.mode in default)
        if settings is None:
            self._manifest.probes[name] = "off"
            return
        probe, needs = module.PROBE(**settings), getattr(module, "NEEDS", None)
        if needs is None or needs in sys.modules:
            self._begin(probe)
        else:
            self._awaited.setdefault(needs, []).append(probe)
            self._manifest.probes[name] = f"skipped: the program has not loaded {needs}"

    def _begin(self, probe: Any) -> None:
        self._manifest.probes[probe.name] = "on"
        self._started.append(probe)
        if getattr(probe, "every_step", False):
            self._every_step.add(probe.name)
        self._steps.append((probe.name, self._guard(probe.name, probe.step)))
        probe.start(self._place)
