"""What a request may carry, and what becomes of it."""

from __future__ import annotations

import math
from dataclasses import fields

import pytest
from pydantic import TypeAdapter, ValidationError

from tiresias.api.models import ChangeBody, JobBody, SeveralBody, SubmitBody, TokenBody, submissions
from tiresias.core.model import Priority
from tiresias.live.submission import Submission

JOB = {"command": ["python", "train.py"], "cwd": "/home/ada"}
ANY = TypeAdapter(SubmitBody)


def test_a_job_needs_a_command_and_a_directory_and_has_the_defaults_of_a_submission():
    [made] = submissions(JobBody.model_validate(JOB), "unused")
    assert made == Submission(command=("python", "train.py"), cwd="/home/ada")


def test_every_part_of_a_submission_can_be_asked_for_but_whose_it_is():
    known_otherwise = {"user", "identity", "array_index", "array_limit", "narrows"}
    assert {each.name for each in fields(Submission)} - known_otherwise == set(JobBody.model_fields)


def test_everything_that_is_asked_for_reaches_the_submission():
    body = {
        **JOB,
        "env": {"SEED": "1"},
        "gpus": 4,
        "nodes": 1,
        "workers": 4,
        "launcher": "per-gpu",
        "name": "bert",
        "tenant": "vision",
        "model": "resnet50",
        "priority": "low",
        "preemptible": False,
        "checkpoint_dir": "/runs/bert",
        "grace_s": 5.0,
        "retries": 0,
        "time_limit_s": 60.0,
        "after": [3, 4],
        "begin_at": 1e9,
        "hold": True,
        "comment": "first try",
        "preflight": True,
        "preflight_limit_s": 7.0,
        "snapshot": "/snapshots/x",
        "force": True,
    }
    [made] = submissions(JobBody.model_validate(body), "unused")
    kept = {name: getattr(made, name) for name in body}
    assert kept == {**body, "command": ("python", "train.py"), "after": (3, 4), "priority": Priority.LOW}


def test_an_array_is_a_job_for_each_index():
    command, array = ["t", "--seed={i}", "{i}{i}"], {"indices": [0, 7], "limit": 1}
    made = list(submissions(JobBody.model_validate({**JOB, "command": command, "array": array}), "array-1"))
    assert [each.command for each in made] == [("t", "--seed=0", "00"), ("t", "--seed=7", "77")]
    arrays = [(each.array, each.array_index, each.array_limit) for each in made]
    assert arrays == [("array-1", 0, 1), ("array-1", 7, 1)]


def test_one_job_and_several_are_distinguished():
    assert isinstance(ANY.validate_python(JOB), JobBody)
    assert isinstance(ANY.validate_python({"jobs": [JOB, JOB]}), SeveralBody)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("command", []),
        ("command", [""]),
        ("command", "python train.py"),
        ("command", ["a\0b"]),
        ("command", ["\ud800"]),
        ("cwd", "relative"),
        ("cwd", "/a\0b"),
        ("env", {"A=B": "1"}),
        ("env", {"": "1"}),
        ("env", {"A": "\0"}),
        ("env", {"A": "\udfff"}),
        ("env", {"A": 1}),
        ("gpus", -1),
        ("gpus", 2**70),
        ("gpus", 1.5),
        ("nodes", 0),
        ("name", "12"),
        ("name", "a/b"),
        ("name", "a\nb"),
        ("name", ".."),
        ("grace_s", math.nan),
        ("grace_s", -1),
        ("time_limit_s", 0),
        ("time_limit_s", math.inf),
        ("after", [0]),
        ("after", [2**64]),
        ("begin_at", math.inf),
        ("array", {"indices": []}),
        ("array", {"indices": [-1]}),
        ("priority", "urgent"),
        ("gpu", 1),
        ("user", "root"),
        ("identity", {"uid": 0}),
    ],
)
def test_what_makes_no_sense_is_refused(key, value):
    with pytest.raises(ValidationError):
        JobBody.model_validate({**JOB, key: value})


def test_a_change_has_what_was_named_and_nothing_else():
    assert ChangeBody.model_validate({"priority": "low", "time_limit_s": None}).changes() == {
        "priority": Priority.LOW,
        "time_limit_s": None,
    }


@pytest.mark.parametrize("body", [{}, {"retries": None}, {"gpus": 2}])
def test_a_change_of_nothing_or_of_what_cannot_change_is_refused(body):
    with pytest.raises(ValidationError):
        ChangeBody.model_validate(body)


def test_a_role_is_one_that_there_is():
    with pytest.raises(ValidationError):
        TokenBody.model_validate({"name": "ci", "user": "ada", "role": "root"})
