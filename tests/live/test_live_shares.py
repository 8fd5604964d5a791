"""Shares of tenants in a manager: they are kept, and an allocator goes by them at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.live.errors import Denied, Invalid
from tiresias.live.submission import Caller
from tiresias.testing.live import ADMIN, LiveLab


def test_shares_outlive_the_manager_and_a_change_of_policy(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4) as lab:
        lab.manager.requests.set_shares(ADMIN, {"vision": 3.0, "speech": 1.0})
        lab.turn()
        lab.restart()
        assert lab.manager.queries.shares() == {"vision": 3.0, "speech": 1.0}
        lab.manager.requests.set_policy(ADMIN, "two-level", {})
        assert lab.manager.queries.shares() == {"vision": 3.0, "speech": 1.0}
        assert lab.manager.state.memory.shares(4) == {"vision": 3, "speech": 1}
        lab.manager.requests.set_shares(ADMIN, {})
        lab.turn()
        lab.restart()
        assert lab.manager.queries.shares() == {}


def test_lent_gpus_are_recalled_by_real_preemptions(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2, policy="two-level") as lab:
        lab.manager.requests.set_shares(ADMIN, {"vision": 1.0, "speech": 1.0})
        ours = [lab.submit("sleep 600", tenant="vision") for _ in range(2)]
        lab.until_running(*ours)
        theirs = lab.submit("sleep 600", tenant="speech")
        lab.until_running(theirs)
        assert sorted(lab.of(job).phase for job in ours) == ["RUNNING", "SUSPENDED"]
        [waiting] = [job for job in ours if lab.of(job).phase == "SUSPENDED"]
        lab.turn()
        lab.restart()
        assert "share of 1 GPUs and holds 1" in lab.manager.queries.why(ADMIN, waiting).text
        lab.manager.requests.cancel(ADMIN, theirs)
        lab.until_running(*ours)


@pytest.mark.parametrize("shares", [{"vision": -1.0}, {"vision": 0.0}, {"vision": float("nan")}])
def test_shares_that_make_no_sense_are_refused(tmp_path: Path, shares: dict[str, float]) -> None:
    with LiveLab(tmp_path) as lab:
        with pytest.raises(Invalid, match="shares"):
            lab.manager.requests.set_shares(ADMIN, shares)
        with pytest.raises(Denied):
            lab.manager.requests.set_shares(Caller("bob"), {"vision": 1.0})
        assert lab.manager.queries.shares() == {}
