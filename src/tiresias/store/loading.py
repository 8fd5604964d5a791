"""From the tables back to a manager's State."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tiresias.core.commands import Command, StartRun, StopRun
from tiresias.core.model import JobId, Phase
from tiresias.core.plugins import Policy, policies
from tiresias.core.state import State
from tiresias.profiles.known import Profiles
from tiresias.store.batch import Chosen
from tiresias.store.errors import StoreError
from tiresias.store.profiles import profiles_in
from tiresias.store.reader import Reader, Submissions, chosen_of
from tiresias.store.records import RunRecord
from tiresias.store.rows import rebuild


@dataclass(slots=True)
class Loaded:
    """All that a manager needs to go on: `Controller(loaded.state, loaded.policy, placer)`.

    `commands` is whatever may not have been carried out: to start runs that are not known to have started,
    to stop those that were told to and have not exited. They are idempotent by run. The Controller sets
    its timer with the next fact that it handles, so hand it a TimerFired first.
    """

    state: State
    policy: Policy
    chosen: Chosen
    submissions: Mapping[JobId, Any]  # of active jobs, read when asked for
    notes: dict[JobId, Any]
    open_runs: list[RunRecord]
    commands: list[Command]
    profiles: Profiles  # that jobs brought along; placers are made with them


def loaded(reader: Reader, policy: Policy | None) -> Loaded:
    rows = reader.rows()
    chosen = chosen_of(rows.chosen)
    if policy is None:
        policy = policies.make(chosen.policy, chosen.options)
    elif policy.name != chosen.policy:
        raise StoreError(
            f"{reader.path}: the journal was written under the policy {chosen.policy!r}, not {policy.name!r};"
            " load it under that one, then change the policy"
        )
    state = rebuild(rows, policy.restore(json.loads(rows.chosen[4])))
    return Loaded(
        state,
        policy,
        chosen,
        Submissions(reader),
        reader.notes(),
        reader.open_runs(),
        pending_commands(state),
        profiles_in(reader),
    )


def pending_commands(state: State) -> list[Command]:
    """What was decided and is not known to have come about, in the order of grant."""
    commands: list[Command] = []
    for run in state.runs.values():
        job = state.jobs[run.job_id]
        if job.phase is Phase.STOPPING:
            commands.append(StopRun(run.id))
        elif job.phase is Phase.STARTING:
            commands.append(StartRun(run.id, job.id, run.allocation, job.runs > 1))
    return commands
