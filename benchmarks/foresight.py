"""Estimates of starts, judged on the second half of a trace: how many jobs start within the p50 and the p90.

A trace is simulated. After each instant, a few of the jobs that have just been submitted and wait get an
estimate as the manager makes it: from the queue of that instant, and from the durations of the jobs that had
ended by then. The first half of the trace only teaches; the second half counts.
"""

from __future__ import annotations

import time
from random import Random

from tiresias.core.controller import Controller
from tiresias.core.plugins import placers
from tiresias.core.state import JobState, State
from tiresias.live.eta import estimate
from tiresias.live.foresight import SLACK_S, Forecast, Record
from tiresias.live.outlooks import HISTORY_USED, queue_ahead
from tiresias.sim import clusters, traces
from tiresias.sim.engine import Engine
from tiresias.sim.options import make_policy
from tiresias.sim.rejections import rejections
from tiresias.sim.simulate import jobs_of
from tiresias.sim.trace import Trace
from tiresias.sim.world import World

PREEMPTION_COST_S = 60.0
MOST_FORECASTS = 1500  # of a trace: more say nothing new


class Seer:
    """Makes estimates while a trace is simulated, and hears what became of them."""

    def __init__(self, controller: Controller, trace: Trace, seed: int = 0):
        self._controller, self._random = controller, Random(seed)
        self._share = min(1.0, MOST_FORECASTS / len(trace))
        self._half_at = float(trace.jobs["submitted_at"].median())  # type: ignore[arg-type]
        self._durations: list[float] = []
        self._waiting: dict[int, Forecast] = {}
        self._seen = 0
        self.plain: list[tuple[bool, ...]] = []  # of the second half: in time, as estimated
        self.shown: list[tuple[bool, ...]] = []  # of the second half: in time, as corrected
        self.record = Record()

    def ended(self, job: JobState) -> None:
        if job.runs:
            self._durations.append(job.executed_s)

    def instant(self, at: float) -> None:
        jobs = self._controller.state.jobs
        for id in [id for id, forecast in self._waiting.items() if id in jobs and jobs[id].runs]:
            self._started(self._waiting.pop(id), jobs[id].first_started_at)
        for id in range(self._seen, max(jobs, default=-1) + 1):
            if id in jobs and self._random.random() < self._share:
                self._estimate(jobs[id], at)
        self._seen = max(self._seen, max(jobs, default=-1) + 1)

    def _estimate(self, job: JobState, at: float) -> None:
        queue = queue_ahead(self._controller, job, at, lambda _: None)
        if queue is None or job.runs:
            return
        found = estimate(queue, self._durations[-HISTORY_USED:], job.id)
        forecast = self.record.forecast(at, found)
        if forecast is not None:
            self._waiting[job.id] = forecast

    def _started(self, forecast: Forecast, at: float) -> None:
        self.record.started(forecast, at)
        if forecast.at >= self._half_at:
            waited_s = at - forecast.at - SLACK_S
            self.plain.append(tuple(waited_s <= each for each in forecast.raw_s))
            self.shown.append(tuple(waited_s <= each for each in forecast.shown_s))


def seen(trace: Trace, cluster: str, policy: str) -> Seer:
    """Simulate the trace with a Seer watching."""
    machines = clusters.read(cluster)
    chosen = make_policy(policy, {})
    controller = Controller(State(machines.cluster), chosen, placers.make("packed", {}))
    chosen.expect(controller.state.memory, PREEMPTION_COST_S)
    seer = Seer(controller, trace)
    rejected = rejections(trace, machines.cluster)
    world = World(PREEMPTION_COST_S)
    Engine(controller, world, jobs_of(trace, rejected.rows), seer.ended, on_instant=seer.instant).run()
    return seer


def shares(found: list[tuple[bool, ...]]) -> list[float]:
    return [sum(column) / len(found) for column in zip(*found, strict=True)]


CASES = (  # the step of corrections was chosen on seed 0
    ("builtin:testbed-480", "15x4", 0),
    ("builtin:testbed-480", "15x4", 1),
)


def foresight(policies: tuple[str, ...] = ("fifo-skip", "tiresias-l", "tiresias")) -> None:
    """Shares of jobs of the held-out half that start within the p50 and the p90: 50 and 90 % are wanted."""
    for source, cluster, seed in CASES:
        trace = traces.load(source, seed=seed)
        for policy in policies:
            began = time.process_time()
            seer = seen(trace, cluster, policy)
            took = time.process_time() - began
            plain, shown = shares(seer.plain), shares(seer.shown)
            off = max(abs(shown[0] - 0.5), abs(shown[1] - 0.9))
            print(
                f"foresight: {source} seed {seed} {cluster} {policy}: {len(seer.shown)} held-out jobs:"
                f" {shown[0]:.0%} within the p50, {shown[1]:.0%} within the p90 (uncorrected {plain[0]:.0%}"
                f" and {plain[1]:.0%}); at most {off:.0%} off (10 % wanted); {took:.0f} s of processor time",
                flush=True,
            )


if __name__ == "__main__":
    foresight()
