"""A policy of the lab raises an exception: the one before goes on, jobs run, and the line is named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tiresias.core.defaults import DEFAULT_POLICY
from tiresias.core.plugins import placers, policies
from tiresias.live.errors import Invalid
from tiresias.sim import plugins
from tiresias.store import StoreError, redecide, replay
from tiresias.testing.live import ADMIN, LiveLab

POLICY = """
from tiresias.core import facts as f
from tiresias.core.plugins import Policy, policies


@policies.register
class Ours(Policy):
    name = "ours"
    learns = frozenset({f.RunExited})

    def new_memory(self):
        return {"exits": 0}

    def rank(self, job, memory, at):
        if job.job.name == "rank":
            return (1 / 0,)  # LINE rank
        return (job.id,)

    def learn(self, memory, fact, job):
        memory["exits"] += 1
        if job.job.name == "learn":
            raise LookupError("no such model")  # LINE learn
        if job.job.name == "save":
            memory["what"] = {1, 2}
        return False

    def restore(self, saved):
        if saved.get("exits", 0) >= RESTORE:
            raise ValueError("an old memory")  # LINE restore
        return saved
"""
PLACER = """
from tiresias.core.plugins import placers
from tiresias.placers.packed import Packed


@placers.register
class OurPlacer(Packed):
    name = "our-placer"

    def place(self, job, holes, at, refused_since):
        if job.job.name == "place":
            raise RuntimeError("no slot suits me")  # LINE place
        return super().place(job, holes, at, refused_since)
"""


@pytest.fixture(autouse=True)
def no_plugins_afterwards(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("TIRESIAS_PLUGINS", raising=False)
    known = dict(policies._classes), dict(placers._classes)
    yield
    for registry, classes in zip((policies, placers), known, strict=True):
        registry._classes.clear()
        registry._classes.update(classes)


def ours(tmp_path: Path, *, restore: int = 99) -> Path:
    """The file of the lab's policy, loaded."""
    path = tmp_path / "ours.py"
    path.write_text(POLICY.replace("RESTORE", str(restore)))
    plugins.use_plugins([str(path)])
    return path


def line(path: Path, mark: str) -> str:
    """The place that must be named."""
    [number] = [n for n, text in enumerate(path.read_text().splitlines(), 1) if f"# LINE {mark}" in text]
    return f"{path}, line {number}"


def problem(lab: LiveLab) -> str:
    return lab.manager.queries.status().plugin_problem


def in_use(lab: LiveLab) -> str:
    return lab.manager.queries.status().policy


def choose(lab: LiveLab, policy: str) -> None:
    lab.manager.requests.set_policy(ADMIN, policy, {})
    lab.manager.flush()


def decides_the_same_again(lab: LiveLab) -> None:
    assert redecide(replay(lab.manager.store)) is None


@pytest.mark.parametrize("what", ["rank", "learn"])
def test_the_policy_before_goes_on_and_the_line_is_named(tmp_path: Path, what: str) -> None:
    path = ours(tmp_path)
    with LiveLab(tmp_path / "home", policy="las") as lab:
        long = lab.submit("sleep 600", gpus=1)
        choose(lab, "ours")
        assert problem(lab) == ""
        bad = lab.submit("true", gpus=1, name=what)
        lab.until(lambda: problem(lab))
        assert in_use(lab) == "las"
        assert "the policy 'ours' raised" in problem(lab)
        assert line(path, what) in problem(lab)
        after = lab.submit("true", gpus=1)
        assert [each.phase for each in lab.until_ended(bad, after)] == ["SUCCEEDED", "SUCCEEDED"]
        assert lab.of(long).runs == 1  # a run that is nobody's business goes on
        decides_the_same_again(lab)
        lab.restart()
        assert in_use(lab) == "las"
        assert line(path, what) in problem(lab)


def test_a_journal_that_began_with_it_goes_on_under_the_default(tmp_path: Path) -> None:
    path = ours(tmp_path)
    with LiveLab(tmp_path / "home", policy="ours") as lab:
        job = lab.submit("true", name="rank")
        assert in_use(lab) == DEFAULT_POLICY
        assert line(path, "rank") in problem(lab)
        assert lab.until_ended(job)[0].phase == "SUCCEEDED"
        decides_the_same_again(lab)


def test_it_can_be_chosen_again_and_the_problem_is_over_then(tmp_path: Path) -> None:
    ours(tmp_path)
    with LiveLab(tmp_path / "home", policy="las") as lab:
        choose(lab, "ours")
        lab.until_ended(lab.submit("true", name="rank"))
        assert problem(lab)
        choose(lab, "ours")
        assert in_use(lab) == "ours"
        assert problem(lab) == ""
        lab.until_ended(lab.submit("true", name="rank"))
        choose(lab, "las")  # which is in use: that it stays is a decision, too
        assert problem(lab) == ""


def test_a_policy_that_cannot_rank_the_present_jobs_is_refused(tmp_path: Path) -> None:
    path = ours(tmp_path)
    with LiveLab(tmp_path / "home", gpus=1, policy="las") as lab:
        first, second = lab.submit("sleep 600", name="rank"), lab.submit("true")
        lab.until_running(first)
        with pytest.raises(Invalid, match=r"ours.py, line \d+, in rank; nothing was changed"):
            choose(lab, "ours")
        assert in_use(lab) == "las"
        assert problem(lab) == ""
        assert line(path, "rank")
        lab.manager.requests.cancel(ADMIN, first)
        assert lab.until_ended(second)[0].phase == "SUCCEEDED"
        decides_the_same_again(lab)


def test_a_memory_that_cannot_be_stored_loses_no_fact(tmp_path: Path) -> None:
    ours(tmp_path)
    with LiveLab(tmp_path / "home", policy="las") as lab:
        choose(lab, "ours")
        job = lab.submit("true", name="save")
        assert lab.until_ended(job)[0].phase == "SUCCEEDED"
        assert "TypeError" in problem(lab)
        assert in_use(lab) == "las"
        lab.restart()
        assert lab.of(job).phase == "SUCCEEDED"


def test_a_policy_that_raises_when_the_manager_starts_is_replaced_then(tmp_path: Path) -> None:
    path = ours(tmp_path, restore=1)
    with LiveLab(tmp_path / "home", policy="las") as lab:
        choose(lab, "ours")
        lab.until_ended(lab.submit("true"))
        waits = lab.submit("sleep 600")
        assert problem(lab) == ""
        lab.restart()
        assert in_use(lab) == "las"
        assert line(path, "restore") in problem(lab)
        lab.until_running(waits)
        lab.restart()
        assert in_use(lab) == "las"
        decides_the_same_again(lab)


def test_a_placer_that_raises_is_replaced_as_well(tmp_path: Path) -> None:
    path = tmp_path / "placer.py"
    path.write_text(PLACER)
    plugins.use_plugins([str(path)])
    with LiveLab(tmp_path / "home", policy="las", placer="our-placer") as lab:
        job = lab.submit("true", name="place")
        assert lab.manager.queries.status().placer == "packed"
        assert "the placer 'our-placer' raised RuntimeError: no slot suits me" in problem(lab)
        assert line(path, "place") in problem(lab)
        assert in_use(lab) == "las"
        assert lab.until_ended(job)[0].phase == "SUCCEEDED"
        decides_the_same_again(lab)


def test_a_failure_while_the_disk_is_full_is_settled_when_there_is_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours(tmp_path)
    with LiveLab(tmp_path / "home", policy="las") as lab:
        choose(lab, "ours")
        commit = lab.manager.store.commit
        monkeypatch.setattr(lab.manager.store, "commit", no_space)
        with pytest.raises(StoreError):
            lab.submit("true", name="rank")
        [job] = lab.manager.state.jobs
        assert lab.of(job).phase == "PENDING"  # questions are answered meanwhile
        monkeypatch.setattr(lab.manager.store, "commit", commit)
        assert lab.until_ended(job)[0].phase == "SUCCEEDED"
        assert in_use(lab) == "las"
        decides_the_same_again(lab)


def no_space(*_: object) -> None:
    raise StoreError("the disk is full")


def test_a_dry_run_of_what_the_policy_cannot_rank_says_so(tmp_path: Path) -> None:
    from tiresias.live.errors import Unavailable
    from tiresias.live.submission import Submission

    path = ours(tmp_path)
    with LiveLab(tmp_path / "home", policy="ours") as lab:
        with pytest.raises(Unavailable, match="cannot be said") as refused:
            lab.manager.requests.dry_run(ADMIN, Submission(("true",), name="rank", cwd="/"))
        assert line(path, "rank") in str(refused.value)
        assert in_use(lab) == "ours"  # nothing has changed
