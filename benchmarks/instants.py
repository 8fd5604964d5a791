"""How long one decision takes on a large cluster: 2,000 nodes x 8 GPUs, no processes.

`speed.instants` has 100,000 waiting jobs, `speed.nodes` 10,000 and the placer that a manager has by default.

Each step gives the Controller the exit of a run, and does at once what it commands. Times are processor time.
Jobs come as fast as they end, so that as many wait all the time. The policies learn meanwhile. Garbage is
collected as in the process of a manager.
"""

from __future__ import annotations

import gc
from collections import deque
from random import Random
from time import process_time

import tiresias.placers
import tiresias.policies  # noqa: F401  (both for what they register)
from tiresias.api.garbage import survivors_left_out
from tiresias.core import facts as f
from tiresias.core.commands import Command, StartRun, StopRun
from tiresias.core.controller import Controller, Step
from tiresias.core.defaults import DEFAULT_POLICY
from tiresias.core.facts import ExitCause
from tiresias.core.model import Cluster, Demand, Job, JobId, RunId
from tiresias.core.plugins import placers, policies
from tiresias.core.state import State
from tiresias.live.start import DEFAULT_PLACER

NODES, GPUS_PER_NODE = 2_000, 8
WAITING, EXITS = 100_000, 10_000
FEWER_WAITING = 10_000
SIZES, WEIGHTS = (1, 2, 4, 8, 16), (60, 15, 10, 10, 5)
TENANTS = ("a", "b", "c", "d", "e", "f", "g", "h")
GAP_S = 2.0
FILL, FILL_GAP_S = 50, 10.0  # jobs come so many at a time, and so many seconds apart, until enough wait


class Fleet:
    """A Controller whose runs start and stop at once, and end in random order."""

    def __init__(self, policy: str, placer: str, seed: int = 1):
        self.random = Random(seed)
        self.at = 0.0
        self.controller = Controller(
            State(Cluster.of(NODES, GPUS_PER_NODE)), policies.make(policy), placers.make(placer)
        )
        self.next_id = 0
        self.runs: list[RunId] = []
        self.where: dict[RunId, int] = {}
        self.starts = 0
        self.decisions_s: list[float] = []

    @property
    def waiting(self) -> int:
        return len(self.controller.state.jobs) - len(self.runs)

    def submit(self, count: int) -> None:
        facts: list[f.Fact] = []
        for _ in range(count):
            job = Job(
                JobId(self.next_id),
                Demand(self.random.choices(SIZES, WEIGHTS)[0]),
                self.at,
                tenant=self.random.choice(TENANTS),
            )
            self.next_id += 1
            facts.append(f.JobSubmitted(self.at, job))
        self._settle(facts)

    def exit(self) -> None:
        """The end of one run, drawn at random, and a new job."""
        self.at += self.random.expovariate(1 / GAP_S)
        run_id = self.runs[self.random.randrange(len(self.runs))]
        run = self.controller.state.runs[run_id]
        done_s = run.progress_s + self.at - run.progress_at
        self._settle([f.RunExited(self.at, run_id, ExitCause.FINISHED, done_s)], is_measured=True)
        self.submit(1)

    def _settle(self, facts: list[f.Fact], *, is_measured: bool = False) -> None:
        """Give facts and everything that follows from them, until nothing is left to do."""
        waiting = deque([facts])
        while waiting:
            given = waiting.popleft()
            for fact in given:
                if isinstance(fact, f.RunExited):
                    self._gone(fact.run_id)
            step = Step()
            before = process_time()
            self.controller.handle(given, step)
            if is_measured:
                self.decisions_s.append(process_time() - before)
            follow = [fact for command in step.commands for fact in self._carry_out(command)]
            if follow:
                waiting.append(follow)

    def _carry_out(self, command: Command) -> list[f.Fact]:
        if isinstance(command, StartRun):
            self.starts += 1
            self.where[command.run_id] = len(self.runs)
            self.runs.append(command.run_id)
            return [f.RunStarted(self.at, command.run_id)]
        if isinstance(command, StopRun) and command.run_id in self.where:
            run = self.controller.state.runs[command.run_id]
            done_s = run.progress_s + self.at - run.progress_at
            return [f.RunExited(self.at, command.run_id, ExitCause.PREEMPTED, done_s)]
        return []

    def _gone(self, run_id: RunId) -> None:
        index = self.where.pop(run_id)
        last = self.runs.pop()
        if last != run_id:
            self.runs[index] = last
            self.where[last] = index


def instants(exits: int = EXITS) -> None:
    for policy in dict.fromkeys((DEFAULT_POLICY, "tiresias", "tiresias-l", "tiresias-g")):
        _measure(policy, "packed", WAITING, exits)


def nodes(exits: int = EXITS) -> None:
    ordered, rate = _measure(DEFAULT_POLICY, DEFAULT_PLACER, FEWER_WAITING, exits)
    p99_ms, longest_ms = _share_ms(ordered, 0.99), ordered[-1] * 1e3
    print(
        f"nodes: {DEFAULT_POLICY} and {DEFAULT_PLACER}: p99 {p99_ms:.1f} ms (less than 100 ms wanted),"
        f" longest {longest_ms:.1f} ms (at most 500 ms wanted), {rate:,.0f} starts/s (at least 400 wanted)"
    )


def _measure(policy: str, placer: str, waiting: int, exits: int) -> tuple[list[float], float]:
    """The seconds of each decision, the longest last, and starts per second."""
    fleet = Fleet(policy, placer)
    while fleet.next_id < waiting or fleet.waiting < waiting:
        fleet.at += FILL_GAP_S  # runs that started together would fall behind together
        fleet.submit(FILL)
    gc.collect()
    gc.freeze()
    starts, began = fleet.starts, process_time()
    with survivors_left_out():
        for _ in range(exits):
            fleet.exit()
    rate = (fleet.starts - starts) / (process_time() - began)
    gc.unfreeze()
    ordered = sorted(fleet.decisions_s)
    print(
        f"{policy:11} {len(ordered):,} decisions: median {_share_ms(ordered, 0.5):.2f} ms, p99 "
        f"{_share_ms(ordered, 0.99):.1f} ms, p99.9 {_share_ms(ordered, 0.999):.1f} ms, longest "
        f"{ordered[-1] * 1e3:.1f} ms; {rate:,.0f} starts/s",
        flush=True,
    )
    return ordered, rate


def _share_ms(ordered: list[float], part: float) -> float:
    return ordered[int(part * (len(ordered) - 1))] * 1e3
