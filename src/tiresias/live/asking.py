"""What users and admins may ask of the manager. Applied at once; durable with the next `flush`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any

from tiresias.core import facts as f
from tiresias.core.demands import unmet as never_met
from tiresias.core.model import JobId, Phase, Priority
from tiresias.core.plugins import OptionError, placers, policies
from tiresias.core.state import JobState
from tiresias.executors.launchers import launchers
from tiresias.live.books import LIMITS
from tiresias.live.errors import Conflict, Denied, Impossible, Invalid, NotFound, Unavailable
from tiresias.live.gates import UNDECIDED
from tiresias.live.learning import GIVEN, MEASURED, Learner
from tiresias.live.machine import MISSING
from tiresias.live.notes import Note, fingerprint
from tiresias.live.reports import Limits
from tiresias.live.submission import Caller, Submission
from tiresias.spec.job import CHANGEABLE, SpecError
from tiresias.store import Chosen, StoreError, SubmissionKey

MOST_AT_ONCE = 10_000
WAITING = (Phase.PENDING, Phase.SUSPENDED)


class Desk(Learner):
    """Takes requests."""

    # --- submitting ------------------------------------------------------------------------------------

    def submit(
        self, caller: Caller, submissions: Sequence[Submission], *, key: str | None = None, digest: str = ""
    ) -> list[JobId]:
        """All of them or none; the same key again gives the same jobs again."""
        if key is not None and (known := self._known_key(caller, key, digest)) is not None:
            return known
        self.check_ready()
        if not 0 < len(submissions) <= MOST_AT_ONCE:
            raise Invalid(f"{len(submissions)} jobs at once: give between 1 and {MOST_AT_ONCE}")
        with self.models.trying():
            asked = [self._checked(caller, submission) for submission in submissions]
            self._check_count(caller, asked)
            self._batch.settings |= self.models.keep()
        at = self.now()
        ids: list[JobId] = []
        facts: list[f.Fact] = []
        needs: dict[JobId, list[JobId]] = {}
        for submission in asked:
            id = self._new_id()
            note = self.notes.enter(id, Note.of(submission))
            needs[id] = self._unmet(submission)
            self._batch.submissions[id] = submission.to_json()
            if submission.preflight:
                child = self._preflight(id, submission)
                facts.append(f.JobSubmitted(at, self.notes[child].light.to_job(child, at)))
                if self.gates.may_bar(self.notes[child]):
                    facts.append(f.JobDeferred(at, child, UNDECIDED))
                needs[child] = list(needs[id])  # it may need what they leave behind
                needs[id].append(child)
            facts.append(f.JobSubmitted(at, submission.to_job(id, at)))
            if self.gates.may_bar(note):
                facts.append(f.JobDeferred(at, id, UNDECIDED))
            if submission.hold:
                facts.append(f.JobHeld(at, id))
            ids.append(id)
        for id in needs:
            self.note(id)
        if key is not None:
            self._batch.keys[f"{caller.user}/{key}"] = SubmissionKey(ids, digest)
        self.apply(*facts)
        for id, unmet in needs.items():
            self.gates.add(id, unmet)
        self.settle()
        return ids

    def _new_id(self) -> JobId:
        id = self.next_job_id
        self.next_job_id = JobId(id + 1)
        return id

    def _known_key(self, caller: Caller, key: str, digest: str) -> list[JobId] | None:
        name = f"{caller.user}/{key}"
        known = self._batch.keys.get(name) or self.store.submission_key(name)
        if known is None:
            return None
        if known.digest != digest:
            raise Conflict(f"the Idempotency-Key {key!r} was used for another submission; choose a new one")
        return list(known.jobs)

    def _preflight(self, id: JobId, submission: Submission) -> JobId:
        """The job that tries the command out on one GPU."""
        child = self._new_id()
        tried = replace(
            submission.for_preflight(),
            name=f"{submission.name or id} (preflight)",
            array="",
            array_limit=None,
        )
        note = self.notes.enter(child, Note.of(tried))
        note.preflight_of = id
        self.notes[id].preflight_job = child
        self._batch.submissions[child] = tried.to_json()
        return child

    def _checked(self, caller: Caller, submission: Submission) -> Submission:
        """The submission as it will be stored, or why it cannot be accepted."""
        asked = submission.of(caller)
        if os.geteuid() != 0:
            asked = replace(asked, identity=None)
        _check(asked)
        if asked.priority is Priority.HIGH and not caller.is_admin:
            raise Denied("--priority high needs an admin; leave it out, or ask one")
        nodes = self.state.ledger.nodes
        if why := never_met(asked.to_job(JobId(0), 0.0).demand, nodes):
            raise Impossible(f"it {why}")
        limit = self.gates.limit_of(asked.user)
        if limit is not None and asked.gpus > limit:
            raise Impossible(f"it asks for {asked.gpus} GPUs, and {asked.user} may use {limit} at once")
        for other in asked.after:
            if other in self.state.jobs:
                continue
            if (record := self.record(other)) is None:
                raise NotFound(f"--after {other}: there is no job {other}")
            if record.phase is not Phase.SUCCEEDED:
                raise Impossible(f"--after {other}: job {other} has ended without success; leave it out")
        self._check_history(asked)
        return self.models.named(asked)

    def _check_history(self, asked: Submission) -> None:
        """Refuse what has failed in the same way again and again."""
        alike = self._failed_alike.get(fingerprint(asked)) if self._failed_alike else None
        if alike is not None and alike.times >= self.settings.refuse_after and not asked.force:
            times, id, reason, words = alike
            raise Impossible(
                f"this command failed in the same way {times} times ({reason}: {words}), last in job"
                f" {id}; see `tir logs {id}`, mend it, or submit it all the same with --force"
            )

    def _check_count(self, caller: Caller, asked: Sequence[Submission]) -> None:
        most = self.gates.limits_of(caller.user).max_active_jobs
        if most is None:
            return
        active = len(self.gates.by_user.get(caller.user, ()))
        if active + len(asked) > most:
            raise Impossible(
                f"{caller.user} may have {most} active jobs, has {active} and submits {len(asked)} more;"
                " wait until some have ended, or ask an admin for a higher limit"
            )

    def _unmet(self, submission: Submission) -> list[JobId]:
        return [other for other in submission.after if other in self.state.jobs]

    # --- one job ---------------------------------------------------------------------------------------

    def cancel(self, caller: Caller, id: JobId) -> None:
        job = self._own(caller, id)
        if not job.cancelled:
            self.apply(f.JobCancelled(self.now(), id))
            self.settle()

    def hold(self, caller: Caller, id: JobId) -> None:
        job = self._own(caller, id)
        if not job.held:
            self.apply(f.JobHeld(self.now(), id))
            self.gates.touch_job(id)
            self.settle()

    def release(self, caller: Caller, id: JobId) -> None:
        job = self._own(caller, id)
        if not job.held:
            raise Conflict(f"job {id} is {job.phase}, not held")
        at = self.now()
        facts: list[f.Fact] = [f.JobReleased(at, id)]
        if job.run is None and not job.deferred and self.gates.may_bar(self.notes[id]):
            facts.append(f.JobDeferred(at, id, UNDECIDED))
        self.apply(*facts)
        self.gates.touch_job(id)
        self.settle()

    def requeue(self, caller: Caller, id: JobId) -> None:
        job = self._own(caller, id)
        if job.run is None:
            raise Conflict(f"job {id} is {job.phase}: it is in the queue already")
        if job.phase is not Phase.STOPPING:
            self.apply(f.JobRequeued(self.now(), id))

    def change(self, caller: Caller, id: JobId, changes: Mapping[str, Any]) -> None:
        """Change the options that `changes` names; only those that the specification allows."""
        job = self._own(caller, id)
        note = self.notes[id]
        if odd := sorted(changes.keys() - set(CHANGEABLE)):
            raise Invalid(f"{odd[0]!r} cannot be changed; these can: {', '.join(CHANGEABLE)}")
        new = replace(note.light, **changes)
        _check(new, changes)
        new = replace(new, priority=Priority(new.priority))
        if new.priority is Priority.HIGH and "priority" in changes and not caller.is_admin:
            raise Denied("priority=high needs an admin")
        self.notes.change(id, new)
        if "time_limit_s" in changes:
            note.is_expired = False  # whether it has passed is seen anew
        self.note(id)
        at = self.now()
        self.apply(
            f.JobChanged(
                at, replace(job.job, priority=new.priority, name=new.name, tenant=new.tenant)
            )
        )

    def _own(self, caller: Caller, id: JobId) -> JobState:
        """The active job, if the caller may touch it."""
        self.check_ready()
        job = self.state.jobs.get(id)
        owner = job.user if job is not None else None
        if job is None:
            record = self.record(id)
            if record is None:
                raise NotFound(f"there is no job {id}; `tir ls --all` lists all of them")
            owner = record.job.user
        if not caller.may_touch(owner or ""):
            raise Denied(f"job {id} belongs to {owner}, and you are {caller.user}")
        if job is None:
            assert record is not None
            raise Conflict(f"job {id} has {record.phase}; submit it again if it shall run once more")
        return job

    # --- the cluster -----------------------------------------------------------------------------------

    def drain(self, caller: Caller, what: str, reason: str = "") -> None:
        """Nothing new starts on a node (`box`) or a slot (`box:3`); what runs there goes on."""
        self._admin(caller, "drain")
        node, index = self._place(what)
        if index is not None:
            self.withdraw(what, reason or f"drained by {caller.user}")
            return
        self.out_of_service[node] = reason or f"drained by {caller.user}"
        self.apply(f.NodeDrained(self.now(), node))
        self._keep_reasons()

    def undrain(self, caller: Caller, what: str) -> None:
        self._admin(caller, "undrain")
        node, index = self._place(what)
        if index is not None:
            if what not in self.machine.gpus:
                raise Conflict(f"{what} has no GPU: {MISSING}; start the manager again when it is back")
            self.restore(what)
            return
        self.out_of_service.pop(node, None)
        self.apply(f.NodeRestored(self.now(), node))
        self._keep_reasons()

    def _place(self, what: str) -> tuple[str, int | None]:
        nodes = {node.name: node for node in self.state.ledger.nodes}
        if what in nodes:
            return what, None
        name, colon, index = what.rpartition(":")
        if colon and name in nodes and index.isdecimal() and int(index) < nodes[name].gpus:
            return name, int(index)
        known = ", ".join(sorted(nodes))
        raise NotFound(f"there is no node or slot {what!r}; nodes: {known}; a slot is NODE:INDEX")

    def set_policy(
        self,
        caller: Caller,
        policy: str,
        options: Mapping[str, Any],
        placer: str | None = None,
        placer_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Go on under another policy or other options, with all jobs as they are."""
        self._admin(caller, "change the policy")
        if placer is None:
            placer = self.chosen.placer
            placer_options = self.placer_given if placer_options is None else placer_options
        given = dict(placer_options or {})
        try:
            chosen = Chosen(policy, dict(options), placer, given)
            made = policies.make(policy, chosen.options)
            placers.make(placer, given)
            chosen = self.completed(chosen, given, str(self.chosen.placer_options.get(MEASURED, "")))
            place = placers.make(placer, chosen.placer_options)
        except OptionError as error:
            raise Invalid(str(error)) from None
        if chosen == self.chosen:
            self._batch.settings[GIVEN] = self.placer_given = given
            return
        is_same = (policy, chosen.options) == (self.chosen.policy, self.chosen.options)
        if is_same:
            made = self.controller.policy
        before = self.placer_given
        try:
            self.flush()  # what was decided so far, was decided under the old one
            self.placer_given = given
            self.go_on_under(chosen, made, place, keeps_memory=is_same)
        except StoreError as error:
            self.placer_given = before
            raise Unavailable(str(error)) from None
        self.apply(f.TimerFired(self.now()))

    def set_limits(self, caller: Caller, user: str, limits: Limits) -> None:
        """For one user, or for everybody who has none of his own ("*")."""
        self._admin(caller, "set limits")
        for name, value in asdict(limits).items():
            if value is not None and value < 0:
                raise Invalid(f"{name}={value}: give a number from 0 on, or none")
        if not user:
            raise Invalid("whose limits? give a user, or * for everybody")
        if limits == Limits():
            self.gates.limits.pop(user, None)
        else:
            self.gates.limits[user] = limits
        self._batch.settings[LIMITS] = {who: asdict(what) for who, what in self.gates.limits.items()}
        for id in self.state.jobs:
            self.gates.touch_job(id)
        self.settle()

    def _admin(self, caller: Caller, what: str) -> None:
        if not caller.is_admin:
            raise Denied(f"only an admin may {what}, and {caller.user} is none")
        self.check_ready()


def _check(asked: Submission, names: Iterable[str] | None = None) -> None:
    """Refuse what no job may have, and launchers that are not installed."""
    try:
        asked.check(names)
    except SpecError as error:
        raise Invalid(str(error)) from None
    if asked.launcher not in launchers.names():
        raise Invalid(f"launcher {asked.launcher!r}: choose one of {', '.join(launchers.names())}")
    if asked.array_limit is not None and asked.array_limit < 1:
        raise Invalid(f"array_limit {asked.array_limit}: give a whole number from 1 up")
