"""The Diagnosis as JSON (docs/accounting.md, section 11) and the schema that describes it (docs/report.schema.json)."""

from __future__ import annotations

from typing import Any

import msgspec

from rankscope.analyzers.findings import Diagnosis


def render(diagnosis: Diagnosis) -> str:
    """The report as indented JSON that ends with a newline; None is null, never 0."""
    try:
        raw = msgspec.json.encode(diagnosis)
    except UnicodeEncodeError:  # a lone surrogate in a name
        raw = msgspec.json.encode(_without_surrogates(msgspec.to_builtins(diagnosis)))
    return msgspec.json.format(raw, indent=2).decode() + "\n"


def schema() -> str:
    """The JSON schema of `render`'s output, from the types themselves."""
    document = msgspec.json.schema(Diagnosis)
    document["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    document["title"] = "rankscope report"
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _without_surrogates(value: Any) -> Any:  # noqa: ANN401 (any JSON value)
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    return value
