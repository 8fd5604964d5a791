"""Limits that change, or meet each other, while jobs run and wait: what fault simulation found."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.core import invariants
from tiresias.executors.cgroup_parent import Limiting
from tiresias.live.answers import Limits
from tiresias.live.errors import Impossible, Unavailable
from tiresias.live.submission import Caller, Submission
from tiresias.store import Batch, StoreError
from tiresias.testing.live import ADMIN, LiveLab

BOB = Caller("bob")


def test_a_job_that_is_requeued_above_a_lowered_limit_waits(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4) as lab:
        one, two = (lab.submit("sleep 600", by=BOB) for _ in range(2))
        lab.until_running(one, two)
        lab.manager.requests.set_limits(ADMIN, "bob", Limits(max_running_gpus=1))
        lab.manager.requests.requeue(BOB, two)
        lab.until(lambda: lab.of(two).phase == "SUSPENDED")
        lab.turn()
        assert (lab.of(two).reason, lab.of(two).runs) == ("Quota", 1)
        lab.manager.requests.set_limits(ADMIN, "bob", Limits())
        lab.until_running(two)


def test_the_end_of_a_back_off_does_not_lift_a_limit(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4, settings={"backoff_s": 1.0}) as lab:
        steady = lab.submit("sleep 600", by=BOB)
        lab.until_running(steady)
        flaky = lab.submit("sh -c 'echo ConnectionResetError: again; exit 1'", by=BOB, retries=3)
        lab.until(lambda: lab.of(flaky).reason == "BackoffAfterFailure")
        lab.manager.requests.set_limits(ADMIN, "bob", Limits(max_running_gpus=1))
        again_at = lab.manager.now() + 1.0
        lab.until(lambda: lab.manager.now() > again_at)
        lab.turn()
        assert (lab.of(flaky).reason, lab.of(flaky).runs) == ("Quota", 1)
        lab.manager.requests.set_limits(ADMIN, "bob", Limits())
        lab.until(lambda: lab.of(flaky).runs > 1)


def an_array(home: Path, limit: int, **first: float) -> list[Submission]:
    asked = [Submission(("/bin/sleep", "600"), str(home), array="a", array_limit=limit) for _ in range(3)]
    asked[0] = Submission(("/bin/sleep", "600"), str(home), array="a", array_limit=limit, **first)  # type: ignore[arg-type]
    return asked


def test_a_job_that_may_begin_puts_another_of_its_array_back(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        busy = lab.submit("sleep 600", preemptible=False)
        lab.until_running(busy)
        begin_at = lab.manager.now() + 0.3
        ids = lab.manager.requests.submit(ADMIN, an_array(tmp_path, 1, begin_at=begin_at))
        lab.turn()
        assert [lab.of(id).reason for id in ids[::2]] == ["BeginTime", "ArrayLimit"]
        lab.until(lambda: lab.of(ids[0]).reason != "BeginTime")
        assert [lab.of(id).reason for id in ids[1:]] == ["ArrayLimit"] * 2


def test_a_limit_of_the_user_does_not_lift_that_of_an_array(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4) as lab:
        lab.manager.requests.set_limits(ADMIN, "ann", Limits(max_running_gpus=4))
        ids = lab.manager.requests.submit(ADMIN, an_array(tmp_path, 1))
        lab.until_running(ids[0])
        lab.submit("sleep 600")
        assert [lab.of(id).reason for id in ids[1:]] == ["ArrayLimit"] * 2


def test_a_preflight_waits_for_what_its_job_waits_for(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4) as lab:
        first = lab.submit(f"sh -c 'until [ -e {tmp_path}/go ]; do sleep 0.05; done; touch {tmp_path}/data'")
        second = lab.submit(f"cat {tmp_path}/data", after=(first,), preflight=True)
        lab.until_running(first)
        tries = second + 1
        assert lab.of(tries).reason == "Dependency"  # type: ignore[arg-type]
        (tmp_path / "go").touch()
        assert [end.phase for end in lab.until_ended(first, second)] == ["SUCCEEDED"] * 2


def test_a_policy_that_cannot_be_stored_leaves_the_old_one_in_charge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LiveLab(tmp_path, gpus=2, policy="fifo") as lab:
        running, waiting = lab.submit("sleep 600", gpus=2), lab.submit("sleep 600", gpus=2)
        lab.until_running(running)
        real = lab.manager.store.commit

        def full(controller: object, batch: Batch) -> int:
            if batch.chosen is not None:
                raise StoreError("the disk is full")
            return real(controller, batch)  # type: ignore[arg-type]

        monkeypatch.setattr(lab.manager.store, "commit", full)
        with pytest.raises(Unavailable, match="the disk is full"):
            lab.manager.requests.set_policy(ADMIN, "las", {})
        invariants.check_plan(lab.manager.controller)
        assert lab.manager.queries.policy()["name"] == "fifo"
        lab.turn()
        assert [lab.of(id).phase for id in (running, waiting)] == ["RUNNING", "PENDING"]


def test_a_user_inherits_each_limit_that_it_has_no_own_value_for(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4) as lab:
        requests, admission = lab.manager.requests, lab.manager.admission
        requests.set_limits(ADMIN, "*", Limits(max_running_gpus=2, max_active_jobs=1))
        requests.set_limits(ADMIN, "bob", Limits(max_running_gpus=3))
        assert (admission.gpu_limit_of("bob"), admission.job_limit_of("bob")) == (3, 1)
        assert (admission.gpu_limit_of("eve"), admission.job_limit_of("eve")) == (2, 1)
        lab.submit("sleep 600", by=BOB)
        with pytest.raises(Impossible, match="bob may have 1 active jobs"):
            lab.submit("sleep 600", by=BOB)
        requests.set_limits(ADMIN, "bob", Limits("none", "none"))
        assert (admission.gpu_limit_of("bob"), admission.job_limit_of("bob")) == (None, None)
        lab.submit("sleep 600", gpus=4, by=BOB)
        lab.restart()
        assert lab.manager.admission.job_limit_of("bob") is None
        assert lab.manager.admission.job_limit_of("eve") == 1


def test_limits_of_memory_and_cpus_that_cannot_be_enforced_are_refused(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        lab.manager.requests.machine.limiting = Limiting(
            no_memory="there is no memory controller; ask an admin for one"
        )
        lab.submit("true", cpus=2)
        with pytest.raises(
            Impossible, match="--mem cannot be enforced: there is no memory controller"
        ) as refused:
            lab.submit("true", cpus=2, memory_bytes=2**30)
        assert "--cpus" not in str(refused.value)


def test_a_run_is_started_with_the_limits_of_its_job(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        lab.manager.requests.machine.limiting = Limiting()
        job = lab.submit("sleep 600", cpus=2, memory_bytes=2**30)
        spec = lab.manager.dispatcher.spec(lab.manager.state.jobs[job])
        assert (spec.cpus, spec.memory_bytes) == (2, 2**30)
