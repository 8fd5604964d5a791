"""Gangs that send as real ones do, made from a seed: what the analysis sees without running anything."""

from __future__ import annotations

import itertools
import random
import statistics
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from tiresias.observe.records import Address, Flow, Process

BYTES_A_SECOND = 2e9
HEADER = 12
VGG = (3_211_264, 2_048, 1_048_576, 2_048, 262_144, 512, 5_120, 40)
PORT = 5000


def typical_step_s(lines: Iterable[str]) -> float:
    """The mean of the steps whose ends a training printed, without the stalls of a busy machine."""
    ends = [float(line) for line in lines if line.strip()]
    steps = [after - before for before, after in itertools.pairwise(ends)]
    return statistics.mean(each for each in steps if each <= 10 * statistics.median(steps))


@dataclass
class Scene:
    """Messages as they are sent; `jitter` is the part by which every duration varies."""

    seed: int = 0
    jitter: float = 0.3
    sent: dict[tuple[int, int], list[tuple[float, int]]] = field(default_factory=lambda: defaultdict(list))
    accepting: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    def lasts(self, seconds: float) -> float:
        return seconds * self.rng.uniform(1 - self.jitter, 1 + self.jitter)

    def send(self, at: float, sender: int, to: int, size: int) -> float:
        """When the next message can follow."""
        self.sent[sender, to].append((at, size))
        return at + self.lasts(2e-5 + size / BYTES_A_SECOND)

    def processes(self, without: frozenset[int] = frozenset()) -> list[Process]:
        """All that sent something, but for those that were not observed."""
        flows: dict[int, list[Flow]] = defaultdict(list)
        for (sender, to), messages in self.sent.items():
            if sender not in without:
                flows[sender].append(self.flow(sender, to, sorted(messages)))
        ends: dict[int, list[Address]] = defaultdict(list)  # as the library notes them at `accept`
        for sender, to in self.sent:
            if to in self.accepting:
                ends[to].append(self.end(to, sender))
        return [
            Process(pid, ("python",), flows[pid], 0, 0, pid, tuple(ends[pid]))
            for pid in sorted({*flows, *ends} - without)
        ]

    def flow(self, sender: int, to: int, messages: list[tuple[float, int]]) -> Flow:
        at_ns = np.array([round(at * 1e9) for at, _ in messages], dtype=np.int64)
        sizes = np.array([size for _, size in messages], dtype=np.int64)
        accepted = sender in self.accepting
        return Flow(sender, self.end(sender, to), self.end(to, sender), at_ns, sizes, accepted)

    def end(self, node: int, other: int) -> Address:
        """Who listens has one port for all; who connects has one for each."""
        port = PORT if node in self.accepting else 40_000 + 100 * node + other
        return Address(f"10.0.0.{node}", port)


def servers(
    scene: Scene,
    tensors: tuple[int, ...] = VGG,
    workers: int = 2,
    servers: int = 2,
    iterations: int = 30,
    compute_s: float = 0.05,
    header: int = HEADER,
    save_every: int = 0,
) -> Scene:
    """Workers 0 … push all gradients, servers answer with all parameters; now and then one saves."""
    scene.accepting |= set(range(workers, workers + servers))
    homes = [workers + number % servers for number in range(len(tensors))]
    at = 0.0
    for iteration in range(iterations):
        ready = []
        for worker in range(workers):
            now = at + scene.lasts(compute_s)
            for size, home in zip(tensors, homes, strict=True):
                for part in (header, size) if header else (size,):
                    now = scene.send(now, worker, home, part)
            ready.append(now)
        ends = []
        for server in range(workers, workers + servers):
            now = max(ready)
            for worker in range(workers):
                for size in (size for size, home in zip(tensors, homes, strict=True) if home == server):
                    for part in (header, size) if header else (size,):
                        now = scene.send(now, server, worker, part)
            ends.append(now)
        at = max(ends)
        if save_every and iteration % save_every == save_every - 1:
            at = scene.send(at + 0.2, 0, workers, 7_777_777)
    return scene


def ring(
    scene: Scene,
    buckets: tuple[int, ...] = (2_142_252, 714_084),
    nodes: int = 3,
    iterations: int = 30,
    compute_s: float = 0.03,
    segments: int = 2,
    shuffled: bool = False,
    acknowledged: bool = True,
) -> Scene:
    """All-reduce in a ring: each node sends a chunk to the next when it has one from the node before.

    Small acknowledgements go back, unless it is one-way. `shuffled`: several threads send, each a bucket.
    """
    now = [0.0] * nodes
    for _ in range(iterations):
        now = [max(now) + scene.lasts(compute_s) for _ in range(nodes)]
        chunks = [size // (nodes * segments) for size in buckets for _ in range(2 * (nodes - 1) * segments)]
        orders = [scene.rng.sample(chunks, len(chunks)) if shuffled else chunks for _ in range(nodes)]
        for sizes in zip(*orders, strict=True):
            for node, size in enumerate(sizes):
                if acknowledged and scene.rng.random() < 0.5:
                    now[node] = scene.send(now[node], node, (node - 1) % nodes, 48)
                now[node] = scene.send(now[node], node, (node + 1) % nodes, size)
            now = [max(now[node], now[node - 1]) for node in range(nodes)]
    return scene
