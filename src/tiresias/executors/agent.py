"""The agent of one node: the LocalExecutor there, for a manager on another machine.

What reaches an agent may be late, repeated or lost, and a manager may be replaced by another one at any time.
So every command is idempotent, and an update is kept until its run is forgotten: each has a number, and the
manager asks for those behind the last number that it has seen. An agent that was started again has another
`life`, which tells the manager to name its runs once more. When a run is named, the agent tells again what it
knows of it, because another manager may have asked before.

An agent judges the records of its own node only, because it cannot know whether a process of another machine
is alive.
"""

from __future__ import annotations

import os
import pwd
import select
import threading
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from tiresias.core.model import RunId
from tiresias.executors.base import RunSpec, RunUpdate
from tiresias.executors.local import LocalExecutor

LOOK_S = 0.25  # another agent of this node, which nobody ends, may have taken what announces an update


@dataclass(slots=True, frozen=True)
class Start:
    spec: RunSpec


@dataclass(slots=True, frozen=True)
class Adopt:
    """Watch the run if it has begun; a run that has not begun does not begin."""

    spec: RunSpec


@dataclass(slots=True, frozen=True)
class Stop:
    run_id: RunId
    grace_s: float | None = None


@dataclass(slots=True, frozen=True)
class Forget:
    run_id: RunId


Order = Start | Adopt | Stop | Forget


@dataclass(slots=True, frozen=True)
class Answer:
    """What has happened on the node behind the number that was asked for."""

    life: str
    updates: tuple[tuple[int, RunUpdate], ...] = ()


class Agent:
    """`name` is that of the node. Its methods may be called by any thread."""

    def __init__(self, name: str, executor: LocalExecutor):
        self.name, self.life = name, os.urandom(8).hex()
        self._executor = executor
        self._lock = threading.Lock()  # an executor is used by one thread at a time
        self._news = threading.Condition()
        self._number = 0
        self._updates: dict[RunId, list[tuple[int, RunUpdate]]] = {}
        self._is_closed = False
        self._thread = threading.Thread(target=self._watch, name=f"agent of {name}", daemon=True)
        self._thread.start()

    def act(self, orders: Sequence[Order]) -> None:
        """Carry the orders out, one after the other. OSError: some may not have been; give all again."""
        with self._lock:
            for order in orders:
                self._carry_out(order)
        self._look()
        self._tell_again([order.spec.run_id for order in orders if isinstance(order, Start | Adopt)])

    def updates(self, life: str, after: int, wait_s: float) -> Answer:
        """The updates behind number `after` of this life (of another one: all), or none after `wait_s`."""
        after = after if life == self.life else 0
        with self._news:
            self._news.wait_for(lambda: self._number > after or self._is_closed, wait_s)
            found = [each for some in self._updates.values() for each in some if each[0] > after]
        return Answer(self.life, tuple(sorted(found, key=lambda each: each[0])))

    def free_port(self, spec: RunSpec) -> int:
        """A port of this node at which the workers of a run can meet."""
        with self._lock:
            return self._executor.free_port(spec)

    def close(self) -> None:
        with self._news:
            self._is_closed = True
            self._news.notify_all()
        self._thread.join()
        self._executor.close()

    def _carry_out(self, order: Order) -> None:
        if isinstance(order, Start):
            if problem := self._problem(order.spec):
                self._executor.refuse(order.spec, f"node {self.name}: {problem}")
            else:
                self._executor.start(self._limited(order.spec))
        elif isinstance(order, Adopt):
            self._executor.adopt([order.spec])
        elif isinstance(order, Stop):
            self._executor.stop(order.run_id, order.grace_s)
        else:
            self._executor.forget(order.run_id)
            with self._news:
                self._updates.pop(order.run_id, None)

    def _problem(self, spec: RunSpec) -> str:
        assert spec.node == self.name, ("a part of another node", spec.node, self.name)
        return "" if spec.identity is None else other_account(spec.identity.user, spec.identity.uid)

    def _limited(self, spec: RunSpec) -> RunSpec:
        """With the limits of the part that this node has, as far as the node can enforce them."""
        if spec.cpus is None and spec.memory_bytes is None:
            return spec
        share = len(spec.part.slots) / len(spec.slots) if spec.part is not None else 1.0
        limiting = self._executor.limiting
        cpus = None if spec.cpus is None or limiting.no_cpus else max(1, round(spec.cpus * share))
        memory = spec.memory_bytes
        memory_bytes = None if memory is None or limiting.no_memory else int(memory * share)
        return replace(spec, cpus=cpus, memory_bytes=memory_bytes)

    def _watch(self) -> None:
        while not self._is_closed:
            with suppress(InterruptedError):
                select.select([self._executor], [], [], LOOK_S)
            self._look()

    def _tell_again(self, run_ids: Iterable[RunId]) -> None:
        with self._news:
            for run_id in run_ids:
                known = self._updates.get(run_id, ())
                if known:
                    self._updates[run_id] = [self._numbered(update) for _, update in known]
            self._news.notify_all()

    def _numbered(self, update: RunUpdate) -> tuple[int, RunUpdate]:
        self._number += 1
        return self._number, update

    def _look(self) -> None:
        with self._lock:
            found = [] if self._is_closed else self._executor.poll()
        if found:
            with self._news:
                for update in found:
                    self._updates.setdefault(update.run_id, []).append(self._numbered(update))
                self._news.notify_all()


def other_account(user: str, uid: int) -> str:
    """Why this node cannot run anything as this user; empty if the name means the same uid here."""
    try:
        here = pwd.getpwnam(user).pw_uid
    except KeyError:
        return f"there is no user {user} (uid {uid} where the job was submitted); make the account"
    if here != uid:
        return f"{user} has uid {here} here and {uid} where the job was submitted; give them the same uid"
    return ""
