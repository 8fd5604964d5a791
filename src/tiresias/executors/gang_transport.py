"""What carries calls between a manager and the agents of its nodes: the contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tiresias.core.model import RunId
from tiresias.executors.agent import Answer, Order
from tiresias.executors.base import FoundNode, RunSpec

PATIENCE_S = 3.0  # after which a call counts as lost
RETRY_S = 0.2


class Unreachable(Exception):
    """The node did not answer, or not in time."""


class Refused(Exception):
    """The engine has no room for the run; the message says why."""


@dataclass(slots=True, frozen=True)
class Seen:
    """A node as the engine lists it now. `problem` says why it cannot be used, if it cannot.

    `troubled` are its GPUs that must not be used at present: by index, why.
    """

    node: FoundNode
    problem: str = ""
    troubled: Mapping[int, str] = field(default_factory=dict)


class Transport(Protocol):
    """Carries calls to the agents of nodes, and nothing else. All calls are made in one event loop."""

    async def nodes(self) -> list[Seen]:
        """The nodes that the engine has now, tested; Unreachable if it does not say."""

    async def act(self, node: str, orders: list[Order]) -> None:
        """See Agent.act."""

    async def updates(self, node: str, life: str, after: int, wait_s: float) -> Answer:
        """See Agent.updates."""

    async def free_port(self, node: str, spec: RunSpec) -> int:
        """See Agent.free_port."""

    async def reserve(self, run_id: RunId, gpus: Mapping[str, int]) -> None:
        """Show others on the engine that these GPUs are taken; Refused if they cannot be had."""

    async def release(self, run_id: RunId) -> None:
        """Show that they are free again; nothing if they are."""

    async def reserved(self) -> list[RunId]:
        """The runs of this manager for which GPUs are shown as taken."""

    async def close(self) -> None:
        """Runs and agents continue."""
