"""The live manager: the Controller of the simulator over a journal, an executor and a clock.

One thread calls it. There is no scheduling here: which job runs where is decided by the same core as in the
simulator. The manager is made of

- a Journal, which takes facts in, commits them, and knows what to do after that;
- parts (journal.Part), each with a narrow task, which see every step and answer with what follows from it;
- Requests, which turn what users ask for into facts, and Queries, which read;
- a Dispatcher, which carries out what is durable.

`apply` hands facts to the journal and asks the parts what follows, until nothing more does. `poll` takes in
what the executor reports, `tick` what has become due, and `flush` commits everything and acts.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from tiresias.core import facts as f
from tiresias.core.controller import Controller
from tiresias.core.model import INFINITY, Cluster
from tiresias.core.plugin_failures import PluginFailure, PluginRaised
from tiresias.core.plugins import OptionError, Placer, Policy, placers
from tiresias.core.state import State
from tiresias.executors.base import Executor
from tiresias.live import fallback
from tiresias.live.admission import Admission
from tiresias.live.bad_nodes import BadNodes
from tiresias.live.clock import ANCHOR, Clock
from tiresias.live.clock_watch import ClockWatch
from tiresias.live.dispatcher import Dispatcher
from tiresias.live.drains import Drains
from tiresias.live.fallback import FAILURE, LAST_GOOD
from tiresias.live.forecasts import Forecasts
from tiresias.live.gpu_health import GpuHealth
from tiresias.live.home_paths import HomePaths
from tiresias.live.host_faults import HostFaults
from tiresias.live.housekeeping import Compaction, Snapshots
from tiresias.live.journal import Input, Journal, Part
from tiresias.live.machine import Machine
from tiresias.live.managed_jobs import ManagedJob
from tiresias.live.nodes import Nodes
from tiresias.live.notice_target import Network
from tiresias.live.notices import Notices
from tiresias.live.placer_feedback import GIVEN, PlacerFeedback, learned_options
from tiresias.live.progress_reader import ProgressReader
from tiresias.live.queries import Queries
from tiresias.live.repeated_failures import RepeatedFailures
from tiresias.live.requests import Requests
from tiresias.live.runs import Runs
from tiresias.live.settings import Settings
from tiresias.live.tallies import Tallies
from tiresias.live.unsaved_work import UnsavedWork
from tiresias.profiles.known import Profiles
from tiresias.store import Chosen, Loaded, Store, StoreError

log = logging.getLogger("tiresias")

LOOKED_BACK = 500  # ended jobs from which a start learns what commands tend to do


class Manager:
    """See the module. Made by `open`, which also takes over from a manager before."""

    def __init__(
        self,
        home: Path,
        executor: Executor,
        machine: Machine,
        journal: Journal,
        *,
        settings: Settings | None = None,
        notify_allow: Sequence[Network] = (),
        paths: HomePaths | None = None,
    ):
        settings, progress = settings or Settings(), ProgressReader()
        self.paths = paths = paths or HomePaths(home)
        self.home, self.executor, self.journal = home, executor, journal
        self.dispatcher = Dispatcher(journal, executor, machine, paths, settings)
        self.admission = Admission(journal, settings)
        self.gpu_health = GpuHealth(journal, machine, settings)
        self.nodes = Nodes(journal, machine, self.gpu_health)
        self.drains = Drains(journal)
        self.bad_nodes = BadNodes(journal, machine, self.gpu_health, settings)
        self.host_faults = HostFaults(journal, self.gpu_health, self.dispatcher, settings)
        self.runs = Runs(
            journal,
            executor,
            self.dispatcher,
            progress,
            paths,
            settings,
            self.admission.reason_after_exit,
            self.host_faults.pause,
        )
        self.feedback = PlacerFeedback(journal, machine, settings)
        latest = journal.store.history.latest_endings(LOOKED_BACK)
        self.failures = RepeatedFailures(latest)
        self.unsaved = UnsavedWork(journal, latest)
        self.compaction = Compaction(journal, settings)
        self.tallies = Tallies(journal)
        self.forecasts = Forecasts(journal)
        self.notices = Notices(journal, paths, settings, notify_allow)
        self.parts: tuple[Part, ...] = (
            self.admission,
            self.failures,
            self.unsaved,
            Snapshots(journal, paths),
            self.runs,
            self.gpu_health,
            self.nodes,
            self.compaction,
            self.feedback,
            ClockWatch(journal),
            self.host_faults,
            self.notices,
            self.tallies,
            self.forecasts,
            self.drains,
            *([] if machine.source is None else [self.bad_nodes]),
        )
        self.requests = Requests(
            self,
            journal,
            self.admission,
            self.gpu_health,
            self.nodes,
            self.drains,
            self.bad_nodes,
            self.feedback,
            self.failures,
            self.unsaved,
            machine,
            settings,
            self.notices,
        )
        self.queries = Queries(
            journal,
            self.admission,
            self.gpu_health,
            self.nodes,
            self.host_faults,
            self.feedback,
            progress,
            machine,
            paths,
        )

    @classmethod
    def open(
        cls,
        home: Path,
        store: Store,
        executor: Executor,
        machine: Machine,
        chosen: Chosen,
        *,
        clock: Clock | None = None,
        settings: Settings | None = None,
        notify_allow: Sequence[Network] = (),
        paths: HomePaths | None = None,
    ) -> Self:
        """Begin a new journal under `chosen`, or go on with the one there is, under what it says."""
        clock = clock or Clock.of_this_machine()
        if store.is_new:
            _begin(store, machine, chosen)
        loaded = store.load()
        clock.resume(
            store.setting(ANCHOR, None),
            loaded.state.at,
            open_runs=[record.id for record in loaded.open_runs],
            next_run_id=loaded.state.next_run_id,
        )
        journal = Journal(store, fallback.first_controller(loaded), loaded.chosen, clock, loaded.profiles)
        journal.keep_setting(ANCHOR, clock.stored())
        manager = cls(
            home, executor, machine, journal, settings=settings, notify_allow=notify_allow, paths=paths
        )
        manager.recover(loaded)
        return manager

    def recover(self, loaded: Loaded) -> None:
        """Take over from a manager that ended, however it ended."""
        journal = self.journal
        self._replace_failed()
        self._correct_placer()  # the machine may be wired otherwise now
        for id, body in loaded.managed.items():
            journal.managed.load(id, ManagedJob.from_json(body))
        self.admission.load()
        self.unsaved.load()
        self.nodes.begin()
        runs = [self.state.runs[record.id] for record in loaded.open_runs]
        adopted = self.executor.adopt([self.dispatcher.spec(self.state.jobs[run.job_id]) for run in runs])
        journal.command_again(loaded.commands, adopted.absent)
        self.dispatcher.carry_out()  # at once: a run that is to be stopped may begin meanwhile
        at = self.now()
        self._handle(Input([*self.gpu_health.machine_changes(at), f.TimerFired(at)]))

    # --- what the outside may look at ------------------------------------------------------------------

    @property
    def state(self) -> State:
        return self.journal.state

    @property
    def controller(self) -> Controller:
        return self.journal.controller

    @property
    def store(self) -> Store:
        return self.journal.store

    @property
    def problem(self) -> str:
        """Why nothing can be made durable at present; empty if nothing is wrong."""
        return self.journal.problem

    def now(self) -> float:
        return self.journal.now()

    # --- driving ---------------------------------------------------------------------------------------

    def apply(self, given: Input) -> None:
        """Handle facts and what follows from them; durable with the next `flush`."""
        if given.facts:
            self._handle(given)
        self.settle()

    def _handle(self, given: Input) -> None:
        """Hand facts to the journal, show the parts what came of them, and handle their answers likewise."""
        waiting = deque([given])
        while waiting:
            taken = self.journal.take(waiting.popleft())
            for part in self.parts:
                waiting.extend(part.on(taken))

    def settle(self) -> None:
        """Let admission defer, clear and fail jobs until nothing more follows."""
        while follow_up := self.admission.due(self.now()):
            for given in follow_up:
                self._handle(given)

    def poll(self) -> None:
        """Take in what the executor reports."""
        self.settle()  # the wall clock may have gone back behind a begin time: first defer, then decide
        for given in self.nodes.poll():
            self._handle(given)
        for given in self.runs.poll():
            self._handle(given)

    @property
    def next_due_at(self) -> float:
        """When `tick` has something to do, if nothing happens before."""
        return min(self.journal.timer_at, *(part.next_due_at for part in self.parts))

    def tick(self) -> None:
        """Do whatever is due."""
        self.settle()
        at = self.now()
        if self.journal.timer_at <= at:
            # At the instant that was wished for, however late it is now: so a queue's threshold is crossed
            # exactly as in a simulation, and a run that is stopped there gets the rank that the policy means.
            due_at, self.journal.timer_at = max(self.journal.timer_at, self.state.at), INFINITY
            self._handle(Input([f.TimerFired(due_at)]))
        for part in self.parts:
            if part is not self.admission:  # it comes last, in `settle`, and sees what the others brought
                for given in part.due(at):
                    self._handle(given)
        if self.feedback.next_due_at <= self.now():
            self.flush()
            self._correct_placer()
            self.feedback.corrected()
            self._handle(Input([f.TimerFired(self.now())]))

    def flush(self) -> None:
        """Make everything durable, then carry it out; StoreError if it cannot be made durable."""
        self.settle()
        try:
            self.journal.commit()
            self._replace_failed()
            self.journal.problem = ""
            self.dispatcher.carry_out()
            self.journal.finish_commit()
        except StoreError as error:
            self.journal.problem = str(error)
            raise

    # --- changing the policy or the placer -------------------------------------------------------------

    def switch(self, chosen: Chosen, policy: Policy, placer: Placer, *, keeps_memory: bool) -> None:
        """Commit what was decided so far, then decide by another policy or placer; no job is lost."""
        self.flush()
        store, before = self.journal.store, self.journal.chosen
        good = fallback.last_good(before, store.setting(GIVEN, {}), chosen, store.setting(LAST_GOOD, {}))
        settings = {LAST_GOOD: good, FAILURE: None}
        self._switch(chosen, policy, placer, keeps_memory=keeps_memory, settings=settings)
        self._handle(Input([f.TimerFired(self.now())]))
        if self.controller.failure is not None:
            self.flush()

    def _switch(
        self,
        chosen: Chosen,
        policy: Policy,
        placer: Placer,
        *,
        keeps_memory: bool,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        try:
            settings = {GIVEN: self.feedback.given, **(settings or {})}
            self.journal.switch(chosen, policy, placer, keeps_memory=keeps_memory, settings=settings)
        except StoreError:
            self._handle(Input([f.TimerFired(self.now())]))  # the Controller before goes on
            raise

    def _replace_failed(self) -> None:
        """Let another policy or placer decide if the present one has raised (fallback.py).

        Nothing may wait to be committed. PluginRaised if those that come with this program fail as well.
        """
        failed: list[fallback.Choice] = []
        while (failure := self.controller.failure) is not None:
            kind, journal = failure.kind, self.journal
            good: dict[str, Any] = journal.store.setting(LAST_GOOD, {})
            for new in fallback.replacements(failure, journal.chosen, good, failed):
                failed.append(new.choice)
                try:
                    plugin = fallback.made(kind, new.choice, journal.profiles)
                    self._take_over(new, failure, plugin)
                    break
                except (OptionError, PluginRaised) as error:
                    log.error("%s cannot take over: %s", new.choice[0], error)
            else:
                raise PluginRaised(failure)

    def _take_over(self, new: fallback.Replacement, failure: PluginFailure, plugin: Any) -> None:
        """Switch to the plug-in that replaces one that failed, and plan."""
        journal, controller = self.journal, self.controller
        is_policy = failure.kind == "policy"
        policy, placer = (plugin, controller.placer) if is_policy else (controller.policy, plugin)
        given = self.feedback.given if is_policy else dict(new.chosen.placer_options)
        settings = {GIVEN: given, FAILURE: new.about(failure, journal.wall())}
        journal.switch(new.chosen, policy, placer, keeps_memory=not is_policy, settings=settings)
        self.feedback.given = given
        log.error("%s decides from now on, because %s", new.choice[0], failure)
        if not is_policy:
            self._correct_placer()
        self._handle(Input([f.TimerFired(self.now())]))
        self.settle()
        journal.commit()

    def _correct_placer(self) -> None:
        """Give the placer what is known now. Nothing may wait to be committed."""
        if (wanted := self.feedback.wanted()) != self.journal.chosen:
            profiles = self.journal.profiles
            placer = placers.make(wanted.placer, wanted.placer_options, profiles=profiles)
            self._switch(wanted, self.controller.policy, placer, keeps_memory=True)


def _begin(store: Store, machine: Machine, chosen: Chosen) -> None:
    """Begin a new journal."""
    given = dict(chosen.placer_options)
    store.set_setting(GIVEN, given)
    chosen = replace(chosen, placer_options={**learned_options(chosen.placer, machine, ""), **given})
    policy = fallback.made("policy", (chosen.policy, chosen.options), Profiles())
    placer = fallback.made("placer", (chosen.placer, chosen.placer_options), Profiles())
    state = State(Cluster(list(machine.nodes)))
    store.begin(fallback.controller(state, policy, placer), chosen)
