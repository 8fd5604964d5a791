"""Which jobs are meant: ids, names, arrays and patterns, by one rule; and jobs that are submitted again."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.live.errors import Denied, Invalid, NotFound
from tiresias.live.submission import Caller
from tiresias.testing.live import ADMIN, LiveLab

BOB, EVE = Caller("bob"), Caller("eve")


def test_an_array_means_all_its_jobs_and_a_pattern_all_of_ones_own(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        of = lab.manager.queries.references
        done = lab.submit("true", by=BOB, name="train-0", array="train-5eed", array_index=0)
        lab.until_ended(done)
        bobs = [lab.submit("sleep 600", by=BOB, name=f"train-{n}", array="train-5eed") for n in (1, 2)]
        eves = lab.submit("sleep 600", by=EVE, name="train-1")
        assert of.several(BOB, "train-5eed", active=True) == bobs
        assert of.several(BOB, "train-5eed", active=False) == [done, *bobs]
        assert of.several(ADMIN, "train-5eed", active=True) == bobs, "an admin may touch every array"
        assert of.several(BOB, "train-[!0]", active=False) == bobs
        assert of.several(EVE, "train-*", active=True) == [eves]
        assert of.several(BOB, "train-1", active=True) == [bobs[0]], "a name is one job, and one's own"
        assert of.several(BOB, str(eves), active=True) == [eves]
        for caller, text in ((EVE, "train-5eed"), (ADMIN, "train-*"), (BOB, "gpt*"), (BOB, "gpt")):
            with pytest.raises(NotFound):
                of.several(caller, text, active=False)
        with pytest.raises(Invalid, match="an array of 3 jobs"):
            of.one(BOB, "train-5eed")
        with pytest.raises(Invalid, match="is a pattern"):
            of.one(BOB, "train-*")


def test_a_name_that_all_jobs_of_an_array_have_means_all_of_them(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        of = lab.manager.queries.references
        former = lab.submit("true", by=BOB, name="sweep", array="sweep-01d", array_index=0)
        done = lab.submit("true", by=BOB, name="sweep", array="sweep-5eed", array_index=0)
        lab.until_ended(former, done)
        waiting = [lab.submit("sleep 600", by=BOB, name="sweep", array="sweep-5eed") for _ in (1, 2)]
        other = lab.submit("sleep 600", by=EVE, name="sweep")
        assert of.several(BOB, "sweep", active=True) == waiting
        assert of.several(BOB, "sweep", active=False) == [done, *waiting], "and not an earlier array"
        assert of.several(EVE, "sweep", active=False) == [other], "one's own goes first"
        with pytest.raises(Invalid, match="an array of 3 jobs"):
            of.one(BOB, "sweep")
        assert of.one(EVE, "sweep") == other
        lab.restart()
        of = lab.manager.queries.references
        assert of.several(BOB, "sweep", active=False) == [done, *waiting]


def test_a_name_that_looks_like_a_pattern_is_a_name_first(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        star = lab.submit("sleep 600", by=BOB, name="a*")
        lab.submit("sleep 600", by=BOB, name="ab")
        assert lab.manager.queries.references.several(BOB, "a*", active=True) == [star]


def test_a_job_is_submitted_again_as_it_was_and_by_its_owner_only(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        env = {"PATH": "/usr/bin:/bin", "SECRET": "kept"}
        first = lab.submit(("sh", "-c", "echo $SECRET"), by=BOB, env=env, name="said", begin_at=1.0)
        lab.until_ended(first)
        [second] = lab.manager.requests.again(BOB, first, {"comment": "once more", "priority": "low"})
        lab.manager.flush()
        [ended] = lab.until_ended(second)
        assert (ended.name, ended.phase, ended.priority) == ("said", "SUCCEEDED", "low")
        assert lab.output(second) == "kept\n"
        assert lab.manager.queries.detail(BOB, second).comment == "once more"
        for caller in (EVE, ADMIN):
            with pytest.raises(Denied, match="bob, who alone can repeat it"):
                lab.manager.requests.again(caller, first, {})
        with pytest.raises(NotFound):
            lab.manager.requests.again(BOB, 999, {})  # type: ignore[arg-type]


def test_a_job_may_wait_for_any_end_or_for_a_failure(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2) as lab:
        gate = f"until [ -e {tmp_path}/go ]; do sleep 0.05; done"
        good = lab.submit(("sh", "-c", gate))
        bad = lab.submit(("sh", "-c", f"{gate}; false"), retries=0)
        both = lab.submit("true", after_any=(good, bad))
        rescue = lab.submit("true", after_not_ok=(bad,))
        needless = lab.submit("true", after_not_ok=(good,))
        behind = lab.submit("true", after=(needless,))
        lab.until_running(good, bad)
        assert {lab.of(id).reason for id in (both, rescue, needless)} == {"Dependency"}
        lab.restart()
        (tmp_path / "go").touch()
        ends = lab.until_ended(both, rescue, needless, behind)
        assert [end.phase for end in ends] == ["SUCCEEDED", "SUCCEEDED", "CANCELLED", "FAILED"]
        assert [end.reason for end in ends[2:]] == ["NotNeeded", "DependencyFailed"]
        assert ends[2].runs == 0
        assert "did not succeed, and that has succeeded" in lab.manager.queries.why(ADMIN, needless).text


def test_events_name_runs_by_the_numbers_that_show_gives_them(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=1) as lab:
        lab.until_ended(lab.submit("true"))
        job = lab.submit("false", retries=1)
        lab.until_ended(job)
        told = [event.text for event in lab.manager.queries.story(ADMIN, job) if event.run is not None]
        ends = [text for text in told if "ended" in text]
        assert [text.split(":")[0] for text in ends] == ["run 1 ended", "run 2 ended"]
        assert ["retried" in ends[0], "failed" in ends[1]] == [True, True]
