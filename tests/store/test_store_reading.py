"""What readers see while the manager writes: stories, records, pages, keys."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_worlds import a_controller, a_store, assert_same, commit, hand

from tiresias.core import facts as f
from tiresias.core.commands import StartRun, StopRun
from tiresias.core.controller import Controller
from tiresias.core.facts import ExitCause, Fact
from tiresias.core.model import Demand, Job, JobId, Phase, RunId
from tiresias.core.plugins import placers, policies
from tiresias.store import (
    Batch,
    Chosen,
    Reader,
    RunSpan,
    Store,
    StoreError,
    TokenRecord,
    redecide,
    replay,
)


class Told:
    """A Controller with a journal: tell it facts, and each step is committed."""

    def __init__(self, path: Path, policy: str = "tiresias-l", gpus: int = 4):
        self.controller = a_controller(policy, nodes=1, gpus=gpus)
        self.store = a_store(path, self.controller)

    def tell(self, *facts: Fact) -> list[Fact]:
        told = hand(self.controller, *facts)
        commit(self.store, self.controller, [told])
        return told[1].facts

    def submit(self, id: int, gpus: int = 1, at: float = 0.0, user: str = "ann") -> list[Fact]:
        return self.tell(f.JobSubmitted(at, Job(JobId(id), Demand(gpus), at, user=user, tenant="lab")))

    def finish(self, run_id: int, at: float, cause: ExitCause = ExitCause.FINISHED) -> list[Fact]:
        return self.tell(f.RunExited(at, RunId(run_id), cause, at))


@pytest.fixture
def told(tmp_path: Path) -> Iterator[Told]:
    told = Told(tmp_path / "journal.db")
    yield told
    told.store.close()


def test_a_story_is_all_that_happened_to_one_job(told: Told) -> None:
    told.submit(1)
    told.submit(2)
    told.tell(f.RunStarted(1.0, RunId(1)))
    told.tell(f.RunProgressed(2.0, RunId(1), 1.0, 1.0))
    told.finish(1, 3.0)
    story = told.store.story(JobId(1))
    kinds = [type(stored.fact).__name__ for stored in story]
    assert kinds == ["JobSubmitted", "RunGranted", "RunStarted", "RunProgressed", "RunExited"]
    assert [stored.is_decision for stored in story] == [False, True, False, False, False]
    assert [stored.seq for stored in told.store.facts(since=2, limit=3)] == [3, 4, 5]
    assert told.store.facts(since=told.store.last_seq) == []


def test_a_job_is_found_active_and_ended(told: Told) -> None:
    told.submit(1, gpus=2)
    active = told.store.job(JobId(1))
    assert active is not None
    assert (active.phase, active.ended_at, active.record) == (Phase.STARTING, None, None)
    told.tell(f.RunStarted(1.0, RunId(1)))
    told.finish(1, 11.0)
    ended = told.store.job(JobId(1))
    assert ended is not None
    assert (ended.phase, ended.ended_at, ended.service_gpu_s) == (Phase.SUCCEEDED, 11.0, 22.0)
    assert (ended.record, ended.job.user, ended.job.demand.gpus) == ({"reason": "over"}, "ann", 2)
    run = told.store.run(RunId(1))
    assert run is not None
    assert (run.granted_at, run.started_at, run.revoked_at, run.exited_at) == (0.0, 1.0, None, 11.0)
    assert (run.cause, run.exit, run.number) == (ExitCause.FINISHED, {"code": 0, "signal": None}, 1)
    assert told.store.job(JobId(99)) is None
    assert told.store.run(RunId(99)) is None


def test_text_that_is_not_utf_8_survives(told: Told) -> None:
    name = os.fsdecode(b"caf\xe9")
    batch = Batch(submissions={JobId(1): {"env": {"A": name, "B": "\0 ä"}}})
    batch.add(*hand(told.controller, f.JobSubmitted(0.0, Job(JobId(1), Demand(1), 0.0, name=name))))
    batch.add(*hand(told.controller, f.RunExited(1.0, RunId(1), ExitCause.FAILED, 0.0)))
    told.store.commit(told.controller, batch)
    job = told.store.job(JobId(1))
    assert job is not None
    assert job.job.name == name
    assert told.store.submission(JobId(1)) == {"env": {"A": name, "B": "\0 ä"}}
    with pytest.raises(StoreError, match="is not text"):
        told.store.set_setting(name, 1)


def test_ended_jobs_come_in_pages_the_latest_first(told: Told) -> None:
    for id in range(1, 8):
        told.submit(id, at=float(id))
        told.finish(id, float(id))
    first, cursor = told.store.ended(limit=3)
    second, cursor = told.store.ended(limit=3, cursor=cursor)
    third, end = told.store.ended(limit=3, cursor=cursor)
    assert [[job.id for job in page] for page in (first, second, third)] == [[7, 6, 5], [4, 3, 2], [1]]
    assert end is None


def test_a_run_that_comes_and_goes_in_one_commit_is_recorded_whole(told: Told) -> None:
    steps = [
        hand(told.controller, f.JobSubmitted(0.0, Job(JobId(1), Demand(4), 0.0))),
        hand(told.controller, f.RunStarted(1.0, RunId(1))),
        hand(told.controller, f.JobCancelled(2.0, JobId(1))),
        hand(told.controller, f.RunExited(3.0, RunId(1), ExitCause.PREEMPTED, 1.0)),
    ]
    commit(told.store, told.controller, steps)
    (run,) = told.store.runs(JobId(1))
    assert (run.started_at, run.revoked_at, run.exited_at, run.progress_s) == (1.0, 2.0, 3.0, 1.0)
    job = told.store.job(JobId(1))
    assert job is not None
    assert job.phase is Phase.CANCELLED
    assert [stored.step for stored in told.store.facts()] == [1, 1, 2, 3, 4]


def test_what_is_unconfirmed_is_commanded_again(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    told = Told(path, "fifo", gpus=4)
    for id in (1, 2, 3):
        told.submit(id)
    told.tell(f.RunStarted(1.0, RunId(1)))
    told.tell(f.RunStarted(1.0, RunId(2)))
    told.tell(f.JobCancelled(2.0, JobId(2)))
    told.store.close()
    with Store.open(path) as store:
        loaded = store.load()
        assert loaded.commands == [StopRun(RunId(2)), StartRun(RunId(3), JobId(3), ((0, 4),), False)]
        assert [(run.id, run.revoked_at) for run in loaded.open_runs] == [(1, None), (2, 2.0), (3, None)]
        assert loaded.submissions[JobId(1)]["env"] == {"A": "ä"}
        assert set(loaded.submissions) == {1, 2, 3}
        with pytest.raises(KeyError):
            loaded.submissions[JobId(4)]


def test_readers_see_whole_commits_while_the_writer_writes(told: Told) -> None:
    seen: list[int] = []
    wrong: list[str] = []
    done = threading.Event()
    ready = threading.Barrier(3)

    def look(reader: Reader) -> None:
        ready.wait()
        while not done.is_set():
            last = reader.last_seq
            facts = reader.facts(limit=100_000)
            seen.append(last)
            if len(facts) < last:
                wrong.append(f"{len(facts)} facts, and the last is {last}")
            rows = reader.rows()
            holding = sum(row[2] in ("STARTING", "RUNNING", "STOPPING") for row in rows.jobs)
            if holding != len(rows.runs):
                wrong.append(f"{holding} jobs hold slots, and {len(rows.runs)} runs are open")

    with Reader(told.store.path) as other:
        threads = [threading.Thread(target=look, args=(reader,)) for reader in (told.store, other)]
        for thread in threads:
            thread.start()
        ready.wait()
        for id in range(1, 60):
            told.submit(id, at=float(id))
            told.finish(id, float(id))
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert seen


def test_facts_of_long_ended_jobs_leave_and_the_rest_can_be_replayed(told: Told) -> None:
    told.submit(1)
    told.finish(1, 5.0)
    told.submit(2, at=6.0)  # still active at the base
    told.submit(3, at=7.0)
    told.finish(3, 8.0)
    assert told.store.compact(8.0).facts == 0, "no base is old enough yet"
    told.submit(4, at=20.0)
    done = told.store.compact(9.0)
    assert (done.facts, done.submissions, done.is_all) == (6, 1, True)
    assert told.store.story(JobId(1)) == []
    assert told.store.submission(JobId(1)) is None
    job = told.store.job(JobId(1))
    assert job is not None
    assert job.record == {"reason": "over"}
    assert len(told.store.runs(JobId(1))) == 1
    assert len(told.store.story(JobId(2))) == 2
    story = replay(told.store)
    assert story.since == 8
    assert redecide(story) is None
    assert_same(told.controller.state, story.state, told.controller.policy.save)


def test_compaction_goes_in_small_steps(told: Told) -> None:
    for id in range(1, 11):
        told.submit(id, at=float(id))
        told.finish(id, float(id))
    told.store.compact(0.0)
    sizes = []
    while not (done := told.store.compact(100.0, limit=7)).is_all:
        sizes.append(done.facts)
    assert [*sizes, done.facts] == [7, 7, 7, 7, 2]
    last = told.store.last_seq
    told.submit(11, at=200.0)
    assert [stored.seq for stored in told.store.facts()] == [last + 1, last + 2], "numbers are not used again"


def test_whole_states_are_kept_no_more_often_than_asked(told: Told) -> None:
    for hour in range(1, 25):
        told.submit(hour, at=hour * 3600.0)
        told.store.compact(0.0, base_every_s=6 * 3600.0)
    bases = [at for (at,) in told.store._all("SELECT at FROM bases WHERE at IS NOT NULL ORDER BY seq")]
    assert bases == [3600.0, 7 * 3600.0, 13 * 3600.0, 19 * 3600.0]
    assert redecide(replay(told.store)) is None


def test_a_state_that_is_kept_whole_already_is_not_kept_again(told: Told) -> None:
    told.store.compact(100.0)
    assert told.store._all("SELECT seq FROM bases") == [(0,)], "nothing has happened since the beginning"
    told.submit(1, at=5.0)
    for _ in range(2):
        told.store.compact(1.0)
    assert told.store._all("SELECT seq FROM bases ORDER BY seq") == [(0,), (told.store.last_seq,)]


def test_submissions_go_in_the_order_in_which_jobs_ended(told: Told) -> None:
    for id in range(1, 7):
        told.submit(id, at=float(id))
        if id != 2:
            told.finish(id, float(id))
    done = [told.store.compact(100.0, limit=2) for _ in range(4)]
    assert [each.submissions for each in done] == [2, 2, 1, 0]
    assert told.store._all("SELECT job FROM submissions") == [(2,)], "that job has not ended"
    told.finish(2, 50.0)
    assert told.store.compact(40.0).submissions == 0, "not long ago"
    assert told.store.compact(100.0).submissions == 1


def test_a_journal_that_was_changed_is_found_out(told: Told) -> None:
    told.submit(1)
    told.submit(2)
    told.store._write.execute("UPDATE facts SET body = replace(body, '[[0,2]]', '[[0,4]]') WHERE seq = 4")
    difference = redecide(replay(told.store))
    assert difference is not None
    assert difference.step.seq == 3
    assert difference.step.decisions != difference.decisions


def test_a_change_of_policy_is_stored_with_its_memory(told: Told) -> None:
    told.submit(1)
    controller = Controller(told.controller.state, policies.make("fifo"), placers.make("packed"))
    controller.state.memory = controller.policy.new_memory()
    told.store.commit(controller, Batch(chosen=Chosen("fifo")))
    assert told.store.chosen() == Chosen("fifo")
    assert_same(controller.state, told.store.load().state, controller.policy.save)
    told.controller = Controller(controller.state, controller.policy, controller.placer)
    assert told.submit(3, gpus=3, at=2.0) != []
    assert told.submit(4, gpus=4, at=3.0) == []
    assert told.submit(5, gpus=1, at=3.0) == [], "under fifo nobody passes"
    story = replay(told.store)
    assert redecide(story) is None
    assert_same(told.controller.state, story.state, told.controller.policy.save)
    late = Batch(chosen=Chosen("las"))
    late.add(*hand(told.controller, f.TimerFired(4.0)))
    with pytest.raises(StoreError, match="into a batch of its own"):
        told.store.commit(told.controller, late)


def test_settings_have_the_type_of_their_default(told: Told) -> None:
    store = told.store
    assert store.setting("max_gpus", 4) == 4
    store.set_setting("max_gpus", 8)
    store.set_setting("grace_s", 60)
    store.set_setting("limits", {"ann": 2})
    assert store.setting("max_gpus", 4) == 8
    assert store.setting("grace_s", 1.5) == 60.0
    assert store.setting("limits", dict[str, int]()) == {"ann": 2}
    assert store.settings() == {"grace_s": 60, "limits": {"ann": 2}, "max_gpus": 8}
    with pytest.raises(StoreError, match="setting 'max_gpus' is 8, which is no str"):
        store.setting("max_gpus", "")
    store.set_setting("max_gpus", None)
    assert store.setting("max_gpus", 4) == 4


def test_tokens_are_known_by_their_hash_only(told: Told) -> None:
    store = told.store
    store.add_token("very-secret", name="laptop", user="ann", role="admin", at=5.0)
    record = TokenRecord("laptop", "ann", "admin", 5.0)
    assert store.token("very-secret") == record
    assert store.token("very-secre") is None
    assert store.tokens() == [record]
    with pytest.raises(StoreError, match="token named 'laptop' already"):
        store.add_token("other", name="laptop", user="bob", role="user", at=6.0)
    assert store.revoke_token("laptop")
    assert not store.revoke_token("laptop")
    assert store.token("very-secret") is None
    store.close()
    store.close()
    for file in told.store.path.parent.iterdir():
        assert b"very-secret" not in file.read_bytes()


def test_the_spans_of_many_jobs_are_read_at_once(told: Told) -> None:
    """What a training told comes from the record of the run's exit; runs that go on are no spans."""
    told.submit(1)
    told.submit(2)
    told.submit(3, gpus=2)
    told.tell(f.RunStarted(1.0, RunId(1)))
    exited = hand(told.controller, f.RunExited(3.0, RunId(1), ExitCause.FINISHED, 3.0))
    batch = Batch(exits={RunId(1): {"told": [[1.5, 10], [2.5, 30]]}})
    batch.add(*exited)
    told.store.commit(told.controller, batch)
    told.finish(2, 4.0)
    assert told.store.spans([JobId(1), JobId(2), JobId(3), JobId(4)]) == {
        JobId(1): [RunSpan(0.0, 1.0, None, 3.0, (1.5, 10), (2.5, 30))],
        JobId(2): [RunSpan(0.0, None, None, 4.0)],
    }
