"""The parts of a report, one file each: `ORDER` (smaller comes first) and `build(diagnosis) -> Section | None`.

A file in this folder is a section of every renderer; None: there is nothing to say.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from rankscope.analyzers.findings import Diagnosis
from rankscope.reports.blocks import Section


@cache
def _modules() -> tuple[ModuleType, ...]:
    found = [import_module(f"{__name__}.{entry.name}") for entry in iter_modules(__path__)]
    return tuple(sorted(found, key=lambda module: (module.ORDER, module.__name__)))


def sections(diagnosis: Diagnosis) -> list[Section]:
    """Every section that has something to say, in order."""
    built = (module.build(diagnosis) for module in _modules())
    return [section for section in built if section is not None]
