"""Slurm's accounting as people export it, with all that sacct prints beside jobs."""

from __future__ import annotations

import pytest

from tiresias.sim.traces import load

HEADER = "JobID|User|Account|Submit|Start|End|ElapsedRaw|AllocTRES|ReqTRES|State|NNodes\n"


def row(
    job="7",
    submit="2024-05-01T10:00:00",
    start="2024-05-01T10:05:00",
    end="2024-05-01T11:05:00",
    elapsed="3600",
    alloc="billing=8,cpu=8,gres/gpu=2,mem=64G,node=1",
    req="cpu=8,gres/gpu=2,mem=64G,node=1",
    state="COMPLETED",
):
    return f"{job}|ann|lab|{submit}|{start}|{end}|{elapsed}|{alloc}|{req}|{state}|1\n"


def test_a_job_with_its_steps_is_one_job(given):
    trace = load(given(HEADER + row("123") + row("123.batch") + row("123.extern") + row("123.0")))
    assert trace.format == "slurm"
    assert trace.jobs.select("id", "submitted_at", "gpus", "duration_s", "user", "tenant").rows() == [
        ("123", 1714557600.0, 2, 3600.0, "ann", "lab")
    ]
    assert trace.notes == []


def test_the_tasks_of_an_array_are_jobs_of_one_group(given):
    trace = load(given(HEADER + row("12_10") + row("12_9") + row("3")))
    assert trace.jobs.select("id", "group").rows() == [("3", ""), ("12_9", "12"), ("12_10", "12")]


@pytest.mark.parametrize(
    ("alloc", "req", "gpus"),
    [
        ("cpu=8,gres/gpu=4", "", 4),
        ("gres/gpu:a100=4,gres/gpu=4,mem=1G", "", 4),
        ("cpu=1,gres/gpu:a100=4", "", 4),
        ("gres/gpu:a100=4,gres/gpu:v100=2", "", 6),
        ("gres/gpu=16,gres/gpumem=80G,gres/gpuutil=300", "", 16),
        ("", "cpu=8,gres/gpu=3", 3),
        ("gres/gpu=4", "gres/gpu=8", 4),
    ],
)
def test_gpus_come_from_what_was_allocated_or_else_asked_for(given, alloc, req, gpus):
    assert load(given(HEADER + row(alloc=alloc, req=req))).jobs["gpus"].to_list() == [gpus]


def test_what_cannot_be_replayed_is_left_out_and_counted(given):
    trace = load(
        given(
            HEADER
            + row("1")
            + row("2", alloc="cpu=4,gres/gpumem=80G", req="cpu=4")
            + row("3", state="PENDING", start="Unknown", end="Unknown", elapsed="0")
            + row("4", state="CANCELLED by 1000", start="None", end="2024-05-01T11:05:00", elapsed="0")
            + row("5", state="RUNNING", end="Unknown")
            + row("6_[1-5]", state="PENDING", start="Unknown", end="Unknown", elapsed="0")
            + row("7", elapsed="0", state="FAILED")
            + row("8", submit="Unknown")
            + row("9", state="CANCELLED by 1000")
        )
    )
    assert trace.jobs["id"].to_list() == ["1", "9"]
    assert trace.notes == [
        "left out 1 job without GPUs",
        "left out 3 jobs that never started",
        "left out 1 job still running",
        "left out 1 job without a time of submission",
        "left out 1 job that ran for less than a second",
    ]


@pytest.mark.parametrize(
    ("columns", "cells", "duration_s"),
    [
        ("Elapsed", "01:00:05", 3605.0),
        ("Elapsed", "2-01:00:05", 176405.0),
        ("Elapsed", "00:05.500", 5.5),
        ("Start|End", "2024-05-01T10:00:00|2024-05-01T10:00:30", 30.0),
        ("Start|End", "1714557600|1714557610", 10.0),
    ],
)
def test_other_ways_to_tell_how_long_a_job_ran(given, columns, cells, duration_s):
    trace = load(given(f"JobID|Submit|AllocTRES|{columns}\n5|2024-05-01T09:00:00|gres/gpu=1|{cells}\n"))
    assert trace.jobs["duration_s"].to_list() == [duration_s]


def test_parsable_with_a_bar_at_the_end_of_each_line(given):
    text = (HEADER + row()).replace("\n", "|\r\n")
    assert load(given(text)).jobs["gpus"].to_list() == [2]


def test_a_name_with_quotes_is_just_a_name(given):
    trace = load(given('JobID|JobName|Submit|AllocTRES|ElapsedRaw\n5|say "hi, 5" gpus|7|gres/gpu=1|60\n'))
    assert trace.jobs["name"].to_list() == ['say "hi, 5" gpus']


def test_a_time_that_is_none_is_a_bad_row(given, complaint):
    path = given(HEADER + row("1") + row("2", submit="yesterday") + row("3", elapsed="long"))
    assert "line 3, column Submit: 'yesterday' is neither a number nor an ISO" in complaint(path)
    trace = load(path, skip_bad_rows=True)
    assert (len(trace), trace.skipped_rows) == (1, 2)
    assert "line 4, column ElapsedRaw: 'long' is not a length of time above 0" in trace.notes[0]


def test_without_tres_the_gpus_are_not_known(given, complaint):
    assert "missing column AllocTRES (or ReqTRES)" in complaint(given("JobID|Submit|ElapsedRaw\n1|5|5\n"))


def test_without_any_time_of_running_the_columns_are_asked_for(given, complaint):
    assert "missing columns Start, End" in complaint(given("JobID|Submit|AllocTRES\n1|5|gres/gpu=1\n"))
