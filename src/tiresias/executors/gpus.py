"""The GPUs of this machine, as NVML tells.

Everything NVML goes through `Nvml`, whose answers are plain values: tests give recorded ones. No driver,
no library and no GPU are answers too ("no GPUs found: …"), not errors.
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
    """One GPU. `index` counts in the order of the PCI bus, as CUDA_DEVICE_ORDER=PCI_BUS_ID does."""

    index: int
    uuid: str  # empty for a fake one
    name: str
    memory_bytes: int
    unhealthy: str = ""  # why it must not be used


@dataclass(slots=True, frozen=True)
class Survey:
    """What was found; `problem` says in words why nothing was."""

    gpus: tuple[Gpu, ...]
    problem: str = ""
    topology: Topology = Topology()  # of all GPUs of the machine, chosen or not


class Driver(Protocol):
    """The questions that we ask of a driver."""

    def gpus(self) -> list[Gpu]:
        """All GPUs; raises NoDriver in words."""

    def processes(self, uuid: str) -> list[int]:
        """Pids that compute or draw on this GPU."""

    def topology(self) -> Topology:
        """Which GPUs are near each other; raises NoDriver in words."""
        return Topology()


class NoDriver(Exception):
    """NVML cannot be used; says why."""


class Nvml:
    """The real driver. Loaded at the first question, so that machines without GPUs pay nothing."""

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
        except nvml.NVMLError as error:  # one that is off the bus must not hide the others
            return Gpu(index, "", "unknown", 0, unhealthy=f"the driver cannot reach it: {error}")
        return Gpu(index, uuid, name, memory, self._illness(nvml, handle))

    def _illness(self, nvml: Any, handle: Any) -> str:
        """Why a GPU that answers must not be used all the same.

        Errors that the GPU has dealt with by itself do not count: what remains wrong is what a reset mends.
        """
        asked: tuple[tuple[Callable[[], Any], str], ...] = (
            (lambda: _pending_rows(nvml, handle), "memory rows wait to be remapped: reset the GPU"),
            (
                lambda: nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle),
                "memory pages wait to be retired: reset the GPU",
            ),
        )
        for ask, words in asked:
            try:
                if ask():
                    return words
            except nvml.NVMLError:  # most GPUs do not have this counter
                continue
        return ""


def _pending_rows(nvml: Any, handle: Any) -> bool:
    _, _, is_pending, has_failed = nvml.nvmlDeviceGetRemappedRows(handle)
    return bool(is_pending or has_failed)


def find(driver: Driver, only: Iterable[int] | None = None) -> Survey:
    """The GPUs of this machine, or only those with these indices."""
    try:
        gpus, near = driver.gpus(), driver.topology()
    except NoDriver as error:
        return Survey((), f"no GPUs found: {error}; --fake-gpus N makes slots without GPUs")
    if not gpus:
        return Survey((), "no GPUs found: the driver knows none; --fake-gpus N makes slots without GPUs")
    if only is None:
        return Survey(tuple(gpus), topology=near)
    wanted = sorted(set(only))
    known = {gpu.index: gpu for gpu in gpus}
    if missing := [index for index in wanted if index not in known]:
        have = f"this machine has 0-{max(known)}"
        return Survey((), f"no GPU {', '.join(map(str, missing))}: {have}")
    return Survey(tuple(known[index] for index in wanted), topology=near)


def fake(count: int, groups: int = 1) -> Survey:
    """Slots without GPUs, for tests, laptops and training on CPUs; in so many groups of neighbours."""
    gpus = tuple(Gpu(index, "", FAKE_NAME, 0) for index in range(count))
    if groups == 1:
        return Survey(gpus)
    edges = [count * nth // groups for nth in range(groups + 1)]
    parts = tuple(tuple(range(low, high)) for low, high in pairwise(edges))
    return Survey(gpus, topology=Topology(parts, "wish"))


def parse_selection(text: str) -> tuple[int, ...]:
    """`0-3`, `0,2,5-7`: indices in ascending order."""
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
    """Who uses the GPUs. `is_ours` tells a run's process from a stranger's."""

    def __init__(
        self, driver: Driver, is_ours: Callable[[int], bool], is_alive: Callable[[int], bool] | None = None
    ):
        self._driver = driver
        self._is_ours = is_ours
        self._is_alive = is_alive or _is_alive

    def foreign(self, uuids: Iterable[str]) -> dict[str, list[int]]:
        """GPUs used by living processes that are not ours, with their pids: not to be handed out."""
        found = {}
        for uuid in uuids:
            pids = [pid for pid in self._pids(uuid) if self._is_alive(pid) and not self._is_ours(pid)]
            if pids:
                found[uuid] = pids
        return found

    def in_use(self, uuids: Iterable[str]) -> tuple[str, ...]:
        """GPUs that show a process that is ours or that has ended: the driver has not let go of it yet."""
        return tuple(
            uuid
            for uuid in uuids
            if any(self._is_ours(pid) or not self._is_alive(pid) for pid in self._pids(uuid))
        )

    def _pids(self, uuid: str) -> list[int]:
        """A GPU that does not answer is nobody's; the next survey finds it unhealthy."""
        try:
            return self._driver.processes(uuid)
        except NoDriver:
            return []


def _is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")
