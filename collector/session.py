"""One recorded run of one process: owns the records, the stage clock, the probes, and the one guard around them all.

Whatever fails in here is a line in the log and a word in the manifest; it never reaches training.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shlex
import socket
import sys
import threading
import time
from typing import Any, Final

from rankscope.collector import environment, ranks
from rankscope.collector.ending import Endings
from rankscope.collector.hooks.first_step import FirstStep
from rankscope.collector.hooks.optimizer import MODULE
from rankscope.collector.job import Job
from rankscope.collector.options import Options
from rankscope.collector.overhead import Overhead
from rankscope.collector.probe import Function, Place, Unavailable
from rankscope.collector.records import LOG, Lines
from rankscope.collector.roster import Roster
from rankscope.collector.run_dir import MANIFEST, TRACES, Manifest, RankFolder, rank_folder, write_atomically
from rankscope.collector.stages import StageClock, now_ns
from rankscope.collector.steps import Steps

# the manifest is written anew so often, so that one is left by `kill -9` that is not much older
MANIFEST_EVERY_NS: Final = 30 * 10**9


class Session:
    """From `start` to `stop`. No public method raises."""

    def __init__(self, options: Options) -> None:
        self._began_ns = now_ns()
        self.options = options
        self.alive = False
        self.manifest = Manifest(mode=options.mode, started_unix_ns=time.time_ns(), pid=os.getpid())
        self._failed: set[str] = set()
        self._describing = threading.RLock()
        self._seat = ranks.seat()
        self.folder = self._folder(self._seat.rank)
        self.records = Lines(self.folder, options.max_bytes, self.guard("records", self._flushed))
        self.clock = StageClock()
        self.job = Job(self.records)
        self.overhead = Overhead(self.clock, options.budget_share)
        self._steps = Steps(self.clock, self.job, self.overhead, self.records)
        self.place = Place(
            self.folder, self.records, self._seat.rank, self._seat.world_size, self._seat.local_rank, options,
            self.clock, self.job, self.guard("pulse", self._steps.optimizer_stepped), self.guard,
        )  # fmt: skip
        self._roster = Roster(self.place, self.manifest, self.guard)
        self._endings = Endings(self.interrupted, self.stop)
        self._first_step: FirstStep | None = None
        self._written_ns = now_ns()
        self.step = self.guard("pulse", self._steps.step)
        self.log = self.guard("log", self._steps.log)
        self.span = self.guard("log", self._steps.span)

    @classmethod
    def begin(cls, options: Options) -> Session | None:
        """A session that runs, or None where it could not begin; the log says why."""
        try:
            session = cls(options)
            return session if session.start() else None
        except Exception as error:  # noqa: BLE001 - as in `guard`
            LOG.warning("rankscope could not begin: %s: %s; training goes on", type(error).__name__, error)
            return None

    def start(self) -> bool:
        """Make the folder and start the probes; False where nothing can be written."""
        try:
            os.makedirs(self.folder.path)
        except OSError as error:
            self.records.give_up(error.strerror or str(error))
            return False
        self.guard("job", self.job.look_back)(self.options.run_dir, self.folder)
        self.guard("manifest", self._describe)()
        self.alive = True
        self.guard("records", self.records.start)()
        self.guard("probes", self._roster.start)()
        self.guard("ending", self._endings.install)()
        self.guard("manifest", self._write_manifest)()
        self.overhead.start_ns = now_ns() - self._began_ns
        if MODULE not in sys.modules:
            self._first_step = FirstStep(self.guard("probes", self._roster.start_awaited), at_end=False)
        self._steps.begin(self.place, self._roster)
        return True

    def add(self, probe: Any) -> None:
        """A further probe, which the user made."""
        self.guard(probe.name, self._roster.add)(probe)

    def stop(self, ended: str) -> None:
        """End the probes and the records, and say how it ended."""
        if not self.alive:
            return
        self.alive = self.clock.listening = False
        if ended.startswith("exception"):
            self._roster.tell("ending", ended)
        self.guard("pulse", self._steps.held.drain)()  # before those end that hear of its lines
        self._roster.stop()
        if self._first_step is not None:
            self.guard("probes", self._first_step.undo)()
        self.guard("ending", self._endings.remove)()
        self.guard("records", self.records.close)()
        self.manifest.ended = self.manifest.ended or ended  # a signal that came before says more
        self.manifest.ended_unix_ns = time.time_ns()
        self.guard("manifest", self._write_manifest)()
        self.guard("manifest", self._last_line)()

    def interrupted(self, reason: str) -> None:
        """A signal came, and the process may be about to end: what explains it is written now, from any thread."""
        if not self.alive:
            return
        self.manifest.ended = reason
        self.manifest.ended_unix_ns = time.time_ns()
        self._roster.tell("ending", reason)
        self.guard("records", self.records.flush)()
        self.guard("manifest", self._write_manifest)()

    def forget(self) -> None:
        """In a forked child: neither watch nor write."""
        self.alive = self.clock.listening = False
        self.clock.thread = 0
        self.records.forget()
        self._endings.forget()

    # ---- the guard ---------------------------------------------------------------------------------------------------

    def guard(self, name: str, function: Function) -> Function:
        """The function, made safe: its failure is said once and noted for the probe `name`, and None comes back."""

        @functools.wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except Unavailable as error:
                self.manifest.probes[name] = f"skipped: {error}"
                self._roster.drop(name)
            except Exception as error:  # noqa: BLE001 - whatever it is, training goes on
                self._fail(name, error)
            return None

        return guarded

    def _fail(self, name: str, error: Exception) -> None:
        if name in self._failed:
            return
        self._failed.add(name)
        what = " ".join(f"failed: {type(error).__name__}: {error}".split())[:300]
        self.manifest.probes[name] = what
        self._roster.drop(name)
        LOG.warning("rankscope's %s %s; training goes on", name, what)
        LOG.debug("rankscope's %s", name, exc_info=error)
        self.records.event("probe_failed", probe=name, error=what)

    # ---- the manifest ------------------------------------------------------------------------------------------------

    def _folder(self, rank: int) -> RankFolder:
        manifest = self.manifest
        manifest.host = socket.gethostname()
        seed = f"{manifest.host} {manifest.pid} {manifest.started_unix_ns} {self._began_ns}"
        return rank_folder(self.options.run_dir, rank, hashlib.blake2s(seed.encode(), digest_size=4).hexdigest())

    def _describe(self) -> None:
        self.manifest.environment = environment.environment()
        if self._seat.rank == 0:  # one repository, one look: it starts a process
            self.manifest.git = environment.git_state()

    def _write_manifest(self) -> None:
        with self._describing:
            self._bring_up_to_date()
            try:
                write_atomically(self.folder.file(MANIFEST), self.manifest.to_json())
            except OSError as error:
                self.records.give_up(error.strerror or str(error))

    def _bring_up_to_date(self) -> None:
        if ranks.initialised() is not None:  # after the start, perhaps; and no longer at the end
            self._seat = ranks.seat()
        manifest, seat = self.manifest, self._seat
        manifest.run_id, manifest.attempt = seat.run_id, seat.attempt
        manifest.rank, manifest.world_size, manifest.local_rank = seat.rank, seat.world_size, seat.local_rank
        manifest.backend = seat.backend or manifest.backend
        manifest.device = environment.device_name() or manifest.device
        manifest.groups = ranks.groups() or manifest.groups
        manifest.versions = environment.versions()
        manifest.steps = self.place.step
        manifest.overhead = self.overhead.facts(self.records.background_ns)
        manifest.job = {**self.job.facts(), "records_dropped": self.records.dropped}
        if self.records.off not in (None, "closed"):
            manifest.probes["records"] = f"failed: {self.records.off}"
        manifest.files = self._files()
        self._written_ns = now_ns()

    def _files(self) -> list[str]:
        found = []
        for below in ("", TRACES):
            try:
                with os.scandir(self.folder.file(below)) as entries:
                    names = [entry.name for entry in entries if entry.is_file(follow_symlinks=False)]
            except OSError:
                continue
            found += [os.path.join(below, name) for name in names if name != MANIFEST and not name.endswith(".part")]
        return sorted(found)

    def _flushed(self) -> None:
        """About every second, in the writer's thread."""
        self._roster.tell("flushed")
        if now_ns() - self._written_ns > MANIFEST_EVERY_NS:
            self._write_manifest()

    def _last_line(self) -> None:
        if self._seat.rank != 0 or self.options.quiet or self.records.off != "closed" or sys.stderr is None:
            return
        steps, share, where = self.place.step, self.manifest.overhead["share"], self.options.run_dir
        cost = "" if share is None else f", own cost {share:.2%} of the step"
        counted = f"{steps:,} {'step' if steps == 1 else 'steps'}"
        sys.stderr.write(f"rankscope: {counted} in {where}{cost}; next: rankscope report {shlex.quote(where)}\n")
