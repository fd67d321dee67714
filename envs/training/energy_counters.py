"""Energy counters of the hardware: functions that return the joules counted so far.

Each is opened for a torch device, and raises an ``OSError`` whose text says why where it cannot be read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import torch

POWERCAP = Path("/sys/class/powercap")


def nvml_counter(device: str) -> Callable[[], float]:
    """The total energy counter of the NVIDIA GPU that ``device`` is."""
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
        # Not by index: NVML counts GPUs that CUDA_VISIBLE_DEVICES hides, and in another order.
        handle = pynvml.nvmlDeviceGetHandleByUUID(f"GPU-{torch.cuda.get_device_properties(device).uuid}")
        read_j()
    except pynvml.NVMLError as error:
        raise OSError(f"NVML says {error}") from error
    return read_j


def rapl_counter(device: str) -> Callable[[], float]:
    """All processor packages and their memory, through Linux's powercap."""
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
        self._range_uj = int((folder / "max_energy_range_uj").read_text())
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
        return int(self._file.read_text())


def _name(zone: Path) -> str:
    return (zone / "name").read_text().strip()


COUNTERS: Mapping[str, Callable[[str], Callable[[], float]]] = {"nvml": nvml_counter, "rapl": rapl_counter}
