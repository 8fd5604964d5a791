"""The metrics that runs report, as curves over the steps of the job."""

from __future__ import annotations

import json
from pathlib import Path

from tiresias.live.curves import MOST_METRICS, MOST_POINTS, Curves, curves


def run_that_reported(folder: Path, *lines: object) -> Path:
    folder.mkdir(parents=True)
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    (folder / "report-0.jsonl").write_text(text)
    return folder


def at_step(step: int, **metrics: object) -> dict[str, object]:
    return {"at": 1000.0 + step, "step": step, "metrics": metrics}


def test_a_step_that_a_second_run_did_again_has_its_last_value(tmp_path: Path) -> None:
    first = run_that_reported(tmp_path / "1", at_step(1, loss=3.0), at_step(2, loss=2.0))
    second = run_that_reported(tmp_path / "2", at_step(2, loss=1.5, rate=0.1), at_step(3, loss=1.0))
    assert curves([first, second]) == Curves([1, 2, 3], {"loss": [3.0, 1.5, 1.0], "rate": [None, 0.1, None]})


def test_what_is_no_number_is_no_point(tmp_path: Path) -> None:
    odd = at_step(1, text="<b>", yes=True, huge=1e308, none=None, loss=2)
    run = run_that_reported(tmp_path / "1", odd, "nonsense", {"at": 1.0, "metrics": {"loss": 1}})
    assert curves([run, tmp_path / "never-reported"]) == Curves([1], {"loss": [2.0]})


def test_long_curves_are_thinned_and_keep_both_ends(tmp_path: Path) -> None:
    names = {f"m{number}": 1.0 for number in range(MOST_METRICS + 5)}
    run = run_that_reported(tmp_path / "1", *(at_step(step, **names) for step in range(1000)))
    found = curves([run])
    assert (len(found.steps), found.steps[0], found.steps[-1]) == (MOST_POINTS, 0, 999)
    assert len(found.metrics) == MOST_METRICS
