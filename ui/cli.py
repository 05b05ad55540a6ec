"""The command line: parser, signals, and the one place where an error becomes a line and an exit status.

Exit status: 0 done, 1 findings at or above --fail-on, 2 bad usage or nothing readable, 130 interrupted.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import pkgutil
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType, TracebackType
from typing import NoReturn

from rankscope import __version__
from rankscope.analyzers.errors import RankscopeError
from rankscope.ui import commands, output

DONE, FOUND, UNUSABLE, INTERRUPTED = 0, 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; its exit status."""
    sys.excepthook = _last_word
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy is imported: its threads are not needed
    try:
        with _ending_tidily():
            args = parser().parse_args(argv)
            return int(args.command(args))
    except RankscopeError as error:
        output.say(str(error))
    except OSError as error:
        output.say(f"{error.filename or 'input or output'}: {error.strerror or error}")
    except MemoryError:
        output.say("there is not enough memory; --jobs 1 needs least, and --ranks reads fewer files")
    except KeyboardInterrupt:
        output.say("interrupted")
        return INTERRUPTED
    return UNUSABLE


def parser() -> argparse.ArgumentParser:
    """A parser of every module in `ui/commands`: docstring = help; `arguments(parser)` and `run(args)` do the rest."""
    top = _Parser(
        prog="rankscope",
        description="Says where every nanosecond of a distributed PyTorch training step went, which rank holds the "
        "others up, why, and what to change.",
        epilog="Start with `rankscope demo`, then `rankscope report FOLDER` on a folder of PyTorch profiler traces, "
        "one a rank.",
    )
    top.add_argument("--version", action="version", version=f"rankscope {__version__}")
    into = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for found in pkgutil.iter_modules(commands.__path__):
        module = importlib.import_module(f"{commands.__name__}.{found.name}")
        first, _, rest = (inspect.getdoc(module) or "").partition("\n")
        own = into.add_parser(
            found.name.replace("_", "-"),
            help=first.rstrip("."),
            description=first,
            epilog=rest.strip(),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.arguments(own)
        own.set_defaults(command=module.run)
    return top


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, without the whole usage."""

    def error(self, message: str) -> NoReturn:
        """End with the exit status of bad usage."""
        output.say(f"{message}; `{self.prog} --help` explains")
        raise SystemExit(UNUSABLE)


@contextmanager
def _ending_tidily() -> Iterator[None]:
    """Being asked to end unwinds like Ctrl-C, so that workers and unfinished files go too; a second Ctrl-C waits."""

    def ended(number: int, frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    before = {}
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) != signal.SIG_IGN:
            with suppress(ValueError):  # not the main thread
                before[number] = signal.signal(number, ended)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _last_word(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An error that nothing foresaw is a bug of rankscope: one line, and the traceback only for those who want it."""
    if os.environ.get("RANKSCOPE_TRACEBACK"):
        sys.__excepthook__(kind, error, trace)
    else:
        output.say(f"a bug of rankscope ({kind.__name__}: {error}); RANKSCOPE_TRACEBACK=1 shows where")
    if sys.stderr is not None:
        sys.stderr.flush()
    os._exit(UNUSABLE)


if __name__ == "__main__":
    sys.exit(main())
