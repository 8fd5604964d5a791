"""What is stored of a submission comes back the same, also what earlier versions and short forms left out."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from tiresias.live.managed_jobs import ManagedJob
from tiresias.live.submission import EMPTY, Submission

PLAIN = Submission(("python", "train.py"), "/data", user="ann")
# As this version stores it. A default that is left out here may be replaced only with a migration.
STORED = (
    '{"command":["python","train.py"],"cwd":"/data","env":{},"gpus":1,"workers":1,"launcher":"plain",'
    '"grace_s":60.0,"retries":3,"priority":"normal","preemptible":true,"preflight_limit_s":60.0,"user":"ann"}'
)
NOT_EMPTY = {
    "gpus": 0,
    "retries": 0,
    "grace_s": 0.0,
    "preemptible": False,
    "resumable": False,
    "begin_at": 0.0,
    "time_limit_s": 0.0,
    "after": (3, 4),
    "array_index": 0,
    "name": "bert",
    "hold": True,
}


def stored(spec: Submission) -> Submission:
    return Submission.from_json(json.loads(json.dumps(spec.to_short_json())))


def test_a_submission_that_was_stored_means_the_same_for_ever() -> None:
    assert Submission.from_json(json.loads(STORED)) == PLAIN
    assert {name: getattr(PLAIN, name) for name in EMPTY if name != "user"} == {
        name: value for name, value in EMPTY.items() if name != "user"
    }
    assert not any(EMPTY.values())


@pytest.mark.parametrize("name", NOT_EMPTY)
def test_a_value_that_only_looks_empty_is_stored(name: str) -> None:
    spec = PLAIN.but(**{name: NOT_EMPTY[name]})
    assert stored(spec) == spec
    assert type(getattr(stored(spec), name)) is type(NOT_EMPTY[name])


def test_options_in_another_order_are_read_by_name() -> None:
    body = dict(reversed(PLAIN.to_json().items()))
    assert Submission.from_json(json.loads(json.dumps(body))) == PLAIN


def test_two_submissions_do_not_share_their_environment() -> None:
    one, two = (Submission.from_json({"command": ["x"], "cwd": "/"}) for _ in range(2))
    assert one.env == {}
    assert one.env is not two.env


def test_a_managed_job_comes_back_the_same() -> None:
    job = ManagedJob(PLAIN.but(resumable=False), retries_used=2, lost_s=3.5, failure={"reason": "Network"})
    assert ManagedJob.from_json(json.loads(json.dumps(job.to_json()))) == job
    body = json.loads(json.dumps(job.to_json()))
    shuffled = dict(sorted(body.items()))
    assert ManagedJob.from_json(shuffled) == job
    lacking = {name: value for name, value in body.items() if name != "lost_s"}
    assert ManagedJob.from_json(lacking).lost_s == 0.0
    assert len(body) == len(fields(ManagedJob))
