"""What a placer learns from how fast spread gangs run.

Two things are learned, and both by the same comparison of a run's slowdown with predictions:

- **Effective bandwidths**, for each level of links (inside a rack, across racks): if the network is so many
  times faster or slower than believed, how far are the predictions from what was seen? The factor with the
  least error is used when it explains clearly more than the belief. With enough runs of one model, that model
  has factors of its own, so that a model which sends in another way than its profile says is corrected too.
- **What a model that nobody knows is like.** It is taken for a mix of known ones until a gang of it has run
  spread, and then for the one of them whose slowdown would have been nearest. Jobs that name the same model
  share this; a job that names none is by itself.

The memory is a value of dictionaries, lists, texts and numbers, so that it can be stored as JSON. Everything
is in it, and nothing in the object: the same facts give the same decisions after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log
from typing import Any

from tiresias.core.facts import RunStarted
from tiresias.core.model import RunId
from tiresias.core.state import JobState, Run, State
from tiresias.profiles.links import Links, Shape, shape_of
from tiresias.profiles.model import ModelProfile

STEPS = tuple(range(-5, 6))
"""Powers of two by which a bandwidth may differ from what is believed."""
BELIEF = STEPS.index(0)
ENOUGH = 8  # runs, before a factor is used
ENOUGH_OF_ONE = 12  # runs of one model, before it has factors of its own
CLEARLY = 0.6  # the error must be less than this share of the error of the belief
TOLERATED = log(1.15)  # a mean error of the belief up to which it is kept
WIDTH = 0.25  # how far the logarithm of a slowdown may be off for a model of the mix to be likely
MOST_RUNS = 400  # of one fit; then all its figures are halved, so that what is new counts
MOST_TAKEN = 2000  # models and jobs of which it is remembered for what they are taken
UNKNOWN = ModelProfile("(a model that is not known)", compute_s=1.0, unseen_bytes=1)
"""Stands for the mix in place of a profile."""

Predict = Callable[[ModelProfile, Shape, int, int], tuple[float, float]]
"""The slowdown of a model on a shape, alone on its links and with other gangs, with the bandwidths of both
levels changed by these powers of two."""


def new_memory(placer: str) -> dict[str, Any]:
    return {"placer": placer, "seen": 0, "new": [], "fits": {}, "taken_for": {}}


def scaled(links: Links, rack: int, cross: int) -> Links:
    """The links with the bandwidths of both levels changed by these powers of two."""
    return links._replace(
        rack=links.rack._replace(bandwidth_Bps=links.rack.bandwidth_Bps * 2.0**rack),
        cross=links.cross._replace(bandwidth_Bps=links.cross.bandwidth_Bps * 2.0**cross),
    )


class Learned:
    """The memory of one placer, and what follows from it."""

    def __init__(self, memory: dict[str, Any], predict: Predict, mix: Sequence[ModelProfile]):
        self._memory, self._predict, self._mix = memory, predict, mix
        self._factors: dict[tuple[str, str], int] = {}
        self._by_name = {each.name: each for each in mix}

    def profile(self, job: JobState) -> ModelProfile:
        """What a job whose model is not known is taken for."""
        return self._by_name.get(self._memory["taken_for"].get(_key(job), ""), UNKNOWN)

    def factors(self, model: str) -> tuple[int, int]:
        """The powers of two by which the bandwidths (in racks, across racks) differ for this model."""
        return self._factor("rack", model), self._factor("cross", model)

    def _factor(self, level: str, model: str) -> int:
        known = self._factors.get((level, model))
        if known is None:
            fits = self._memory["fits"]
            own = fits.get(f"{level} {model}")
            if own is None or own[0] < ENOUGH_OF_ONE:
                own = fits.get(level)
            known = self._factors[level, model] = _best(own)
        return known

    # --- learning --------------------------------------------------------------------------------------

    def see(
        self, fact: Any, job: JobState, state: State, known: Callable[[str], ModelProfile | None]
    ) -> bool:
        """A run started, or its speed changed; whether slowdowns may have changed.

        A run is looked at when time has passed since its start: its speed is known by then.
        """
        memory = self._memory
        new: list[int] = memory["new"]
        changed = False
        if new:
            waiting = []
            for run_id in new:
                run = state.runs.get(RunId(run_id))
                if run is None:
                    continue
                if run.started_at >= state.at:
                    waiting.append(run_id)
                elif run.speed > 0:
                    changed |= self._learn(state.jobs[run.job_id], run, state, known)
            if len(waiting) < len(new):
                memory["new"] = waiting
                memory["seen"] += 1
        if type(fact) is RunStarted and job.run is not None and len(job.run.allocation) > 1:
            memory["new"].append(int(fact.run_id))
            memory["seen"] += 1
        return changed

    def _learn(
        self, job: JobState, run: Run, state: State, known: Callable[[str], ModelProfile | None]
    ) -> bool:
        nodes = state.ledger.nodes
        shape = shape_of(
            (nodes[node].rack, nodes[node].name, slots.bit_count()) for node, slots in run.allocation
        )
        slowdown = max(1.0, min(nodes[node].speed for node, _ in run.allocation) / run.speed)
        profile = known(job.job.model)
        level = "cross" if len(shape) > 1 else "rack"
        if profile is None:
            errors = self._errors_of_mix(level, shape, slowdown)
            self._take(job, shape, slowdown)
            return self._add(level, "", errors)
        if profile.compute_s is None:
            return False
        errors = [self._error(profile, level, shape, step, slowdown) for step in STEPS]
        changed = self._add(level, "", errors)
        return self._add(level, profile.name, errors) or changed

    def _error(self, profile: ModelProfile, level: str, shape: Shape, step: int, slowdown: float) -> float:
        """How far the prediction is off with this power of two, as a difference of logarithms.

        How many gangs share the links is not known, so every slowdown between alone and shared is right.
        """
        rack, cross = (step, 0) if level == "rack" else (self._factor("rack", profile.name), step)
        return _distance(self._predict(profile, shape, rack, cross), slowdown)

    def _errors_of_mix(self, level: str, shape: Shape, slowdown: float) -> list[float]:
        errors = []
        for step in STEPS:
            likely = sum(exp(-self._error(each, level, shape, step, slowdown) / WIDTH) for each in self._mix)
            errors.append(-WIDTH * log(max(likely / len(self._mix), 1e-300)))
        return errors

    def _add(self, level: str, model: str, errors: Sequence[float]) -> bool:
        """Add what one run says to a fit; whether a factor that is in use has changed."""
        fits = self._memory["fits"]
        key = f"{level} {model}" if model else level
        before = fits.get(key)
        fit = [1, *errors] if before is None else [a + b for a, b in zip(before, [1, *errors], strict=True)]
        if fit[0] >= MOST_RUNS:
            fit = [each / 2 for each in fit]
        fits[key] = fit
        enough = ENOUGH_OF_ONE if model else ENOUGH
        if _best(before) == _best(fit) and (before is None or before[0] >= enough or fit[0] < enough):
            return False
        self._factors.clear()
        return True

    def _take(self, job: JobState, shape: Shape, slowdown: float) -> None:
        """Take the job's model for the one of the mix that is nearest to what was seen."""
        predict = self._predict

        def distance(each: ModelProfile) -> float:
            return _distance(predict(each, shape, *self.factors(each.name)), slowdown)

        taken_for, key = self._memory["taken_for"], _key(job)
        taken_for.pop(key, None)
        taken_for[key] = min(self._mix, key=distance).name
        if len(taken_for) > MOST_TAKEN:
            del taken_for[next(iter(taken_for))]


def _distance(predicted: tuple[float, float], slowdown: float) -> float:
    least, most = sorted(predicted)
    return max(0.0, log(least / slowdown), log(slowdown / most))


def _key(job: JobState) -> str:
    return job.job.model or f"#{job.id}"


def _best(fit: Sequence[float] | None) -> int:
    """The power of two that explains the runs of a fit clearly better than the belief; else 0."""
    if fit is None or fit[0] < ENOUGH:
        return 0
    runs, *errors = fit
    if errors[BELIEF] <= TOLERATED * runs:
        return 0
    best = min(range(len(errors)), key=lambda index: (errors[index], abs(index - BELIEF)))
    return STEPS[best] if errors[best] < CLEARLY * errors[BELIEF] else 0
