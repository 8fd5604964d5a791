"""The GPUs of this machine and the processes that use them, as NVML reports them.

All calls of NVML go through `Nvml`, which returns plain values, so that tests can use recorded ones. A
machine without a driver, library or GPU is not an error: the survey then says "no GPUs found: …".
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from itertools import pairwise
from typing import Any, Protocol

from tiresias.executors import topology
from tiresias.executors.topology import Topology

FAKE_NAME = "fake"


@dataclass(slots=True, frozen=True)
class Gpu:
    """One GPU. `index` follows the order of the PCI bus, as with CUDA_DEVICE_ORDER=PCI_BUS_ID."""

    index: int
    uuid: str  # empty for a slot without a GPU
    name: str
    memory_bytes: int
    unhealthy: str = ""  # why it must not be used


@dataclass(slots=True, frozen=True)
class Reading:
    """What a GPU does at present; None where the driver does not know it."""

    utilisation: float | None = None  # the share of the last moments in which it computed
    memory_used_bytes: int | None = None
    temperature_c: int | None = None


@dataclass(slots=True, frozen=True)
class Survey:
    """The GPUs that were found; `problem` is a sentence that says why there are none."""

    gpus: tuple[Gpu, ...]
    problem: str = ""
    topology: Topology = Topology()  # of all GPUs of the machine, selected or not


class Driver(Protocol):
    """What the executor and the manager need to know from a GPU driver."""

    def gpus(self) -> list[Gpu]:
        """All GPUs of the machine; raises NoDriver with the reason."""

    def processes(self, uuid: str) -> list[int]:
        """The pids of processes that compute or draw on this GPU."""

    def topology(self) -> Topology:
        """Which GPUs are near each other; raises NoDriver with the reason."""
        return Topology()

    def reading(self, uuid: str) -> Reading:
        """What the GPU does at present; raises NoDriver with the reason."""
        return Reading()


class NoDriver(Exception):
    """NVML cannot be used; the message says why."""


class Nvml:
    """The real driver. The library is loaded at the first call, so machines without GPUs never load it."""

    def __init__(self, library: Any = None) -> None:
        self._library = library  # pynvml, initialised

    def gpus(self) -> list[Gpu]:
        nvml = self._open()
        try:
            return [self._gpu(nvml, index) for index in range(nvml.nvmlDeviceGetCount())]
        except nvml.NVMLError as error:
            raise NoDriver(f"the NVIDIA driver does not answer: {error}") from None

    def processes(self, uuid: str) -> list[int]:
        nvml = self._open()
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
            running = nvml.nvmlDeviceGetComputeRunningProcesses(handle)
            drawing = nvml.nvmlDeviceGetGraphicsRunningProcesses(handle)
        except nvml.NVMLError as error:
            raise NoDriver(f"the NVIDIA driver does not answer for {uuid}: {error}") from None
        return sorted({each.pid for each in [*running, *drawing]})

    def topology(self) -> Topology:
        nvml = self._open()
        try:
            return topology.read(nvml)
        except nvml.NVMLError as error:
            raise NoDriver(f"the NVIDIA driver does not answer: {error}") from None

    def reading(self, uuid: str) -> Reading:
        nvml = self._open()
        try:
            handle = nvml.nvmlDeviceGetHandleByUUID(uuid)
        except nvml.NVMLError as error:
            raise NoDriver(f"the NVIDIA driver does not answer for {uuid}: {error}") from None

        def known(read: Callable[[], Any]) -> Any:
            try:
                return read()
            except nvml.NVMLError:  # not every GPU has every sensor
                return None

        busy = known(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu)
        return Reading(
            None if busy is None else busy / 100,
            known(lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used),
            known(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        )

    def _open(self) -> Any:
        if self._library is None:
            try:
                library = import_module("pynvml")
            except ImportError:
                raise NoDriver("the package nvidia-ml-py is not installed") from None
            try:
                library.nvmlInit()
            except library.NVMLError as error:
                raise NoDriver(f"no NVIDIA driver: {error}") from None
            self._library = library
        return self._library

    def _gpu(self, nvml: Any, index: int) -> Gpu:
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid, name = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
            memory = nvml.nvmlDeviceGetMemoryInfo(handle).total
        except nvml.NVMLError as error:  # a GPU that is off the bus must not hide the others
            return Gpu(index, "", "unknown", 0, unhealthy=f"the driver cannot reach it: {error}")
        return Gpu(index, uuid, name, memory, self._fault(nvml, handle))

    def _fault(self, nvml: Any, handle: Any) -> str:
        """Why a GPU that answers must still not be used; empty if it is sound.

        Errors that the GPU has corrected by itself do not count, only those that need a reset.
        """
        checks: tuple[tuple[Callable[[], Any], str], ...] = (
            (lambda: _pending_rows(nvml, handle), "memory rows are waiting to be remapped: reset the GPU"),
            (
                lambda: nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle),
                "memory pages are waiting to be retired: reset the GPU",
            ),
        )
        for is_faulty, message in checks:
            try:
                if is_faulty():
                    return message
            except nvml.NVMLError:  # most GPUs do not have this counter
                continue
        return ""


def _pending_rows(nvml: Any, handle: Any) -> bool:
    _, _, is_pending, has_failed = nvml.nvmlDeviceGetRemappedRows(handle)
    return bool(is_pending or has_failed)


def find(driver: Driver, only: Iterable[int] | None = None) -> Survey:
    """Survey the GPUs of this machine, or only those with the indices `only`."""
    try:
        gpus, near = driver.gpus(), driver.topology()
    except NoDriver as error:
        return Survey((), f"no GPUs found: {error}; --fake-gpus N makes N slots without GPUs")
    if not gpus:
        return Survey((), "no GPUs found: the driver lists none; --fake-gpus N makes N slots without GPUs")
    if only is None:
        return Survey(tuple(gpus), topology=near)
    wanted = sorted(set(only))
    known = {gpu.index: gpu for gpu in gpus}
    if missing := [index for index in wanted if index not in known]:
        have = f"this machine has 0-{max(known)}"
        return Survey((), f"no GPU {', '.join(map(str, missing))}: {have}")
    return Survey(tuple(known[index] for index in wanted), topology=near)


def fake(count: int, groups: int = 1, memory_bytes: int = 0) -> Survey:
    """A survey of slots without GPUs, for tests, laptops and training on CPUs, in `groups` groups."""
    gpus = tuple(Gpu(index, "", FAKE_NAME, memory_bytes) for index in range(count))
    if groups == 1:
        return Survey(gpus)
    edges = [count * nth // groups for nth in range(groups + 1)]
    parts = tuple(tuple(range(low, high)) for low, high in pairwise(edges))
    return Survey(gpus, topology=Topology(parts, "wish"))


def least_memory(gpus: Iterable[Gpu]) -> int:
    """The memory that each of these GPUs has at least, of those that tell; 0: none does."""
    return min((gpu.memory_bytes for gpu in gpus if gpu.memory_bytes), default=0)


def parse_selection(text: str) -> tuple[int, ...]:
    """Read a selection such as `0-3` or `0,2,5-7`; the indices are in ascending order."""
    chosen: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"GPUs {text!r}: {part.strip()!r} is not an index or a range such as 0-3")
        low, high = int(first), int(last or first)
        if low > high:
            raise ValueError(f"GPUs {text!r}: {part.strip()!r} ends before it begins")
        if high > 1023:
            raise ValueError(f"GPUs {text!r}: no machine has a GPU {high}")
        chosen.update(range(low, high + 1))
    return tuple(sorted(chosen))


class GpuProcesses:
    """The processes that use GPUs. `is_ours` says whether a pid belongs to one of our runs."""

    def __init__(
        self, driver: Driver, is_ours: Callable[[int], bool], is_alive: Callable[[int], bool] | None = None
    ):
        self._driver = driver
        self._is_ours = is_ours
        self._is_alive = is_alive or _is_alive

    def foreign(self, uuids: Iterable[str]) -> dict[str, list[int]]:
        """GPUs in use by live processes that are not ours, with the pids; they must not be allocated."""
        found = {}
        for uuid in uuids:
            pids = [pid for pid in self._pids(uuid) if self._is_alive(pid) and not self._is_ours(pid)]
            if pids:
                found[uuid] = pids
        return found

    def used(self, uuids: Iterable[str]) -> dict[str, list[int]]:
        """The live processes on each GPU, ours or not."""
        return {uuid: [pid for pid in self._pids(uuid) if self._is_alive(pid)] for uuid in uuids}

    def in_use(self, uuids: Iterable[str]) -> tuple[str, ...]:
        """GPUs on which the driver still shows a process that is ours or that has ended."""
        return tuple(
            uuid
            for uuid in uuids
            if any(self._is_ours(pid) or not self._is_alive(pid) for pid in self._pids(uuid))
        )

    def _pids(self, uuid: str) -> list[int]:
        """A GPU that does not answer counts as free of processes; the next survey finds it unhealthy."""
        try:
            return self._driver.processes(uuid)
        except NoDriver:
            return []


def _is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")
