"""Which jobs may queue: dependencies, begin times, preflights, limits of users and arrays.

The core only knows that a job is deferred and why. The rules are here. `on` marks the jobs to which something
has happened. `due` looks at the marked jobs, and at those that share a limit with them, and returns what must
be deferred or cleared. A limit on running GPUs counts every job that may queue, running or not, in the order
of limit_queue.py: so a user is never above the limit, and splitting work into many small jobs gains nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush
from typing import Any

from tiresias.core import facts as f
from tiresias.core.model import INFINITY, JobId, Phase
from tiresias.core.protection import protected_gpus
from tiresias.core.reasons import ReasonCode
from tiresias.core.state import JobState
from tiresias.live.answers import Limits
from tiresias.live.journal import Ended, Input, Journal, Taken
from tiresias.live.limit_queue import LimitQueue
from tiresias.live.managed_jobs import ManagedJob
from tiresias.live.settings import Settings
from tiresias.live.submission import Submission

UNDECIDED = ReasonCode.NOT_YET_EVALUATED.value  # until `due` is called, in the same commit
BACKOFF = ReasonCode.BACKOFF.value  # ends at an instant that the core knows
DEPENDENCY, BEGIN, PREFLIGHT = (
    ReasonCode.DEPENDENCY.value,
    ReasonCode.BEGIN_TIME.value,
    ReasonCode.PREFLIGHT.value,
)
QUOTA, ARRAY = ReasonCode.QUOTA.value, ReasonCode.ARRAY_LIMIT.value
INTERACTIVE = ReasonCode.INTERACTIVE_LIMIT.value
EVERYBODY = "*"
LIMITS = "limits"  # the setting that holds them
LOOK_AGAIN_S = 10.0  # how often the wall clock is looked at while a job waits for its begin time


class Admission:
    """The part that defers jobs, clears them, and fails those that can never start."""

    def __init__(self, journal: Journal, settings: Settings):
        self._journal, self._settings = journal, settings
        stored: Mapping[str, Any] = journal.store.setting(LIMITS, {})
        self.limits = {user: Limits(**limits) for user, limits in stored.items()}
        self._by_user: dict[str, dict[JobId, None]] = {}
        self._of_user: dict[str, LimitQueue] = {}  # users with a limit
        self._of_array: dict[str, LimitQueue] = {}
        self._interactive = LimitQueue(0)  # interactive jobs of all users
        self._interactive_jobs: Counter[str] = Counter()  # by user
        self._needs: dict[JobId, set[JobId]] = {}  # job: active jobs that must end before it may queue
        self._needed_by: dict[JobId, dict[JobId, None]] = {}
        self._begins: list[tuple[float, JobId]] = []  # begin times that the wall clock has not reached
        self._reached: list[tuple[float, JobId]] = []  # negated; of jobs that have not started yet
        self._wall = journal.wall()  # when begin times were last compared with it
        self._look_at = INFINITY
        self._marked: dict[JobId, None] = {}  # jobs to look at again
        self._doomed: dict[JobId, JobId] = {}  # job: one that ended in a way that rules it out
        self._backoffs: dict[JobId, float] = {}  # job whose back-off was replaced by a limit: its end

    @property
    def _jobs(self) -> Mapping[JobId, JobState]:
        return self._journal.state.jobs

    def load(self) -> None:
        """After a restart: take in all active jobs."""
        jobs = self._jobs
        for id in jobs:
            for other in self._add(id):
                if other not in jobs and self._rules_out(
                    id, other, succeeded=self._journal.has_succeeded(other)
                ):
                    self._doomed[id] = other

    # --- what happened ---------------------------------------------------------------------------------

    def on(self, taken: Taken) -> list[Input]:
        """Keep up with the jobs. A job that ends takes its preflight with it."""
        follow_up = []
        submitted = [fact.job.id for fact in taken.facts if isinstance(fact, f.JobSubmitted)]
        for id in sorted(submitted):
            self._add(id)
        for fact in (*taken.facts, *taken.decisions):
            if isinstance(fact, f.JobCleared | f.JobReleased):
                self._keep_ready_at(fact.job_id, fact.at)
        for ended in taken.ended:
            self._remove(ended)
            preflight = ended.managed.preflight_job
            if preflight is not None and preflight in self._jobs:
                follow_up.append(Input([f.JobCancelled(self._journal.now(), preflight)]))
        for fact in taken.decisions:
            if isinstance(fact, f.JobCleared | f.RunGranted):
                self._mark(fact.job_id)
        for fact in taken.facts:
            if isinstance(fact, f.JobHeld | f.JobReleased):
                self._mark(fact.job_id)
        if taken.exit is not None:
            self._mark(taken.exit.job.id)
        return follow_up

    def _keep_ready_at(self, id: JobId, at: float) -> None:
        """Remember since when a job that has never run only waits for its rank."""
        job = self._jobs.get(id)
        if job is not None and job.first_started_at >= at:
            self._journal.managed.change(id, ready_at=at)

    def _needs_of(self, id: JobId) -> list[JobId]:
        """All jobs that must end before this one may queue, its preflight included."""
        job = self._journal.managed[id]
        awaited = [*job.spec.after, *job.spec.after_any, *job.spec.after_not_ok]
        return awaited if job.preflight_job is None else [*awaited, job.preflight_job]

    def _rules_out(self, id: JobId, other: JobId, *, succeeded: bool) -> bool:
        """Whether a job can never start, because one that it needs has ended as it has."""
        job = self._journal.managed[id]
        if other == job.preflight_job and not succeeded:
            return True
        return job.spec.is_doomed_by(other, succeeded=succeeded)

    def _add(self, id: JobId) -> list[JobId]:
        """Take in an active job. Returns what it needs, jobs that have ended included."""
        spec = self._journal.managed[id].spec
        self._by_user.setdefault(spec.user, {})[id] = None
        self._interactive_jobs[spec.user] += spec.is_interactive
        if spec.begin_at is not None and self._awaits(id):
            heappush(self._begins, (spec.begin_at, id))
        needs = self._needs_of(id)
        if needs and (active := {other for other in needs if other in self._jobs}):
            self._needs[id] = active
            for other in active:
                self._needed_by.setdefault(other, {})[id] = None
        if self._jobs[id].deferred or self.may_defer(self._journal.managed[id]):
            self._marked[id] = None
        return needs

    def _remove(self, ended: Ended) -> None:
        id, spec = ended.job.id, ended.managed.spec
        self._by_user[spec.user].pop(id, None)
        self._interactive_jobs[spec.user] -= spec.is_interactive
        if not self._by_user[spec.user]:
            del self._by_user[spec.user]
        self._leave(self._of_array, spec.array, id)
        self._leave(self._of_user, spec.user, id)
        self._interactive.leave(id)
        self._marked.update(dict.fromkeys(self._interactive.changed()))
        for other in self._needs.pop(id, ()):
            self._needed_by.get(other, {}).pop(id, None)
        self._marked.pop(id, None)
        self._doomed.pop(id, None)
        self._backoffs.pop(id, None)
        for child in self._needed_by.pop(id, {}):
            if child not in self._needs or child not in self._jobs:  # it may end in the same step
                continue
            if self._rules_out(child, id, succeeded=ended.job.phase is Phase.SUCCEEDED):
                self._doomed[child] = id
            else:
                self._needs[child].discard(id)
                self._marked[child] = None

    def _leave(self, queues: dict[str, LimitQueue], name: str, id: JobId) -> None:
        queue = queues.get(name)
        if queue is None:
            return
        queue.leave(id)
        self._marked.update(dict.fromkeys(queue.changed()))
        if not len(queue):
            del queues[name]

    def _mark(self, id: JobId) -> None:
        if id in self._jobs:
            self._marked[id] = None

    # --- limits ----------------------------------------------------------------------------------------

    def set_limits(self, user: str, limits: Limits) -> None:
        if limits == Limits():
            self.limits.pop(user, None)
        else:
            self.limits[user] = limits
        for id in self._jobs:
            self._marked[id] = None

    def limits_of(self, user: str) -> Limits:
        """The limits that apply to a user: its own ones, and for those that it has not, those of `*`."""
        own, all_users = self.limits.get(user, Limits()), self.limits.get(EVERYBODY, Limits())
        return Limits(
            _one_limit(own.max_running_gpus, all_users.max_running_gpus),
            _one_limit(own.max_active_jobs, all_users.max_active_jobs),
        )

    def gpu_limit_of(self, user: str) -> int | None:
        if not self.limits:  # at most sites; this is asked of every job at a start
            return None
        limit = self.limits_of(user).max_running_gpus
        return limit if isinstance(limit, int) else None

    def job_limit_of(self, user: str) -> int | None:
        limit = self.limits_of(user).max_active_jobs
        return limit if isinstance(limit, int) else None

    def active_jobs_of(self, user: str) -> int:
        return len(self._by_user.get(user, ()))

    def interactive_jobs_of(self, user: str) -> int:
        return self._interactive_jobs[user]

    @property
    def interactive_gpus(self) -> int:
        """How many GPUs interactive jobs may hold together, of those that are there at present."""
        gpus = sum(node.gpus for node in self._journal.state.ledger.nodes)
        return protected_gpus(self._settings.interactive_share, gpus)

    # --- what must follow ------------------------------------------------------------------------------

    @property
    def next_due_at(self) -> float:
        return self._look_at

    def _compare_begins(self, at: float) -> None:
        """Mark the jobs whose begin time the wall clock has passed, forwards or back, since the last time."""
        wall = self._wall = self._journal.wall()
        begins, reached = self._begins, self._reached
        while begins and (begins[0][0] <= wall or not self._awaits(begins[0][1])):
            begin_at, id = heappop(begins)
            if self._awaits(id):
                heappush(reached, (-begin_at, id))
                self._marked[id] = None
        while reached and (-reached[0][0] > wall or not self._awaits(reached[0][1])):
            begin_at, id = heappop(reached)
            if self._awaits(id):
                heappush(begins, (-begin_at, id))
                self._marked[id] = None
        self._look_at = at + min(begins[0][0] - wall, LOOK_AGAIN_S) if begins else INFINITY

    def _awaits(self, id: JobId) -> bool:
        """Whether its begin time counts: a job that has started once has begun."""
        job = self._jobs.get(id)
        return job is not None and not job.runs

    def due(self, at: float) -> list[Input]:
        """What must be deferred or cleared now, and then what must fail. In the end, nothing."""
        if not (self._begins or self._reached or self._marked or self._doomed):
            return []
        self._compare_begins(at)
        if facts := self._deferrals(at):
            return [Input(facts)]
        if not self._doomed:
            return []
        doomed = {
            id: other for id, other in self._doomed.items() if id in self._jobs and self._jobs[id].run is None
        }
        if not doomed:
            return []
        for id in doomed:
            del self._doomed[id]
        endings = {id: self._ending_of(id, other) for id, other in doomed.items()}
        return [Input([self._end_of(id, other, at) for id, other in doomed.items()], endings)]

    def _end_of(self, id: JobId, other: JobId, at: float) -> f.Fact:
        """A job that waited for a failure is not needed after a success; any other one has failed."""
        is_needless = other in self._journal.managed[id].spec.after_not_ok and self._journal.has_succeeded(
            other
        )
        return f.JobCancelled(at, id) if is_needless else f.JobFailed(at, id)

    def _ending_of(self, id: JobId, other: JobId) -> dict[str, Any]:
        """What is kept of a job that ends because another one has ended as it has."""
        if isinstance(self._end_of(id, other, 0.0), f.JobCancelled):
            text = f"It was to start only if job {other} did not succeed, and that has succeeded."
            return {"reason": ReasonCode.NOT_NEEDED.value, "sentence": text}
        if self._journal.managed[id].preflight_job != other:
            text = f"It comes after job {other}, which did not succeed; see `tir show {other}`."
            return {"reason": ReasonCode.DEPENDENCY_FAILED.value, "sentence": text}
        record = self._journal.job_record(other)
        cause = (record and record.ending) or {}
        text = f"Its preflight (job {other}) failed: {cause.get('sentence', '')}"
        evidence = cause.get("evidence", "")
        return {"reason": ReasonCode.PREFLIGHT_FAILED.value, "sentence": text, "evidence": evidence}

    def _deferrals(self, at: float) -> list[f.Fact]:
        marked, self._marked = self._marked, {}
        found = []
        for id in self._concerned(marked):
            fact = self._deferral(self._jobs[id], at)
            if fact is not None:
                found.append(fact)
        return found

    def _concerned(self, marked: Iterable[JobId]) -> list[JobId]:
        """The marked jobs, and those that share a limit with them and may now be inside or outside of it."""
        seen, jobs = dict.fromkeys(marked), self._jobs
        for id in list(seen):
            if (queue := self._array_queue(id)) is not None:
                self._update_queue(queue, id, 1, may_queue=self._may_queue(id))
                seen.update(dict.fromkeys(queue.changed()))
        for id in list(seen):
            if jobs[id].gpus and (queue := self._user_queue(id)) is not None:
                may_queue = self._may_queue(id, in_array=True)
                self._update_queue(queue, id, jobs[id].job.demand.most, may_queue=may_queue)
                seen.update(dict.fromkeys(queue.changed()))
        for id in list(seen):
            if (queue := self._interactive_queue(id)) is not None:
                may_queue = self._may_queue(id, in_array=True) and not self._is_over_quota(id)
                self._update_queue(queue, id, self._jobs[id].job.demand.most, may_queue=may_queue)
                seen.update(dict.fromkeys(queue.changed()))
        return list(seen)

    def _update_queue(self, queue: LimitQueue, id: JobId, size: int, *, may_queue: bool) -> None:
        job = self._jobs[id]
        if job.run is not None or may_queue:
            queue.put(job, size, holds=job.run is not None)
        else:
            queue.leave(id)

    def _may_queue(self, id: JobId, *, in_array: bool = False) -> bool:
        """Whether only a limit can defer it. A job that waits for its array does not count for its user."""
        if self._jobs[id].on_hold or self._own_reason(id):
            return False
        return not (in_array and self._is_over_array(id))

    def _is_over_array(self, id: JobId) -> bool:
        queue = self._of_array.get(self._journal.managed[id].spec.array)
        return queue is not None and queue.is_over(id)

    def _limit_reason(self, id: JobId) -> str:
        """Which limit defers the job."""
        if self._is_over_array(id):
            return ARRAY
        if self._is_over_quota(id):
            return QUOTA
        return INTERACTIVE if self._interactive.is_over(id) else ""

    def _is_over_quota(self, id: JobId) -> bool:
        queue = self._of_user.get(self._journal.managed[id].spec.user)
        return queue is not None and queue.is_over(id)

    def _interactive_queue(self, id: JobId) -> LimitQueue | None:
        """That of interactive jobs, if it is one and asks for GPUs."""
        if not self._jobs[id].gpus or not self._journal.managed[id].spec.is_interactive:
            return None
        self._interactive.set_limit(self.interactive_gpus)  # nodes may have come
        return self._interactive

    def _array_queue(self, id: JobId) -> LimitQueue | None:
        spec = self._journal.managed[id].spec
        queue = self._of_array.get(spec.array)
        if spec.array_limit is not None:
            if queue is None:
                queue = self._of_array[spec.array] = LimitQueue(spec.array_limit)
            queue.set_limit(min(queue.limit, spec.array_limit))
        return queue

    def _user_queue(self, id: JobId) -> LimitQueue | None:
        """Made when the first of the user's jobs is looked at: then all of them are."""
        user = self._journal.managed[id].spec.user
        limit = self.gpu_limit_of(user)
        if limit is None:
            self._of_user.pop(user, None)
            return None
        queue = self._of_user.get(user)
        if queue is None:
            queue = self._of_user[user] = LimitQueue(limit)
        queue.set_limit(limit)
        return queue

    def _deferral(self, job: JobState, at: float) -> f.Fact | None:
        """The fact that brings this job's deferral in line with the rules."""
        id = job.id
        if job.run is not None or job.cancelled:
            return None
        reason = self._own_reason(id) or self._limit_reason(id)
        if job.deferred == BACKOFF:
            if not reason:
                return None
            # At the end of the back-off the core would clear the job, whatever the limit says.
            self._backoffs[id] = job.deferred_until
            return f.JobDeferred(at, id, reason)
        if reason:
            return f.JobDeferred(at, id, reason) if reason != job.deferred else None
        if not job.deferred:
            return None
        until = self._backoffs.pop(id, at)
        return f.JobDeferred(at, id, BACKOFF, until) if until > at else f.JobCleared(at, id)

    def _own_reason(self, id: JobId) -> str:
        """What defers this one job, whatever the others do."""
        job = self._journal.managed[id]
        if needs := self._needs.get(id):
            return PREFLIGHT if needs == {job.preflight_job} else DEPENDENCY
        if job.spec.begin_at is not None and job.spec.begin_at > self._wall and self._awaits(id):
            return BEGIN
        return ""

    # --- questions -------------------------------------------------------------------------------------

    def may_defer(self, job: ManagedJob) -> bool:
        """Whether such a job must be looked at before it may queue."""
        spec = job.spec
        waits = bool(spec.awaited) or spec.begin_at is not None or job.preflight_job is not None
        is_limited = spec.array_limit is not None or self.gpu_limit_of(spec.user) is not None
        return waits or is_limited or spec.is_interactive

    def reason_after_exit(self, id: JobId) -> str:
        """What defers the job if its run ends now: a limit may have become lower meanwhile."""
        if reason := self._own_reason(id):
            return reason
        job = self._jobs[id]
        if (queue := self._array_queue(id)) is not None:
            queue.put(job, 1, holds=False)
        queue = self._user_queue(id) if job.gpus else None
        if queue is not None and not self._is_over_array(id):
            queue.put(job, job.job.demand.most, holds=False)
        if (queue := self._interactive_queue(id)) is not None:
            queue.put(job, job.job.demand.most, holds=False)
        return self._limit_reason(id)

    def would_defer(self, spec: Submission) -> str:
        """What would defer a new job."""
        if any(other in self._jobs for other in spec.awaited):
            return DEPENDENCY
        if spec.begin_at is not None and spec.begin_at > self._journal.wall():
            return BEGIN
        queue = self._of_user.get(spec.user) if spec.gpus else None
        if queue is not None and not queue.has_room(spec.most_gpus):
            return QUOTA
        self._interactive.set_limit(self.interactive_gpus)
        is_counted = spec.is_interactive and spec.gpus
        return INTERACTIVE if is_counted and not self._interactive.has_room(spec.most_gpus) else ""


def _one_limit(own: int | str | None, of_all: int | str | None) -> int | None:
    limit = of_all if own is None else own
    return limit if isinstance(limit, int) else None
