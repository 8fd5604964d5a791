"""Runs many seeds of the simulation of nodes; a failure names the seed and the command that repeats it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

from tiresias.testing.faults.campaign import HANGS_S, Failure, Tally
from tiresias.testing.faults.nodes.simulation import NodeParts, NodesSimulation
from tiresias.testing.limits import within


def command(seed: int) -> str:
    return f"python -m tiresias.testing.faults {seed} --nodes"


def campaign(seeds: Iterable[int], folder: Path, parts: NodeParts | None = None) -> Tally:
    """Simulate all seeds; Failure at the first one that fails."""
    tally = Tally()
    for seed in seeds:
        home = folder / f"nodes-{seed}"
        home.mkdir()
        simulation = NodesSimulation(seed, home, parts)
        try:
            with within(HANGS_S):
                simulation.run()
        except Exception as cause:
            raise Failure(seed, cause, tally) from cause
        finally:
            shutil.rmtree(home)
        world = simulation.world
        tally += Tally(1, simulation.events, simulation.lives, len(world.gangs), len(world.programs))
    return tally


def print_story(seed: int, folder: Path, out: TextIO) -> int:
    """Print what happened, line by line, and how it ended; return the exit code."""
    home = folder / f"nodes-{seed}"  # as in a campaign
    home.mkdir()
    simulation = NodesSimulation(seed, home)
    problem = ""
    try:
        with within(HANGS_S):
            simulation.run()
    except Exception as cause:  # noqa: BLE001  (the story is needed most when something failed)
        problem = f"{type(cause).__name__}: {cause}"
    for at, what, about in simulation.story:
        print(f"{at:10.2f}  {what}  {'  '.join(map(str, about))}", file=out)
    print(problem or "It ended well.", file=out)
    return 1 if problem else 0
