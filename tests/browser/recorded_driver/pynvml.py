"""pynvml as it answers on a machine with four GPUs: one busy, one idle, one used by others, one faulty."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

GIB = 2**30
BUSY_PERCENT, USED_GIB, CELSIUS = (87, 0, 55, 0), (30, 0, 20, 0), (64, 31, 58, 30)
FOREIGN, FAULTY = 2, 3
NVML_TEMPERATURE_GPU = 0


class NVMLError(Exception):
    pass


def nvmlInit() -> None:
    pass


def nvmlDeviceGetCount() -> int:
    return 4


def nvmlDeviceGetHandleByIndex(index: int) -> int:
    return index


def nvmlDeviceGetHandleByUUID(uuid: str) -> int:
    return int(uuid.removeprefix("GPU-"))


def nvmlDeviceGetUUID(handle: int) -> str:
    return f"GPU-{handle}"


def nvmlDeviceGetName(handle: int) -> str:
    return "NVIDIA A100-SXM4-40GB"


def nvmlDeviceGetMemoryInfo(handle: int) -> SimpleNamespace:
    return SimpleNamespace(total=40 * GIB, used=USED_GIB[handle] * GIB)


def nvmlDeviceGetUtilizationRates(handle: int) -> SimpleNamespace:
    return SimpleNamespace(gpu=BUSY_PERCENT[handle])


def nvmlDeviceGetTemperature(handle: int, sensor: int) -> int:
    return CELSIUS[handle]


def nvmlDeviceGetRemappedRows(handle: int) -> tuple[int, int, int, int]:
    return (0, 0, int(handle == FAULTY), 0)


def nvmlDeviceGetComputeRunningProcesses(handle: int) -> list[SimpleNamespace]:
    return [SimpleNamespace(pid=1)] if handle == FOREIGN else []


def __getattr__(name: str) -> Callable[..., Any] | int:
    """Everything else is not supported."""
    if name.startswith("NVML_"):
        return 0
    if not name.startswith("nvml"):
        raise AttributeError(name)

    def refuse(*_: Any) -> Any:
        if name == "nvmlDeviceGetGraphicsRunningProcesses":
            return []
        raise NVMLError("Not Supported")

    return refuse
