"""The buckets of a step, in the order and the words that every chart, table and legend uses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import cast

from rankscope.analyzers.measured import Row


@dataclass(frozen=True, slots=True)
class Bucket:
    """One exclusive part of a step's window. `family` gathers the buckets of one column where room is short."""

    key: str
    label: str
    family: str
    part: str
    doc: str

    def ns(self, row: Row) -> int:
        """The bucket's time in `row`."""
        return cast(int, attrgetter(self.part)(row))

    def total_ns(self, rows: Iterable[Row]) -> int:
        """The bucket's time in all of these rows."""
        return sum(cast("Iterable[int]", map(attrgetter(self.part), rows)))


@dataclass(frozen=True, slots=True)
class Family:
    """Buckets told as one figure."""

    key: str
    label: str
    doc: str


FAMILIES: tuple[Family, ...] = (
    Family("compute", "compute", "the device computes; on a CPU rank, operators do work"),
    Family("transfer", "transfer", "all ranks have arrived, bytes move, and no compute hides it"),
    Family(
        "unsplit", "comm.", "exposed communication without a peer's record: waiting and moving cannot be told apart"
    ),
    Family("wait", "wait", "the rank is in a collective and waits for ranks that have not arrived"),
    Family(
        "io", "input/output", "nothing to do for the device: data loading, a checkpoint, or a copy from or to the host"
    ),
    Family("host", "host", "nothing to do for the device: the host did not ask for work in time"),
    Family("idle", "idle", "the device is idle with work queued, or the trace does not say why"),
)

BUCKETS: tuple[Bucket, ...] = (
    Bucket("kernel", "compute", "compute", "compute.kernel_ns", "compute kernels; on a CPU rank, working operators"),
    Bucket("device_copy", "copy on device", "compute", "compute.device_copy_ns", "copies and fills within the device"),
    Bucket("transfer", "transfer", "transfer", "communication.transfer_ns", "exposed, after the last rank arrived"),
    Bucket("unsplit", "comm., not split", "unsplit", "communication.unsplit_ns", "exposed, without a peer's record"),
    Bucket("wait", "wait for ranks", "wait", "communication.wait_ns", "exposed, before the last rank arrived"),
    Bucket("data_loading", "data loading", "io", "io.data_loading_ns", "starved while the loader is awaited"),
    Bucket("checkpoint", "checkpoint", "io", "io.checkpoint_ns", "starved while a checkpoint is saved or loaded"),
    Bucket("host_to_device", "copy to device", "io", "io.host_to_device_ns", "exposed copies from the host"),
    Bucket("device_to_host", "copy to host", "io", "io.device_to_host_ns", "exposed copies to the host"),
    Bucket("launch", "launch latency", "host", "host.launch_ns", "from the launch call to the start of its work"),
    Bucket("sync", "after a sync", "host", "host.sync_ns", "starved because a blocking call had drained the device"),
    Bucket("allocator", "allocator", "host", "host.allocator_ns", "starved while the driver allocates or frees memory"),
    Bucket("gc", "garbage collection", "host", "host.gc_ns", "starved while Python collects garbage"),
    Bucket("other", "host, other", "host", "host.other_ns", "starved while the host does anything else"),
    Bucket("kernel_gap", "gap between kernels", "idle", "idle.kernel_gap_ns", "idle with work already queued"),
    Bucket("unexplained", "unexplained", "idle", "idle.unexplained_ns", "idle, and the trace does not say why"),
)

# Of the pulse: a rank's own time in the stages that are no bucket above, which the pulse cannot tell apart further.
STAGE_FAMILIES: tuple[Family, ...] = (
    Family("forward", "forward", "the forward pass, without its waits"),
    Family("backward", "backward", "the backward pass, without its waits"),
    Family("optimizer", "optimizer", "the optimizer's step, without its waits"),
    Family("queued", "no CPU", "the training thread could run and had no processor: others had its cores"),
)
STAGE_BUCKETS: tuple[Bucket, ...] = tuple(
    Bucket(family.key, family.label, family.key, "", family.doc) for family in STAGE_FAMILIES
)

ALL_FAMILIES: tuple[Family, ...] = (*STAGE_FAMILIES, *FAMILIES)
ALL_BUCKETS: tuple[Bucket, ...] = (*STAGE_BUCKETS, *BUCKETS)
BY_KEY: dict[str, Bucket] = {bucket.key: bucket for bucket in ALL_BUCKETS}
