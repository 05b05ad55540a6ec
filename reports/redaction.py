"""Redaction: hosts, paths, users and addresses become hashes, the same text the same hash within one bundle.

Names of hosts, folders and files of the run are replaced wherever they stand as a word; what looks like a path or an
address, wherever it is found. The hashes are salted, so that a short name cannot be found out by trying.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterable
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from rankscope.analyzers.findings import Diagnosis
from rankscope.analyzers.trace.table import Table

T = TypeVar("T", bound=Table)
_ENDINGS = r"(?:\.(?:py|pyc|so|cu|cuh|cpp|cc|h|json|gz|pt|txt|yaml|yml|toml|sh)\b)+"
_PATHS = re.compile(
    r"(?<![\w.\\/])(?:[A-Za-z]:|~\w*)?(?:[\\/][\w.+@~-]+){2,}[\\/]?"  # from the root, of Windows too, or from a home
    rf"|(?<![\w.\\/])(?:[\w.+@~-]+[\\/])+[\w.+@~-]+?{_ENDINGS}"  # relative, if it ends like a file
)
_ADDRESSES = re.compile(
    r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+"  # mail
    r"|(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.])"
    r"|(?<![\w:])(?:[0-9a-fA-F]{1,4}:){3,7}(?::?[0-9a-fA-F]{1,4})+(?![\w:])"
)
_LEAST = 3  # characters: shorter names are words too often
_WORDS = """
trace traces rank ranks profile profiles profiler run runs log logs output outputs data tmp home users user root work
mnt opt var usr json unknown localhost node worker gpu cpu cuda torch step steps report reports
"""
_ORDINARY = frozenset(_WORDS.split())
# Keys of a report whose values are rankscope's own words, whatever a folder is called.
_KEYS = "rule kind severity cause unit method rank_source collective backend passed record window devices stage state modes"
_OWN = frozenset(_KEYS.split())


class Redactor:
    """Replaces what tells who and where. `salt`: up to 64 bytes, a new one for each bundle."""

    def __init__(self, salt: bytes, known: Iterable[tuple[str, str]] = ()) -> None:
        """`known`: (kind, name) of what is to be replaced wherever it stands."""
        self._salt = salt
        self._known = {
            name: kind
            for kind, name in known
            if len(name) >= _LEAST and name.lower() not in _ORDINARY and not name.isdigit()
        }
        words = "|".join(re.escape(name) for name in sorted(self._known, key=lambda name: (-len(name), name)))
        self._words = re.compile(rf"(?<![^\W_])(?:{words})(?![^\W_])") if words else None
        self._seen: dict[str, str] = {}

    @property
    def replaced(self) -> dict[str, int]:
        """How many different texts of each kind were replaced."""
        kinds = list(self._seen.values())
        return {kind: kinds.count(kind) for kind in sorted(set(kinds))}

    def text(self, text: str) -> str:
        """The text without what is sensitive."""
        text = _PATHS.sub(self._path, text)
        text = _ADDRESSES.sub(lambda found: self._hashed("address", found[0]), text)
        if self._words is None:
            return text
        return self._words.sub(lambda found: self._hashed(self._known[found[0]], found[0]), text)

    def diagnosis(self, diagnosis: Diagnosis) -> Diagnosis:
        """The diagnosis with every text replaced that is not rankscope's own."""
        return msgspec.convert(self._value(msgspec.to_builtins(diagnosis)), Diagnosis)

    def table(self, table: T) -> T:
        """The table with its texts replaced."""
        columns = dict(table.columns)
        for name, column in table.declared.items():
            if column.dtype == object and name not in _OWN:
                array = columns[name].copy()
                array[:] = [self.text(value) for value in array.tolist()]
                columns[name] = array
        return type(table)(columns, table.masks)

    def _value(self, value: Any) -> Any:  # noqa: ANN401 (any JSON value)
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list | tuple):
            return [self._value(item) for item in value]
        if isinstance(value, dict):
            return {key: item if key in _OWN else self._value(item) for key, item in value.items()}
        return value

    def _path(self, found: re.Match[str]) -> str:
        """One hash, and the ending that says what kind of file it is."""
        ending = re.search(f"{_ENDINGS}$", found[0])
        return self._hashed("path", found[0]) + (ending[0] if ending else "")

    def _hashed(self, kind: str, text: str) -> str:
        self._seen[text] = kind
        raw = text.encode("utf-8", "backslashreplace")
        return f"{kind}-{blake2b(raw, key=self._salt, digest_size=4).hexdigest()}"


def sensitive(diagnosis: Diagnosis) -> list[tuple[str, str]]:
    """(kind, name) of the hosts, folders, files and users that a report speaks of."""
    hosts = {clock.host for clock in diagnosis.clock if clock.host}
    paths = {diagnosis.run.path, *(file.path for file in diagnosis.run.files)}
    paths |= {file for other in diagnosis.other_runs for file in other.files}
    if diagnosis.job is not None:
        hosts |= {end.host for end in diagnosis.job.ends if end.host}
        paths |= {end.path for end in diagnosis.job.ends}
    pieces = {piece for path in paths for piece in (path, *re.split(r"[\\/\s]+", path))}
    found = [("host", name) for host in hosts for name in (host, host.partition(".")[0])]
    found += [("path", piece) for piece in pieces - {name for _, name in found}]
    found += [("run", name) for name in (diagnosis.run.id, *(other.id for other in diagnosis.other_runs))]
    return [*found, *_user()]


def _user() -> list[tuple[str, str]]:
    try:
        return [("user", getpass.getuser())]
    except (OSError, KeyError):  # no name for this user id
        return []
