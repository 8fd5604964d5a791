"""Finding a job, and counting what has ended, without looking at all that ever ran."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.live.errors import NotFound
from tiresias.live.submission import Caller
from tiresias.testing.live import ADMIN, LiveLab

ANN, BOB = Caller("ann"), Caller("bob")


def test_a_name_means_ones_own_job_before_that_of_anybody_else(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        anns = lab.submit("true", by=ANN, name="bert")
        lab.until_ended(anns)
        bobs = lab.submit("true", by=BOB, name="bert")
        lab.until_ended(bobs)
        assert lab.manager.queries.find(ANN, "bert") == anns, "bob's ended later, and is none of her business"
        assert lab.manager.queries.find(BOB, "bert") == bobs
        assert lab.manager.queries.find(ADMIN, "bert") == bobs
        runs = lab.submit("sleep 600", by=BOB, name="bert")
        assert lab.manager.queries.find(ANN, "bert") == anns, "not even if his is active"
        assert lab.manager.queries.find(BOB, "bert") == runs
        assert lab.manager.queries.find(Caller("eve"), "bert") == runs, (
            "there is none of hers: it will be refused"
        )
        with pytest.raises(NotFound, match="no job named 'gpt'"):
            lab.manager.queries.find(ANN, "gpt")


def test_what_has_ended_is_counted_also_after_a_restart(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        lab.until_ended(lab.submit("true"), lab.submit("true"), lab.submit("false", retries=0))
        waiting = lab.submit("sleep 600")
        lab.until_running(waiting)
        counts = lab.manager.queries.status().jobs
        assert counts == {"SUCCEEDED": 2, "FAILED": 1, "RUNNING": 1}
        lab.restart()
        assert lab.manager.queries.status().jobs == counts
        lab.manager.requests.cancel(ADMIN, waiting)
        lab.until_ended(waiting)
        assert lab.manager.queries.status().jobs == {"SUCCEEDED": 2, "FAILED": 1, "CANCELLED": 1}
