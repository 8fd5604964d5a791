"""Failures of simulated trainings, and the rules that spare GPUs from them.

A trace does not say which jobs fail, and why. With `philly`, each job draws from its id and a seed whether it
belongs to a class of failures, how many of its trials fail, and after how much work each of them does. The
classes are those of Philly's cluster (Jeon and others, ATC 2019, Table 7): how many of 96,260 jobs and how
many trials each of them had, and how long trials ran until they failed. The ten classes here have 90 % of the
trials and 92 % of the GPU-time that the table says is lost.

A trial is one attempt from the beginning. It may take several runs, because a preempted run is resumed; if it
fails, all of its work is lost. After its failed trials a job of a transient class runs to its end, and any
other job has failed. What is drawn does not depend on the policy, so that policies are compared on the same
failures. Which classes are transient is our judgement; so is what a trial that fails loses.

Rules, which change nothing about what is drawn:

- `no-retry`: a job whose failure is not transient is not tried again.
- `preflight=SECONDS`: the first seconds of each gang of two GPUs or more run on one GPU of a small pool
  beside the cluster, before the job is queued. A failure there that is not transient ends the job. A job of
  one GPU has none: it would take as much as it spares.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from heapq import heapreplace
from math import exp, log
from random import Random
from statistics import NormalDist
from typing import Any

from tiresias.core.facts import ExitCause
from tiresias.core.model import INFINITY, Job, JobId
from tiresias.sim.errors import InputError

MINUTE_S = 60.0
JOBS = 96_260  # of the cluster, in the time of the table
POOL_GPUS = 4
SHORTEST_S = 1.0  # work that a trial does at least
USAGE = "write philly, and after it no-retry, preflight=SECONDS, pool=GPUS or seed=N as wished, with commas"


@dataclass(frozen=True, slots=True)
class FailureClass:
    """One row of the table; the minutes until a trial fails are quantiles over trials."""

    name: str
    trials: int
    jobs: int
    p50_min: float
    p90_min: float
    p95_min: float
    is_transient: bool = False

    def work_s(self, uniform: float) -> float:
        """The work after which a trial fails, at this quantile; the logarithms are interpolated.

        The scale is that of the normal distribution, on which a lognormal one is a straight line. Below the
        median it is that line of the first two quantiles, mirrored. Beyond the last it is flat: the table
        says nothing about the longest trials.
        """
        at = NormalDist().inv_cdf(uniform)
        known = [(NormalDist().inv_cdf(part), log(minutes)) for part, minutes in self._quantiles()]
        (x0, y0), (x1, y1), (x2, y2) = known
        if at <= x1:
            found = y0 + (at - x0) * (y1 - y0) / (x1 - x0)
        else:
            found = y1 + (min(at, x2) - x1) * (y2 - y1) / (x2 - x1)
        return max(SHORTEST_S, exp(found) * MINUTE_S)

    def _quantiles(self) -> tuple[tuple[float, float], ...]:
        return (0.5, self.p50_min), (0.9, self.p90_min), (0.95, self.p95_min)


CLASSES = (
    FailureClass("CPU out of memory", 12_076, 2_803, 13.45, 17.73, 33.97),
    FailureClass("incorrect inputs", 9_690, 4_936, 1.87, 404.83, 2095.73),
    FailureClass("semantic error", 2_943, 2_049, 2.72, 376.0, 1436.88),
    FailureClass("core dump", 2_912, 1_784, 0.85, 72.75, 431.65),
    FailureClass("invalid memory access", 2_602, 1_235, 1.03, 403.5, 1357.38),
    FailureClass("model checkpoint error", 1_995, 948, 181.67, 3728.93, 8196.02, is_transient=True),
    FailureClass("CUDA failure", 1_484, 571, 1.32, 19.87, 82.17, is_transient=True),
    FailureClass("syntax error", 1_132, 883, 0.58, 5.02, 12.0),
    FailureClass("GPU out of memory", 487, 261, 18.53, 353.62, 2740.28),
    FailureClass("MPI runtime failure", 478, 420, 1389.48, 13778.6, 18090.88, is_transient=True),
)


@dataclass(frozen=True, slots=True)
class Rules:
    """What spares GPUs from failures, and the seed of what is drawn."""

    no_retry: bool = False
    preflight_s: float = 0.0  # 0: there is none
    pool: int = POOL_GPUS
    seed: int = 0


@dataclass(slots=True)
class Troubles:
    """What a job has before it: its class, and the work at which each of its trials fails."""

    kind: FailureClass
    fail_at_s: list[float]


@dataclass(slots=True)
class Tally:
    """What failures have taken so far."""

    jobs: int = 0  # that ended as failed
    runs: int = 0  # that failed
    gpu_s: float = 0.0  # work of trials that failed, times the GPUs
    until_failed_s: float = 0.0  # of failed jobs together: from submission to the end
    in_preflight: int = 0  # jobs of `jobs` that failed in their preflight
    preflight_gpu_s: float = 0.0
    by_class: dict[str, float] = field(default_factory=dict)  # parts of gpu_s

    def figures(self) -> dict[str, Any]:
        """The figures of a summary."""
        return {
            "failed_jobs": self.jobs,
            "failed_runs": self.runs,
            "failed_gpu_s": self.gpu_s,
            "avg_until_failed_s": self.until_failed_s / self.jobs if self.jobs else None,
            "failed_in_preflight": self.in_preflight,
            "preflight_gpu_s": self.preflight_gpu_s,
        }


class Failures:
    """Which runs fail. The same rules and job always draw the same; a Tally counts what happened."""

    def __init__(self, rules: Rules = Rules()):
        self.rules = rules
        self.tally = Tally()
        self._troubles: dict[JobId, Troubles | None] = {}
        self._failed: dict[JobId, int] = {}  # trials of active jobs that have failed
        self._pool = [-INFINITY] * rules.pool  # when each GPU of the pool is free, as a heap

    # --- what is drawn ---------------------------------------------------------------------------------

    def troubles(self, job: Job) -> Troubles | None:
        """What the job draws; None: none of its trials fails."""
        if job.id not in self._troubles:
            assert job.duration_s is not None
            self._troubles[job.id] = drawn(self.rules.seed, job.id, job.duration_s)
        return self._troubles[job.id]

    def ends_s(self, job: Job) -> float:
        """The work at which the present trial ends: that of the job, or that at which it fails."""
        troubles = self.troubles(job)
        failed = self._failed.get(job.id, 0)
        if troubles is None or failed >= len(troubles.fail_at_s):
            assert job.duration_s is not None
            return job.duration_s
        return troubles.fail_at_s[failed]

    # --- what happens ----------------------------------------------------------------------------------

    def end_trial(self, job: Job, gpus: int) -> ExitCause:
        """The present trial has done its work: whether the job is finished, is tried again or has failed."""
        troubles = self.troubles(job)
        failed = self._failed.get(job.id, 0)
        if troubles is None or failed >= len(troubles.fail_at_s):
            self.forget(job)
            return ExitCause.FINISHED
        tally, lost = self.tally, troubles.fail_at_s[failed] * gpus
        tally.runs += 1
        tally.gpu_s += lost
        tally.by_class[troubles.kind.name] = tally.by_class.get(troubles.kind.name, 0.0) + lost
        self._failed[job.id] = failed + 1
        if troubles.kind.is_transient:
            return ExitCause.RETRIED
        if failed + 1 < len(troubles.fail_at_s) and not self.rules.no_retry:
            return ExitCause.RETRIED
        return ExitCause.FAILED

    def preflight(self, job: Job) -> tuple[float, bool] | None:
        """When the preflight of a job that is submitted now is over, and whether the job fails in it."""
        if not self.rules.preflight_s or job.demand.gpus < 2:
            return None
        troubles = self.troubles(job)
        assert job.duration_s is not None
        lasts_s, is_failure = min(self.rules.preflight_s, job.duration_s), False
        if troubles is not None and not troubles.kind.is_transient and troubles.fail_at_s[0] <= lasts_s:
            lasts_s, is_failure = troubles.fail_at_s[0], True
        begins_at = max(self._pool[0], job.submitted_at)
        heapreplace(self._pool, begins_at + lasts_s)
        self.tally.preflight_gpu_s += lasts_s
        return begins_at + lasts_s, is_failure

    def fail_in_preflight(self, job: Job, at: float) -> None:
        self.tally.in_preflight += 1
        self.told(job, at)

    def told(self, job: Job, at: float) -> None:
        """The job has ended as failed."""
        self.tally.jobs += 1
        self.tally.until_failed_s += at - job.submitted_at
        self.forget(job)

    def forget(self, job: Job) -> None:
        self._troubles.pop(job.id, None)
        self._failed.pop(job.id, None)


def drawn(seed: int, id: JobId, duration_s: float) -> Troubles | None:
    """What a job draws. A trial that would fail after the end of the job fails at its end."""
    random = Random(f"{seed}/{id}/failures")
    left = random.random() * JOBS
    for kind in CLASSES:
        left -= kind.jobs
        if left < 0:
            another = 1.0 - kind.jobs / kind.trials  # so that their mean number is that of the table
            trials = 1
            while random.random() < another:
                trials += 1
            work = (kind.work_s(1.0 - random.random() * (1.0 - 1e-12)) for _ in range(trials))
            return Troubles(kind, [min(each, duration_s) for each in work])
    return None


def work_with_failures(seed: int, ids: Iterator[tuple[JobId, float]]) -> Iterator[float]:
    """The work of each (job, duration) together with its failed trials, if none is spared."""
    for id, duration_s in ids:
        troubles = drawn(seed, id, duration_s)
        if troubles is None:
            yield duration_s
        else:
            yield sum(troubles.fail_at_s) + duration_s * troubles.kind.is_transient


def failures_of(text: str | None) -> Failures | None:
    """The failures that a text names, such as `philly,no-retry,preflight=120`; None: nothing fails."""
    if text is None or text == "none":
        return None
    kind, *rules = (part.strip() for part in text.split(","))
    if kind != "philly":
        raise InputError(f"failures {kind!r} are not known; {USAGE}")
    found: dict[str, Any] = {}
    for rule in rules:
        name, equals, value = (part.strip() for part in rule.partition("="))
        if name in found:
            raise InputError(f"failures: {name} is given twice; give it once")
        if rule == "no-retry":
            found[name] = True
        elif name in RULES and equals:
            found[name] = _number(name, value)
        else:
            raise InputError(f"failures: {rule!r} is not a rule; {USAGE}")
    return Failures(Rules(**{RULES[name]: value for name, value in found.items()}))


RULES = {"no-retry": "no_retry", "preflight": "preflight_s", "pool": "pool", "seed": "seed"}


def _number(name: str, text: str) -> float | int:
    try:
        value = float(text) if name == "preflight" else int(text)
    except ValueError:
        value = -1
    if name == "preflight" and not 0 < value < INFINITY:
        raise InputError(f"failures: preflight={text} is not a number of seconds above 0")
    if value < (name == "pool"):
        least = "1 GPU or more" if name == "pool" else "a whole number, 0 or more"
        raise InputError(f"failures: {name}={text} is not {least}")
    return value
