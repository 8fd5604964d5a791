"""The specification of a job: what is refused, and what follows from a field."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from datetime import datetime

import pytest

from tiresias.live.submission import Submission
from tiresias.spec.job import ALL_OPTIONS, BY_KEY, BY_NAME, CHANGEABLE, JobSpec, SpecError, check_value
from tiresias.spec.kinds import largest

NOW = datetime(2026, 1, 30, 12, 0)


def job(**values: object) -> JobSpec:
    return JobSpec(("python", "train.py"), "/data", **values)  # type: ignore[arg-type]


def test_the_defaults_are_a_job_that_may_be_submitted():
    job().check()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gpus": -1}, "gpus: give a whole number from 0 up (is -1)"),
        ({"gpus": True}, "gpus: give a whole number from 0 up (is True)"),
        ({"nodes": 2}, "nodes: 1 GPUs cannot be on 2 nodes; ask for at least one GPU per node"),
        ({"gpus": 5, "gpus_per_node": 2}, "gpus_per_node: 5 GPUs cannot be shared out in parts of 2"),
        ({"gpus": 4, "nodes": 3, "gpus_per_node": 2}, "gpus: 3 nodes of 2 GPUs are 6 and not 4"),
        ({"workers": 2}, "workers: 2 workers cannot share 1 GPU"),
        ({"memory_bytes": 16}, "memory_bytes: give a size of 1 MiB or more, with its unit: 500M"),
        ({"memory_bytes": True}, "memory_bytes: give a size of 1 MiB or more"),
        ({"cpus": 0}, "cpus: give a whole number from 1 up (is 0)"),
        ({"grace_s": float("nan")}, "grace_s: give a number of seconds from 0 up, a year at most (is nan)"),
        ({"time_limit_s": 0}, "time_limit_s: give a number of seconds above 0"),
        ({"priority": "urgent"}, "priority: choose high, normal or low (is 'urgent')"),
        ({"name": "a/b"}, "name: a name has no slash"),
        ({"name": "x" * 201}, "name: give 0 to 200 characters, not 201"),
        ({"checkpoint_dir": "runs"}, "checkpoint_dir: give an absolute path"),
        ({"after": (0,)}, "after: give ids of jobs"),
        ({"preemptible": "no"}, "preemptible: give true or false"),
    ],
)
def test_a_value_that_no_job_may_have_is_named_with_its_option(values, message):
    with pytest.raises(SpecError) as refused:
        job(**values).check()
    assert str(refused.value).startswith(message)


def test_a_wrong_variable_is_not_repeated():
    with pytest.raises(SpecError) as refused:
        job(env={"SECRET=hunter2": "x"}).check()
    assert "hunter2" not in str(refused.value)


def test_only_the_named_options_are_checked_when_a_job_is_changed():
    stored = job(name="a/b", retries=5)
    stored.check(["retries"])
    with pytest.raises(SpecError):
        stored.check(["name"])


def test_a_submission_that_was_stored_before_an_option_existed_has_its_default():
    body = json.loads(json.dumps(Submission(("true",), "/", gpus=2, user="ada").to_json()))
    del body["hold"]
    assert Submission.from_json(body) == Submission(("true",), "/", gpus=2, user="ada")


def test_an_option_that_this_version_does_not_know_is_ignored_in_storage():
    body = Submission(("true",), "/").to_json()
    assert Submission.from_json({**body, "from_the_future": 1}) == Submission(("true",), "/")


def test_a_preflight_is_the_same_command_on_one_gpu():
    whole = job(gpus=8, workers=8, retries=3, checkpoint_dir="/runs", preflight=True, grace_s=5.0)
    assert whole.for_preflight() == job(retries=0, grace_s=5.0)


@pytest.mark.parametrize("option", ALL_OPTIONS, ids=lambda option: option.name or option.flag)
def test_every_option_has_a_sentence_of_help(option):
    assert option.help[0].isupper()
    assert option.help.endswith((".", ")."))


@pytest.mark.parametrize("name", BY_NAME)
def test_every_default_passes_its_own_check(name):
    if name not in ("command", "cwd"):
        check_value(name, getattr(job(), name))


def test_what_may_be_changed_can_be_written_as_text():
    texts = {"name": "a", "grace": "90s", "retries": "0", "time": "8h", "priority": "low", "tenant": "b"}
    texts |= {"comment": "c", "resumable": "no", "notify": "https://example.org/"}
    values = {BY_KEY[key].name: BY_KEY[key].kind.parse(text, NOW) for key, text in texts.items()}
    assert list(values.values()) == ["a", 90, 0, 28800, "low", "b", "c", False, "https://example.org/"]
    assert set(values) == set(CHANGEABLE)


def test_the_specification_imports_the_standard_library_only():
    code = "import sys, tiresias.spec.job; print(*{name.partition('.')[0] for name in sys.modules})"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split())
    assert loaded - set(sys.stdlib_module_names) <= {"tiresias", "__main__"} | {
        name for name in loaded if name.startswith(("_", "sitecustomize"))
    }


@pytest.mark.parametrize(
    ("text", "sizes"), [("2..8", (2, 8)), ("3", (3, None)), ("2..2", (2, 2)), (" 1 .. 4 ", (1, 4))]
)
def test_a_range_of_gpus_is_a_smallest_and_a_largest_number(text: str, sizes: tuple[int, int | None]):
    kind = BY_NAME["gpus"].kind
    assert (kind.check(kind.parse(text, datetime.now())), largest(text)) == sizes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0..4", "a job that may have several sizes needs a GPU at least; write 1..4"),
        ("8..2", "the smaller number comes first; write 2..8"),
        ("2..", "give a whole number from 0 up, or a range such as 2..8"),
        ("2..x", "give a whole number from 0 up, or a range such as 2..8"),
        ("two", "give a whole number from 0 up, or a range such as 2..8"),
        ("1..9999999", "give whole numbers up to 1,000,000"),
    ],
)
def test_a_range_of_gpus_that_no_job_may_have_is_refused(text: str, message: str):
    with pytest.raises(ValueError, match="^" + re.escape(message)):
        BY_NAME["gpus"].kind.parse(text, datetime.now())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"gpus": 4, "max_gpus": 2}, "max_gpus: 2 is below the smallest size, 4 (gpus)"),
        ({"gpus": 0, "max_gpus": 2}, "gpus: a job without GPUs has one size"),
        ({"gpus": 2, "max_gpus": 8, "nodes": 2}, "gpus: a gang on a number of nodes has one size"),
        ({"gpus": 2, "max_gpus": 8, "gpus_per_node": 2}, "gpus: a gang on a number of nodes has one size"),
        ({"gpus": 2, "max_gpus": 8, "workers": 4}, "workers: 4 workers cannot share 2 GPUs"),
    ],
)
def test_sizes_that_contradict_other_options_are_refused(values, message):
    with pytest.raises(SpecError) as refused:
        job(**values).check()
    assert str(refused.value).startswith(message)
    assert job(gpus=2, max_gpus=8).for_preflight().max_gpus is None
