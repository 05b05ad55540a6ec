"""Counters of the host's InfiniBand and RoCE ports: bytes, and what makes a fabric slow; from one rank a host."""

from __future__ import annotations

import os
import time
from typing import Any, Final

from rankscope.collector.probe import Place, Unavailable

DEFAULT = True
ROOT: Final = "/sys/class/infiniband"
FILE: Final = "infiniband.jsonl"
EVERY_S: Final = 5.0  # some 15 small files a port
WORD_BYTES: Final = 4  # the two data counters count words
COUNTERS: Final = {
    "port_xmit_data": "sent_bytes", "port_rcv_data": "received_bytes", "port_xmit_wait": "sent_waits",
    "symbol_error": "symbol_errors", "link_downed": "link_downs", "link_error_recovery": "link_recoveries",
    "port_rcv_errors": "receive_errors", "port_xmit_discards": "sent_discards",
}  # fmt: skip
HARDWARE: Final = {
    "out_of_sequence": "out_of_sequence", "packet_seq_err": "sequence_errors", "local_ack_timeout_err": "ack_timeouts",
    "rnr_nak_retry_err": "receiver_not_ready", "np_cnp_sent": "congestion_sent", "rp_cnp_handled": "congestion_handled",
    "roce_slow_restart": "slow_restarts",
}  # fmt: skip


class Infiniband:
    """Samples of all ports into `infiniband.jsonl`; counters count from when the port came up."""

    name = "infiniband"

    def __init__(self, root: str = ROOT, every_s: float = EVERY_S) -> None:
        self._root, self._every_s = root, float(every_s)
        self._last = 0.0

    def start(self, place: Place) -> None:
        """Unavailable without a port, and where another rank of the host samples."""
        self._place = place
        if place.local_rank:
            raise Unavailable("local rank 0 samples for this host")
        self._ports = _ports(self._root)
        if not self._ports:
            raise Unavailable("no InfiniBand device")

    def step(self, step: int) -> None:
        """Nothing."""

    def flushed(self) -> None:
        """A sample, if it is time."""
        if time.monotonic() - self._last >= self._every_s and getattr(self, "_ports", None):
            self._last = time.monotonic()
            ports = [{"port": name, **_counters(path)} for name, path in self._ports]
            self._place.records.append(FILE, {"unix_ns": time.time_ns(), "step": self._place.step, "ports": ports})

    def stop(self) -> None:
        """A last sample."""
        self._last = -self._every_s
        self.flushed()


def _ports(root: str) -> list[tuple[str, str]]:
    found = []
    try:
        for device in sorted(os.listdir(root)):
            ports = os.path.join(root, device, "ports")
            found += [(f"{device}/{port}", os.path.join(ports, port)) for port in sorted(os.listdir(ports))]
    except OSError:
        pass
    return found


def _counters(port: str) -> dict[str, Any]:
    """What this port counts; a counter it lacks is left out."""
    found: dict[str, Any] = {}
    for folder, names in (("counters", COUNTERS), ("hw_counters", HARDWARE)):
        for file, name in names.items():
            value = _number(os.path.join(port, folder, file))
            if value is not None:
                found[name] = value * WORD_BYTES if name.endswith("_bytes") else value
    return found


def _number(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            return int(file.read(64))
    except (OSError, ValueError):
        return None


PROBE = Infiniband
