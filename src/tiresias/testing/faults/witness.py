"""Checks the World and every command for what must never happen, without asking the manager anything."""

from __future__ import annotations

from collections.abc import Mapping

from tiresias.core.model import JobId, Phase, RunId
from tiresias.core.reasons import ReasonCode
from tiresias.core.state import State
from tiresias.executors import run_files
from tiresias.executors.base import RunSpec
from tiresias.live.journal import LATE_S
from tiresias.live.settings import Settings
from tiresias.testing.faults.promises import Promises, RequestedJob
from tiresias.testing.faults.trainings import Trouble
from tiresias.testing.faults.world import Gang, World

DECIDED_WITHIN_S = 300.0  # how long a start that was decided may take to be carried out, kills included
ROUNDED_S = 0.001
JUDGED_AFTER_S = Settings().judge_after_s
SAYS_SAVED = 75  # the exit code that says that a training has saved
HOPELESS = (Trouble.BROKEN, Trouble.UNSTARTABLE)
CURABLE = (Trouble.FLAKY, Trouble.GPU)


class Violation(AssertionError):
    """Something happened that must never happen."""


def _must(holds: bool, claim: str, *values: object) -> None:
    if not holds:
        raise Violation(f"{claim}: {', '.join(map(repr, values))}")


def _name(spec: RunSpec) -> str:
    """The training of a run; a preflight is a job of its own."""
    return f"preflight of {spec.command[-1]}" if spec.preflight else spec.command[-1]


def _may_look_unsaved(gang: Gang) -> bool:
    """Whether the manager may conclude from the exit of this run that its job does not save."""
    record = gang.record
    if record is None or gang.has_saved:
        return False
    return bool(record["stopped"]) and not record["lost"]


def _says_saved(gang: Gang) -> bool:
    exits = () if gang.record is None else gang.record["exits"]
    return gang.has_saved or any(each["code"] == SAYS_SAVED for each in exits)


class Witness:
    def __init__(self, world: World, promises: Promises, slots: frozenset[str]):
        self._world = world
        self._promises = promises
        self._slots = slots
        self._specs: dict[RunId, RunSpec] = {}  # as first commanded
        self._layers: dict[RunId, int] = {}  # on which each run was granted its slots
        self._forgotten: set[RunId] = set()
        self._names: dict[JobId, str] = {}  # the training of each job id
        # In true time, which is the World's: the manager has no clock that shows it.
        self._known_since: dict[str, float] = {}  # when each training was first submitted
        self._stopped_at: dict[RunId, float] = {}  # when each run was first commanded to stop
        self._ended_at: dict[JobId, float] = {}  # when the end of each job was first seen
        self._unbooted: set[RunId] = set()  # runs that were forgotten in the boot in which they began
        self._losers: set[str] = set()  # trainings that have shown that they do not save
        self._commanded_at: dict[RunId, float] = {}  # when its start was first commanded
        self._boots: dict[RunId, int] = {}  # the boot in which each run was first commanded to start

    # --- commands --------------------------------------------------------------------------------------

    def starts(self, spec: RunSpec, layer: int = 0) -> None:
        """The manager commands a start, for the first time or again, on this layer of the slots."""
        known_layer = self._layers.setdefault(spec.run_id, layer)
        _must(known_layer == layer, "a run changes its layer", spec.run_id, known_layer, layer)
        job = self._promises.jobs[spec.command[-1]]
        known = self._specs.get(spec.run_id)
        if known is not None:
            _must(spec.run_id not in self._forgotten, "a run that is over is started again", spec.run_id)
            same = (spec.run_dir, spec.job_id, spec.slots) == (known.run_dir, known.job_id, known.slots)
            _must(same, "a run changes as it is started again", known, spec)
            return
        self._check_identity(spec)
        self._check_slots(spec, job)
        self._check_turn(spec, job)
        self._specs[spec.run_id] = spec
        self._boots[spec.run_id] = self._world.boot
        self._commanded_at[spec.run_id] = self._world.at

    def _check_identity(self, spec: RunSpec) -> None:
        for other in self._specs.values():
            _must(other.run_dir != spec.run_dir, "two runs share a directory", other.run_id, spec.run_id)
            if other.job_id == spec.job_id:
                same = other.checkpoint_dir == spec.checkpoint_dir
                _must(same, "the checkpoints of a job moved", other.checkpoint_dir, spec.checkpoint_dir)
                _must(other.number < spec.number, "runs numbered out of order", other.number, spec.number)
            else:
                once = _name(other) != _name(spec)
                _must(once, "one submission, two jobs", _name(spec), other.job_id, spec.job_id)
        name = self._names.setdefault(spec.job_id, _name(spec))
        _must(name == _name(spec), "one job id, two jobs", spec.job_id, name, _name(spec))
        program = self._world.program_of(spec)
        _must(spec.resumes or not program.saved, "it must resume but starts from the beginning", spec.run_id)
        _must(not program.is_finished, "a job that said it is finished runs again", spec.run_id)

    def _check_slots(self, spec: RunSpec, job: RequestedJob) -> None:
        slots = [str(slot) for slot in spec.slots]
        asked = job.submission
        least, most = (1, 1) if spec.preflight else (asked.gpus, asked.most_gpus)
        is_gang = len(set(slots)) == len(slots) and least <= len(slots) <= most
        _must(is_gang, "not the gang that was asked for", slots, least, most)
        _must(set(slots) <= self._slots, "slots that do not exist", slots)
        out = self._promises.sure_drained & set(slots)
        _must(not out, "a start on a drained slot", spec.run_id, sorted(out))

    def _check_turn(self, spec: RunSpec, job: RequestedJob) -> None:
        asked = job.submission
        is_it = spec.preflight or job.id in (None, spec.job_id)
        _must(is_it, "an acknowledged job runs as another", job.id, spec.job_id)
        _must(not job.is_cancel_sure, "a cancelled job starts", spec.job_id)
        _must(spec.preflight or not job.is_hold_sure, "a job on hold starts", spec.job_id)
        waits = [other.name for other in job.awaited("after") if not self._world.programs[other.name].is_done]
        _must(not waits, "it starts before what it depends on is done", spec.job_id, waits)
        alive = {_name(gang.spec) for gang in self._world.live if not gang.spec.preflight}
        running = [other.name for other in job.after if other.name in alive]
        _must(not running, "it starts before what it depends on has ended", spec.job_id, running)
        if asked.begin_at is not None and spec.number == 1:
            # A start that was decided in time may be carried out a little later, by another manager.
            wall = self._world.clocks.latest_wall(DECIDED_WITHIN_S)
            _must(wall >= asked.begin_at, "it starts too early", spec.job_id, wall, asked.begin_at)
        limit = self._promises.sure_gpu_limit
        if limit is not None:
            in_use = sum(len(gang.spec.slots) for gang in self._world.live)
            _must(in_use + len(spec.slots) <= limit, "above the limit of its user", in_use, limit)

    def stops(self, run_id: RunId) -> None:
        spec = self._specs.get(run_id)
        if spec is None:
            return  # a run that was granted and whose start was never commanded
        job = self._promises.jobs[spec.command[-1]]
        asked = job.submission
        self._stopped_at.setdefault(run_id, self._world.at)
        was_rebooted = self._boots[run_id] != self._world.boot
        has_begun = self._world.gang_at(spec.run_dir) is not None
        if has_begun and not (job.is_stop_asked or spec.preflight or was_rebooted):
            self._check_protection(spec, job)
        if asked.preemptible or job.is_stop_asked or spec.preflight or was_rebooted or not has_begun:
            return
        limit_s = asked.time_limit_s
        _must(limit_s is not None, "a job that may not be preempted is stopped", run_id, spec.job_id)
        assert limit_s is not None
        lasted_s = self._world.at - self._known_since[job.name]
        _must(lasted_s >= limit_s - ROUNDED_S, "stopped before its time limit", spec.job_id, lasted_s)

    def _check_protection(self, spec: RunSpec, job: RequestedJob) -> None:
        """A job that lost its work for want of saving is not preempted again, within the share.

        The share is at least one GPU, whatever is out of service. So the only job that may be known not to
        save, with one GPU, must be protected.
        """
        if len(spec.slots) > 1 or job.submission.time_limit_s is not None or job.name not in self._losers:
            return
        if any(_says_saved(gang) for gang in self._world.gangs if _name(gang.spec) == job.name):
            return  # it has shown both
        open_runs = [each for each in self._specs.values() if each.run_id not in self._forgotten]
        # A manager that stored an exit and was killed never forgets the run: the World knows more exits.
        suspects = {_name(gang.spec) for gang in self._world.gangs if _may_look_unsaved(gang)}
        others = {_name(each) for each in open_runs} & suspects - {job.name}
        _must(bool(others), "a job that lost its work is preempted again", spec.run_id, spec.job_id)

    def _learn(self, gang: Gang) -> None:
        """The exit of this run is durable: what the manager must know about its saving."""
        if gang.spec.preflight or not _may_look_unsaved(gang):
            return
        record = gang.record
        assert record is not None
        lasted_s = (gang.over_at or gang.began_at) - gang.began_at
        has_shown = lasted_s >= JUDGED_AFTER_S + ROUNDED_S and record["exits"] and not _says_saved(gang)
        is_new = not gang.program.saved and self._boots.get(gang.spec.run_id) == self._world.boot
        if has_shown and is_new:
            self._losers.add(_name(gang.spec))

    def forgets(self, run_id: RunId, is_stored: bool) -> None:
        _must(is_stored, "a run is forgotten before its exit is stored", run_id)
        spec = self._specs.get(run_id)
        if spec is not None and run_id not in self._forgotten:
            gang = self._world.gang_at(spec.run_dir)
            _must(gang is None or not gang.is_alive, "a run is forgotten before it is over", run_id)
            if gang is not None:
                self._learn(gang)
        self._forgotten.add(run_id)
        if self._boots.get(run_id) == self._world.boot:
            self._unbooted.add(run_id)

    def ends(self, id: JobId) -> None:
        """The job has ended, and that is durable; may be called again."""
        self._ended_at.setdefault(id, self._world.at)

    # --- the World -------------------------------------------------------------------------------------

    def look(self) -> None:
        """Check the World; called after every event."""
        swept = self._world.swept_alive
        _must(not swept, "a run with a living supervisor was taken for lost", swept)
        for name in self._promises.jobs:
            self._known_since.setdefault(name, self._world.at)
        holders: dict[tuple[str, int, int], RunId] = {}
        jobs: dict[JobId, RunId] = {}
        arrays: dict[str, int] = {}
        for gang in self._world.live:
            spec, run_id = gang.spec, gang.spec.run_id
            layer = self._layers[run_id]
            _must(run_id not in self._forgotten, "a run lives that was reported to be over", run_id)
            for slot in spec.slots:
                other = holders.setdefault((slot.node, slot.index, layer), run_id)
                if other != run_id:
                    raise Violation(f"a slot held by two live runs: {slot}, {other}, {run_id}")
            is_kept = gang.is_supervised or not gang.is_stopped
            _must(is_kept, "a run is left stopped, and nobody will continue it", run_id)
            other = jobs.setdefault(spec.job_id, run_id)
            _must(other == run_id, "a job with two live runs", spec.job_id, other, run_id)
            asked = self._promises.jobs[spec.command[-1]].submission
            if asked.array_limit is not None and not spec.preflight:
                arrays[asked.array] = arrays.get(asked.array, 0) + 1
                within = arrays[asked.array] <= asked.array_limit
                _must(within, "too many of an array at once", asked.array, asked.array_limit)

    def check_turns(self, state: State, slice_s: float) -> None:
        """Everything that was decided has been carried out: each run has the turns that it was given."""
        for gang in self._world.live:
            run = state.runs.get(gang.spec.run_id)
            if run is None or not gang.is_supervised or gang.is_ending:
                continue
            if state.jobs[run.job_id].phase is Phase.STOPPING:
                continue  # it works until it has saved
            kernel = self._world.kernel_of(gang.supervisor)
            found = run_files.read(str(gang.spec.run_dir), run_files.PACE, kernel)
            found = found or {"turn": 0, "turns": 1, "slice_s": slice_s}
            has = found["turn"], found["turns"], found["slice_s"] if run.turns > 1 else slice_s
            wanted = run.turn, run.turns, slice_s
            _must(has == wanted, "a run has other turns than were decided", run.id, has, wanted)
            _must(run.layer == self._layers[run.id], "a run is on another layer", run.id, run.layer)

    def check_durable(self) -> None:
        """After a loss of power: every exit record that was written is there, as it was."""
        for gang in self._world.gangs:
            if gang.record is not None:
                found = self._world.exit_of(gang)
                _must(found == gang.record, "an exit record was lost with the power", gang.spec.run_id, found)

    def check_begun_once(self) -> None:
        begun = [gang.spec.run_id for gang in self._world.gangs]
        _must(len(set(begun)) == len(begun), "a run was started twice", begun)

    # --- the end of a job ------------------------------------------------------------------------------

    def check_end(self, job: RequestedJob, phases: Mapping[str, Phase]) -> None:
        """Compare how a job ended according to the manager (`phases`, by name) with the World."""
        phase = phases[job.name]
        program = self._world.programs[job.name]
        gangs = [gang for gang in self._world.gangs if _name(gang.spec) == job.name]
        done = {step for step, _ in program.steps}
        if phase is Phase.SUCCEEDED:
            _must(program.is_done, "succeeded without doing its steps", job.id, program.saved)
            wanted = set(range(1, job.training.steps + 1))
            _must(done == wanted, "other steps than were requested", job.id, done, wanted)
        elif phase is Phase.CANCELLED:
            needless = any(phases[other.name] is Phase.SUCCEEDED for other in job.awaited("after_not_ok"))
            _must(job.is_cancel_asked or needless, "cancelled by nobody", job.id)
            _must(not needless or job.is_cancel_asked or not gangs, "not needed, and it ran", job.id)
        else:
            _must(phase is Phase.FAILED, "not ended", job.id, phase)
            in_vain = any(phases[other.name] is not Phase.SUCCEEDED for other in job.awaited("after"))
            self._check_failure(job, gangs, in_vain)
        failures = self._failed_of(gangs, *CURABLE, *HOPELESS)
        _must(failures <= job.submission.retries + 1, "retried too often", job.id, failures)

    def check_times(self, job: RequestedJob, executed_s: float, reason: str) -> None:
        """Compare what the manager charged a job for, and when it ran out of time, with true time."""
        assert job.id is not None
        gangs = [gang for gang in self._world.gangs if _name(gang.spec) == job.name]
        if not gangs:
            return
        known_s = self._ended_at[job.id] - self._known_since[job.name]
        _must(executed_s <= known_s + ROUNDED_S, "charged for time that never passed", job.id, executed_s)
        if reason == ReasonCode.TIME_LIMIT:
            limit_s = job.submission.time_limit_s or 0.0
            used_s = self._most_used_s(job, gangs)
            _must(used_s >= limit_s - ROUNDED_S, "failed before its time limit", job.id, used_s)
        # After a boot with a wall clock that is behind, less time may have passed for the manager.
        seen = not any(gang.is_lost for gang in gangs)
        if seen and all(gang.spec.run_id in self._unbooted for gang in gangs):
            true_s = sum(gang.over_at - gang.began_at for gang in gangs if gang.over_at is not None)
            is_charged = executed_s >= true_s - LATE_S * len(gangs) - ROUNDED_S
            _must(is_charged, "not charged for time in which it ran", job.id, executed_s, true_s)

    def _most_used_s(self, job: RequestedJob, gangs: list[Gang]) -> float:
        """The most time that the runs of a job can have used: from their grants until their ends were known.

        A run that was granted and never begun uses none. The end of a lost run becomes known when what it
        left behind has been ended. A start may take as long as a manager is away.
        """
        assert job.id is not None
        ended_at = self._ended_at[job.id]
        used_s = LATE_S * sum(spec.job_id == job.id for spec in self._specs.values())
        for gang in gangs:
            since = max(self._known_since[job.name], self._commanded_at[gang.spec.run_id])
            is_known = gang.over_at is not None and not gang.is_lost
            used_s += (gang.over_at if is_known and gang.over_at is not None else ended_at) - since
        return used_s

    def _failed_of(self, gangs: list[Gang], *troubles: Trouble) -> int:
        """How many runs failed by one of these troubles, were not stopped, and have an exit record."""
        seen = [gang for gang in gangs if not gang.is_lost]
        return sum(gang.trouble in troubles and not gang.was_signalled for gang in seen)

    def _check_failure(self, job: RequestedJob, gangs: list[Gang], in_vain: bool) -> None:
        """Check a failed job; `in_vain` means that a job on which it depends did not succeed."""
        hopeless = self._failed_of(gangs, *HOPELESS)
        # In a loss of power the last output of a run may be lost, and with it the cause of its failure.
        known = [gang for gang in gangs if gang.spec.run_id in self._unbooted]
        again = self._failed_of(known, *HOPELESS)
        _must(again <= 1, "retried what no retry can cure", job.id, again)
        tried = self._world.tried.get(job.name)
        if job.submission.time_limit_s is not None or hopeless or (tried is not None and tried.troubles):
            return
        if in_vain:
            _must(not gangs, "failed because of a job on which it depends, after it ran", job.id)
            return
        failures = self._failed_of(gangs, *CURABLE)
        _must(failures > job.submission.retries, "failed, but could have been retried", job.id, failures)
