"""NVML through a real loaded library: a small one of our own that answers as told (`fake_nvml.c`)."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from recorded import Recorded, lines, one, python

pytest.importorskip("pynvml", reason="nvidia-ml-py is not installed")

SCRIPT = """
import sys, time, rankscope
with rankscope.profile(sys.argv[1], probes={"nvml": {"every_s": 0.05}}) as p:
    for _ in range(6):
        time.sleep(0.1)
        p.step()
"""
ALL = {
    "busy_share": 0.9, "memory_busy_share": 0.35, "memory_used_bytes": 60 << 30, "memory_total_bytes": 80 << 30,
    "sm_clock_mhz": 1410, "memory_clock_mhz": 2619, "power_w": 650.5, "power_limit_w": 700.0, "energy_j": 1234.5,
    "temperature_c": 88, "throttle_reasons": 0x44,
    "throttle_reason_names": ["sw_power_cap", "hw_thermal_slowdown"], "pcie_sent_bytes_per_s": 1_200_000_000,
    "pcie_received_bytes_per_s": 800_000_000, "sm_clock_most_mhz": 1980, "ecc_corrected": 7, "ecc_uncorrected": 1,
    "nvlinks_active": 3, "nvlink_errors": {"replay": 15, "recovery": 0, "crc_flit": 0, "crc_data": 0},
    "other_processes": 1, "other_processes_bytes": 3 << 30,
}  # fmt: skip


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler to build the fake NVML with")
    folder = tmp_path_factory.mktemp("nvml")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-Wl,-soname,libnvidia-ml.so.1", "-o", folder / "libnvidia-ml.so.1",
         Path(__file__).with_name("fake_nvml.c")],
        check=True,
    )  # fmt: skip
    return folder


def sampled(library: Path, run: Path, **variables: str) -> tuple[Recorded, list[dict[str, Any]]]:
    """What a short run left with the fake library in place."""
    done = python("-c", SCRIPT, run, LD_LIBRARY_PATH=str(library), **variables)
    assert done.returncode == 0, done.stderr
    found = one(run)
    return found, lines(found.folder / "nvml.jsonl")


def test_every_field_of_a_device_that_knows_all_is_recorded(library: Path, tmp_path: Path) -> None:
    found, samples = sampled(library, tmp_path)
    assert found.manifest.probes["nvml"] == "on"
    first = samples[0]
    assert {key: value for key, value in first.items() if key not in ("unix_ns", "step", "device")} == ALL
    assert first["device"] == 0
    # links, ECC and neighbours are asked for in every tenth sample
    assert len(samples) > 2 and "nvlink_errors" not in samples[1] and samples[1]["sm_clock_mhz"] == 1410


def test_what_a_device_does_not_support_is_absent_and_not_zero(library: Path, tmp_path: Path) -> None:
    found, samples = sampled(library, tmp_path, CUDA_VISIBLE_DEVICES="1")
    assert samples
    for sample in samples:
        assert set(sample) - {"unix_ns", "step", "device"} == {
            "busy_share", "memory_busy_share", "memory_used_bytes", "memory_total_bytes",
        }  # fmt: skip
        assert sample["device"] == 1 and sample["busy_share"] == 0.5
    assert found.manifest.probes["nvml"] == "on"


@pytest.mark.parametrize(
    ("function", "field"),
    [
        ("nvmlDeviceGetUtilizationRates", "busy_share"), ("nvmlDeviceGetMemoryInfo", "memory_used_bytes"),
        ("nvmlDeviceGetPowerUsage", "power_w"), ("nvmlDeviceGetTemperature", "temperature_c"),
        ("nvmlDeviceGetPcieThroughput", "pcie_sent_bytes_per_s"), ("nvmlDeviceGetNvLinkErrorCounter", "nvlink_errors"),
        ("nvmlDeviceGetTotalEccErrors", "ecc_corrected"), ("nvmlDeviceGetComputeRunningProcesses", "other_processes"),
    ],
)  # fmt: skip
def test_one_missing_figure_takes_no_other_with_it(library: Path, tmp_path: Path, function: str, field: str) -> None:
    _, samples = sampled(library, tmp_path, FAKE_NVML=f"{function}=3")
    assert field not in samples[0]
    assert len(set(ALL) - set(samples[0])) <= 2 and "sm_clock_mhz" in samples[0]


def test_an_older_driver_names_its_throttle_reasons_too(library: Path, tmp_path: Path) -> None:
    _, samples = sampled(library, tmp_path, FAKE_NVML="nvmlDeviceGetCurrentClocksEventReasons=13")
    assert samples[0]["throttle_reason_names"] == ["sw_power_cap", "hw_thermal_slowdown"]


def test_a_lost_device_is_an_event_and_training_goes_on(library: Path, tmp_path: Path) -> None:
    found, samples = sampled(library, tmp_path, FAKE_NVML_LOST_AFTER="3")
    assert found.kinds().count("gpu_lost") == 1
    assert len(samples) == 2  # the third was lost in its middle
    assert found.manifest.steps == 6 and found.manifest.ended == "finished"


@pytest.mark.parametrize(("variable", "by"), [("GPU-fa4e0000-1", "by UUID"), ("0,1", "by index"), (None, "local rank")])
def test_the_device_of_the_rank_is_found(library: Path, tmp_path: Path, variable: str | None, by: str) -> None:
    more = {} if variable is None else {"CUDA_VISIBLE_DEVICES": variable}
    found, samples = sampled(library, tmp_path, RANK="1", WORLD_SIZE="2", LOCAL_RANK="1", **more)
    (event,) = [event for event in found.events if event["kind"] == "device"]
    assert event["uuid"] == "GPU-fa4e0000-1" and by in event["found_by"]
    assert {sample["device"] for sample in samples} == {1}


def test_a_driver_that_does_not_start_skips_the_probe(library: Path, tmp_path: Path) -> None:
    found, samples = sampled(library, tmp_path, FAKE_NVML="nvmlInit=9")
    assert found.manifest.probes["nvml"].startswith("skipped: NVML")
    assert samples == [] and found.manifest.steps == 6


def test_without_the_library_the_probe_is_skipped_with_a_reason(tmp_path: Path) -> None:
    done = python("-c", SCRIPT, tmp_path)
    assert done.returncode == 0 and done.stderr.count("NVML") == 0
    found = one(tmp_path)
    if found.manifest.probes["nvml"] == "on":
        pytest.skip("this machine has NVML")
    assert found.manifest.probes["nvml"].startswith("skipped: NVML")
    assert not (found.folder / "nvml.jsonl").exists()


def test_no_visible_device_is_no_device(library: Path, tmp_path: Path) -> None:
    found, samples = sampled(library, tmp_path, CUDA_VISIBLE_DEVICES="")
    assert found.manifest.probes["nvml"].startswith("skipped") and samples == []
