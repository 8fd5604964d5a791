"""The grace of a run is the user's choice within bounds, and does not outlive an administrator's patience."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.core.model import JobId
from tiresias.live.errors import Conflict, Denied, Impossible
from tiresias.live.submission import Caller
from tiresias.testing.live import ADMIN, SETTINGS, LiveLab

BOB, EVE = Caller("bob"), Caller("eve")
HOUR_S = 3600.0
STUBBORN = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.05; done")


def stubborn(lab: LiveLab, grace_s: float = HOUR_S) -> JobId:
    """A job of bob's that does not end on SIGTERM, and runs."""
    job = lab.submit(STUBBORN, by=BOB, grace_s=grace_s)
    lab.until(lambda: "ready" in lab.output(job))
    return job


def test_cancel_now_kills_a_run_at_once(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = stubborn(lab)
        lab.manager.requests.cancel(BOB, job, now=True)
        assert lab.until_ended(job)[0].phase == "CANCELLED"


def test_an_admin_kills_a_run_that_is_stopping_for_its_user(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = stubborn(lab)
        lab.manager.requests.cancel(BOB, job)
        lab.manager.flush()
        assert lab.of(job).phase == "STOPPING"
        with pytest.raises(Denied, match="belongs to bob"):
            lab.manager.requests.cancel(EVE, job, now=True)
        lab.manager.requests.cancel(ADMIN, job, now=True)
        assert lab.until_ended(job)[0].phase == "CANCELLED"


def test_cancel_now_outlives_a_manager_that_is_killed_before_it_acts(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = stubborn(lab)
        lab.manager.requests.cancel(BOB, job)
        lab.manager.flush()
        lab.manager.requests.cancel(BOB, job, now=True)
        lab.manager.journal.commit()  # durable, and not carried out
        lab.restart()
        assert lab.until_ended(job)[0].phase == "CANCELLED"


def test_a_shorter_grace_applies_to_a_run_that_is_stopping(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = stubborn(lab, grace_s=600.0)
        lab.manager.requests.hold(BOB, job)
        lab.manager.flush()
        assert lab.of(job).phase == "STOPPING"
        with pytest.raises(Conflict, match="its grace can only become shorter now"):
            lab.manager.requests.change(BOB, job, {"grace_s": 601.0})
        lab.manager.requests.change(ADMIN, job, {"grace_s": 0.1})
        lab.until(lambda: lab.of(job).phase == "HELD")


def test_no_job_asks_for_more_than_the_maximum_grace(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        for caller in (BOB, ADMIN):
            with pytest.raises(Impossible, match="a grace of 31622400 s is longer than the 3600 s that this"):
                lab.submit("true", by=caller, grace_s=366 * 86400.0)
        job = lab.submit("sleep 600", by=BOB, hold=True)
        with pytest.raises(Impossible, match="longer than the 3600 s"):
            lab.manager.requests.change(BOB, job, {"grace_s": HOUR_S + 1})
        assert lab.manager.queries.detail(BOB, job).grace_s == 10.0


def test_a_lower_maximum_applies_to_jobs_that_are_there_already(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        job = stubborn(lab)
        lab.options.settings = {**SETTINGS, "most_grace_s": 0.1}
        lab.restart()
        lab.manager.requests.cancel(BOB, job)
        assert lab.until_ended(job)[0].phase == "CANCELLED"
