"""What users and administrators may ask of the manager. A request is checked, and turned into facts.

What a request brings about is applied at once and durable with the next `flush` of the manager. A request
that cannot be met raises Refused (errors.py) and changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from tiresias.core import facts as f
from tiresias.core.demands import unmet as never_met
from tiresias.core.model import JobId, Phase, Priority
from tiresias.core.plugin_failures import PluginRaised, blame
from tiresias.core.plugins import OptionError, Placer, Policy, placers
from tiresias.core.protection import protected_gpus
from tiresias.core.reasons import text_of
from tiresias.core.shares import problem_in
from tiresias.core.state import JobState, State
from tiresias.executors.launchers import launchers
from tiresias.live import fallback
from tiresias.live.admission import LIMITS, UNDECIDED, Admission
from tiresias.live.answers import NO_LIMIT, DryRun, Explanation, Limits
from tiresias.live.bad_nodes import BadNodes
from tiresias.live.drains import Drains
from tiresias.live.errors import Conflict, Denied, Impossible, Invalid, NotFound, Unavailable
from tiresias.live.fallback import FAILURE
from tiresias.live.gpu_health import GpuHealth, split_slot
from tiresias.live.journal import Input, Journal
from tiresias.live.machine import MISSING, Machine
from tiresias.live.managed_jobs import ManagedJob
from tiresias.live.models import Models
from tiresias.live.nodes import Nodes
from tiresias.live.notices import Notices
from tiresias.live.placer_feedback import GIVEN, MEASURED, PlacerFeedback
from tiresias.live.preview import preview
from tiresias.live.repeated_failures import RepeatedFailures
from tiresias.live.settings import Settings
from tiresias.live.submission import Caller, Submission
from tiresias.live.unsaved_work import UnsavedWork
from tiresias.live.words import lasting
from tiresias.spec.job import CHANGEABLE, SpecError
from tiresias.store import Chosen, StoreError, SubmissionKey

MOST_AT_ONCE = 10_000
NAMED = 20  # nodes in a message
SAY_SO = (
    "Give --resumable yes if it saves and resumes by itself, or --resumable no so that it is not preempted,"
    " as far as the policy protects such jobs: they hold at most {} of {} GPUs together."
)
NOT_REPEATED: Mapping[str, Any] = {  # what belonged to the occasion, not to the job
    "after": (),
    "after_any": (),
    "after_not_ok": (),
    "begin_at": None,
    "hold": False,
    "force": True,  # who repeats a command knows what became of it
}


class Driver(Protocol):
    """What requests need of the manager."""

    def settle(self) -> None:
        """Defer and clear jobs as is right by now: begin times follow the wall clock, which may be set."""

    def apply(self, given: Input) -> None:
        """Handle facts, and all that follows from them."""

    def switch(self, chosen: Chosen, policy: Policy, placer: Placer, *, keeps_memory: bool) -> None:
        """Commit what was decided so far, then decide by another policy or placer."""


@dataclass(slots=True)
class Requests:
    """Applies what callers ask for, if they may."""

    driver: Driver
    journal: Journal
    admission: Admission
    gpu_health: GpuHealth
    nodes: Nodes
    drains: Drains
    bad_nodes: BadNodes
    feedback: PlacerFeedback
    failures: RepeatedFailures
    unsaved: UnsavedWork
    machine: Machine
    settings: Settings
    notices: Notices

    @property
    def _state(self) -> State:
        return self.journal.state

    def _check_ready(self) -> None:
        self.journal.check_ready()
        self.driver.settle()

    def _apply(self, *facts: f.Fact) -> None:
        self.driver.apply(Input(facts))

    # --- submitting ------------------------------------------------------------------------------------

    def submit(
        self, caller: Caller, submissions: Sequence[Submission], *, key: str | None = None, digest: str = ""
    ) -> list[JobId]:
        """All of them or none; the same key again gives the same jobs again."""
        if key is not None and (known := self._known_key(caller, key, digest)) is not None:
            return known
        self._check_ready()
        if not 0 < len(submissions) <= MOST_AT_ONCE:
            raise Invalid(f"{len(submissions)} jobs at once: give between 1 and {MOST_AT_ONCE}")
        models = Models(self.journal.profiles)
        checked = [self._checked(caller, submission, models) for submission in submissions]
        self._check_count(caller, checked)
        for name, value in models.keep().items():
            self.journal.keep_setting(name, value)
        at = self.journal.now()
        ids: list[JobId] = []
        facts: list[f.Fact] = []
        for submission in checked:
            id = self.journal.new_job_id()
            child = self._add_preflight(id, submission, at, facts) if submission.preflight else None
            self._add(id, submission, at, facts, preflight_job=child)
            ids.append(id)
        if key is not None:
            self.journal.keep_key(f"{caller.user}/{key}", SubmissionKey(ids, digest))
        self._apply(*facts)
        return ids

    def again(
        self,
        caller: Caller,
        id: JobId,
        changes: Mapping[str, Any],
        *,
        key: str | None = None,
        digest: str = "",
    ) -> list[JobId]:
        """Submit a job of the caller once more, with its environment. What it had to wait for is over."""
        record = self._state.jobs.get(id)
        stored = self.journal.job_record(id) if record is None else None
        owner = record.user if record is not None else stored.job.user if stored is not None else None
        if owner is None:
            raise NotFound(f"there is no job {id}; `tir ls --all` lists all of them")
        if owner != caller.user:
            raise Denied(f"job {id} belongs to {owner}, who alone can repeat it; you are {caller.user}")
        body = self.journal.submission(id)
        if body is None:
            raise NotFound(f"job {id} ended so long ago that its command is not kept; submit it anew")
        former = Submission.from_json(body)
        if former.snapshot and not os.path.isdir(former.snapshot):
            raise Conflict(
                f"job {id} ran in a copy of the working tree that has been removed; submit it anew with"
                " --snapshot"
            )
        once_more = Submission.from_json({**body, **NOT_REPEATED, **changes})
        return self.submit(caller, [once_more], key=key, digest=digest)

    def _add(
        self,
        id: JobId,
        submission: Submission,
        at: float,
        facts: list[f.Fact],
        *,
        preflight_job: JobId | None = None,
        preflight_of: JobId | None = None,
    ) -> None:
        """Append the facts that submit one job."""
        spec = submission.but(env={}, identity=None)
        managed = ManagedJob(spec, preflight_job=preflight_job, preflight_of=preflight_of)
        self.journal.managed.add(id, managed)
        self.journal.keep_submission(id, submission.to_json())
        facts.append(f.JobSubmitted(at, submission.to_job(id, at)))
        if self.admission.may_defer(managed):
            facts.append(f.JobDeferred(at, id, UNDECIDED))
        if submission.hold:
            facts.append(f.JobHeld(at, id))

    def _add_preflight(self, id: JobId, submission: Submission, at: float, facts: list[f.Fact]) -> JobId:
        """Append the facts that submit the job that tries the command on one GPU."""
        child = self.journal.new_job_id()
        trial = replace(
            submission.for_preflight(),
            name=f"{submission.name or id} (preflight)",
            array="",
            array_limit=None,
        )
        self._add(child, trial, at, facts, preflight_of=id)
        return child

    def _known_key(self, caller: Caller, key: str, digest: str) -> list[JobId] | None:
        name = f"{caller.user}/{key}"
        known = self.journal.submission_key(name)
        if known is None:
            return None
        if known.digest != digest:
            raise Conflict(f"the Idempotency-Key {key!r} was used for another submission; choose a new one")
        return list(known.jobs)

    def _checked(self, caller: Caller, submission: Submission, models: Models) -> Submission:
        """The submission as it will be stored, or why it cannot be accepted."""
        asked = submission.completed().of(caller)
        if self.machine.source is not None:
            asked = asked.but(narrows=True)
        _check(asked)
        if asked.is_interactive:
            asked = self._as_interactive(asked)
        self._check_grace(asked)
        self._check_limits(asked)
        self.notices.check(asked)
        if asked.priority is Priority.HIGH and not caller.is_admin:
            raise Denied("--priority high needs an admin; leave it out, or ask one")
        nodes = self._state.ledger.nodes
        if why := never_met(asked.demand, nodes):
            raise Impossible(f"it {why}")
        limit = self.admission.gpu_limit_of(asked.user)
        if limit is not None and asked.most_gpus > limit:
            upto = "up to " if asked.most_gpus > asked.gpus else ""
            what = f"it asks for {upto}{asked.most_gpus} GPUs"
            raise Impossible(f"{what}, and {asked.user} may use {limit} at once")
        self._check_awaited(asked)
        self._check_history(asked)
        self._check_resumable(asked)
        return models.named(asked)

    def _check_awaited(self, asked: Submission) -> None:
        """Refuse jobs after which it could never start."""
        for other in asked.awaited:
            if other in self._state.jobs:
                continue
            if (record := self.journal.job_record(other)) is None:
                raise NotFound(f"it comes after job {other}, and there is no job {other}; correct it")
            succeeded = record.phase is Phase.SUCCEEDED
            if asked.is_doomed_by(other, succeeded=succeeded):
                flag = "--afternotok" if succeeded else "--after"
                how = "with" if succeeded else "without"
                raise Impossible(f"{flag} {other}: job {other} has ended {how} success; leave it out")

    def _check_grace(self, asked: Submission) -> None:
        most_s = self.settings.most_grace_s
        if asked.grace_s > most_s:
            raise Impossible(
                f"a grace of {asked.grace_s:.0f} s is longer than the {most_s:.0f} s that this manager"
                " allows; give a shorter one, save more often, or ask an admin to raise most_grace_s"
            )

    def _as_interactive(self, asked: Submission) -> Submission:
        """With what holds for all jobs in which a person works; refused if it asks for more than that."""
        if asked.pty and self.machine.source is not None:
            raise Impossible(
                "--pty connects a terminal with the job, and a terminal on another machine than the manager's"
                " cannot be reached; use `tir jupyter`, whose pages have terminals, or submit it without"
                " --pty and follow it with `tir logs -f`"
            )
        most_gpus, idle_s = self.admission.interactive_gpus, self.settings.interactive_idle_s
        time_s = self.settings.interactive_time_s
        if asked.most_gpus > most_gpus:
            raise Impossible(
                f"it asks for {asked.most_gpus} GPUs, and interactive jobs may hold {most_gpus} together,"
                " because they are not preempted; ask for fewer (-g), or submit it without --pty and"
                " --interactive"
            )
        if (asked.time_limit_s or 0.0) > time_s:
            raise Impossible(
                f"an interactive job may last {lasting(time_s)} at most; give a shorter --time, or ask an"
                " admin to raise interactive_time_s"
            )
        if (asked.idle_limit_s or 0.0) > idle_s:
            raise Impossible(
                f"an interactive job may be idle for {lasting(idle_s)} at most; give a shorter --idle-limit,"
                " or ask an admin to raise interactive_idle_s"
            )
        return asked.but(
            preemptible=False,
            retries=0,
            time_limit_s=asked.time_limit_s or time_s,
            idle_limit_s=asked.idle_limit_s or idle_s,
        )

    def _check_limits(self, asked: Submission) -> None:
        """Refuse limits that the machine cannot enforce: a job must not run without those it asked for."""
        if refusal := self.machine.limiting.refusal(asked.cpus, asked.memory_bytes):
            raise Impossible(f"{refusal}; or leave the option out")

    def _check_history(self, asked: Submission) -> None:
        """Refuse what has failed in the same way again and again."""
        failure = self.failures.of(asked)
        if failure is not None and failure.times >= self.settings.refuse_after and not asked.force:
            times, id, reason, words = failure
            raise Impossible(
                f"this command failed in the same way {times} times ({reason}: {words}), last in job"
                f" {id}; see `tir logs {id}`, mend it, or submit it all the same with --force"
            )

    def _check_resumable(self, asked: Submission) -> None:
        """Refuse what is known not to save, if the manager is set to do so."""
        if not self.settings.refuse_unresumable or asked.force or asked.resumable or not asked.preemptible:
            return
        loss = self.unsaved.of(asked)
        if asked.resumable is False or loss is not None:
            why = "it is submitted with --resumable no" if loss is None else f"{loss.words}, as this job"
            raise Impossible(
                f"this manager refuses jobs that do not save, and {why}; let it save, and submit it with"
                " --resumable yes"
            )

    def warnings(self, caller: Caller, submissions: Sequence[Submission]) -> list[str]:
        """What the caller should know about these jobs, which were accepted."""
        policy = self.journal.controller.policy
        found: dict[str, None] = {}
        for spec in submissions:
            asked = spec.of(caller)
            if asked.resumable is None and asked.preemptible and policy.preempts:
                loss = self.unsaved.of(asked)
                if loss is not None:
                    words = f"{loss.words}; this job looks the same, and begins anew if it is preempted."
                    found[words] = None
        if found:
            gpus = self._state.ledger.gpus
            found[SAY_SO.format(protected_gpus(policy.protect, gpus), gpus)] = None
        return list(found)

    def _check_count(self, caller: Caller, asked: Sequence[Submission]) -> None:
        if more := sum(each.is_interactive for each in asked):
            here = self.admission.interactive_jobs_of(caller.user)
            may_have = int(self.settings.interactive_jobs)
            if here + more > may_have:
                raise Impossible(
                    f"{caller.user} may have {may_have} interactive jobs at once and has {here}; end one"
                    " (tir ls, tir cancel), or attach to it again (tir attach)"
                )
        most = self.admission.job_limit_of(caller.user)
        if most is None:
            return
        active = self.admission.active_jobs_of(caller.user)
        if active + len(asked) > most:
            raise Impossible(
                f"{caller.user} may have {most} active jobs, has {active} and submits {len(asked)} more;"
                " wait until some have ended, or ask an admin for a higher limit"
            )

    # --- one job ---------------------------------------------------------------------------------------

    def cancel(self, caller: Caller, id: JobId, *, now: bool = False) -> None:
        """End a job. Its run has its grace period to stop; with `now` it is killed at once."""
        job = self._own(caller, id)
        if now:
            self._set_grace(job, 0.0)
        if not job.cancelled:
            self._apply(f.JobCancelled(self.journal.now(), id))

    def _set_grace(self, job: JobState, grace_s: float) -> None:
        """Change the grace of a job, also of its run if that is stopping already."""
        self.journal.managed.change(job.id, spec=replace(self.journal.managed[job.id].spec, grace_s=grace_s))
        if job.run is not None and job.phase is Phase.STOPPING:
            self.journal.stop_again(job.run.id)

    def hold(self, caller: Caller, id: JobId) -> None:
        job = self._own(caller, id)
        if not job.on_hold:
            self._apply(f.JobHeld(self.journal.now(), id))

    def release(self, caller: Caller, id: JobId) -> None:
        job = self._own(caller, id)
        if not job.on_hold:
            raise Conflict(f"job {id} is {job.phase}, not on hold")
        at = self.journal.now()
        facts: list[f.Fact] = [f.JobReleased(at, id)]
        if job.run is None and not job.deferred and self.admission.may_defer(self.journal.managed[id]):
            facts.append(f.JobDeferred(at, id, UNDECIDED))
        self._apply(*facts)

    def requeue(self, caller: Caller, id: JobId) -> None:
        job = self._own(caller, id)
        if job.run is None:
            raise Conflict(f"job {id} is {job.phase}: it is in the queue already")
        if job.phase is not Phase.STOPPING:
            self._apply(f.JobRequeued(self.journal.now(), id))

    def change(self, caller: Caller, id: JobId, changes: Mapping[str, Any]) -> None:
        """Change the options that `changes` names; only those that the specification allows."""
        job = self._own(caller, id)
        if odd := sorted(changes.keys() - set(CHANGEABLE)):
            raise Invalid(f"{odd[0]!r} cannot be changed; these can: {', '.join(CHANGEABLE)}")
        new = replace(self.journal.managed[id].spec, **changes)
        _check(new, changes)
        new = replace(new, priority=Priority(new.priority))
        if new.is_interactive and "time_limit_s" in changes:
            self._as_interactive(new)
        self.notices.check(new)
        if new.priority is Priority.HIGH and "priority" in changes and not caller.is_admin:
            raise Denied("priority=high needs an admin")
        if "grace_s" in changes:
            self._check_grace(new)
            if job.phase is Phase.STOPPING and new.grace_s > self.journal.managed[id].spec.grace_s:
                raise Conflict(f"job {id} is stopping: its grace can only become shorter now")
            self._set_grace(job, new.grace_s)
        self.journal.managed.change(id, spec=new)
        if "time_limit_s" in changes:
            self.journal.managed.change(id, is_expired=False)  # whether it has passed is seen anew
        resumable = new.resumable if "resumable" in changes else job.resumable
        changed = replace(
            job.job, priority=new.priority, name=new.name, tenant=new.tenant, resumable=resumable
        )
        self._apply(f.JobChanged(self.journal.now(), changed))

    def _own(self, caller: Caller, id: JobId) -> JobState:
        """The active job, if the caller may touch it."""
        self._check_ready()
        job = self._state.jobs.get(id)
        owner = job.user if job is not None else None
        if job is None:
            record = self.journal.job_record(id)
            if record is None:
                raise NotFound(f"there is no job {id}; `tir ls --all` lists all of them")
            owner = record.job.user
        if not caller.may_touch(owner or ""):
            raise Denied(f"job {id} belongs to {owner}, and you are {caller.user}")
        if job is None:
            assert record is not None
            raise Conflict(f"job {id} has ended ({record.phase}); `tir again {id}` submits it once more")
        return job

    # --- the cluster -----------------------------------------------------------------------------------

    def drain(self, caller: Caller, what: str, reason: str = "", deadline_s: float | None = None) -> None:
        """Nothing new starts on a node (`box`) or a slot (`box:3`); what runs there goes on.

        With a deadline, what still runs there after so many seconds is stopped, and its jobs queue again.
        """
        self._check_admin(caller, "drain")
        reason = reason or f"drained by {caller.user}"
        is_node = self._is_node(what)
        self.drains.set(what, None if deadline_s is None else self.journal.now() + deadline_s)
        self.driver.apply(
            self.gpu_health.drain_node(what, reason) if is_node else self.gpu_health.withdraw(what, reason)
        )

    def undrain(self, caller: Caller, what: str) -> None:
        self._check_admin(caller, "undrain")
        is_node = self._is_node(what)
        self.drains.set(what, None)
        if is_node:
            self.bad_nodes.pardon(what)
            self.driver.apply(self.gpu_health.restore_node(what))
            return
        is_of_gpus = self._state.ledger_of(split_slot(what)[0]) is self._state.ledger
        if is_of_gpus and what not in self.machine.gpus:
            raise Conflict(f"{what} has no GPU: {MISSING}; start the manager again when it is back")
        self.driver.apply(self.gpu_health.restore(what))

    def _is_node(self, what: str) -> bool:
        """Whether this is a node; else it is a slot, or refused."""
        nodes = {node.name: node for node in self._state.ledger.nodes}
        if what in nodes:
            return True
        name, colon, index = what.rpartition(":")
        slots = nodes[name].gpus or nodes[name].cpu_slots if name in nodes else 0
        if colon and index.isdecimal() and int(index) < slots:
            return False
        some = sorted(nodes)
        known = ", ".join(some[:NAMED]) + (f" and {len(some) - NAMED} more" if len(some) > NAMED else "")
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
        self._check_admin(caller, "change the policy")
        journal, feedback = self.journal, self.feedback
        if placer is None:
            placer = journal.chosen.placer
            placer_options = feedback.given if placer_options is None else placer_options
        given = dict(placer_options or {})
        try:
            chosen = Chosen(policy, dict(options), placer, given)
            new_policy = fallback.made("policy", (policy, chosen.options), journal.profiles)
            new_policy.suits(sum(node.gpus for node in self._state.ledger.nodes))
            fallback.made("placer", (placer, given), journal.profiles)
            measured = str(journal.chosen.placer_options.get(MEASURED, ""))
            chosen = feedback.completed(chosen, given, measured)
            new_placer = fallback.made("placer", (placer, chosen.placer_options), journal.profiles)
        except OptionError as error:
            raise Invalid(str(error)) from None
        except PluginRaised as error:
            raise Invalid(f"{error}; nothing was changed") from None
        before, feedback.given = feedback.given, given
        if chosen == journal.chosen:
            journal.keep_setting(GIVEN, given)
            journal.keep_setting(FAILURE, None)
            return
        is_same = (policy, chosen.options) == (journal.chosen.policy, journal.chosen.options)
        if is_same:
            new_policy = journal.controller.policy
        try:
            self.driver.switch(chosen, new_policy, new_placer, keeps_memory=is_same)
        except StoreError as error:
            feedback.given = before
            raise Unavailable(str(error)) from None
        except PluginRaised as error:
            feedback.given = before
            raise Invalid(f"{error}; nothing was changed") from None
        if (journal.chosen.policy, journal.chosen.placer) != (policy, placer):
            raise Invalid(fallback.problem(journal.store.setting(FAILURE, None)))

    def set_limits(self, caller: Caller, user: str, limits: Limits) -> None:
        """For one user, or for all users (`*`): a user has those limits that it has no own value for."""
        self._check_admin(caller, "set limits")
        for name, value in asdict(limits).items():
            if (isinstance(value, int) and value < 0) or (isinstance(value, str) and value != NO_LIMIT):
                raise Invalid(f"{name}={value}: give a number from 0 on, or none")
        if not user:
            raise Invalid("no user is named; give a user, or * for all users")
        self.admission.set_limits(user, limits)
        self.journal.keep_setting(LIMITS, {who: asdict(what) for who, what in self.admission.limits.items()})
        self._apply()

    def set_shares(self, caller: Caller, shares: Mapping[str, float]) -> None:
        """The weights of tenants for allocators; a tenant that is not named has a weight of 1."""
        self._check_admin(caller, "set shares")
        if problem := problem_in(shares):
            raise Invalid(f"shares: {problem}")
        if dict(shares) != self._state.shares:
            self._apply(f.SharesSet(self.journal.now(), dict(shares)))

    def set_notify(self, caller: Caller, url: str, on: Sequence[str]) -> None:
        """Which notices the caller gets about jobs that say nothing else, and where; an empty URL: none."""
        self._check_ready()
        self.notices.set_wish(caller.user, url, on)

    def test_notify(self, caller: Caller) -> None:
        """Send a notice to the caller that is about nothing."""
        self._check_ready()
        self.notices.test(caller.user)

    def _check_admin(self, caller: Caller, what: str) -> None:
        if not caller.is_admin:
            raise Denied(f"only an admin may {what}, and {caller.user} is none")
        self._check_ready()

    # --- trying ----------------------------------------------------------------------------------------

    def dry_run(self, caller: Caller, submission: Submission) -> DryRun:
        """What would become of a submission now; nothing changes."""
        models = Models(self.journal.profiles)
        checked = self._checked(caller, submission, models)
        at = self.journal.now()
        if checked.hold:
            return DryRun(False, [], [], Explanation("Held", "it would be on hold", "leave out --hold"))
        if reason := self.admission.would_defer(checked):
            return DryRun(False, [], [], Explanation(reason, text_of(reason), ""))
        job = checked.to_job(JobId(self.journal.next_job_id), at)
        controller = self.journal.controller
        try:
            return preview(controller, job, at, self._placer_for(models))
        except Exception as error:
            failure = blame(error, controller.policy, controller.placer)
            if failure is None:
                raise
            raise Unavailable(f"{failure}; it cannot be said what would become of this job") from None

    def _placer_for(self, models: Models) -> Placer:
        """The manager's placer, or its twin that also knows the models that a dry run brings along."""
        placer, chosen = self.journal.controller.placer, self.journal.chosen
        if not models.brought:
            return placer
        twin: Placer = placers.make(chosen.placer, chosen.placer_options, profiles=models.profiles)
        if self._state.placing is not None:
            twin.remember(self._state.placing)
        return twin


def _check(asked: Submission, names: Iterable[str] | None = None) -> None:
    """Refuse values that no job may have, and launchers that are not installed."""
    try:
        asked.check(names)
    except SpecError as error:
        raise Invalid(str(error)) from None
    if asked.launcher not in launchers.names():
        raise Invalid(f"launcher {asked.launcher!r}: choose one of {', '.join(launchers.names())}")
    if asked.array_limit is not None and asked.array_limit < 1:
        raise Invalid(f"array_limit {asked.array_limit}: give a whole number from 1 up")
