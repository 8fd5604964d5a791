"""Why is my job pending? One dominant reason, with evidence that adds up."""

from __future__ import annotations

import pytest

from tiresias.core.reasons import Reason
from tiresias.testing import Harness

TWO_QUEUES = {"queues": "1000", "order": "running-first"}


def why(lab: Harness, name: str) -> Reason:
    lab.plan()
    reason = lab.why(name)
    assert reason is not None
    return reason


def test_it_runs() -> None:
    assert why(Harness("fifo").running("a"), "a").code == "Running"


def test_it_is_saving() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    lab.running("a", gpus=4, service_s=900).pending("b", gpus=4)
    assert why(lab, "a").code == "Stopping"
    reason = lab.why("b")
    assert reason is not None
    assert (reason.code, reason.free_gpus) == ("WaitingForVictimsToExit", 0)


def test_it_can_never_fit() -> None:
    reason = why(Harness("fifo", gpus=4).pending("a", gpus=5), "a")
    assert reason.code == "Impossible"
    assert "5" in reason.text
    assert "4" in reason.text


def test_it_is_held() -> None:
    assert why(Harness("fifo").held("a"), "a").code == "Held"


def test_a_job_waits_because_others_are_ahead() -> None:
    lab = Harness("tiresias-l", gpus=4, options=TWO_QUEUES)
    lab.running("a", gpus=2).running("b", gpus=1).pending("c", gpus=2)
    reason = why(lab, "c")
    assert reason.code == "BehindHigherRank"
    assert (reason.ahead_jobs, reason.ahead_gpus, reason.free_gpus) == (2, 3, 1)


def test_the_head_blocks_all_behind() -> None:
    lab = Harness("fifo", gpus=4).running("a", gpus=2).pending("b", gpus=4).pending("c", gpus=1)
    reason = why(lab, "c")
    assert reason.code == "BehindBlockedHead"
    assert "4 GPUs" in reason.text


@pytest.mark.parametrize("policy", ["fifo", "fifo-skip", "sjf"])
def test_runs_that_cannot_be_preempted_are_part_of_the_evidence(policy: str) -> None:
    lab = Harness(policy, gpus=4).running("a", gpus=4, duration_s=9.0).pending("b", gpus=2, duration_s=9.0)
    reason = why(lab, "b")
    assert (reason.ahead_jobs, reason.ahead_gpus) == (1, 4)
    assert "0 left, needs 2" in reason.text


def test_a_job_that_does_not_exist_has_no_explanation() -> None:
    lab = Harness("fifo").running("a")
    lab.plan()
    lab.finish("a")
    assert lab.why("a") is None


def test_a_reason_that_does_not_depend_on_other_jobs_counts_none_of_them() -> None:
    why = Harness("fifo", gpus=4).held("a").why("a")
    assert why is not None
    assert (why.ahead_jobs, why.ahead_gpus, why.free_gpus, why.best_hole) == (0, 0, 0, 0)
