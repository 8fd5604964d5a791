"""tiresias-g learns from the jobs that have ended, and knows nothing of those that have not."""

from __future__ import annotations

from random import Random

from tiresias.core import facts as f
from tiresias.core.facts import ExitCause
from tiresias.testing import Story, a_trace, random_trace, story_of
from tiresias.testing.builders import Row

OPTIONS = {"queues": "500,5000", "learn_after": "5"}


def decided(rows: list[Row], until: float) -> list[f.Fact]:
    """All that is known up to an instant, durations aside."""
    facts = []
    for fact in story(rows).facts:
        if fact.at >= until:
            break
        if isinstance(fact, f.JobSubmitted):
            fact.job.duration_s = None
        facts.append(fact)
    return facts


def story(rows: list[Row], **options: str) -> Story:
    return story_of(a_trace(rows), "2x4", "tiresias-g", options={**OPTIONS, **options})


def test_it_does_not_look_at_what_has_not_ended_yet() -> None:
    for seed in range(3):
        rows = random_trace(Random(seed), 60, longest_s=2000, gap_s=30)
        ends = sorted(
            (exited.at, grant.job_id)
            for grant, exited in story(rows).runs()
            if exited.cause is ExitCause.FINISHED
        )
        until = ends[len(ends) // 2][0]
        later = {id for at, id in ends if at > until}
        other = [
            (at, gpus, duration_s * 7 + 1 if row in later else duration_s)
            for row, (at, gpus, duration_s) in enumerate(rows)
        ]
        assert other != rows
        assert decided(other, until) == decided(rows, until)


def test_what_it_has_learned_matters() -> None:
    rows = random_trace(Random(3), 80, longest_s=2000, gap_s=20)
    learned = story(rows, order="running-first").result.jobs
    never = story(rows, order="running-first", learn_after="1000").result.jobs
    assert not learned.equals(never)


def test_until_enough_jobs_have_ended_it_is_tiresias_l() -> None:
    rows = random_trace(Random(3), 80, longest_s=2000, gap_s=20)
    never = story(rows, order="running-first", learn_after="1000").result
    plain = story_of(
        a_trace(rows), "2x4", "tiresias-l", options={"queues": "500,5000", "order": "running-first"}
    ).result
    assert never.jobs.equals(plain.jobs)
