"""What was measured of a run: the parts of a Diagnosis that no rule has judged (docs/accounting.md, sections 2 to 8 and 11)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

StepLabel = int | Literal["before", "after"] | None


# ---- the run ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FileReport:
    """One trace file of the run. `rank_source`: distributedInfo, process id, file name or order."""

    path: str
    rank: int
    rank_source: str
    events: int
    set_aside: int
    skipped_events: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class OtherRun:
    """A run found beside the reported one; `--run ID` reports it."""

    id: str
    ranks: list[int]
    started_unix_ns: int | None
    files: list[str]


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What was run.

    `devices` are the device names; `steps` counts the numbered steps; `wall_ns` is the whole run's window.
    """

    path: str
    id: str
    world_size: int | None
    ranks: list[int]
    missing_ranks: list[int]
    backend: str | None
    devices: list[str]
    steps: int
    wall_ns: int
    files: list[FileReport]
    started_unix_ns: int | None = None
    device_count: int = 0
    usable_steps: list[int] = field(default_factory=list)
    median_step_ns: int | None = None


# ---- attribution -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compute:
    """Parts of `compute_ns`."""

    kernel_ns: int = 0
    device_copy_ns: int = 0


@dataclass(frozen=True, slots=True)
class Communication:
    """Parts of `communication_ns`, and two overlays outside the sum."""

    wait_ns: int = 0
    transfer_ns: int = 0
    unsplit_ns: int = 0
    overlapped_ns: int = 0
    host_late_ns: int = 0


@dataclass(frozen=True, slots=True)
class InputOutput:
    """Parts of `io_ns`, and one overlay outside the sum."""

    data_loading_ns: int = 0
    checkpoint_ns: int = 0
    host_to_device_ns: int = 0
    device_to_host_ns: int = 0
    overlapped_ns: int = 0


@dataclass(frozen=True, slots=True)
class Host:
    """Parts of `host_ns`."""

    launch_ns: int = 0
    sync_ns: int = 0
    allocator_ns: int = 0
    gc_ns: int = 0
    other_ns: int = 0


@dataclass(frozen=True, slots=True)
class Idle:
    """Parts of `idle_ns`."""

    kernel_gap_ns: int = 0
    unexplained_ns: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One (rank, device, step). The five parents add up to `window_ns`, each parent to its parts, to the nanosecond."""

    rank: int
    device: int | None
    step: StepLabel
    window_ns: int
    partial: bool
    compute_ns: int
    compute: Compute
    communication_ns: int
    communication: Communication
    io_ns: int
    io: InputOutput
    host_ns: int
    host: Host
    idle_ns: int
    idle: Idle


# ---- collectives and clocks ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupTraffic:
    """All collectives of one group, name and size.

    Times are rank-time; the rate is bus bandwidth while transferring.
    """

    group: str
    ranks: list[int]
    collective: str
    bytes: int | None
    count: int
    wait_ns: int
    transfer_ns: int
    bus_bytes_per_s: float | None
    imbalance: float | None = None  # all-to-all-v: most bytes over the mean


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """Exposed waiting of one rank that is charged to another, rounded to the nanosecond."""

    waiter: int
    causer: int
    ns: int


@dataclass(frozen=True, slots=True)
class CollectivesReport:
    """Maps are by rank, as text. `matched` counts collectives, `unmatched` records of one rank."""

    matched: int
    unmatched: int
    waited_ns: dict[str, int]
    caused_ns: dict[str, int]
    alone_ns: dict[str, int]
    hidden_wait_ns: dict[str, int]
    last_arrivals: dict[str, int]
    by_group: list[GroupTraffic]
    waited_for: list[WaitedFor] = field(default_factory=list)  # who waited for whom, largest first
    dependency_wait_ns: dict[str, int] = field(default_factory=dict)  # receivers' waits, nobody's fault
    inferred: int = 0  # matched without Seq, by aligning ends
    margin: float | None = None  # of the worst alignment over its second-best


@dataclass(frozen=True, slots=True)
class ClockFit:
    """common time = own time - offset_ns - drift x (own time - origin_ns). `offset_ns` None: not identifiable.

    `drift_ppb` None: the run is too short to state it, or there is none; `residual_ns` then covers what it may be.
    `origin_ns`: own UNIX time at which `offset_ns` holds, None where nothing was fitted.
    """

    rank: int
    host: str | None
    offset_ns: int | None
    drift_ppb: float | None
    residual_ns: int | None
    method: str  # reference, shared_clock, ends, pings, clock_free, not_identifiable
    origin_ns: int | None = None


# ---- kernels, peers --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KernelTotal:
    """All launches of one kernel over all ranks.

    `kind`: compute, communication, device_copy, host_to_device, device_to_host.
    """

    name: str
    kind: str
    count: int
    total_ns: int
    mean_ns: float
    min_ns: int
    max_ns: int


@dataclass(frozen=True, slots=True)
class TraceLensFigures:
    """TraceLens's GPU timeline by its own definitions, exact."""

    total_ns: int
    computation_ns: int
    exposed_comm_ns: int
    exposed_memcpy_ns: int
    busy_ns: int
    idle_ns: int


@dataclass(frozen=True, slots=True)
class HtaFigures:
    """HTA's temporal breakdown by its own definitions, without its rounding. `overlap_share` None: no communication."""

    span_ns: int
    compute_ns: int
    non_compute_ns: int
    idle_ns: int
    overlap_share: float | None


@dataclass(frozen=True, slots=True)
class TbPluginFigures:
    """The TensorBoard plugin's exclusive classes over its own steps."""

    kernel_ns: int
    memcpy_ns: int
    memset_ns: int
    communication_ns: int
    runtime_ns: int
    data_loader_ns: int
    cpu_exec_ns: int
    other_ns: int


@dataclass(frozen=True, slots=True)
class Peers:
    """Other tools' figures for one rank and device; None on CPU-only rows."""

    rank: int
    device: int | None
    tracelens: TraceLensFigures | None
    hta: HtaFigures | None
    tb_plugin: TbPluginFigures | None
