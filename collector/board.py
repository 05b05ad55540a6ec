"""A board on which the ranks agree without a collective: for each number, all find what the first of them put there.

It is the rendezvous store that torch.distributed already has, through a connection of our own, or files in a run
directory that all ranks see. Calls may block for as long as the network does: never make them on the training thread.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from typing import Any, Final, Protocol

from rankscope.collector import ranks
from rankscope.collector.request import FLAGS
from rankscope.collector.run_dir import rank_folders

# a rendezvous answers within milliseconds; one that does not is no place to agree
PATIENCE_S: Final = 5.0
FOLDER: Final = "windows"


class Board(Protocol):
    """Where the ranks agree. Both calls raise RuntimeError or OSError where the board can not be reached."""

    kind: str

    def put(self, number: int, text: str) -> str:
        """Put this text there unless another one is; the one that is there then."""
        ...

    def get(self, number: int) -> str | None:
        """What is there."""
        ...


class StoreBoard:
    """Keys of the rendezvous store of the default process group."""

    kind = "store"

    def __init__(self, store: Any, prefix: str) -> None:
        distributed = sys.modules["torch.distributed"]
        clone = getattr(store, "clone", None)  # older versions have none: then the program's own connection is used
        self._store = distributed.PrefixStore(prefix, store if clone is None else clone())
        if clone is not None:
            self._store.set_timeout(timedelta(seconds=PATIENCE_S))

    def put(self, number: int, text: str) -> str:
        """See `Board`."""
        return bytes(self._store.compare_set(str(number), "", text)).decode()

    def get(self, number: int) -> str | None:
        """See `Board`."""
        return bytes(self._store.get(str(number))).decode() if self._store.check([str(number)]) else None


class FileBoard:
    """Files in the run directory; a file appears whole, and the first one stays."""

    kind = "files"

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def put(self, number: int, text: str) -> str:
        """See `Board`."""
        os.makedirs(self._folder, exist_ok=True)
        path = self._path(number)
        part = f"{path}.{os.getpid()}.part"
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        try:
            os.link(part, path)
        except FileExistsError:
            pass
        finally:
            os.unlink(part)
        return self.get(number) or text

    def get(self, number: int) -> str | None:
        """See `Board`. Only files of this user count."""
        try:
            with open(os.open(self._path(number), FLAGS), encoding="utf-8") as file:
                own = os.fstat(file.fileno()).st_uid == os.geteuid()
                return file.read(4096) if own else None
        except FileNotFoundError:
            return None

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, f"{number:05d}.json")


def store_board(prefix: str) -> StoreBoard | None:
    """A board in the default process group's store; None where there is none. Raises RuntimeError without an answer."""
    distributed = ranks.initialised()
    found = getattr(getattr(distributed, "distributed_c10d", None), "_get_default_store", None)
    return None if found is None else StoreBoard(found(), prefix)


def file_board(run_dir: str, world_size: int, name: str = FOLDER) -> FileBoard | None:
    """A board in the run directory; None unless the folders of all ranks are seen there, so that it is a shared one.

    `name`: what is agreed on. Below it the board is called after rank 0's newest folder, which all ranks see alike.
    """
    folders = list(rank_folders(run_dir))
    first = [folder for folder in folders if folder.rank == 0]
    if len({folder.rank for folder in folders}) < world_size or not first:
        return None
    newest = max(first, key=lambda folder: os.stat(folder.path).st_mtime_ns)
    return FileBoard(os.path.join(run_dir, name, newest.token))
