"""The real manager over the simulated World: 500 seeds, or as many as TIRESIAS_FAULT_SEEDS says."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest

from tiresias.testing.faults.campaign import Failure, campaign, command, print_story

SEEDS = int(os.environ.get("TIRESIAS_FAULT_SEEDS", "500"))
CHUNK = 25


@pytest.mark.parametrize("first", range(0, SEEDS, CHUNK))
def test_nothing_wrong_happens_and_then_everything_finishes(first: int, folder: Path) -> None:
    try:
        tally = campaign(range(first, min(first + CHUNK, SEEDS)), folder)
    except Failure as failure:
        pytest.fail(f"{failure}\nagain: {command(failure.seed)}")
    assert tally.lives > 2 * tally.seeds, ("hardly anybody was killed", str(tally))
    assert tally.runs > tally.jobs, ("hardly anything ran twice", str(tally))


def test_a_seed_tells_the_same_story_every_time(tmp_path: Path) -> None:
    stories = []
    for name in ("once", "again"):
        (tmp_path / name).mkdir()
        out = io.StringIO()
        assert print_story(7, tmp_path / name, out) == 0
        stories.append(out.getvalue().replace(str(tmp_path / name), ""))
    assert stories[0] == stories[1]
    assert stories[0].count("KILLED") >= 1
    assert stories[0].endswith("It ended well.\n")
