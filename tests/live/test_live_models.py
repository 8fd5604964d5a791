"""Jobs with models: names of the zoo, profiles that jobs bring along, and what outlives a restart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tiresias.core.facts import Allocation
from tiresias.core.holes import Holes
from tiresias.core.plugins import placers
from tiresias.core.state import JobState
from tiresias.live.errors import Invalid
from tiresias.live.submission import Submission
from tiresias.placers.packed import Packed
from tiresias.profiles.known import Profiles
from tiresias.store import Reader, redecide, replay
from tiresias.testing.live import ADMIN, LiveLab

MINE = {
    "format": 1,
    "name": "my net",
    "parallelism": "allreduce",
    "compute_s": 0.1,
    "tensors": [{"name": "words", "bytes": 80_000_000}, {"name": "block", "bytes": 20_000_000}],
}


def test_a_model_of_the_zoo_gets_its_one_name(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        job = lab.submit("true", model="ResNet-50")
        assert lab.manager.queries.detail(ADMIN, job).model == "resnet50"
        lab.until_ended(job)


def test_an_unknown_model_is_refused_with_similar_names_and_the_next_step(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        with pytest.raises(Invalid, match=r"no model 'resnet51'; near are resnet.*profile --list.*--profile"):
            lab.submit("true", model="resnet51")
        assert not lab.manager.state.jobs


def test_a_profile_that_comes_with_a_job_is_known_to_the_next_manager(tmp_path: Path) -> None:
    with LiveLab(tmp_path, placer="profile") as lab:
        job = lab.submit("sleep 600", profile=MINE)
        name = lab.manager.queries.detail(ADMIN, job).model
        assert name.startswith("my-net@")
        lab.restart()
        assert lab.manager.queries.detail(ADMIN, job).model == name
        found = lab.manager.journal.profiles.find(name)
        assert found is not None
        assert (found.skew, found.compute_s) == (0.8, 0.1)
        assert "my-net@" in lab.manager.controller.placer.verdict(lab.manager.state.jobs[job])


def test_a_replay_of_the_journal_knows_the_profile_too(tmp_path: Path) -> None:
    with LiveLab(tmp_path, placer="profile") as lab:
        job = lab.submit("true", profile=MINE)
        name = lab.manager.queries.detail(ADMIN, job).model
        lab.until_ended(job)
        with Reader(lab.manager.store.path) as reader:
            story = replay(reader)
            assert redecide(story) is None
        assert list(story.profiles) == [name]


def test_a_later_job_may_name_a_profile_that_an_earlier_one_brought(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        first = lab.submit("true", profile=MINE)
        name = lab.manager.queries.detail(ADMIN, first).model
        jobs = [lab.submit("true", model=word) for word in ("my-net", name)]
        assert {lab.manager.queries.detail(ADMIN, job).model for job in jobs} == {name}
        other = lab.submit("true", profile={**MINE, "compute_s": 0.2})
        assert lab.manager.queries.detail(ADMIN, other).model != name, "the same title and other figures"
        lab.until_ended(first, *jobs, other)
        assert sum(key.startswith("profile:") for key in lab.manager.store.settings()) == 2


def test_the_jobs_of_an_array_share_one_copy(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        body = Submission(("true",), str(tmp_path), profile=MINE)
        ids = lab.manager.requests.submit(ADMIN, [body] * 3)
        lab.manager.flush()
        stored = [lab.manager.store.submission(id) for id in ids]
        assert all(each["profile"] is None and each["model"].startswith("my-net@") for each in stored)
        lab.until_ended(*ids)


def test_a_damaged_profile_names_the_key(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        broken = {**MINE, "tensors": [{"name": "words", "bytes": -1}]}
        with pytest.raises(Invalid, match=r"profile: tensors\[0\].bytes: -1 is not a whole number"):
            lab.submit("true", profile=broken)
        with pytest.raises(Invalid, match="contradict"):
            lab.submit("true", profile=MINE, model="vgg16")


def test_two_managers_in_one_process_do_not_share_profiles(tmp_path: Path) -> None:
    with LiveLab(tmp_path / "one", placer="profile") as one, LiveLab(tmp_path / "two") as other:
        job = one.submit("true", profile=MINE)
        name = one.manager.queries.detail(ADMIN, job).model
        assert one.manager.journal.profiles.find(name) is not None
        assert other.manager.journal.profiles.find(name) is None
        with pytest.raises(Invalid, match="no model 'my-net'"):
            other.submit("true", model="my-net")
        one.until_ended(job)


class KnownOnly(Packed):
    """Places no job of a model that it does not know."""

    name = "known-only"
    needs = frozenset({"profiles"})

    def __init__(self, options: Any = None, profiles: Profiles | None = None):
        super().__init__(options)
        self.profiles = profiles or Profiles()

    def place(self, job: JobState, holes: Holes, at: float, refused_since: float) -> Allocation | None:
        is_known = self.profiles.find(job.model) is not None
        return super().place(job, holes, at, refused_since) if is_known else None


def test_a_dry_run_is_placed_by_what_is_known_of_the_model_that_it_brings_along(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(placers._classes, "known-only", KnownOnly)
    with LiveLab(tmp_path, placer="known-only") as lab:
        asked = Submission(("true",), str(tmp_path), profile=MINE)
        assert lab.manager.requests.dry_run(ADMIN, asked).starts_now
        unknown = Submission(("true",), str(tmp_path))
        assert not lab.manager.requests.dry_run(ADMIN, unknown).starts_now


def test_what_was_only_tried_or_refused_is_not_kept(tmp_path: Path) -> None:
    with LiveLab(tmp_path) as lab:
        asked = Submission(("true",), str(tmp_path), profile=MINE)
        assert lab.manager.requests.dry_run(ADMIN, asked).starts_now
        bad = Submission((), str(tmp_path), profile=MINE)
        with pytest.raises(Invalid):
            lab.manager.requests.submit(ADMIN, [asked, bad])
        lab.manager.flush()
        assert not list(lab.manager.journal.profiles)
        assert not any(key.startswith("profile:") for key in lab.manager.store.settings())


def test_a_profile_is_read_anew_with_every_submission(tmp_path: Path) -> None:
    """Also when it is in the same object as one before, with other contents."""
    with LiveLab(tmp_path) as lab:
        profile = dict(MINE)
        first = lab.submit("true", profile=profile)
        profile["compute_s"] = 0.7
        second = lab.submit("true", profile=profile)
        names = [lab.manager.queries.detail(ADMIN, job).model for job in (first, second)]
        found = [lab.manager.journal.profiles.find(name) for name in names]
        assert [each.compute_s for each in found if each is not None] == [0.1, 0.7]
