"""The queue as people see it: levels, what was learned, and who would be displaced next."""

from __future__ import annotations

from pathlib import Path

from tiresias.testing.live import LiveLab


def test_jobs_are_counted_by_level_and_the_worst_rank_is_displaced_next(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=4, policy="tiresias-l", set={"queues": "1,1000"}) as lab:
        first, second = lab.submit("sleep 600", gpus=1), lab.submit("sleep 600", gpus=2)
        lab.until_running(first)
        lab.until_running(second)
        lab.submit("true", gpus=4, hold=True)
        found = lab.manager.queries.order.info()
        assert found.kind == "levels"
        assert [(level.from_gpu_s, level.to_gpu_s) for level in found.levels] == [
            (0.0, 1.0), (1.0, 1000.0), (1000.0, None)
        ]  # fmt: skip
        assert sum(level.running_gpus for level in found.levels) == 3
        assert found.levels[0].wanted_gpus == 4, "on hold, without any service yet"
        assert {job.id for job in found.next_displaced} == {first, second}


def test_a_policy_without_levels_has_one_order_and_one_that_never_preempts_displaces_nobody(
    tmp_path: Path,
) -> None:
    with LiveLab(tmp_path, gpus=2, policy="fifo") as lab:
        lab.until_running(lab.submit("sleep 600", gpus=1))
        found = lab.manager.queries.order.info()
        assert (found.kind, found.preempts, found.next_displaced) == ("strict", False, [])
        assert [(level.running_jobs, level.waiting_jobs) for level in found.levels] == [(1, 0)]


def test_an_allocator_has_leases_and_names_nobody_as_the_next_to_be_displaced(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2, policy="themis") as lab:
        runs = lab.submit("sleep 600", gpus=2)
        lab.until_running(runs)
        lab.submit("true", gpus=2)
        found = lab.manager.queries.order.info()
        assert (found.kind, found.preempts, found.next_displaced) == ("allocator", True, [])
        assert list(found.leases) == [runs]
        assert found.leases[runs] > lab.manager.now()
        assert found.again_at is not None


def test_a_job_that_has_started_has_an_end_and_no_start(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2, policy="fifo") as lab:
        runs = lab.submit("sleep 600", gpus=2)
        lab.until_running(runs)
        waits = lab.submit("true")
        running, waiting = (lab.manager.queries.outlooks.end(id) for id in (runs, waits))
        assert running is not None
        assert waiting is not None
        assert (running[0].ahead, running[2]) == ((), True)
        assert (len(waiting[0].ahead), waiting[2]) == (1, False)
