"""The device under this rank, about once a second, as NVML tells it: clocks, power, temperature, links, errors, neighbours.

What a device or driver does not know is left out of the sample, never written as 0.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from rankscope.collector.probe import Place, Unavailable
from rankscope.collector.run_dir import NVML

DEFAULT = True
# bits of nvml.h: why the clocks are below what they could be
REASONS: Final = {
    0x001: "gpu_idle", 0x002: "applications_clocks_setting", 0x004: "sw_power_cap", 0x008: "hw_slowdown",
    0x010: "sync_boost", 0x020: "sw_thermal_slowdown", 0x040: "hw_thermal_slowdown", 0x080: "hw_power_brake",
    0x100: "display_clock_setting",
}  # fmt: skip
# links and processes take a call each: some 80 calls of a microsecond on an 18-link device
SLOW_EVERY: Final = 10
KILO: Final = 1000  # of NVML's KB/s
Figures = dict[str, Any]
Field = Callable[[Any, Any], Figures]


def _utilisation(nvml: Any, device: Any) -> Figures:
    found = nvml.nvmlDeviceGetUtilizationRates(device)
    return {"busy_share": found.gpu / 100, "memory_busy_share": found.memory / 100}


def _memory(nvml: Any, device: Any) -> Figures:
    found = nvml.nvmlDeviceGetMemoryInfo(device)
    return {"memory_used_bytes": found.used, "memory_total_bytes": found.total}


def _sm_clock(nvml: Any, device: Any) -> Figures:
    return {"sm_clock_mhz": nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM)}


def _memory_clock(nvml: Any, device: Any) -> Figures:
    return {"memory_clock_mhz": nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM)}


def _sm_clock_most(nvml: Any, device: Any) -> Figures:
    return {"sm_clock_most_mhz": nvml.nvmlDeviceGetMaxClockInfo(device, nvml.NVML_CLOCK_SM)}


def _power(nvml: Any, device: Any) -> Figures:
    return {"power_w": nvml.nvmlDeviceGetPowerUsage(device) / 1000}


def _power_limit(nvml: Any, device: Any) -> Figures:
    return {"power_limit_w": nvml.nvmlDeviceGetEnforcedPowerLimit(device) / 1000}


def _energy(nvml: Any, device: Any) -> Figures:
    return {"energy_j": nvml.nvmlDeviceGetTotalEnergyConsumption(device) / 1000}


def _temperature(nvml: Any, device: Any) -> Figures:
    return {"temperature_c": nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)}


def _throttle_reasons(nvml: Any, device: Any) -> Figures:
    renamed = getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
    try:
        bits = (renamed or nvml.nvmlDeviceGetCurrentClocksThrottleReasons)(device)
    except nvml.NVMLError_FunctionNotFound:  # a driver from before the new name
        bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(device)
    names = [name for bit, name in REASONS.items() if bits & bit]
    return {"throttle_reasons": bits, "throttle_reason_names": names}


def _pcie(nvml: Any, device: Any) -> Figures:
    sent = nvml.nvmlDeviceGetPcieThroughput(device, nvml.NVML_PCIE_UTIL_TX_BYTES)
    received = nvml.nvmlDeviceGetPcieThroughput(device, nvml.NVML_PCIE_UTIL_RX_BYTES)
    return {"pcie_sent_bytes_per_s": sent * KILO, "pcie_received_bytes_per_s": received * KILO}


def _ecc_corrected(nvml: Any, device: Any) -> Figures:
    return {"ecc_corrected": _ecc(nvml, device, nvml.NVML_MEMORY_ERROR_TYPE_CORRECTED)}


def _ecc_uncorrected(nvml: Any, device: Any) -> Figures:
    return {"ecc_uncorrected": _ecc(nvml, device, nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED)}


def _ecc(nvml: Any, device: Any, kind: Any) -> int:
    """Errors since the driver was loaded."""
    return int(nvml.nvmlDeviceGetTotalEccErrors(device, kind, nvml.NVML_VOLATILE_ECC))


def _nvlink(nvml: Any, device: Any) -> Figures:
    """Active links, and their errors since the driver was loaded, summed over links."""
    counters = {
        "replay": nvml.NVML_NVLINK_ERROR_DL_REPLAY, "recovery": nvml.NVML_NVLINK_ERROR_DL_RECOVERY,
        "crc_flit": nvml.NVML_NVLINK_ERROR_DL_CRC_FLIT, "crc_data": nvml.NVML_NVLINK_ERROR_DL_CRC_DATA,
    }  # fmt: skip
    active, errors = 0, dict.fromkeys(counters, 0)
    told = False
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        try:
            up = nvml.nvmlDeviceGetNvLinkState(device, link)
        except nvml.NVMLError_InvalidArgument:  # past the last
            break
        told = True
        if up:
            active += 1
            for name, counter in counters.items():
                errors[name] += nvml.nvmlDeviceGetNvLinkErrorCounter(device, link, counter)
    return {"nvlinks_active": active, "nvlink_errors": errors} if told else {}


def _processes(nvml: Any, device: Any) -> Figures:
    """Other processes on the device: they share its memory and its time."""
    found = nvml.nvmlDeviceGetComputeRunningProcesses(device)
    others = [process for process in found if process.pid != os.getpid()]
    known = [process.usedGpuMemory for process in others if process.usedGpuMemory is not None]
    figures: Figures = {"other_processes": len(others)}
    return figures | ({"other_processes_bytes": sum(known)} if len(known) == len(others) else {})


FAST: Final[tuple[Field, ...]] = (
    _utilisation, _memory, _sm_clock, _memory_clock, _power, _power_limit, _energy, _temperature, _throttle_reasons, _pcie,
)  # fmt: skip
SLOW: Final[tuple[Field, ...]] = (_sm_clock_most, _ecc_corrected, _ecc_uncorrected, _nvlink, _processes)


class Nvml:
    """Samples the rank's own device into `nvml.jsonl` on a thread of its own; `every_s` seconds apart."""

    name = "nvml"

    def __init__(self, every_s: float = 1.0) -> None:
        self._every_s = max(0.05, float(every_s))
        self._ends = threading.Event()
        self._asked = False  # torch was asked for its device
        self._known: dict[Field, bool] = {}
        self._thread: threading.Thread | None = None

    def start(self, place: Place) -> None:
        """Load the library and find the device; Unavailable where either is not there."""
        self._place = place
        try:
            import pynvml
        except ImportError as error:
            raise Unavailable("nvidia-ml-py is not installed") from error
        self._nvml: Any = pynvml
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            raise Unavailable(f"NVML: {error}") from error
        self._found = _device(pynvml, place.local_rank)
        if self._found is None:
            raise Unavailable("NVML sees no device of this rank")
        self._tell()
        self._thread = threading.Thread(target=self._place.guard(self.name, self._run), name="rankscope-nvml", daemon=True)
        self._thread.start()

    def step(self, step: int) -> None:
        """Ask torch once which device it is, on the thread that trains: it is a thread's own."""
        if self._asked:
            return
        cuda = getattr(sys.modules.get("torch"), "cuda", None)
        if cuda is None or not cuda.is_initialized():
            return
        self._asked = True
        found = _device_of_torch(self._nvml, cuda)
        if found is not None:
            self._found, self._known = found, {}
            self._tell()

    def stop(self) -> None:
        """End the thread; the library stays loaded, since the program may use it too."""
        self._ends.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=2.0)

    def _tell(self) -> None:
        assert self._found is not None
        device, by = self._found
        nvml = self._nvml
        facts: Figures = {}
        for key, call in (
            ("uuid", nvml.nvmlDeviceGetUUID), ("name", nvml.nvmlDeviceGetName), ("index", nvml.nvmlDeviceGetIndex),
        ):  # fmt: skip
            try:
                facts[key] = call(device)
            except nvml.NVMLError:
                continue
        self._index = facts.get("index")
        self._place.records.event("device", found_by=by, **facts)

    def _run(self) -> None:
        number = 0
        while not self._ends.wait(self._every_s if number else 0):
            try:
                self._sample(FAST + SLOW if number % SLOW_EVERY == 0 else FAST)
            except self._nvml.NVMLError_GpuIsLost:
                self._place.records.event("gpu_lost", device=self._index)
                return
            number += 1

    def _sample(self, fields: tuple[Field, ...]) -> None:
        assert self._found is not None
        nvml, device = self._nvml, self._found[0]
        sample: Figures = {"unix_ns": time.time_ns(), "step": self._place.step}
        if self._index is not None:
            sample["device"] = self._index
        for field in fields:
            if not self._known.get(field, True):
                continue
            try:
                sample |= field(nvml, device)
            except nvml.NVMLError_GpuIsLost:
                raise
            except (nvml.NVMLError_NotSupported, nvml.NVMLError_FunctionNotFound, AttributeError):
                self._known[field] = False  # nor will it be
            except nvml.NVMLError:
                continue  # now and then: no permission, a timeout
        self._place.records.append(NVML, sample)


def _device(nvml: Any, local_rank: int | None) -> tuple[Any, str] | None:
    """This rank's device and how it was found, before torch can say: CUDA_VISIBLE_DEVICES, then the local rank."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    position = local_rank or 0
    try:
        if visible is None:
            return nvml.nvmlDeviceGetHandleByIndex(position), "local rank"
        names = [name.strip() for name in visible.split(",") if name.strip()]
        if not names:
            return None
        name = names[position] if position < len(names) else names[0]  # launchers may show each rank one device only
        if name.isdigit():
            return nvml.nvmlDeviceGetHandleByIndex(int(name)), "CUDA_VISIBLE_DEVICES, by index"
        return nvml.nvmlDeviceGetHandleByUUID(_whole_uuid(nvml, name)), "CUDA_VISIBLE_DEVICES, by UUID"
    except nvml.NVMLError:
        return None


def _whole_uuid(nvml: Any, name: str) -> str:
    """CUDA takes the beginning of a UUID, NVML the whole."""
    uuids = [nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(i)) for i in range(nvml.nvmlDeviceGetCount())]
    return next((uuid for uuid in uuids if uuid.startswith(name)), name)


def _device_of_torch(nvml: Any, cuda: Any) -> tuple[Any, str] | None:
    """The device that the calling thread computes on; None where this version of torch does not say which it is."""
    properties = cuda.get_device_properties(cuda.current_device())
    try:
        uuid = getattr(properties, "uuid", None)
        if uuid is not None:
            return nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}"), "torch, by UUID"
        place: Mapping[str, int] = {
            part: getattr(properties, f"pci_{part}_id") for part in ("domain", "bus", "device")
        }
        return nvml.nvmlDeviceGetHandleByPciBusId("{domain:08x}:{bus:02x}:{device:02x}.0".format_map(place)), "torch, by PCI"
    except (nvml.NVMLError, AttributeError):
        return None


PROBE = Nvml
