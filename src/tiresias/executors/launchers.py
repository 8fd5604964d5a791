"""Launchers turn the command of a run into the command lines and environments of its workers."""

from __future__ import annotations

from typing import ClassVar, Protocol

from tiresias.core.plugins import Registry
from tiresias.executors.base import RunSpec
from tiresias.executors.environment import environment, part_of, visible_devices


class Launcher(Protocol):
    name: ClassVar[str]

    def workers(self, spec: RunSpec) -> int:
        """The number of workers of the gang."""

    def environment(self, spec: RunSpec, worker: int, master_addr: str, master_port: int) -> dict[str, str]:
        """The complete environment of one worker."""

    def command(self, spec: RunSpec, worker: int) -> tuple[str, ...]:
        """The command line of one worker."""


launchers: Registry[type[Launcher]] = Registry("launcher")


@launchers.register
class Plain:
    """`--workers` processes, each with its share of the GPUs. Programs such as torchrun start the rest.

    A process never straddles nodes: a gang on more nodes than it has workers has one worker per node.
    """

    name: ClassVar[str] = "plain"

    def workers(self, spec: RunSpec) -> int:
        return sum(part.workers for part in spec.parts) or spec.workers

    def environment(self, spec: RunSpec, worker: int, master_addr: str, master_port: int) -> dict[str, str]:
        return environment(spec, worker, master_addr, master_port)

    def command(self, spec: RunSpec, worker: int) -> tuple[str, ...]:
        return spec.command


@launchers.register
class PerGpu(Plain):
    """One process per GPU, with RANK, LOCAL_RANK and WORLD_SIZE set as torchrun sets them.

    As under torchrun a worker sees all GPUs of the gang on its node, and LOCAL_RANK is the index of its own:
    programs call `set_device(LOCAL_RANK)`, which would fail if the worker saw only one GPU.
    """

    name: ClassVar[str] = "per-gpu"

    def workers(self, spec: RunSpec) -> int:
        return max(1, len(spec.slots))

    def environment(self, spec: RunSpec, worker: int, master_addr: str, master_port: int) -> dict[str, str]:
        env = super().environment(spec, worker, master_addr, master_port)
        part = part_of(spec, worker)
        local = part.slots
        devices = visible_devices(local)
        return env | {
            "CUDA_VISIBLE_DEVICES": devices,
            "NVIDIA_VISIBLE_DEVICES": devices or "void",
            "RANK": str(worker),
            "LOCAL_RANK": str(worker - part.first_worker),
            "WORLD_SIZE": str(spec.workers),
            "LOCAL_WORLD_SIZE": str(max(1, len(local))),
        }
