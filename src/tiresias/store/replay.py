"""The journal as a story that can be told again: a State to start from, and every step since.

What came from outside, handed to a Controller from the same State, must give the recorded decisions. A
manager that was started anew, or got another policy, worked out every rank from its State alone, and so
must the replay there.
"""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from tiresias.core.controller import Controller, Step
from tiresias.core.facts import Fact
from tiresias.core.plugins import Placer, Policy, placers, policies
from tiresias.core.state import State
from tiresias.profiles.known import Profiles
from tiresias.store.batch import Chosen
from tiresias.store.errors import StoreError
from tiresias.store.profiles import profiles_in
from tiresias.store.reader import Reader, chosen_of
from tiresias.store.records import StoredFact
from tiresias.store.rows import Row, from_json, rebuild


@dataclass(slots=True)
class RecordedStep:
    """One call of the Controller. `is_fresh`: just before it the manager was started anew (`is_restart`), or
    its policy or placer changed, to `change` (with what the new one knew), or both.
    """

    number: int
    seq: int  # of its first fact
    is_fresh: bool = False
    is_restart: bool = False
    change: Row | None = None
    outside: list[Fact] = field(default_factory=list)
    decisions: list[Fact] = field(default_factory=list)


@dataclass(slots=True)
class Replay:
    """`state` is that after fact number `since`; `steps` reads the rest as it is asked for, once."""

    state: State
    policy: Policy
    chosen: Chosen
    since: int
    steps: Iterator[RecordedStep]
    profiles: Profiles


def replay(reader: Reader) -> Replay:
    """From the oldest State that is kept to the last fact."""
    bases = [(seq, from_json(body)) for seq, body in reader._all("SELECT seq, body FROM bases ORDER BY seq")]
    if not bases:
        raise StoreError(f"{reader.path}: nothing was ever stored here, so there is nothing to replay")
    profiles = profiles_in(reader)
    since, rows = bases[0]
    policy, _, memory = _made(rows.chosen, profiles)
    restarts = {seq for (seq,) in reader._all("SELECT seq FROM restarts WHERE seq >= ?", since)}
    changes: dict[int, Row] = {}
    for (_, before), (seq, after) in pairwise(bases):
        if before.chosen[:4] != after.chosen[:4]:
            changes[seq] = after.chosen
    steps = _steps(reader.pages(since), restarts, changes)
    return Replay(rebuild(rows, memory), policy, chosen_of(rows.chosen), since, steps, profiles)


def _made(chosen: Row, profiles: Profiles) -> tuple[Policy, Placer, object]:
    """Policy, placer and memory from a row of the table of policies."""
    what = chosen_of(chosen)
    policy: Policy = policies.make(what.policy, what.options)
    placer: Placer = placers.make(what.placer, what.placer_options, profiles=profiles)
    return policy, placer, policy.restore(json.loads(chosen[4]))


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
    """A step in which a Controller decided otherwise than was recorded."""

    step: RecordedStep
    decisions: list[Fact]


def redecide(story: Replay) -> Difference | None:
    """Hand everything from outside to a Controller again; the first step that comes out otherwise, if any."""
    state, policy, chosen = story.state, story.policy, story.chosen
    placer: Placer = placers.make(chosen.placer, chosen.placer_options, profiles=story.profiles)
    controller = Controller(state, policy, placer)
    for recorded in story.steps:
        if recorded.change is not None:
            policy, placer, state.memory = _made(recorded.change, story.profiles)
        if recorded.is_restart:
            state.refused_since.clear()  # the manager that was started anew did not know it any more
        if recorded.is_fresh:
            controller = Controller(state, policy, placer)
        step = Step()
        controller.handle(recorded.outside, step)
        if step.facts != recorded.decisions:
            return Difference(recorded, step.facts)
    return None
