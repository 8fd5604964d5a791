"""How a run's command becomes its workers' command lines. Containers will be one more launcher."""

from __future__ import annotations

from typing import ClassVar, Protocol

from tiresias.core.plugins import Registry
from tiresias.executors.base import RunSpec
from tiresias.executors.environment import environment, visible_devices, worker_slots


class Launcher(Protocol):
    name: ClassVar[str]

    def workers(self, spec: RunSpec) -> int:
        """How many processes make the gang."""

    def environment(self, spec: RunSpec, worker: int, master_addr: str, master_port: int) -> dict[str, str]:
        """All that the worker finds in its environment."""

    def command(self, spec: RunSpec, worker: int) -> tuple[str, ...]:
        """What the worker executes."""


launchers: Registry[type[Launcher]] = Registry("launcher")


@launchers.register
class Plain:
    """`--workers` processes, each with its part of the GPUs; torchrun and the like do the rest."""

    name: ClassVar[str] = "plain"

    def workers(self, spec: RunSpec) -> int:
        return spec.workers

    def environment(self, spec: RunSpec, worker: int, master_addr: str, master_port: int) -> dict[str, str]:
        return environment(spec, worker, master_addr, master_port)

    def command(self, spec: RunSpec, worker: int) -> tuple[str, ...]:
        return spec.command


@launchers.register
class PerGpu(Plain):
    """One process a GPU with RANK, LOCAL_RANK and WORLD_SIZE set, as torchrun would.

    As under torchrun a worker sees all of the gang's GPUs on its node, and LOCAL_RANK says which is its own:
    programs call `set_device(LOCAL_RANK)`, which would fail if it saw only one.
    """

    name: ClassVar[str] = "per-gpu"

    def workers(self, spec: RunSpec) -> int:
        return max(1, len(spec.slots))

    def environment(self, spec: RunSpec, worker: int, master_addr: str, master_port: int) -> dict[str, str]:
        env = super().environment(spec, worker, master_addr, master_port)
        local = spec.slots
        rank = worker
        if own := worker_slots(spec, worker):
            local = tuple(slot for slot in spec.slots if slot.node == own[0].node)
            rank = local.index(own[0])
        devices = visible_devices(local)
        return env | {
            "CUDA_VISIBLE_DEVICES": devices,
            "NVIDIA_VISIBLE_DEVICES": devices or "void",
            "RANK": str(worker),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(spec.workers),
            "LOCAL_WORLD_SIZE": str(max(1, len(local))),
        }
