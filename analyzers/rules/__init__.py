"""One file a rule: a docstring, TITLE, thresholds with their source, and check(). Being in this folder registers it.

READS names what it can judge from: ("traces",) unless it says so; with "pulse" a run directory without traces is enough.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Collection

from rankscope.analyzers.errors import BadSelection
from rankscope.analyzers.findings import Rule


def load_rules(ids: Collection[str] | None = None) -> tuple[Rule, ...]:
    """Every rule, or those with these ids, by file name.

    The id is the file's name in kebab case. BadSelection: no such rule.
    """
    found = []
    for module_info in pkgutil.iter_modules(__path__):
        module = importlib.import_module(f"{__name__}.{module_info.name}")
        rule_id, doc = module_info.name.replace("_", "-"), inspect.getdoc(module) or ""
        found.append(Rule(rule_id, module.TITLE, module.check, doc, "pulse" in getattr(module, "READS", ())))
    unknown = sorted(set(ids or ()) - {rule.id for rule in found})
    if unknown:
        raise BadSelection(f"no rule {', '.join(unknown)}; there are {', '.join(rule.id for rule in found)}")
    return tuple(rule for rule in found if ids is None or rule.id in ids)
