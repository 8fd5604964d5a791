"""What was seen of each class of jobs: ends and seconds of work, from which hazards follow.

A job belongs to a chain of classes, from the largest to the smallest: all jobs; the jobs of its tenant with
as many GPUs (to a power of two); the recent ones of these; those of its user; those of its user that have the
same name, digits aside. The hazards of a class are shrunk towards those of the one before it. In the classes
from `recent` on, older ends fade: after so many further ends of the class as FADES has, one counts 1/e.

No duration is used before the job has ended. A run counts the seconds that it has worked.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from math import exp, log
from typing import Any

from tiresias.core.model import JobId
from tiresias.core.plugins import compact_json
from tiresias.core.state import JobState
from tiresias.policies.hazards import (
    PART,
    Counts,
    Rates,
    Variation,
    end_step_of,
    fineness,
    grid,
    shrunk,
    work_in_steps,
)
from tiresias.policies.preemption_costs import Mean

Key = tuple[str | int, ...]
"""A class: its level, and what its jobs have in common."""

ALL: Key = ("all",)
LEVELS = {"all": 1, "class": 3, "recent": 3, "user": 4, "name": 5}
"""The levels of the chain, and how many parts the key of a class has."""
LEAN = {"all": 1.0, "class": 0.3, "recent": 16.0, "user": 1.0, "name": 1.0}
"""How many ends at the parent's hazard are added to each step, by level.

What is recent is part of the class as well, so it may say something else only where many ends agree.
"""
HOPE = {"class": 0.5}
"""How many standard deviations more ends are assumed than were seen, by level.

A class that is believed to be long is hardly run, so that a belief which rests on a few long jobs would never
be corrected. Where many jobs have ended, this makes no difference.
"""
MEASURED = frozenset({"class", "user", "name"})
"""Levels for which LEAN is a beginning only: how much their classes differ is measured (hazards.Variation).
Names that tell nothing, and sizes of gangs that do not matter, are then drawn to the larger class."""
FADES = {"recent": 300, "user": 30, "name": 30}
"""After how many further ends of the class an older one counts 1/e, by level; in others all count alike."""
TYPICAL = 200  # ends after which an older one counts 1/e for what is typical
LEAST_S = 1e-3  # jobs that have worked for less do not count for that: they have failed at once
MOST_CLASSES = 400  # of users and names; those that have not been seen for the longest are forgotten

DIGITS = re.compile(r"\d+")


def size_of(gpus: int) -> int:
    """The size of a gang as a power of two: 0 for 1 GPU, 3 for 5 to 8."""
    return (gpus - 1).bit_length()


@lru_cache(maxsize=4096)
def chain(tenant: str, user: str, name: str, size: int) -> tuple[Key, ...]:
    """The classes of a job, from the largest to the smallest."""
    keys: list[Key] = [ALL, ("class", tenant, size), ("recent", tenant, size)]
    if user:
        keys.append(("user", tenant, user, size))
    if name:
        keys.append(("name", tenant, user, DIGITS.sub("#", name), size))
    return tuple(keys)


def classes_of(job: JobState) -> tuple[Key, ...]:
    of = job.job
    return chain(of.tenant, of.user, of.name, size_of(job.gpus))


Open = list[float]
"""A run that works: [work when it began, work at an instant, the instant, the speed since], in seconds."""


class Classes:
    """Counts by class, and the runs that work at present."""

    def __init__(self, finer: int = 0) -> None:
        self.finer = finer  # how many times the first step of work was halved
        self.edges = grid(finer).edges
        self.typical = Mean()  # of the logarithm of the work of jobs that have ended
        self.counts: dict[Key, Counts] = {ALL: Counts(finer)}
        self.parents: dict[Key, Key] = {}
        self.open: dict[JobId, tuple[tuple[Key, ...], Open]] = {}
        # What `save` gives for a class or a run, as JSON, until it changes: all are stored with each commit.
        self._class_texts: dict[Key, str] = {}
        self._open_texts: dict[JobId, str] = {}

    @property
    def ended(self) -> int:
        """How many jobs have ended."""
        return self.counts[ALL].ended

    def works(self, job: JobState) -> None:
        """The job's run works from now on, or goes on at another speed."""
        run = job.gpu_run
        if run is None:
            return
        self._open_texts.pop(job.id, None)
        known = self.open.get(job.id)
        began_s = run.progress_s if known is None else known[1][0]
        self.open[job.id] = (classes_of(job), [began_s, run.progress_s, run.progress_at, run.speed])

    def stops(self, job: JobState, progress_s: float, *, has_ended: bool) -> None:
        """The job's run has exited."""
        self._open_texts.pop(job.id, None)
        known = self.open.pop(job.id, None)
        if known is not None:
            keys, (began_s, *_) = known
            self.add(keys, began_s, progress_s, has_ended=has_ended)
        elif has_ended:  # before it worked
            self.add(classes_of(job), progress_s, progress_s, has_ended=True)

    def add(self, keys: Sequence[Key], from_s: float, to_s: float, *, has_ended: bool) -> None:
        """A job of these classes has worked from here to there, and has ended or not."""
        before: Key | None = None
        work, end_step = work_in_steps(from_s, to_s, self.edges), end_step_of(to_s, self.edges)
        if has_ended and to_s > LEAST_S:
            self.typical.add(log(to_s), TYPICAL)
        for key in keys:
            counts = self._counts(key, before)
            before = key
            counts.add_work(work)
            if has_ended:
                counts.add_end(end_step)
                if key[0] in FADES:
                    counts.fade(1 - 1 / FADES[str(key[0])])

    def _counts(self, key: Key, parent: Key | None) -> Counts:
        """The counts of the class, which will change; it becomes the one that was seen last."""
        self._class_texts.pop(key, None)
        counts = self.counts.pop(key, None) if key[0] in ("user", "name") else self.counts.get(key)
        if counts is None:
            counts = Counts(self.finer)
            if len(self.counts) >= MOST_CLASSES:
                self._drop_oldest()
        self.counts[key] = counts
        if parent is not None:
            self.parents[key] = parent
        return counts

    def _drop_oldest(self) -> None:
        for key in self.counts:
            if key[0] == "name" or (key[0] == "user" and key not in self.parents.values()):
                del self.counts[key]
                self._class_texts.pop(key, None)
                self.parents.pop(key, None)
                return

    def fit_steps(self, cost_s: float) -> None:
        """Make the first step of work as short as typical jobs and the cost of a preemption suggest."""
        if not self.typical.count:
            return
        finer = fineness(self.finer, max(cost_s, PART * exp(self.typical.value)))
        if finer != self.finer:
            self.finer, self.edges = finer, grid(finer).edges
            for counts in self.counts.values():
                counts.regrid(finer)
            self._class_texts.clear()

    def rates(self, at: float) -> dict[Key, Rates]:
        """The hazards of every class, with what the present runs have done until now."""
        more = self._work_of_runs(at)
        found: dict[Key, Rates] = {}
        by_level: dict[str, list[Key]] = {level: [] for level in LEAN}
        for key in self.counts:
            by_level[str(key[0])].append(key)
        for level, members in by_level.items():
            lean, hope = LEAN[level], HOPE.get(level, 0.0)
            parents = [self._parent_rates(key, found) for key in members]
            if level in MEASURED:
                variation = Variation(lean)
                for key, parent in zip(members, parents, strict=True):
                    variation.see(self.counts[key], more.get(key), parent)
                lean = variation.lean
            for key, parent in zip(members, parents, strict=True):
                found[key] = shrunk(self.counts[key], more.get(key), parent, lean, hope)
        return found

    def _work_of_runs(self, at: float) -> dict[Key, Counts]:
        """The work that the present runs have done until now, by class."""
        found: dict[Key, Counts] = {}
        of_chain: dict[int, list[list[float]]] = {}  # by the identity of a chain, which many runs share
        for keys, (began_s, work_s, since, speed) in self.open.values():
            seconds = of_chain.get(id(keys))
            if seconds is None:
                for key in keys:
                    if key in self.counts and key not in found:
                        found[key] = Counts(self.finer)
                seconds = of_chain[id(keys)] = [found[key].seconds for key in keys if key in found]
            for step, worked_s in work_in_steps(began_s, work_s + (at - since) * speed, self.edges):
                for each in seconds:
                    each[step] += worked_s
        return found

    def _parent_rates(self, key: Key, found: Mapping[Key, Rates]) -> Rates:
        if key == ALL:
            return grid(self.finer).prior
        parent = found.get(self.parents[key]) if key in self.parents else None
        return found[ALL] if parent is None else parent

    def save(self) -> dict[str, Any]:
        return {
            "finer": self.finer,
            "typical": [self.typical.count, self.typical.value],
            "counts": [self._saved_class(key) for key in self.counts],
            "open": [self._saved_run(id) for id in self.open],
        }

    def saved_text(self) -> str:
        """What `save` gives, as JSON."""
        class_texts, open_texts = self._class_texts, self._open_texts
        for key in self.counts:
            if key not in class_texts:
                class_texts[key] = compact_json(self._saved_class(key))
        for id in self.open:
            if id not in open_texts:
                open_texts[id] = compact_json(self._saved_run(id))
        counts = ",".join([class_texts[key] for key in self.counts])
        opened = ",".join([open_texts[id] for id in self.open])
        typical = compact_json([self.typical.count, self.typical.value])
        return f'{{"finer":{self.finer},"typical":{typical},"counts":[{counts}],"open":[{opened}]}}'

    def _saved_class(self, key: Key) -> list[Any]:
        counts = self.counts[key]
        return [list(key), list(self.parents.get(key, ())), counts.ended, counts.sparse()]

    def _saved_run(self, id: JobId) -> list[Any]:
        keys, run = self.open[id]
        return [id, [list(key) for key in keys], run]

    @classmethod
    def restore(cls, saved: Mapping[str, Any]) -> Classes:
        classes = cls(saved.get("finer", 0))  # memories of earlier versions have one kind of steps
        classes.typical = Mean(*saved.get("typical", ()))
        for key, parent, ended, sparse in saved["counts"]:
            classes.counts[tuple(key)] = Counts.of(sparse, ended, classes.finer)
            if parent:
                classes.parents[tuple(key)] = tuple(parent)
        classes.open = {
            JobId(id): (tuple(tuple(key) for key in keys), list(run)) for id, keys, run in saved["open"]
        }
        return classes


def best_known(keys: Iterable[Key], rates: Mapping[Key, Rates]) -> Key:
    """The smallest class of a chain of which there are hazards."""
    found = ALL
    for key in keys:
        if key in rates:
            found = key
    return found
