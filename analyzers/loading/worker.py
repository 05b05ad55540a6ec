"""One trace file to its RankRecord, through the cache; and the process that does so for one file after another.

The process speaks over its standard input and output: length-prefixed msgpack, `Setup` first, then a path a message, a
`Reply` each. It imports no data frame and no terminal library, so that starting one costs little.
"""

from __future__ import annotations

import hashlib
import os
import signal
import struct
import threading
import time
import typing
from collections.abc import Callable
from dataclasses import replace

import msgspec

from rankscope.analyzers.errors import UnreadableTrace
from rankscope.analyzers.loading import container
from rankscope.analyzers.loading.cache import Cache, source_digest
from rankscope.analyzers.loading.container import Buffer, Packed
from rankscope.analyzers.one_rank.rank_record import RankRecord, RecordOptions, rank_record
from rankscope.analyzers.trace import readers
from rankscope.analyzers.trace.model import Trace, TraceMeta
from rankscope.analyzers.trace.readers import Head

Share = Callable[[float], None]
PROGRESS_S = 0.2
_LENGTH = struct.Struct("<Q")
_FACTS: type = typing.get_type_hints(RankRecord)["facts"]


class Setup(msgspec.Struct):
    """What every file of one load shares."""

    options: RecordOptions
    cache_folder: str | None
    cache_cap_bytes: int


class Reply(msgspec.Struct, omit_defaults=True):
    """About one file: its packed record, or that the cache keeps it, or the reason why there is none; else its progress."""

    record: bytes | None = None
    kept: bool = False
    reason: str | None = None
    share: float | None = None  # of the file that is read
    cache_problem: str | None = None


def unpack_record(raw: Buffer, path: str) -> RankRecord:
    """The record of the file that now lies at `path`; ValueError when the bytes are damaged."""
    packed = container.unpack(raw)
    meta, facts = msgspec.msgpack.decode(packed.text, type=tuple[TraceMeta, _FACTS])  # type: ignore[valid-type]
    return RankRecord(replace(meta, path=path), facts, packed.names, packed.tables)


def read_heads(path: str, cache: Cache) -> list[Head]:
    """What the file says early on, of each rank in it, through the cache; UnreadableTrace says why it is no trace."""
    key = cache.key(path)
    name = key and f"{key}-{source_digest('trace/**/*.py', 'loading/container.py')}.head"
    found = _found(cache, name)
    if found is not None:
        kept = msgspec.msgpack.decode(found[1].text, type=list[Head])
        return [replace(head, path=path + head.path) for head in kept]
    heads = readers.heads(path)
    if name is not None:
        behind = [replace(head, path=head.path.removeprefix(path)) for head in heads]
        cache.write(name, container.pack(_encoded(behind), [], {}))
    return heads


def read_trace(path: str, cache: Cache, progress: Share | None = None) -> Trace:
    """All tables of one file, from the cache where it has them; UnreadableTrace says why there are none."""
    name = _trace_name(cache.key(path))
    found = _found(cache, name)
    if found is not None:
        packed = found[1]
        meta = msgspec.msgpack.decode(packed.text, type=TraceMeta)
        return Trace(replace(meta, path=path), packed.names, packed.tables)
    trace = readers.read(path, progress=progress and (lambda done, size: progress(done / max(size, 1))))
    if name is not None and name == _trace_name(cache.key(path)):  # a file that changed meanwhile is not kept
        cache.write(name, container.pack(_encoded(replace(trace.meta, path="")), trace.names, trace.tables))
    return trace


def cached_record(path: str, options: RecordOptions, cache: Cache) -> bytes | None:
    """The packed record, if the cache has it."""
    found = _found(cache, _record_name(cache.key(path), options))
    return None if found is None else found[0]


def reply_for(path: str, options: RecordOptions, cache: Cache, progress: Share | None = None) -> Reply:
    """The record of one file, read, made and kept where the cache lacks it; whatever goes wrong becomes the reason."""
    try:
        raw = cached_record(path, options, cache)
        reply = Reply(record=raw) if raw is not None else _made(path, options, cache, progress)
    except UnreadableTrace as error:
        reply = Reply(reason=error.reason)
    except OSError as error:
        reply = Reply(reason=f"cannot be read ({error.strerror or error})")
    except MemoryError:
        reply = Reply(reason="needs more memory than there is")
    except Exception as error:  # noqa: BLE001 - one file's surprise must not cost the others their report
        reply = Reply(reason=f"could not be analysed, a bug of rankscope ({type(error).__name__}: {error})")
    reply.cache_problem = cache.problem
    return reply


def _made(path: str, options: RecordOptions, cache: Cache, progress: Share | None) -> Reply:
    name = _record_name(cache.key(path), options)
    record = rank_record(read_trace(path, cache, progress), options)
    text = _encoded((replace(record.meta, path=""), record.facts))
    pieces = container.pack(text, record.names, record.tables)
    unchanged = name is not None and name == _record_name(cache.key(path), options)
    kept = unchanged and name is not None and cache.write(name, pieces)
    return Reply(record=b"".join(pieces), kept=kept)


def send(descriptor: int, message: object) -> None:
    """Write one message; blocks until all of it is in the pipe."""
    body = msgspec.msgpack.encode(message)
    left = memoryview(_LENGTH.pack(len(body)) + body)
    while left:
        left = left[os.write(descriptor, left) :]


def receive(descriptor: int) -> bytes | None:
    """Read one message; None when the other side is gone."""
    head = _exactly(descriptor, _LENGTH.size)
    return None if head is None else _exactly(descriptor, _LENGTH.unpack(head)[0])


def main() -> None:
    """Serve files until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle; it ends its workers
    inward, outward = os.dup(0), os.dup(1)
    os.dup2(2, 1)  # nothing that prints can get between the messages
    _end_with(os.getppid())
    first = receive(inward)
    if first is None:
        return
    setup = msgspec.msgpack.decode(first, type=Setup)
    cache = Cache(setup.cache_folder, setup.cache_cap_bytes)
    send(outward, Reply(share=0.0))
    while (message := receive(inward)) is not None:
        path = os.fsdecode(msgspec.msgpack.decode(message, type=bytes))
        reply = reply_for(path, setup.options, cache, _telling(outward))
        if reply.kept:
            reply.record = None  # it need not go through the pipe
        send(outward, reply)


def _telling(outward: int) -> Share:
    """Sends the share that is read, now and then."""
    last = time.monotonic()

    def tell(share: float) -> None:
        nonlocal last
        if time.monotonic() - last > PROGRESS_S:
            last = time.monotonic()
            send(outward, Reply(share=share))

    return tell


def _end_with(parent: int) -> None:
    """End this process soon after its parent, even in the middle of a file."""

    def watch() -> None:
        pause = threading.Event()
        while os.getppid() == parent:
            pause.wait(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _exactly(descriptor: int, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = os.read(descriptor, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _found(cache: Cache, name: str | None) -> tuple[bytes, Packed] | None:
    """An undamaged entry and what it holds; a damaged one is dropped."""
    raw = None if name is None else cache.read(name)
    if raw is None or name is None:
        return None
    try:
        return raw, container.unpack(raw)
    except (ValueError, KeyError, TypeError, msgspec.MsgspecError):
        cache.discard(name)
        return None


def _trace_name(key: str | None) -> str | None:
    return key and f"{key}-{source_digest('trace/**/*.py', 'loading/container.py')}.trace"


def _record_name(key: str | None, options: RecordOptions) -> str | None:
    if key is None:
        return None
    digest = hashlib.blake2b(_encoded(options), digest_size=4).hexdigest()
    return f"{key}-{source_digest('*.py', 'one_rank/*.py', 'trace/**/*.py', 'loading/container.py')}-{digest}.record"


_encoded = msgspec.msgpack.encode

if __name__ == "__main__":
    main()
