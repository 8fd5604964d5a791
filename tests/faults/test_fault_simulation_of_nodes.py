"""The real manager over simulated nodes: 60 seeds, or as many as TIRESIAS_NODE_SEEDS says."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from tiresias.testing.faults.campaign import Failure
from tiresias.testing.faults.nodes.campaign import campaign, command, print_story

SEEDS = int(os.environ.get("TIRESIAS_NODE_SEEDS", "60"))
CHUNK = 20
TELLING = {
    16: "a manager that was just started did not know the address of the first node of a gang",
    73: "the manager that gave a run up was killed before it stored that",
    1026: "a node answered while a run of it was being given up, and stayed out for ever",
}


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_nothing_wrong_happens_on_nodes_and_then_everything_finishes(first: int, folder: Path) -> None:
    try:
        tally = campaign(range(first, min(first + CHUNK, SEEDS)), folder)
    except Failure as failure:
        pytest.fail(f"{failure}\nagain: {command(failure.seed)}")
    assert tally.lives > 1.5 * tally.seeds, ("hardly anybody was killed", str(tally))
    assert tally.runs > tally.jobs, ("hardly anything ran twice", str(tally))


@pytest.mark.parametrize("seed", TELLING)
def test_what_was_found_once_stays_mended(seed: int, folder: Path) -> None:
    campaign([seed], folder)


def test_a_seed_of_nodes_tells_the_same_story_every_time(tmp_path: Path) -> None:
    stories = []
    for name in ("once", "again"):
        (tmp_path / name).mkdir()
        out = io.StringIO()
        assert print_story(7, tmp_path / name, out) == 0
        stories.append(out.getvalue().replace(str(tmp_path / name), ""))
    assert stories[0] == stories[1]
    assert stories[0].endswith("It ended well.\n")
