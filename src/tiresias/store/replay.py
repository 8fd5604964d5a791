"""Replay of a journal: from a stored State through every step since, to check the stored decisions.

A Controller that starts from the same State and handles the same facts from outside must decide what was
stored. After a restart, or a change of the policy, a manager computes every rank from its State alone; so the
replay makes a new Controller at the same steps.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise, zip_longest
from typing import Any

from tiresias.core.controller import Controller, Step
from tiresias.core.facts import Fact, RunRevoked
from tiresias.core.plugins import Placer, Policy, placers, policies
from tiresias.core.state import State
from tiresias.profiles.known import Profiles
from tiresias.store import memories
from tiresias.store.batch import Chosen
from tiresias.store.errors import StoreError, damaged
from tiresias.store.profiles import profiles_in
from tiresias.store.reader import Reader, chosen_of
from tiresias.store.rows import Row, from_json, rebuild
from tiresias.store.stored import StoredFact


@dataclass(slots=True)
class RecordedStep:
    """One call of the Controller: the facts from outside and the decisions that were stored.

    `is_fresh` means that the Controller was made just before it: because of a restart (`is_restart`), because
    the policy or the placer changed (`change` is the new row of the table `policy`), or both.
    """

    number: int
    seq: int  # the number of its first fact
    is_fresh: bool = False
    is_restart: bool = False
    change: Row | None = None
    outside: list[Fact] = field(default_factory=list)
    decisions: list[Fact] = field(default_factory=list)


@dataclass(slots=True)
class Replay:
    """`state` is the State after fact number `since`; `steps` reads the following steps, once."""

    state: State
    policy: Policy
    chosen: Chosen
    since: int
    steps: Iterator[RecordedStep]
    profiles: Profiles


def replay(reader: Reader) -> Replay:
    """Prepare a replay from the oldest base to the last fact.

    StoreError if a row that it reads is damaged: a start checks the latest rows of these tables only.
    """
    if found := reader.damaged_rows("facts", "bases", "restarts"):
        raise StoreError(damaged(reader.path, found))
    bases = [(seq, from_json(body)) for seq, body in reader._all("SELECT seq, body FROM bases ORDER BY seq")]
    if not bases:
        raise StoreError(f"{reader.path}: nothing has been stored here yet, so there is nothing to replay")
    profiles = profiles_in(reader)
    since, rows = bases[0]
    policy, _, memory, placing = _made(rows.chosen, profiles)
    restarts = {seq for (seq,) in reader._all("SELECT seq FROM restarts WHERE seq >= ?", since)}
    changes: dict[int, Row] = {}
    for (_, before), (seq, after) in pairwise(bases):
        if before.chosen[:4] != after.chosen[:4]:
            changes[seq] = after.chosen
    steps = _steps(reader.all_facts(since), restarts, changes)
    state = rebuild(rows, memory)
    state.placing = placing
    return Replay(state, policy, chosen_of(rows.chosen), since, steps, profiles)


def _made(chosen: Row, profiles: Profiles) -> tuple[Policy, Placer, object, dict[str, Any] | None]:
    """The policy, the placer and their memories from a row of the table `policy`."""
    names = chosen_of(chosen)
    policy: Policy = policies.make(names.policy, names.options)
    placer: Placer = placers.make(names.placer, names.placer_options, profiles=profiles)
    return policy, placer, *memories.read(policy, chosen[4])


def _steps(
    facts: Iterator[StoredFact], restarts: Container[int], changes: Mapping[int, Row]
) -> Iterator[RecordedStep]:
    for number, group in groupby(facts, key=lambda stored: stored.step):
        stored = list(group)
        before = stored[0].seq - 1
        is_restart = before in restarts
        is_fresh = is_restart or before in changes
        step = RecordedStep(number, stored[0].seq, is_fresh, is_restart, changes.get(before))
        for one in stored:
            (step.decisions if one.is_decision else step.outside).append(one.fact)
        yield step


@dataclass(slots=True)
class Difference:
    """A step in which a Controller decided otherwise than was stored."""

    step: RecordedStep
    decisions: list[Fact]


def redecide(journal: Replay) -> Difference | None:
    """Let a Controller decide every step again; return the first step with other decisions, if any."""
    state, policy, chosen = journal.state, journal.policy, journal.chosen
    placer: Placer = placers.make(chosen.placer, chosen.placer_options, profiles=journal.profiles)
    controller = Controller(state, policy, placer)
    for recorded in journal.steps:
        if recorded.change is not None:
            policy, placer, state.memory, state.placing = _made(recorded.change, journal.profiles)
        if recorded.is_restart:
            state.refused_since.clear()  # the restarted manager did not know this either
        if recorded.is_fresh:
            controller = Controller(state, policy, placer)
        step = Step()
        try:
            controller.handle(recorded.outside, step)
        except Exception:
            if controller.failure is None:  # otherwise a plug-in raised, and a change of it follows
                raise
        if [_as_stored(*pair) for pair in zip_longest(step.facts, recorded.decisions)] != recorded.decisions:
            return Difference(recorded, step.facts)
    return None


def _as_stored(decided: Fact | None, stored: Fact | None) -> Fact | None:
    """The decision without what facts of its version did not say: why a run was revoked."""
    if isinstance(decided, RunRevoked) and isinstance(stored, RunRevoked) and stored.why is None:
        return replace(decided, why=None)
    return decided
