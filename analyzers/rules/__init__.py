"""One file a rule: a docstring, TITLE, thresholds with their source, and check(). Being in this folder registers it."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

from rankscope.analyzers.findings import Rule


def load_rules() -> tuple[Rule, ...]:
    """Every rule, by file name. The id is the file's name in kebab case."""
    found = []
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        found.append(Rule(module_info.name.replace("_", "-"), module.TITLE, module.check, inspect.getdoc(module) or ""))
    return tuple(found)
