"""Philly's own job log: attempts that may be missing, cut short or still running."""

from __future__ import annotations

import json
import time

import pytest

from tiresias.sim.traces import load


def attempt(start, end, gpus=8, nodes=1):
    detail = [{"ip": f"m{n}", "gpus": [f"gpu{i}" for i in range(gpus // nodes)]} for n in range(nodes)]
    return {"start_time": start, "end_time": end, "detail": detail}


def job(name, attempts, submitted="2017-10-07 01:00:00"):
    return {
        "status": "Pass",
        "vc": "ee9e8c",
        "jobid": name,
        "attempts": attempts,
        "submitted_time": submitted,
        "user": "ce2f4c",
    }


MINUTE = ("2017-10-07 01:10:00", "2017-10-07 01:11:00")
HOUR = ("2017-10-07 02:00:00", "2017-10-07 03:00:00")


def test_a_job_lasts_as_long_as_all_its_attempts_held_gpus(given):
    trace = load(given(json.dumps([job("a", [attempt(*MINUTE), attempt(*HOUR, gpus=16, nodes=2)])]), "log"))
    assert trace.format == "philly-json"
    assert trace.jobs.select("id", "submitted_at", "gpus", "duration_s", "user", "tenant").rows() == [
        ("a", 1507338000.0, 16, 3660.0, "ce2f4c", "ee9e8c")
    ]
    assert trace.notes == ["1 job with attempts of different numbers of GPUs: the last number counts"]


def test_times_are_utc_wherever_the_machine_is(given, monkeypatch):
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    time.tzset()
    try:
        trace = load(given(json.dumps([job("a", [attempt("2017-11-05 00:30:00", "2017-11-05 03:30:00")])])))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert trace.jobs["submitted_at"].to_list() == [1507338000.0]
    assert trace.jobs["duration_s"].to_list() == [3 * 3600.0]


def test_jobs_that_never_held_a_gpu_are_left_out_and_counted(given):
    entries = [
        job("ran", [attempt(*MINUTE)]),
        job("no attempts", []),
        job("null", None),
        job("no times", [attempt(None, None), {"detail": []}]),
        job("still running", [attempt("2017-10-07 02:00:00", "None")]),
        job("backwards", [attempt(*reversed(MINUTE))]),
        job("no gpus", [attempt(*MINUTE, gpus=0)]),
    ]
    trace = load(given(json.dumps(entries, indent=1)))
    assert trace.jobs["id"].to_list() == ["ran"]
    assert trace.notes == ["left out 6 jobs without any attempt that has a start, a later end and GPUs"]
    assert trace.skipped_rows == 0


def test_an_attempt_without_times_does_not_count(given):
    trace = load(
        given(json.dumps([job("a", [attempt(None, MINUTE[1]), attempt(*MINUTE), attempt(HOUR[0], None)])]))
    )
    assert trace.jobs["duration_s"].to_list() == [60.0]
    assert trace.notes[0].startswith("1 job with some attempts that lack a start, a later end or GPUs")


@pytest.mark.parametrize("indent", [None, 2])
def test_bad_jobs_are_named_with_their_line_and_skipped_one_by_one(given, complaint, indent):
    entries = [
        job("a", [attempt(*MINUTE)]),
        job("b", [attempt(*MINUTE)], submitted="None"),
        5,
        job("", [attempt(*MINUTE)]),
        job("d", "none"),
        job("a", [attempt(*HOUR)]),
        job("e", [attempt(*HOUR)]),
    ]
    text = json.dumps(entries, indent=indent)
    path = given(text)
    message = complaint(path)
    assert message.startswith(f"{path}, line ")
    assert ("line 1," in message) == (indent is None)
    assert "column submitted_time: 'None' is not a date and time (4 more bad rows)" in message
    trace = load(path, skip_bad_rows=True)
    assert trace.jobs["id"].to_list() == ["a", "e"]
    assert trace.skipped_rows == 5


def test_a_bad_job_is_on_the_line_where_it_begins(given, complaint):
    lines = ["[", json.dumps(job("a", [attempt(*MINUTE)])) + ",", "", json.dumps(job("b", [], "?")), "]"]
    assert "line 4, column submitted_time: '?'" in complaint(given("\n".join(lines)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[\n{"jobid": "a"}', "line 2: not JSON: the list of jobs is cut short"),
        ('[\n{"jobid": ', "line 2: not JSON: Expecting value"),
        ("[\n{},\n,]", "line 3: not JSON: Expecting value"),
        ("[]", "the list of jobs is empty"),
        ("[" * 100_000, "not JSON"),
        ("[" + "9" * 10_000 + "]", "not JSON"),
    ],
    ids=["no end", "cut", "comma", "empty", "deep", "long number"],
)
def test_what_is_not_a_list_of_jobs(given, complaint, text, expected):
    assert expected in complaint(given(text))


def test_another_file_taken_for_a_job_log(given, complaint):
    assert "does not begin with [" in complaint(given("a,b\n1,2\n"), format="philly-json")
