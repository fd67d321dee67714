"""Energy counters of the hardware: functions that return the joules counted so far.

Each is opened for a torch device, and raises an ``OSError`` whose text says why where it cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

POWERCAP = Path("/sys/class/powercap")

_DIVIDED = "clients train on a part of a GPU (MIG), and NVML counts the joules of the whole one"


def nvml_counter(device: str) -> Callable[[], float]:
    """Returns the total energy counter of the NVIDIA GPU that ``device`` is."""
    if torch.device(device).type != "cuda":
        raise OSError(f"clients train on {device!r}, which is no NVIDIA GPU")
    try:
        import pynvml
    except ImportError:
        raise OSError('nvidia-ml-py is not installed; pip install -e ".[nvml]"') from None

    def read_j() -> float:
        torch.cuda.synchronize(device)
        return pynvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3

    try:
        pynvml.nvmlInit()
        handle = _whole_gpu(pynvml, str(torch.cuda.get_device_properties(device).uuid))
        read_j()
    except pynvml.NVMLError as error:
        raise OSError(f"NVML says {error}") from error
    return read_j


def _whole_gpu(nvml: Any, uuid: str) -> Any:
    """Not by index: NVML counts GPUs that CUDA_VISIBLE_DEVICES hides, and in another order."""
    try:
        handle = nvml.nvmlDeviceGetHandleByUUID(f"GPU-{uuid}")
    except nvml.NVMLError:
        gpus = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
        if any(_is_divided(nvml, gpu) for gpu in gpus):  # a part has a UUID of its own
            raise OSError(_DIVIDED) from None
        raise
    if _is_divided(nvml, handle):
        raise OSError(_DIVIDED)
    return handle


def _is_divided(nvml: Any, handle: Any) -> bool:
    try:
        return nvml.nvmlDeviceGetMigMode(handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE
    except nvml.NVMLError:  # of GPUs that cannot be divided
        return False


def rapl_counter(device: str) -> Callable[[], float]:
    """Returns a counter of all processor packages and their memory, through Linux's powercap."""
    if torch.device(device).type != "cpu":
        raise OSError(f"clients train on {device!r}, and it reads the processor")
    # Cores are part of their package; psys, where it is, counts packages and memory once more.
    packages = [zone for zone in sorted(POWERCAP.glob("intel-rapl:*")) if _name(zone).startswith("package")]
    memories = [
        zone for package in packages for zone in sorted(POWERCAP.glob(f"{package.name}:*")) if _name(zone) == "dram"
    ]
    if not packages:
        raise OSError(f"there is no processor package in {POWERCAP}")
    zones = [_Zone(folder) for folder in (*packages, *memories)]
    return lambda: sum(zone.read_j() for zone in zones)


class _Zone:
    """Counts on where the kernel's counter starts again at 0; it has to be read before that happens twice."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "energy_uj"
        self._range_uj = _whole_number(folder / "max_energy_range_uj")
        if self._range_uj == 0:
            raise OSError(f"{folder / 'max_energy_range_uj'} holds 0; expected microjoules above 0")
        try:
            self._last_uj, self._counted_uj = self._now_uj(), 0
        except PermissionError:
            raise OSError(f"{self._file} is not readable; sudo chmod a+r it") from None

    def read_j(self) -> float:
        now_uj = self._now_uj()
        self._counted_uj += now_uj - self._last_uj + (self._range_uj if now_uj < self._last_uj else 0)
        self._last_uj = now_uj
        return self._counted_uj / 1e6

    def _now_uj(self) -> int:
        now_uj = _whole_number(self._file)
        if now_uj > self._range_uj:
            raise OSError(f"{self._file} holds {now_uj}, beyond its range of {self._range_uj} microjoules")
        return now_uj


def _whole_number(file: Path) -> int:
    text = _text(file)
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise OSError(f"{file} holds {text[:20]!r}; expected a whole number of microjoules")
    return int(text)


def _name(zone: Path) -> str:
    return _text(zone / "name")


def _text(file: Path) -> str:
    return file.read_text(encoding="ascii", errors="replace").strip()


COUNTERS: Mapping[str, Callable[[str], Callable[[], float]]] = {"nvml": nvml_counter, "rapl": rapl_counter}
