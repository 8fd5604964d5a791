"""The manager itself on 2,000 nodes of 8 GPUs in 50 racks with 10,000 waiting jobs, without processes.

Policy and placer are those that a manager has by default, and the journal is a real one. Every job has a
time limit, as on many clusters. Times are processor time; the clock is moved by the benchmark, and garbage is
collected as in the process of a manager.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

from benchmarks.live import ADMIN, ms
from benchmarks.managers import ENVIRONMENT, share
from tiresias.api.garbage import survivors_left_out
from tiresias.core.defaults import DEFAULT_POLICY
from tiresias.core.model import Node, RunId
from tiresias.executors.gpus import FAKE_NAME, Gpu
from tiresias.live.clock import Clock
from tiresias.live.machine import Machine
from tiresias.live.manager import Manager
from tiresias.live.start import DEFAULT_PLACER
from tiresias.live.submission import Submission
from tiresias.store import Chosen
from tiresias.testing.still import NoProcesses, still_manager

RACKS, NODES_PER_RACK, GPUS_PER_NODE = 50, 40, 8
WAITING, ROUNDS = 10_000, 3_000
SIZES, WEIGHTS = (1, 2, 4, 8, 16), (60, 15, 10, 10, 5)
TENANTS = ("a", "b", "c", "d", "e", "f", "g", "h")
GAP_S = 2.0
FILL, FILL_GAP_S = 50, 10.0  # jobs come so many at a time, and so many seconds apart, until enough wait
BURST, BURSTS = 400, 3
LIMIT_S = 30 * 86_400.0


def fleet(rounds: int = ROUNDS) -> None:
    clock = Clock(1e9, wall=(ticks := Ticks()), steady=ticks)
    with (
        tempfile.TemporaryDirectory() as folder,
        still_manager(
            Path(folder), machine(), Chosen(DEFAULT_POLICY, placer=DEFAULT_PLACER), clock=clock
        ) as (manager, executor),
    ):
        Fleet(manager, executor, ticks, folder).measure(rounds)


def machine() -> Machine:
    names = [f"n{number}" for number in range(RACKS * NODES_PER_RACK)]
    nodes = [Node(name, GPUS_PER_NODE, rack=f"r{i // NODES_PER_RACK}") for i, name in enumerate(names)]
    gpu = Gpu(0, "", FAKE_NAME, 0)
    return Machine(nodes, {f"{name}:{index}": gpu for name in names for index in range(GPUS_PER_NODE)})


class Ticks:
    """The clock: whoever measures moves it."""

    def __init__(self) -> None:
        self.at = 1e9

    def __call__(self) -> float:
        return self.at


class Fleet:
    """Runs end in random order, and as many jobs come, so that as many wait all the time."""

    def __init__(self, manager: Manager, executor: NoProcesses, ticks: Ticks, folder: str):
        self.manager, self.executor, self.ticks, self.folder = manager, executor, ticks, folder
        self.random = Random(1)
        self.took: dict[str, list[float]] = {}

    def asked(self) -> Submission:
        [gpus] = self.random.choices(SIZES, WEIGHTS)
        tenant = self.random.choice(TENANTS)
        return Submission(
            ("sleep", "86400"), self.folder, ENVIRONMENT, gpus=gpus, tenant=tenant, time_limit_s=LIMIT_S
        )

    def complete(self) -> None:
        """What was decided is stored and carried out, until nothing follows from it."""
        self.manager.flush()
        self.manager.poll()
        self.manager.flush()

    def timed(self, what: str, deed: Callable[[], object]) -> None:
        began = time.process_time()
        deed()
        self.manager.settle()
        decided = time.process_time()
        self.complete()
        self.took.setdefault(what, []).append(decided - began)
        self.took.setdefault("with commit", []).append(time.process_time() - began)

    def pick(self) -> RunId:
        runs = self.manager.state.runs
        while (run := self.random.randrange(self.manager.state.next_run_id)) not in runs:
            pass
        return RunId(run)

    def measure(self, rounds: int) -> None:
        while self.manager.state.waiting < WAITING or self.manager.state.ledger.free:
            self.ticks.at += FILL_GAP_S  # runs that started together would fall behind together
            self.manager.tick()
            self.manager.requests.submit(ADMIN, [self.asked() for _ in range(FILL)])
            self.complete()
        gc.collect()
        gc.freeze()
        runs = len(self.manager.state.runs)
        print(f"fleet: {runs:,} runs and {self.manager.state.waiting:,} waiting jobs, {DEFAULT_POLICY}")
        with survivors_left_out():
            for _ in range(rounds):
                self.turn()
            bursts = [self.burst() for _ in range(BURSTS)]
        gc.unfreeze()
        self.report(bursts)

    def turn(self) -> None:
        self.ticks.at += self.random.expovariate(1 / GAP_S)
        self.timed("timer", self.manager.tick)
        self.executor.finish(self.pick())
        self.timed("exit", self.manager.poll)
        self.timed("submit", partial(self.manager.requests.submit, ADMIN, [self.asked()]))
        began = time.process_time()
        self.manager.tick()
        assert self.manager.next_due_at > self.ticks.at
        self.took.setdefault("nothing due", []).append(time.process_time() - began)

    def burst(self) -> tuple[float, float, int]:
        """Many runs end at once: seconds until what follows is decided and until it is stored; starts."""
        for run_id in {self.pick() for _ in range(BURST)}:
            self.executor.finish(run_id)
        next_run, began = self.manager.state.next_run_id, time.process_time()
        self.manager.poll()
        self.manager.settle()
        decided = time.process_time() - began
        self.complete()
        stored, starts = time.process_time() - began, self.manager.state.next_run_id - next_run
        self.manager.requests.submit(ADMIN, [self.asked() for _ in range(BURST)])
        self.complete()
        return decided, stored, starts

    def report(self, bursts: list[tuple[float, float, int]]) -> None:
        for what, values in self.took.items():
            quantiles = ", ".join(f"{name} {ms(share(values, part))}" for name, part in QUANTILES.items())
            print(f"fleet: {what}: {quantiles}, longest {ms(max(values))}, {len(values):,} times")
        decisions = [each for what in ("timer", "exit", "submit") for each in self.took[what]]
        print(
            f"fleet: a decision: p99 {ms(share(decisions, 0.99))} (less than 100 ms wanted),"
            f" longest {ms(max(decisions))} (at most 500 ms wanted)"
        )
        for decided, stored, starts in bursts:
            print(
                f"fleet: {BURST} ends at once, with {starts} starts: decided in {ms(decided)}, stored and"
                f" carried out after {ms(stored)}"
            )


QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}
