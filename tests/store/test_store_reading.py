"""What readers see while the manager writes: facts, jobs, runs, pages, keys, tokens, settings."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_worlds import a_controller, a_store, assert_same, commit, hand

from tiresias.core import facts as f
from tiresias.core.commands import PaceRun, StartRun, StopRun
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
    StoredToken,
    StoreError,
    redecide,
    replay,
)


class Scene:
    """A Controller with a journal: `happen` lets it handle facts in one step, and commits the step."""

    def __init__(self, path: Path, policy: str = "tiresias-l", gpus: int = 4):
        self.controller = a_controller(policy, nodes=1, gpus=gpus)
        self.store = a_store(path, self.controller)

    def happen(self, *facts: Fact) -> list[Fact]:
        handled = hand(self.controller, *facts)
        commit(self.store, self.controller, [handled])
        return handled[1].facts

    def submit(self, id: int, gpus: int = 1, at: float = 0.0, user: str = "ann") -> list[Fact]:
        return self.happen(f.JobSubmitted(at, Job(JobId(id), Demand(gpus), at, user=user, tenant="lab")))

    def finish(self, run_id: int, at: float, cause: ExitCause = ExitCause.FINISHED) -> list[Fact]:
        return self.happen(f.RunExited(at, RunId(run_id), cause, at))


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path / "journal.db")
    yield scene
    scene.store.close()


def test_the_facts_of_one_job_are_found(scene: Scene) -> None:
    scene.submit(1)
    scene.submit(2)
    scene.happen(f.RunStarted(1.0, RunId(1)))
    scene.happen(f.RunProgressed(2.0, RunId(1), 1.0, 1.0))
    scene.finish(1, 3.0)
    facts = scene.store.facts_of_job(JobId(1))
    kinds = [type(stored.fact).__name__ for stored in facts]
    assert kinds == ["JobSubmitted", "RunGranted", "RunStarted", "RunProgressed", "RunExited"]
    assert [stored.is_decision for stored in facts] == [False, True, False, False, False]
    assert [stored.seq for stored in scene.store.facts(since=2, limit=3)] == [3, 4, 5]
    assert scene.store.facts(since=scene.store.last_seq) == []


def test_a_job_is_found_active_and_ended(scene: Scene) -> None:
    scene.submit(1, gpus=2)
    active = scene.store.job(JobId(1))
    assert active is not None
    assert (active.phase, active.ended_at, active.ending) == (Phase.STARTING, None, None)
    scene.happen(f.RunStarted(1.0, RunId(1)))
    scene.finish(1, 11.0)
    ended = scene.store.job(JobId(1))
    assert ended is not None
    assert (ended.phase, ended.ended_at, ended.service_gpu_s) == (Phase.SUCCEEDED, 11.0, 22.0)
    assert (ended.ending, ended.job.user, ended.job.demand.gpus) == ({"reason": "over"}, "ann", 2)
    run = scene.store.run(RunId(1))
    assert run is not None
    assert (run.granted_at, run.started_at, run.revoked_at, run.exited_at) == (0.0, 1.0, None, 11.0)
    assert (run.cause, run.exit, run.number) == (ExitCause.FINISHED, {"code": 0, "signal": None}, 1)
    assert scene.store.job(JobId(99)) is None
    assert scene.store.run(RunId(99)) is None


def test_text_that_is_not_utf_8_is_stored(scene: Scene) -> None:
    name = os.fsdecode(b"caf\xe9")
    batch = Batch(submissions={JobId(1): {"env": {"A": name, "B": "\0 ä"}}})
    batch.add(*hand(scene.controller, f.JobSubmitted(0.0, Job(JobId(1), Demand(1), 0.0, name=name))))
    batch.add(*hand(scene.controller, f.RunExited(1.0, RunId(1), ExitCause.FAILED, 0.0)))
    scene.store.commit(scene.controller, batch)
    job = scene.store.job(JobId(1))
    assert job is not None
    assert job.job.name == name
    assert scene.store.submission(JobId(1)) == {"env": {"A": name, "B": "\0 ä"}}
    with pytest.raises(StoreError, match="is not UTF-8 text"):
        scene.store.set_setting(name, 1)


def test_ended_jobs_are_read_in_pages_the_latest_first(scene: Scene) -> None:
    for id in range(1, 8):
        scene.submit(id, at=float(id))
        scene.finish(id, float(id))
    first, cursor = scene.store.history.page(limit=3)
    second, cursor = scene.store.history.page(limit=3, cursor=cursor)
    third, end = scene.store.history.page(limit=3, cursor=cursor)
    assert [[job.id for job in page] for page in (first, second, third)] == [[7, 6, 5], [4, 3, 2], [1]]
    assert end is None


def test_a_run_that_is_granted_and_exits_in_one_commit_is_stored_whole(scene: Scene) -> None:
    steps = [
        hand(scene.controller, f.JobSubmitted(0.0, Job(JobId(1), Demand(4), 0.0))),
        hand(scene.controller, f.RunStarted(1.0, RunId(1))),
        hand(scene.controller, f.JobCancelled(2.0, JobId(1))),
        hand(scene.controller, f.RunExited(3.0, RunId(1), ExitCause.PREEMPTED, 1.0)),
    ]
    commit(scene.store, scene.controller, steps)
    (run,) = scene.store.runs(JobId(1))
    assert (run.started_at, run.revoked_at, run.exited_at, run.progress_s) == (1.0, 2.0, 3.0, 1.0)
    job = scene.store.job(JobId(1))
    assert job is not None
    assert job.phase is Phase.CANCELLED
    assert [stored.step for stored in scene.store.facts()] == [1, 1, 2, 3, 4]


def test_runs_of_one_commit_are_numbered_in_the_order_of_their_grants(scene: Scene) -> None:
    scene.submit(1)
    scene.finish(1, 1.0, ExitCause.PREEMPTED)
    steps = [
        hand(scene.controller, f.RunExited(2.0, RunId(2), ExitCause.PREEMPTED, 2.0)),
        hand(scene.controller, f.RunExited(3.0, RunId(3), ExitCause.PREEMPTED, 3.0)),
    ]
    commit(scene.store, scene.controller, steps)
    runs = scene.store.runs(JobId(1))
    assert [(run.id, run.number) for run in runs] == [(1, 1), (2, 2), (3, 3), (4, 4)]


def test_usage_is_summed_by_user_and_by_tenant(scene: Scene) -> None:
    for id, user, gpus in ((1, "ann", 1), (2, "bob", 2), (3, "ann", 1)):
        scene.submit(id, gpus=gpus, at=0.0, user=user)
    for id, at in ((1, 5.0), (2, 10.0), (3, 100.0)):
        scene.finish(id, at)
    bob = ("bob", 1, 20.0, 0.0, 1, 0, 0.0)
    assert scene.store.history.usage("user", 0.0, 50.0) == [("ann", 2, 105.0, 0.0, 1, 0, 0.0), bob]
    assert scene.store.history.usage("user", 10.0, 50.0) == [("ann", 1, 100.0, 0.0, 0, 0, 0.0), bob]
    assert scene.store.history.usage("tenant", 0.0, 50.0) == [("lab", 3, 125.0, 0.0, 2, 0, 0.0)]


def test_commands_that_may_not_have_been_carried_out_are_loaded(tmp_path: Path) -> None:
    path = tmp_path / "journal.db"
    scene = Scene(path, "fifo", gpus=4)
    for id in (1, 2, 3):
        scene.submit(id)
    scene.happen(f.RunStarted(1.0, RunId(1)))
    scene.happen(f.RunStarted(1.0, RunId(2)))
    scene.happen(f.JobCancelled(2.0, JobId(2)))
    scene.store.close()
    with Store.open(path) as store:
        loaded = store.load()
        assert loaded.commands == [
            PaceRun(RunId(1), 0, 1),  # it may have had turns once
            StopRun(RunId(2)),
            StartRun(RunId(3), JobId(3), ((0, 4),), False),
            PaceRun(RunId(3), 0, 1),
        ]
        assert [(run.id, run.revoked_at) for run in loaded.open_runs] == [(1, None), (2, 2.0), (3, None)]
        assert loaded.submissions[JobId(1)]["env"] == {"A": "ä"}
        assert set(loaded.submissions) == {1, 2, 3}
        with pytest.raises(KeyError):
            loaded.submissions[JobId(4)]


def test_readers_see_whole_commits_while_the_writer_writes(scene: Scene) -> None:
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

    with Reader(scene.store.path) as other:
        threads = [threading.Thread(target=look, args=(reader,)) for reader in (scene.store, other)]
        for thread in threads:
            thread.start()
        ready.wait()
        for id in range(1, 60):
            scene.submit(id, at=float(id))
            scene.finish(id, float(id))
        done.set()
        for thread in threads:
            thread.join()
    assert not wrong
    assert seen


def test_compaction_deletes_facts_of_jobs_that_ended_long_ago_and_the_rest_can_be_replayed(
    scene: Scene,
) -> None:
    scene.submit(1)
    scene.finish(1, 5.0)
    scene.submit(2, at=6.0)  # still active at the base
    scene.submit(3, at=7.0)
    scene.finish(3, 8.0)
    assert scene.store.compact(8.0).facts == 0, "no base is old enough yet"
    scene.submit(4, at=20.0)
    done = scene.store.compact(9.0)
    assert (done.facts, done.submissions, done.is_complete) == (6, 1, True)
    assert scene.store.facts_of_job(JobId(1)) == []
    assert scene.store.submission(JobId(1)) is None
    job = scene.store.job(JobId(1))
    assert job is not None
    assert job.ending == {"reason": "over"}
    assert len(scene.store.runs(JobId(1))) == 1
    assert len(scene.store.facts_of_job(JobId(2))) == 2
    replayed = replay(scene.store)
    assert replayed.since == 8
    assert redecide(replayed) is None
    assert_same(scene.controller.state, replayed.state, scene.controller.policy.save)


def test_compaction_deletes_at_most_the_limit_per_call(scene: Scene) -> None:
    for id in range(1, 11):
        scene.submit(id, at=float(id))
        scene.finish(id, float(id))
    scene.store.compact(0.0)
    sizes = []
    while not (done := scene.store.compact(100.0, limit=7)).is_complete:
        sizes.append(done.facts)
    assert [*sizes, done.facts] == [7, 7, 7, 7, 2]
    last = scene.store.last_seq
    scene.submit(11, at=200.0)
    assert [stored.seq for stored in scene.store.facts()] == [last + 1, last + 2], "numbers are not reused"


def test_bases_are_stored_no_more_often_than_requested(scene: Scene) -> None:
    for hour in range(1, 25):
        scene.submit(hour, at=hour * 3600.0)
        scene.store.compact(0.0, base_every_s=6 * 3600.0)
    bases = [at for (at,) in scene.store._all("SELECT at FROM bases WHERE at IS NOT NULL ORDER BY seq")]
    assert bases == [3600.0, 7 * 3600.0, 13 * 3600.0, 19 * 3600.0]
    assert redecide(replay(scene.store)) is None


def test_a_state_that_is_stored_as_a_base_is_not_stored_again(scene: Scene) -> None:
    scene.store.compact(100.0)
    assert scene.store._all("SELECT seq FROM bases") == [(0,)], "nothing has happened since the beginning"
    scene.submit(1, at=5.0)
    for _ in range(2):
        scene.store.compact(1.0)
    assert scene.store._all("SELECT seq FROM bases ORDER BY seq") == [(0,), (scene.store.last_seq,)]


def test_submissions_are_deleted_in_the_order_in_which_jobs_ended(scene: Scene) -> None:
    for id in range(1, 7):
        scene.submit(id, at=float(id))
        if id != 2:
            scene.finish(id, float(id))
    done = [scene.store.compact(100.0, limit=2) for _ in range(4)]
    assert [each.submissions for each in done] == [2, 2, 1, 0]
    assert scene.store._all("SELECT job FROM submissions") == [(2,)], "that job has not ended"
    scene.finish(2, 50.0)
    assert scene.store.compact(40.0).submissions == 0, "it has not ended long ago"
    assert scene.store.compact(100.0).submissions == 1


def test_a_journal_that_was_tampered_with_shows_in_the_replay(scene: Scene) -> None:
    scene.submit(1)
    scene.submit(2)
    scene.store._write.execute("UPDATE facts SET body = replace(body, '[[0,2]]', '[[0,4]]') WHERE seq = 4")
    difference = redecide(replay(scene.store))
    assert difference is not None
    assert difference.step.seq == 3
    assert difference.step.decisions != difference.decisions


def test_a_change_of_policy_is_stored_with_its_memory(scene: Scene) -> None:
    scene.submit(1)
    controller = Controller(scene.controller.state, policies.make("fifo"), placers.make("packed"))
    controller.state.memory = controller.policy.new_memory()
    scene.store.commit(controller, Batch(chosen=Chosen("fifo")))
    assert scene.store.chosen() == Chosen("fifo")
    assert_same(controller.state, scene.store.load().state, controller.policy.save)
    scene.controller = Controller(controller.state, controller.policy, controller.placer)
    assert scene.submit(3, gpus=3, at=2.0) != []
    assert scene.submit(4, gpus=4, at=3.0) == []
    assert scene.submit(5, gpus=1, at=3.0) == [], "under fifo no job overtakes"
    replayed = replay(scene.store)
    assert redecide(replayed) is None
    assert_same(scene.controller.state, replayed.state, scene.controller.policy.save)
    late = Batch(chosen=Chosen("las"))
    late.add(*hand(scene.controller, f.TimerFired(4.0)))
    with pytest.raises(StoreError, match="needs a batch without steps"):
        scene.store.commit(scene.controller, late)


def test_settings_have_the_type_of_their_default(scene: Scene) -> None:
    store = scene.store
    assert store.setting("max_gpus", 4) == 4
    store.set_setting("max_gpus", 8)
    store.set_setting("grace_s", 60)
    store.set_setting("limits", {"ann": 2})
    assert store.setting("max_gpus", 4) == 8
    assert store.setting("grace_s", 1.5) == 60.0
    assert store.setting("limits", dict[str, int]()) == {"ann": 2}
    assert store.settings() == {"grace_s": 60, "limits": {"ann": 2}, "max_gpus": 8}
    with pytest.raises(StoreError, match="setting 'max_gpus' is 8, which is not of type str"):
        store.setting("max_gpus", "")
    store.set_setting("max_gpus", None)
    assert store.setting("max_gpus", 4) == 4


def test_only_the_hash_of_a_token_is_stored(scene: Scene) -> None:
    store = scene.store
    store.add_token("very-secret", name="laptop", user="ann", role="admin", at=5.0)
    token = StoredToken("laptop", "ann", "admin", 5.0)
    assert store.token("very-secret") == token
    assert store.token("very-secre") is None
    assert store.tokens() == [token]
    with pytest.raises(StoreError, match="token named 'laptop' already"):
        store.add_token("other", name="laptop", user="bob", role="user", at=6.0)
    assert store.revoke_token("laptop")
    assert not store.revoke_token("laptop")
    assert store.token("very-secret") is None
    store.close()
    store.close()
    for file in scene.store.path.parent.iterdir():
        assert b"very-secret" not in file.read_bytes()


@pytest.mark.parametrize("key", ["reported", "told"])  # "told" was written by earlier versions
def test_the_spans_of_many_jobs_are_read_at_once(scene: Scene, key: str) -> None:
    """The progress reports come from the exit record of the run; runs that have not exited are left out."""
    scene.submit(1)
    scene.submit(2)
    scene.submit(3, gpus=2)
    scene.happen(f.RunStarted(1.0, RunId(1)))
    exited = hand(scene.controller, f.RunExited(3.0, RunId(1), ExitCause.FINISHED, 3.0))
    batch = Batch(exits={RunId(1): {key: [[1.5, 10], [2.5, 30]]}})
    batch.add(*exited)
    scene.store.commit(scene.controller, batch)
    scene.finish(2, 4.0)
    assert scene.store.spans([JobId(1), JobId(2), JobId(3), JobId(4)]) == {
        JobId(1): [RunSpan(0.0, 1.0, None, 3.0, (1.5, 10), (2.5, 30))],
        JobId(2): [RunSpan(0.0, None, None, 4.0)],
    }
