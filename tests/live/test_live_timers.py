"""What is due happens at the instant it was due, however late the manager looks at its clock."""

from __future__ import annotations

from pathlib import Path

from tiresias.live.clock import Clock
from tiresias.testing.live import ADMIN, LiveLab


class Watch:
    """A clock that goes when it is told to."""

    def __init__(self, lab: LiveLab):
        self.at = lab.manager.now()
        lab.manager.journal.clock = Clock(self.at, wall=lambda: self.at, steady=lambda: self.at)

    def pass_s(self, seconds: float) -> None:
        self.at += seconds


def test_thresholds_are_crossed_exactly_as_in_a_simulation(tmp_path: Path) -> None:
    """Ten seconds in the first queue each; who falls into the second one waits behind those who are there."""
    with LiveLab(tmp_path, gpus=1, set={"queues": "10"}) as lab:
        watch = Watch(lab)
        first, second = lab.submit("sleep 600"), lab.submit("sleep 600")
        lab.until_running(first)
        watch.pass_s(10.5)
        lab.until_running(second)
        watch.pass_s(10.5)
        lab.until_running(first)
        assert lab.of(second).preemptions == 1
        for job in (first, second):
            run = lab.manager.queries.runs(ADMIN, job)[0]
            assert run.revoked_at == run.granted_at + 10
            assert run.exited_at >= run.granted_at + 10.5


def test_a_timer_that_is_overdue_after_something_else_fires_after_it(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1, set={"queues": "10"}) as lab:
        watch = Watch(lab)
        first = lab.submit("sleep 600")
        lab.until_running(first)
        watch.pass_s(30)
        second = lab.submit("sleep 600")  # comes before the timer is looked at
        lab.until_running(second)
        facts = lab.manager.store.facts(limit=1000)
        instants = [stored.fact.at for stored in facts]
        assert instants == sorted(instants)
