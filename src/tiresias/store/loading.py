"""Loading: from the tables back to the State of a manager, and what else it needs to continue."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tiresias.core.commands import Command, PaceRun, StartRun, StopRun
from tiresias.core.controller import AsSubmitted
from tiresias.core.model import JobId, Phase
from tiresias.core.plugin_failures import PluginFailure, failure_of
from tiresias.core.plugins import OptionError, Policy, policies
from tiresias.core.state import State
from tiresias.profiles.known import Profiles
from tiresias.store import memories
from tiresias.store.batch import Chosen
from tiresias.store.errors import StoreError
from tiresias.store.memories import Remembered
from tiresias.store.profiles import profiles_in
from tiresias.store.reader import Reader, Submissions, chosen_of
from tiresias.store.rows import rebuild
from tiresias.store.stored import StoredRun


@dataclass(slots=True)
class Loaded:
    """Everything that a manager needs to continue with `Controller(loaded.state, loaded.policy, placer)`.

    `commands` may not have been carried out before the restart: to start runs that are not known to have
    started, to stop runs that must stop and have not exited, and to let runs take turns. They are idempotent
    by run. The Controller sets its timer when it handles the next fact, so the manager must first let it
    handle a TimerFired.
    """

    state: State
    policy: Policy
    chosen: Chosen
    submissions: Mapping[JobId, Any]  # of active jobs, each read on access
    managed: dict[JobId, Any]
    open_runs: list[StoredRun]
    commands: list[Command]
    profiles: Profiles  # that jobs brought along; placers are made with them
    failure: PluginFailure | None = None  # the policy cannot be made or restored; it has no memory then


def loaded(reader: Reader, policy: Policy | None) -> Loaded:
    """Load the last commit. See `Store.load`."""
    rows = reader.rows()
    chosen = chosen_of(rows.chosen)
    failure = None
    if policy is None:
        try:
            policy = policies.make(chosen.policy, chosen.options)
        except OptionError:
            raise
        except Exception as error:  # noqa: BLE001  (code of a plug-in may raise anything)
            policy, failure = AsSubmitted(), failure_of(error, "policy", chosen.policy)
    elif policy.name != chosen.policy:
        raise StoreError(
            f"{reader.path}: the journal was written under the policy {chosen.policy!r}, not {policy.name!r};"
            " load it under that one, then change the policy"
        )
    remembered = Remembered()
    try:
        if not failure:
            remembered = memories.read(policy, rows.chosen[4])
    except Exception as error:  # noqa: BLE001  (code of a plug-in may raise anything)
        failure = failure_of(error, "policy", policy.name)
    state = rebuild(rows, remembered.memory)
    remembered.restore(state)
    return Loaded(
        state,
        policy,
        chosen,
        Submissions(reader),
        reader.managed_jobs(),
        reader.open_runs(),
        pending_commands(state),
        profiles_in(reader),
        failure,
    )


def pending_commands(state: State) -> list[Command]:
    """The commands of decisions that are not known to have taken effect, in the order of the grants.

    Of turns only the last are known. So a run that works all the time gets a command, too: it may have had
    turns before, and the manager may have been killed before it took them away.
    """
    commands: list[Command] = []
    for run in state.runs.values():
        job = state.jobs[run.job_id]
        if job.phase is Phase.STOPPING:
            commands.append(StopRun(run.id))
        elif job.phase is Phase.STARTING:
            commands.append(StartRun(run.id, job.id, run.allocation, job.runs > 1))
        if job.phase is not Phase.STOPPING:
            commands.append(PaceRun(run.id, run.turn, run.turns))
    return commands
