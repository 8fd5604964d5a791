"""The Controller's dealings with an allocator: when it is asked, whether its answer can stand, and what the
wish that stands means for the runs.

Nothing is decided about runs here. `ask` gives the decision about the wish, and the other methods say which
runs are not as the wish wants them, and which jobs can start; the Controller stops and starts them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from operator import attrgetter

from tiresias.core import facts as f
from tiresias.core.entries import JobEntry
from tiresias.core.model import INFINITY, JobId, Phase
from tiresias.core.plugins import Allocator, OptionError, Policy
from tiresias.core.state import JobState, State
from tiresias.core.view import AllotView
from tiresias.core.wish import Wish, WishChange, WishError, check, difference
from tiresias.core.wish_target import WishTarget

BLINK_S = 1e-6  # a rank or a wish lasts at least so long: a threshold missed by rounding is met a blink later
BY_KEY = attrgetter("key")


class Allotting:
    """One per Controller. With a policy that is no allocator it only knows of turns that are left to end."""

    def __init__(self, state: State, policy: Policy):
        self.names_slots = isinstance(policy, Allocator) and policy.names_slots
        self.may_pace = bool(state.paced)  # runs may have turns that another policy gave them
        self.refused_wish = ""  # the problem in the last wish; empty: it was applied
        self.first_refused_wish = ""
        self.refused_wishes = 0
        self._state = state
        self._allocator = policy if isinstance(policy, Allocator) else None
        state.ledger.layers = policy.layers if self.names_slots else 1  # type: ignore[attr-defined]
        if state.wish is not None and state.wish.by != policy.name:
            state.set_wish(None)  # that one is of another allocator, or this policy is none

    def set_aside(self) -> None:
        """The allocator has raised an exception: nothing is decided from now on."""
        self.names_slots = False
        self._state.ledger.layers = 1

    def ask(
        self, target: WishTarget, entries: Mapping[JobId, JobEntry], at: float
    ) -> f.WishChanged | f.WishRefused | None:
        """What becomes of the wish, if the allocator must be asked now; None: the wish stands as it is."""
        state, allocator = self._state, self._allocator
        assert allocator is not None
        if not self._is_asked(target, allocator, at):
            return None
        answer = allocator.allot(AllotView(state, target, entries), state.memory, at)
        if not isinstance(answer, Wish | WishChange):
            raise OptionError(f"{allocator.name} wishes {answer!r}; return a Wish or a WishChange")
        target.changed = {}
        try:
            given, withdrawn = difference(answer, state, entries)
            check(given, withdrawn, state, target, entries, names_slots=allocator.names_slots)
        except WishError as error:
            return self._refuse(str(error), target, allocator, at)
        self.refused_wish = ""
        again_at = max(answer.again_at, at + 2 * BLINK_S)
        wish = state.wish
        if not given and not withdrawn and wish is not None and wish.again_at == again_at:
            return None
        return f.WishChanged(at, allocator.name, given, withdrawn, None if again_at == INFINITY else again_at)

    def _is_asked(self, target: WishTarget, allocator: Allocator, at: float) -> bool:
        wish = self._state.wish
        if wish is None or wish.again_at <= at + BLINK_S:
            return True
        if allocator.rounds:
            return target.used > target.capacity
        return target.changed is None or bool(target.changed)

    def _refuse(
        self, problem: str, target: WishTarget, allocator: Allocator, at: float
    ) -> f.WishRefused | None:
        """Nothing of the wish is applied, and the allocator is shown everything when it is asked again."""
        target.changed = None
        self.refused_wishes += 1
        self.first_refused_wish = self.first_refused_wish or problem
        if problem == self.refused_wish:
            return None
        self.refused_wish = problem
        return f.WishRefused(at, allocator.name, problem)

    def reason(self, job: JobState, target: WishTarget, entries: Mapping[JobId, JobEntry]) -> str:
        """Why the wish gives nothing to the job, in the words of the allocator; may be empty."""
        assert self._allocator is not None
        view = AllotView(self._state, target, entries)
        return self._allocator.reason(job, view, self._state.memory)

    def size_of(self, job: JobState, target: object, entries: Mapping[JobId, JobEntry], policy: str) -> str:
        """Why an elastic job has its size, in words."""
        demand, allocator = job.job.demand, self._allocator
        has = f"it has {job.gpus} of {demand.least} to {demand.most} GPUs"
        if allocator is None or not allocator.sizes or not isinstance(target, WishTarget):
            return f"{has}: {policy} does not choose the sizes of jobs"
        wish = self._state.wish
        if wish is None or job.id not in wish.jobs:
            return f"it may have {demand.least} to {demand.most} GPUs"
        more = self.reason(job, target, entries)
        return f"{has}, as {policy} wishes" + (f": {more}" if more else "")

    def lease_ends_at(self, job: JobState) -> float:
        """Until when no plan stops the run of the job; -INFINITY: it has no lease."""
        wish = self._state.wish
        allotment = None if wish is None else wish.jobs.get(job.id)
        return allotment.until if allotment is not None and allotment.until else -INFINITY

    def pace(self, job: JobState, allotment: f.Allotment | None, at: float) -> f.RunPaced | None:
        """The turns that the run of the job must have by its allotment; None: it has them.

        Without an allotment it works all the time.
        """
        run = job.gpu_run
        if run is None or job.phase is Phase.STOPPING:
            return None
        turn, turns = (0, 1) if allotment is None else (allotment.turn, allotment.turns)
        return None if (run.turn, run.turns) == (turn, turns) else f.RunPaced(at, run.id, turn, turns)

    def left_paces(self, at: float) -> list[f.RunPaced]:
        """Once after the start: the turns of runs that another policy than this one has paced."""
        self.may_pace = False
        state = self._state
        wanted = {} if state.wish is None else state.wish.jobs
        jobs = [state.jobs[state.runs[run_id].job_id] for run_id in sorted(state.paced)]
        return [pace for job in jobs if (pace := self.pace(job, wanted.get(job.id), at)) is not None]

    def startable(self, ready: Iterable[JobEntry]) -> Iterator[tuple[JobEntry, f.Allotment]]:
        """The jobs of `ready` for which the slots that the wish names are free, each asked for when its turn
        comes, so that the ones before it can be granted their slots."""
        state = self._state
        assert state.wish is not None
        ledger, wanted = state.ledger, state.wish.jobs
        for entry in sorted([entry for entry in ready if entry.job.run is None], key=BY_KEY):
            allotment = wanted[entry.id]
            assert allotment.slots is not None, ("a wish without slots", entry.id)
            need = entry.job.job.demand.gpu_memory_bytes
            if ledger.is_open(allotment.slots, allotment.layer, need):
                yield entry, allotment


def misfit(entry: JobEntry, allotment: f.Allotment) -> f.Revocation | None:
    """Why the run of the job must stop for this allotment: it goes on and may be stopped, and it has another
    size, other slots or another layer of them. None: it can go on as it is."""
    job, run = entry.job, entry.job.gpu_run
    if run is None or job.phase is Phase.STOPPING or entry.pinned:
        return None
    if run.gpus != allotment.gpus:
        return f.Revocation(f.Rule.RESIZE, gpus=allotment.gpus)
    if allotment.slots is None:
        return None
    is_there = run.layer == allotment.layer and sorted(run.allocation) == sorted(allotment.slots)
    return None if is_there else f.Revocation(f.Rule.WISH)
