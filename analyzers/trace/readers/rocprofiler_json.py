"""What rocprofiler-sdk writes, as far as it is read: times in nanoseconds of the boot clock, handles that stand for names."""

from __future__ import annotations

import msgspec


class Handle(msgspec.Struct):
    """Names one agent, queue or stream."""

    handle: int = 0


class Correlation(msgspec.Struct):
    """Joins a call with what it started."""

    internal: int = 0


class Dispatch(msgspec.Struct):
    """Where a kernel ran."""

    agent_id: Handle
    queue_id: Handle
    kernel_id: int


class Record(msgspec.Struct):
    """A kernel, a copy or a call; what a record of another kind lacks is None."""

    start_timestamp: int
    end_timestamp: int
    kind: int = 0
    operation: int = 0
    thread_id: int = 0
    correlation_id: Correlation = msgspec.field(default_factory=Correlation)
    dispatch_info: Dispatch | None = None
    stream_id: Handle | None = None
    src_agent_id: Handle | None = None
    dst_agent_id: Handle | None = None
    bytes: int | None = None


class Symbol(msgspec.Struct):
    """The names of one kernel."""

    kernel_id: int
    kernel_name: str = ""
    formatted_kernel_name: str = ""


class Agent(msgspec.Struct):
    """A processor; GPUs are numbered by `logical_node_type_id`."""

    id: Handle
    type: int = 0
    logical_node_type_id: int = 0
    product_name: str = ""


class Node(msgspec.Struct):
    """The machine."""

    hostname: str | None = None


class Metadata(msgspec.Struct):
    """The process."""

    pid: int | None = None
    init_time: int | None = None
    node: Node = msgspec.field(default_factory=Node)


class Operations(msgspec.Struct):
    """Names of the operations of one kind of records, by number."""

    kind: str = ""
    operations: list[str] = []


class Strings(msgspec.Struct):
    """Names by number."""

    buffer_records: list[Operations] = []


class Session(msgspec.Struct):
    """What one process recorded; records stay text until they are asked for."""

    metadata: Metadata = msgspec.field(default_factory=Metadata)
    agents: list[Agent] = []
    strings: Strings = msgspec.field(default_factory=Strings)
    kernel_symbols: list[Symbol] = []
    callback_records: dict[str, msgspec.Raw] = {}
    buffer_records: dict[str, msgspec.Raw] = {}


class File(msgspec.Struct, rename={"sessions": "rocprofiler-sdk-tool"}):
    """The whole file."""

    sessions: list[Session]
