"""The journal as a story that can be told again: a State to start from, and every step since.

What came from outside, handed to a Controller from the same State, must give the recorded decisions. A
manager that was started anew worked out every rank from its State alone, and so must the replay there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from tiresias.core.controller import Controller, Step
from tiresias.core.facts import Fact
from tiresias.core.plugins import Placer, Policy, policies
from tiresias.core.state import State
from tiresias.store.batch import Chosen
from tiresias.store.errors import StoreError
from tiresias.store.reader import Reader, chosen_of
from tiresias.store.records import StoredFact
from tiresias.store.rows import from_json, rebuild


@dataclass(slots=True)
class RecordedStep:
    """One call of the Controller; `restarted`: the manager was started anew just before it."""

    number: int
    seq: int  # of its first fact
    restarted: bool
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


def replay(reader: Reader, policy: Policy | None = None) -> Replay:
    """From the oldest State that is kept to the last fact."""
    row = reader._one("SELECT seq, body FROM bases ORDER BY seq LIMIT 1")
    if row is None:
        raise StoreError(f"{reader.path}: nothing was ever stored here, so there is nothing to replay")
    since, rows = row[0], from_json(row[1])
    chosen = chosen_of(rows.chosen)
    if policy is None:
        policy = policies.make(chosen.policy, chosen.options)
    state = rebuild(rows, policy.restore(json.loads(rows.chosen[4])))
    restarts = {seq for (seq,) in reader._all("SELECT seq FROM restarts WHERE seq >= ?", since)}
    return Replay(state, policy, chosen, since, _steps(reader.pages(since), restarts))


def _steps(facts: Iterator[StoredFact], restarts: set[int]) -> Iterator[RecordedStep]:
    for number, group in groupby(facts, key=lambda stored: stored.step):
        stored = list(group)
        step = RecordedStep(number, stored[0].seq, stored[0].seq - 1 in restarts)
        for one in stored:
            (step.decisions if one.is_decision else step.outside).append(one.fact)
        yield step


@dataclass(slots=True)
class Difference:
    """A step in which a Controller decided otherwise than was recorded."""

    step: RecordedStep
    decisions: list[Fact]


def redecide(story: Replay, placer: Placer) -> Difference | None:
    """Hand everything from outside to a Controller again; the first step that comes out otherwise, if any."""
    controller = Controller(story.state, story.policy, placer)
    for recorded in story.steps:
        if recorded.restarted:
            controller = Controller(controller.state, story.policy, placer)
        step = Step()
        controller.handle(recorded.outside, step)
        if step.facts != recorded.decisions:
            return Difference(recorded, step.facts)
    return None
