"""What a preemption costs, in seconds, as measured: the time to save and the time to load.

A run that is revoked saves until its exit; a run of a job that has run before loads from its grant until it
works. Both are kept as running means for each model and for all jobs together. Where nothing was measured
yet, the driver's own setting counts (the simulator has one); without one, the time that first runs took from
their grant until they worked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MOST = 20  # measurements after which an older one counts 1/e

EVERYTHING = ""
"""The key of the means over all jobs."""

Cost = tuple[float, float]
"""Seconds to save, and seconds to load."""


class Mean:
    """A running mean in which recent values weigh more."""

    __slots__ = ("count", "value")

    def __init__(self, count: int = 0, value: float = 0.0):
        self.count = count
        self.value = value

    def add(self, value: float, most: int = MOST) -> None:
        """Add a value; after `most` further ones it counts 1/e."""
        self.count = count = self.count + 1 if self.count < most else most
        self.value += (value - self.value) / count


class PreemptionCosts:
    """The means, by model."""

    def __init__(self) -> None:
        self.expected_s: float | None = None  # the driver's setting: saving and loading together
        self.saving: dict[str, Mean] = {}
        self.loading: dict[str, Mean] = {}
        self.starting: dict[str, Mean] = {}  # first runs
        self.is_news = True  # a preemption may cost another time than when this was last set to False

    def saved(self, model: str, seconds: float) -> None:
        _add(self.saving, model, seconds)
        self.is_news = True

    def loaded(self, model: str, seconds: float, *, is_first: bool) -> None:
        if not is_first:
            _add(self.loading, model, seconds)
            self.is_news = True
        elif not self.loading:  # first runs count until something was measured
            _add(self.starting, model, seconds)
            self.is_news = True

    def full_s(self) -> float | None:
        """Seconds for saving and loading, where what was not measured counts as expected; None: not known."""
        half_s = None if self.expected_s is None else self.expected_s / 2
        save_s, load_s = self._mean(self.saving, EVERYTHING), self._mean(self.loading, EVERYTHING)
        load_s = half_s if load_s is None else load_s
        load_s = self._mean(self.starting, EVERYTHING) if load_s is None else load_s
        save_s = half_s if save_s is None else save_s
        return None if save_s is None and load_s is None else (save_s or 0.0) + (load_s or 0.0)

    def cost(self, model: str = EVERYTHING) -> Cost:
        """The seconds for saving and for loading; of all jobs where the model was not measured."""
        save_s, load_s = self._mean(self.saving, model), self._mean(self.loading, model)
        if save_s is None and load_s is None and self.expected_s is not None:
            return self.expected_s / 2, self.expected_s / 2
        if load_s is None:
            load_s = self._mean(self.starting, model)
        return save_s or 0.0, load_s or 0.0

    def costs(self) -> dict[str, Cost]:
        """The cost by model, and of all jobs."""
        return {model: self.cost(model) for model in {EVERYTHING, *self.saving, *self.loading}}

    def _mean(self, means: Mapping[str, Mean], model: str) -> float | None:
        mean = means.get(model) or means.get(EVERYTHING)
        return None if mean is None else mean.value

    def save(self) -> dict[str, Any]:
        return {
            "expected_s": self.expected_s,
            **{
                name: {model: [mean.count, mean.value] for model, mean in getattr(self, name).items()}
                for name in ("saving", "loading", "starting")
            },
        }

    @classmethod
    def restore(cls, saved: Mapping[str, Any]) -> PreemptionCosts:
        costs = cls()
        costs.expected_s = saved["expected_s"]
        for name in ("saving", "loading", "starting"):
            setattr(costs, name, {model: Mean(*mean) for model, mean in saved[name].items()})
        return costs


def _add(means: dict[str, Mean], model: str, seconds: float) -> None:
    for key in (EVERYTHING, model) if model else (EVERYTHING,):
        mean = means.get(key)
        if mean is None:
            mean = means[key] = Mean()
        mean.add(seconds)
