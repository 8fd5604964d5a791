"""A source of nodes that a test commands: nodes join, fall silent and return when it says so.

nodes = ToldNodes()
nodes.join("a", gpus=4)
with LiveLab(tmp_path, source=nodes) as lab:
    ...
    nodes.fall_silent("a")
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tiresias.executors.base import (
    FoundNode,
    GpusTroubled,
    NodeJoined,
    NodeReturned,
    NodeSilent,
    NodeUnusable,
    NodeUpdate,
)
from tiresias.executors.gpus import FAKE_NAME, Gpu


class ToldNodes:
    """Implements `base.NodeSource`. It outlives managers, and tells each new one of every node."""

    def __init__(self) -> None:
        self._answering: dict[str, FoundNode] = {}
        self._updates: list[NodeUpdate] = []

    def join(self, name: str, *, gpus: int = 0, uuids: Iterable[str] = (), **more: Any) -> FoundNode:
        """A node answers: with so many fake GPUs, or with GPUs of these UUIDs."""
        found = tuple(Gpu(index, uuid, "A100", 80 << 30) for index, uuid in enumerate(uuids))
        fakes = tuple(Gpu(index, "", FAKE_NAME, 0) for index in range(gpus))
        node = self._answering[name] = FoundNode(name, found or fakes, **more)
        self._updates.append(NodeJoined(node))
        return node

    def fall_silent(self, name: str) -> None:
        self._answering.pop(name, None)
        self._updates.append(NodeSilent(name))

    def come_back(self, name: str) -> None:
        self._updates.append(NodeReturned(name))

    def refuse(self, name: str, reason: str) -> None:
        self._answering.pop(name, None)
        self._updates.append(NodeUnusable(name, reason))

    def trouble(self, name: str, **reasons: str) -> None:
        """The GPUs of these indices (`_0="…"`) must not be used."""
        self._updates.append(GpusTroubled(name, {int(key.strip("_")): why for key, why in reasons.items()}))

    def expect(self, names: Iterable[str]) -> None:
        self._updates = [NodeJoined(node) for node in self._answering.values()]
        self._updates += [NodeSilent(name) for name in names if name not in self._answering]

    def node_updates(self) -> list[NodeUpdate]:
        updates, self._updates = self._updates, []
        return updates
