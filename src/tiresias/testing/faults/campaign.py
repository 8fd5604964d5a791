"""Runs many seeds, one after the other; a failure names the seed and the command that repeats it."""

from __future__ import annotations

import shutil
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self, TextIO

from tiresias.testing.faults.simulation import Parts, Simulation
from tiresias.testing.limits import within

HANGS_S = 300.0  # a seed takes a fraction of a second


class Failure(AssertionError):
    """The simulation of a seed failed; `tally` is what was done before it."""

    def __init__(self, seed: int, cause: Exception, tally: Tally):
        super().__init__(f"seed {seed}: {type(cause).__name__}: {cause}")
        self.seed, self.tally = seed, tally


@dataclass(slots=True)
class Tally:
    """What a campaign did, so that a campaign in which nothing happens is noticed."""

    seeds: int = 0
    events: int = 0
    lives: int = 0
    runs: int = 0
    jobs: int = 0

    def count(self, simulation: Simulation) -> None:
        self.seeds += 1
        self.events += simulation.events
        self.lives += simulation.lives
        self.runs += len(simulation.world.gangs)
        self.jobs += len(simulation.promises.jobs)

    def __iadd__(self, other: Tally) -> Self:
        for name in ("seeds", "events", "lives", "runs", "jobs"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds: {self.events} events, {self.lives} lives of managers, {self.jobs} jobs,"
            f" {self.runs} runs"
        )


def command(seed: int) -> str:
    return f"python -m tiresias.testing.faults {seed}"


def campaign(seeds: Iterable[int], folder: Path, parts: Parts | None = None) -> Tally:
    """Simulate all seeds; Failure at the first one that fails."""
    tally = Tally()
    for seed in seeds:
        home = folder / str(seed)
        home.mkdir()
        simulation = Simulation(seed, home, parts)
        try:
            with within(HANGS_S):
                simulation.run()
        except Exception as cause:
            raise Failure(seed, cause, tally) from cause
        finally:
            shutil.rmtree(home)
        tally.count(simulation)
    return tally


def print_story(seed: int, folder: Path, out: TextIO) -> int:
    """Print what happened, line by line, and how it ended; return the exit code."""
    home = folder / str(seed)  # as in a campaign: how much of a write is short depends on the length of paths
    home.mkdir()
    simulation = Simulation(seed, home)
    problem = ""
    try:
        with within(HANGS_S):
            simulation.run()
    except Exception:  # noqa: BLE001  (the story is needed most when something failed)
        problem = traceback.format_exc()
    for at, what, about in simulation.story:
        print(f"{at:10.2f}  {what}  {'  '.join(map(str, about))}", file=out)
    print(problem or "It ended well.", file=out)
    return 1 if problem else 0
