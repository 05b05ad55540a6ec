"""Small traces as PyTorch writes them: `Rank`. Times are integer nanoseconds after `layout.ORIGIN`."""

from __future__ import annotations

from typing import Any

Event = dict[str, Any]
COMPUTE, COMM, COPY = 7, 20, 24  # streams
CBID = {
    "cudaLaunchKernel": 211,
    "cudaLaunchKernelExC": 430,
    "cudaMemcpyAsync": 41,
    "cudaMemsetAsync": 51,
    "cudaGraphLaunch": 311,
    "cudaStreamSynchronize": 131,
    "cudaEventSynchronize": 137,
    "cudaDeviceSynchronize": 165,
    "cudaMalloc": 20,
    "cudaFree": 22,
}
COPIES = {
    "HtoD": "Memcpy HtoD (Pinned -> Device)",
    "DtoH": "Memcpy DtoH (Device -> Pinned)",
    "DtoD": "Memcpy DtoD (Device -> Device)",
    "PtoP": "Memcpy PtoP (Device -> Device)",
    "Memset": "Memset (Device)",
}
NCCL = {
    "allreduce": "AllReduce_Sum_f32_RING_LL",
    "_allgather_base": "AllGather_RING_LL",
    "broadcast": "Broadcast_RING_LL",
    "reduce": "Reduce_Sum_f32_RING_LL",
    "_reduce_scatter_base": "ReduceScatter_Sum_f32_RING_LL",
    "all_to_all": "SendRecv",
    "send": "SendRecv",
    "recv": "SendRecv",
}


class Rank:
    """One rank's trace. Each method writes what PyTorch writes for one thing that happened; times after ORIGIN."""

    def __init__(
        self,
        rank: int = 0,
        world: int = 1,
        host: str = "node0",
        shift: int = 0,
        backend: str = "nccl",
        device: int | str | None = "rank",
    ) -> None:
        self.rank, self.world, self.node, self.shift, self.backend = rank, world, host, shift, backend
        self.device = rank if device == "rank" else device  # None on a CPU-only rank
        self.pid = 4000 + 100 * rank  # also the thread that carries the step marks
        self.groups: dict[str, list[int]] = {"0": list(range(world))}
        self.events: list[Event] = []
        self.last_id = 0

    def event(
        self,
        cat: str,
        name: str,
        start: int,
        end: int,
        args: Event,
        pid: int | None = None,
        tid: int | None = None,
    ) -> None:
        pid, tid = self.pid if pid is None else pid, self.pid if tid is None else tid
        self.events.append(
            {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": start, "dur": end - start, "args": args}
        )

    def host(self, cat: str, name: str, start: int, end: int, tid: int | None = None, **args: Any) -> int:
        self.last_id += 1
        self.event(
            cat,
            name,
            start,
            end,
            {"External id": self.last_id, "Record function id": 0, **args, "Ev Idx": self.last_id - 1},
            tid=tid,
        )
        return self.last_id

    def step(self, n: int, start: int, end: int) -> None:
        self.host("user_annotation", f"ProfilerStep#{n}", start, end)

    def op(self, name: str, start: int, end: int, tid: int | None = None) -> None:
        self.host("cpu_op", name, start, end, tid)

    def loader(self, start: int, end: int) -> None:
        self.host("user_annotation", "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", start, end)

    def gc(self, start: int, end: int) -> None:
        self.event("python_function", "Python GC", start, end, {"Ev Idx": self.last_id})

    def call(self, name: str, start: int, end: int) -> None:
        """A runtime call that starts no device work."""
        self.last_id += 1
        self.event(
            "cuda_runtime",
            name,
            start,
            end,
            {"External id": self.last_id, "cbid": CBID[name], "correlation": 9000 + self.last_id},
        )

    def flow(self, ph: str, at: int, correlation: int, pid: int | None, tid: int) -> None:
        self.events.append(
            {"ph": ph, "id": correlation, "pid": pid, "tid": tid, "ts": at, "cat": "ac2g", "name": "ac2g"}
        )
        if ph == "f":
            self.events[-1]["bp"] = "e"

    def kernel(
        self, name: str, start: int, end: int, stream: int, external: int, correlation: int, extra: Event
    ) -> None:
        self.event(
            "kernel",
            name,
            start,
            end,
            {
                "External id": external,
                "queued": 0,
                "device": self.device,
                "context": 1,
                "stream": stream,
                "correlation": correlation,
                "registers per thread": 32,
                "shared memory": 0,
                "blocks per SM": 1.0,
                "warps per SM": 8.0,
                "grid": [132, 1, 1],
                "block": [256, 1, 1],
                "est. achieved occupancy %": 50,
                **extra,
            },
            pid=self.device,
            tid=stream,
        )

    def start(self, op: str, call: str, at: int, args: Event | None = None) -> tuple[int, int]:
        """One operator with one runtime call in it; the ids that tie device events to them."""
        external = self.host("cpu_op", op, at, at + 800, **(args or {}))
        correlation = 9000 + external
        self.event(
            "cuda_runtime",
            call,
            at,
            at + 500,
            {"External id": external, "cbid": CBID[call], "correlation": correlation},
        )
        self.flow("s", at, correlation, self.pid, self.pid)
        return external, correlation

    def launch(self, at: int, start: int, end: int, name: str = "gemm", stream: int = COMPUTE) -> None:
        ids = self.start("aten::mm", "cudaLaunchKernel", at)
        self.kernel(name, start, end, stream, *ids, {})
        self.flow("f", start, ids[1], self.device, stream)

    def graph(self, at: int, *spans: tuple[int, int, int]) -> None:
        """One cudaGraphLaunch; spans are (start, end, stream)."""
        ids = self.start("CUDAGraph::replay", "cudaGraphLaunch", at)
        for start, end, stream in spans:
            self.kernel("gemm", start, end, stream, *ids, {})
            self.flow("f", start, ids[1], self.device, stream)

    def orphan(self, start: int, end: int) -> None:
        """A kernel whose launch is not in the file."""
        self.last_id += 1
        self.kernel("gemm", start, end, COMPUTE, self.last_id, 9000 + self.last_id, {})

    def copy(self, kind: str, at: int, start: int, end: int, stream: int = COPY, peer: int = 1) -> None:
        op, call = ("aten::zero_", "cudaMemsetAsync") if kind == "Memset" else ("aten::copy_", "cudaMemcpyAsync")
        external, correlation = self.start(op, call, at)
        where = {"device": self.device, "context": 1}
        if kind == "PtoP":
            where = {
                "fromDevice": self.device,
                "inDevice": self.device,
                "toDevice": peer,
                "fromContext": 1,
                "inContext": 1,
                "toContext": 2,
            }
        self.event(
            "gpu_memset" if kind == "Memset" else "gpu_memcpy",
            COPIES[kind],
            start,
            end,
            {
                "External id": external,
                **where,
                "stream": stream,
                "correlation": correlation,
                "bytes": 4096,
                "memory bandwidth (GB/s)": 4096 / (end - start),
            },
            pid=self.device,
            tid=stream,
        )
        self.flow("f", start, correlation, self.device, stream)

    def collective(
        self,
        kind: str,
        at: int,
        start: int,
        end: int,
        seq: int,
        ranks: list[int] | None = None,
        group: str = "0",
        elements: tuple[int, int] = (1000, 1000),
        stream: int = COMM,
        root: int | None = None,
        peer: int | None = None,
    ) -> None:
        """A collective with the arguments of torch 2.2 and later.

        `root` is the record's `Rank`, `peer` the other end of send and receive.
        """
        ranks = ranks or self.groups["0"]
        self.groups[group] = ranks
        args = {
            "Collective name": kind,
            "In msg nelems": elements[0],
            "Out msg nelems": elements[1],
            "Group size": len(ranks),
            "dtype": "Float",
            "In split size": "[]",
            "Out split size": "[]",
            "Process Group Name": group,
            "Process Group Description": "default_pg" if group == "0" else "undefined",
            "Process Group Ranks": str(ranks),
            "Seq": seq,
        }
        if peer is not None:
            args["Dst Rank" if kind == "send" else "Src Rank"] = peer
        own = ranks.index(self.rank) if root is None else root
        ids = self.start("record_param_comms", "cudaLaunchKernelExC", at, {**args, "Rank": own})
        self.kernel(f"ncclDevKernel_{NCCL[kind]}(ncclDevKernelArgsStorage<4096ul>)", start, end, stream, *ids, args)
        self.flow("f", start, ids[1], self.device, stream)

    def gloo(self, at: int, start: int, end: int) -> None:
        """An all-reduce on the CPU: launched on the main thread, executed on gloo's, no id between the two."""
        shape = {"Input type": ["float"], "Input Dims": [[4096]]}
        self.host("cpu_op", "c10d::allreduce_", at, at + 2_000, **shape)
        self.host("user_annotation", "gloo:all_reduce", start, end, tid=self.pid + 77, **shape)
        self.op("aten::view", start, start + 1_000, tid=self.pid + 77)


Case = tuple[list[Rank], Event]  # the ranks, and what the report says of them
