"""What `themis` and `ftf` have in common: estimates of rho, rounds, and what happens between rounds.

There are a few rounds in the time of a lease, so that whoever comes need not wait for a whole lease. In a
round all GPUs are shared out anew but those of runs whose lease is not over; a subclass chooses who gets
them. Between rounds nobody is preempted: what becomes free goes to waiting jobs, those with the shortest
duration first.

The estimate of rho is that of Themis: (elapsed + left) / ideal, with the work that is left at the speed at
which a run was seen to work, and with an ideal that counts the apps that were active on average over the
job's life. As in our figures of fairness, a job cannot have more than it asks for, and durations below 600 s
count as 600 s. Where durations are not known, a job is expected to need as long again as it has worked.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tiresias.core import facts as f
from tiresias.core.facts import Allotment
from tiresias.core.model import INFINITY, JobId, Rank
from tiresias.core.plugins import Allocator, OptionError, option
from tiresias.core.state import JobState, State
from tiresias.core.view import AllotView
from tiresias.core.wish import WishChange
from tiresias.policies.options import PreemptiveOptions, number, positive_seconds
from tiresias.policies.roster import Roster, refresh

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SHORTEST_S = 600.0
BLINK_S = 1e-6


def app_of(job: JobState) -> str | JobId:
    """The app of a job: its group, or the job itself."""
    return job.group or job.id


class Contention:
    """How many apps were active: a serialisable value. `crowd` is the integral of their number over time."""

    __slots__ = ("apps", "at", "began", "crowd")

    def __init__(self) -> None:
        self.at = 0.0
        self.crowd = 0.0
        self.apps: dict[str | JobId, int] = {}  # active jobs by app
        self.began: dict[JobId, float] = {}  # the crowd at the submission of each active job

    def crowd_at(self, at: float) -> float:
        return self.crowd + len(self.apps) * (at - self.at)

    def advance(self, at: float) -> None:
        self.crowd, self.at = (self.crowd_at(at) if self.apps else self.crowd), at

    def enter(self, job: JobState, at: float) -> None:
        if job.id in self.began:
            return
        self.advance(at)
        self.began[job.id] = self.crowd
        self.apps[app_of(job)] = self.apps.get(app_of(job), 0) + 1

    def leave(self, job: JobState, at: float) -> None:
        if self.began.pop(job.id, None) is None:
            return
        self.advance(at)
        app = app_of(job)
        self.apps[app] -= 1
        if not self.apps[app]:
            del self.apps[app]


@dataclass(slots=True)
class LeaseOptions(PreemptiveOptions):
    lease_s: float = option(600.0, "seconds for which winners keep GPUs", positive_seconds)
    rounds: int = option(2, "rounds in the time of a lease", number)


@dataclass(slots=True)
class Bidders:
    """The jobs of a round, and for each: seconds since its submission, left, and of its ideal; its GPUs."""

    jobs: list[JobState]
    elapsed_s: Floats
    left_s: Floats
    ideal_s: Floats
    gpus: Floats
    holds: list[bool]


class LeaseAllocator(Allocator):
    """Shares out all GPUs in rounds; a subclass says in `choose` who comes first."""

    Options = LeaseOptions
    learns = frozenset({f.JobSubmitted, f.JobCancelled, f.JobFailed, f.RunExited})

    def __init__(self, options: Any = None):
        super().__init__(options)
        self._roster: Roster | None = None

    @property
    def round_s(self) -> float:
        """Seconds between two rounds."""
        return float(self.options.lease_s / self.options.rounds)

    @abstractmethod
    def choose(self, bidders: Bidders, room: int) -> tuple[list[int], dict[int, float]]:
        """Positions of bidders, those first that shall have GPUs, and the part of a lease that each keeps.

        Who is not named gets nothing.
        """

    # --- order between rounds, and memory --------------------------------------------------------------

    def rank(self, job: JobState, memory: Any, at: float) -> Rank:
        return (job.job.duration_s or 0.0,)

    def new_memory(self) -> Contention:
        return Contention()

    def begin(self, memory: Contention, state: State) -> None:
        for job in state.jobs.values():
            if job.gpus:
                memory.enter(job, state.at)

    def learn(self, memory: Contention, fact: Any, job: JobState | None) -> bool:
        assert job is not None
        if job.ended_at != INFINITY:
            memory.leave(job, fact.at)
        else:
            memory.enter(job, fact.at)
        return False

    def save(self, memory: Contention) -> dict[str, Any]:
        return {
            "at": memory.at,
            "crowd": memory.crowd,
            "apps": [[app, jobs] for app, jobs in memory.apps.items()],
            "began": [[id, crowd] for id, crowd in memory.began.items()],
        }

    def restore(self, saved: dict[str, Any]) -> Contention:
        memory = Contention()
        memory.at, memory.crowd = saved["at"], saved["crowd"]
        memory.apps = {JobId(app) if isinstance(app, int) else app: jobs for app, jobs in saved["apps"]}
        memory.began = {JobId(id): crowd for id, crowd in saved["began"]}
        return memory

    # --- the wish --------------------------------------------------------------------------------------

    def allot(self, view: AllotView, memory: Contention, at: float) -> WishChange:
        given: dict[JobId, Allotment] = {}
        withdrawn: list[JobId] = []
        roster = self._roster = refresh(self._roster, view, given, withdrawn)
        if not roster.waiting:
            return WishChange(list(given.values()), withdrawn, INFINITY)
        lease_s, round_s = self.options.lease_s, self.round_s
        number = round(at / round_s)
        if abs(at - number * round_s) <= 2 * BLINK_S:
            self._round(roster, view, memory, at, given, withdrawn)
        for id, gpus in roster.fill(view.room):
            given[id] = Allotment(id, gpus, until=at + lease_s)
        next_at = (number + 1) * round_s if (number * round_s <= at + 2 * BLINK_S) else number * round_s
        return WishChange(list(given.values()), withdrawn, next_at if roster.waiting else INFINITY)

    def bidders(self, jobs: list[JobState], memory: Contention, at: float) -> Bidders:
        import numpy as np  # not before: it delays each start of a manager

        rows = []
        holds = []
        for job in jobs:
            work_s = job.progress_at(at)
            run = job.gpu_run
            duration_s = job.job.duration_s
            if duration_s is None:
                duration_s = work_s + max(work_s, SHORTEST_S)
            speed = run.speed if run is not None and run.speed > 0 else 1.0
            lasts_s = max(duration_s, SHORTEST_S)
            left_s = max(duration_s - work_s, 0.0) / speed
            began = memory.began.get(job.id, memory.crowd)
            rows.append((at - job.submitted_at, left_s, lasts_s - duration_s, lasts_s, began, job.gpus))
            holds.append(run is not None)
        table = np.array(rows, dtype=np.float64).reshape(-1, 6)
        elapsed_s, left_s_, extra_s, lasts, began_, gpus = table.T
        now = float(len(memory.apps))
        apps = np.divide(
            memory.crowd_at(at) - began_, elapsed_s, out=np.full(len(rows), now), where=elapsed_s > 0
        )
        ideal_s = lasts * np.maximum(1.0, gpus * apps / max(self.gpus, 1))
        return Bidders(jobs, elapsed_s + extra_s, left_s_, ideal_s, gpus, holds)

    def reason(self, job: JobState, view: AllotView, memory: Contention) -> str:
        mine = self.bidders([job], memory, view.at)
        rho = float((mine.elapsed_s[0] + mine.left_s[0]) / mine.ideal_s[0])
        return f"its rho is {rho:.2f} if it runs from now on; there is a round every {self.round_s:g} s"

    def _round(
        self,
        roster: Roster,
        view: AllotView,
        memory: Contention,
        at: float,
        given: dict[JobId, Allotment],
        withdrawn: list[JobId],
    ) -> None:
        """Share out all GPUs anew but those of taken runs."""
        ids = sorted([*roster.waiting, *(id for id in roster.given if id not in roster.taken)])
        jobs = [job for id in ids if (job := view.job(id)) is not None]
        bidders = self.bidders(jobs, memory, at)
        room = view.room
        order, kept = self.choose(bidders, room)
        chosen: dict[JobId, float] = {}
        for nth in order:
            job = jobs[nth]
            if job.gpus <= room:
                room -= job.gpus
                chosen[job.id] = kept.get(nth, 1.0)
        for job in jobs:
            if job.id in roster.given and job.id not in chosen:
                if given.pop(job.id, None) is None:
                    withdrawn.append(job.id)
                roster.update(job, view, is_given=False)
        for id, part in chosen.items():
            if id in roster.waiting:
                gpus = roster.start(id)
                given[id] = Allotment(id, gpus, until=at + part * self.options.lease_s)


def check_lease(name: str, lease_s: float, preemption_cost_s: float) -> None:
    """Refuse a lease that is shorter than a preemption: nothing would ever be done in it."""
    if lease_s <= preemption_cost_s:
        raise OptionError(
            f"{name}: lease_s={lease_s:g} is not longer than a preemption, {preemption_cost_s:g} s; give more"
        )
