"""Flight-recorder dumps made by hand: what each rank asked for, and how far it got."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One operation as one rank asked for it."""

    name: str = "nccl:all_reduce"
    seq: int = 1
    group: str = "0"
    sizes: tuple[tuple[int, ...], ...] = ((1024,),)
    dtype: str = "Float"
    done: bool = True
    created_ns: int = 0
    transfer: bool = False

    def waiting(self) -> Asked:
        """The same, not done."""
        return replace(self, done=False)


def dump(
    operations: Sequence[Asked], groups: Mapping[str, Sequence[int]], *, gloo: bool = False, version: str = "2.9"
) -> dict[str, Any]:
    """A dump as PyTorch writes it. gloo's states stay `scheduled`."""
    entries = [
        {
            "record_id": i,
            "pg_id": int(asked.group),
            "process_group": (asked.group, f"group_{asked.group}"),
            "collective_seq_id": 0 if asked.transfer else asked.seq,
            "p2p_seq_id": asked.seq if asked.transfer else 0,
            "op_id": asked.seq,
            "profiling_name": asked.name.replace("nccl:", "gloo:") if gloo else asked.name,
            "time_created_ns": asked.created_ns or i,
            "input_sizes": [list(size) for size in asked.sizes],
            "output_sizes": [list(size) for size in asked.sizes],
            "input_dtypes": [asked.dtype],
            "output_dtypes": [asked.dtype],
            "state": "completed" if asked.done and not gloo else "scheduled",
            "time_discovered_started_ns": None,
            "time_discovered_completed_ns": None,
            "retired": asked.done,
            "timeout_ms": 600000,
            "is_p2p": asked.transfer,
            "frames": [{"name": "train_step", "filename": "train.py", "line": 41}],
        }
        for i, asked in enumerate(operations)
    ]
    config = {
        name: {"name": name, "desc": f"group_{name}", "ranks": str(list(ranks))} for name, ranks in groups.items()
    }
    return {"version": version, "nccl_version": "2.27.3", "pg_config": config, "pg_status": {}, "entries": entries}


def write(folder: Path, dumps: Mapping[int, dict[str, Any]], *, as_json: bool = False) -> Path:
    """Write them as PyTorch names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for rank, content in dumps.items():
        if as_json:
            (folder / f"trace_{rank}.json").write_text(json.dumps(content))
        else:
            (folder / f"_dump_{rank}").write_bytes(pickle.dumps(content, protocol=2))
    return folder
