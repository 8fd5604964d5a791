"""What the pages ask about a window of the past: use, queue and waits over time, and who held which slot.

The journal is read through a reader of its own, so that this can run in another thread than the manager's.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiresias.core.facts import Allocation
from tiresias.core.model import Node
from tiresias.live.errors import Invalid
from tiresias.live.use import Use, use_of
from tiresias.store.reader import Reader
from tiresias.store.window import HeldSlots

MOST_JOBS = 50_000  # ended jobs in one window
MOST_RUNS = 200_000
LONGEST_S = 10 * 366 * 86400.0


@dataclass(slots=True, frozen=True)
class Question:
    """A window, with what must be known of the present: taken on the manager's thread, used on another."""

    journal: Path
    now: float
    nodes: tuple[Node, ...]  # by their position in allocations
    since_s: float

    @property
    def begin(self) -> float:
        return self.now - self.since_s


@dataclass(slots=True)
class TimelineRun:
    """A run on a timeline. Names of jobs are not shown: they may belong to other users."""

    id: int
    job_id: int
    number: int
    user: str
    slots: list[str]  # node:index
    granted_at: float
    started_at: float | None
    revoked_at: float | None
    exited_at: float | None
    cause: str | None


@dataclass(slots=True)
class Timeline:
    """The runs that held slots in a window, the latest first."""

    begins_at: float
    ends_at: float
    runs: list[TimelineRun]
    is_cut: bool  # there were more; the earliest are left out


def use(question: Question, steps: int, by: str) -> Use:
    """The use in a window; a shorter one, if more jobs ended in it than are read."""
    with Reader(question.journal) as reader:
        begin = question.begin
        ended = reader.window.ended(begin, MOST_JOBS)
        is_cut = len(ended) == MOST_JOBS
        if is_cut:
            begin = ended[-1].ended_at or begin
        jobs = [*ended, *reader.window.active()]
        runs = reader.window.runs(begin, MOST_RUNS)
    first = min((job.ready_at for job in jobs if job.ready_at is not None), default=question.now)
    begin = max(begin, min(first, question.now - 60.0))  # a young home has no empty past
    found = use_of(
        jobs,
        runs,
        begin=begin,
        end=question.now,
        steps=steps,
        by=by,
        gpu_nodes=frozenset(position for position, node in enumerate(question.nodes) if node.gpus),
        capacity=sum(node.gpus for node in question.nodes),
    )
    found.is_cut = is_cut
    return found


def timeline(question: Question, names: Collection[str], most: int) -> Timeline:
    """The runs of a window, on these nodes only if any is named; the latest `most`."""
    wanted = check_nodes(question, names)
    with Reader(question.journal) as reader:
        held = reader.window.runs(question.begin, MOST_RUNS if wanted else most + 1)
        shown = [run for run in held if not wanted or any(node in wanted for node, _ in run.allocation)]
    runs = [_run(run, question.nodes) for run in shown[:most]]
    return Timeline(question.begin, question.now, runs, len(shown) > most)


def check_nodes(question: Question, names: Collection[str]) -> set[int]:
    """The positions of the nodes with these names; Invalid if there is no such node."""
    known = {node.name: position for position, node in enumerate(question.nodes)}
    for name in names:
        if name not in known:
            raise Invalid(f"node: there is no node {name!r}; `tir nodes` lists them")
    return {known[name] for name in names}


def _run(run: HeldSlots, nodes: Sequence[Node]) -> TimelineRun:
    instants = (run.granted_at, run.started_at, run.revoked_at, run.exited_at)
    slots = _slots(run.allocation, nodes)
    return TimelineRun(run.id, run.job_id, run.number, run.user, slots, *instants, run.cause)


def _slots(allocation: Allocation, nodes: Sequence[Node]) -> list[str]:
    return [
        f"{nodes[node].name}:{index}"
        for node, mask in allocation
        if node < len(nodes)
        for index in range(mask.bit_length())
        if mask >> index & 1
    ]
