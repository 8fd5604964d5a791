"""Our own CSV: what people write by hand or export from their own tools."""

from __future__ import annotations

import gzip

import polars as pl
import pytest
from hypothesis import given as for_all
from hypothesis import settings
from hypothesis import strategies as st

from tiresias.sim.trace import SCHEMA, Trace
from tiresias.sim.traces import load, write
from tiresias.sim.traces.draft import complete
from tiresias.sim.traces.order import in_order

SMALL = "submitted_at,gpus,duration_s\n0,1,60\n10,8,3600\n"


def test_three_columns_are_enough(given):
    trace = load(given(SMALL))
    assert trace.format == "tiresias"
    assert trace.name == "jobs.csv"
    assert trace.jobs.schema == pl.Schema(SCHEMA)
    assert trace.jobs.select("id", "submitted_at", "gpus", "duration_s").rows() == [
        ("1", 0.0, 1, 60.0),
        ("2", 10.0, 8, 3600.0),
    ]
    unknown = (None, None, None, "", None, None, None, None, None, None)
    assert trace.jobs.row(0)[4:] == ("", "", "", "", "normal", "", *unknown)
    assert trace.notes == []
    assert trace.skipped_rows == 0


def test_every_column_is_read(given):
    asked = ("P100", 8, 64, 0.1, 2, None, None)
    trace = load(
        given(
            "id,submitted_at,gpus,duration_s,user,tenant,name,group,priority,model,preemption_cost_s,preemptible,"
            "resumable,"
            "gpu_type,cpus,memory_gib,cpu_speed,nodes,min_gpus,max_gpus\n"
            "a,5,2,1.5,ann,lab,bert,grid,high,VGG16,30,False,True,P100,8,64,0.1,2,,\n"
            "b,5,2,1.5,,,,,,,,,,,,,,,1,4\n"
        )
    )
    assert trace.jobs.rows() == [
        ("a", 5, 2, 1.5, "ann", "lab", "bert", "grid", "high", "VGG16", 30, False, True, *asked),
        ("b", 5.0, 2, 1.5, "", "", "", "", "normal", "", None, None, None, "", None, None, None, None, 1, 4),
    ]


@pytest.mark.parametrize(
    ("written", "epoch_s"),
    [
        ("1507532515", 1507532515.0),
        ("1.5e9", 1.5e9),
        ("0.25", 0.25),
        ("2017-10-09 07:01:55", 1507532515.0),
        ("2017-10-09T07:01:55", 1507532515.0),
        ("2017-10-09T07:01:55Z", 1507532515.0),
        ("2017-10-09T09:01:55+02:00", 1507532515.0),
        ("2017-10-09 00:31:55-0630", 1507532515.0),
        ("2017-10-09T07:01:55.5Z", 1507532515.5),
        ("2017-10-09 07:01", 1507532460.0),
        ("2017-10-09", 1507507200.0),
        ("1970-01-01T01:00:00+01", 0.0),
    ],
)
def test_a_submission_is_a_number_or_an_iso_date_and_time_in_utc(given, monkeypatch, written, epoch_s):
    monkeypatch.setenv("TZ", "America/New_York")
    trace = load(given(f"submitted_at,gpus,duration_s\n{written},1,1\n"))
    assert trace.jobs["submitted_at"].to_list() == [epoch_s]


def test_numbers_and_dates_may_be_mixed(given):
    trace = load(
        given("submitted_at,gpus,duration_s\n1970-01-01 00:00:09,1,1\n5,1,1\n1970-01-01T00:00:07Z,1,1\n")
    )
    assert trace.jobs["submitted_at"].to_list() == [5.0, 7.0, 9.0]


@pytest.mark.parametrize(
    "text",
    [
        "\n\nsubmitted_at,gpus,duration_s\n\n0,1,60\n   \n10,8,3600\n\n\n",
        "submitted_at,gpus,duration_s\r\n0,1,60\r\n\r\n10,8,3600\r\n",
        "\ufeffsubmitted_at,gpus,duration_s\n0,1,60\n10,8,3600",
        " submitted_at , gpus, duration_s\n 0, 1,60.0\n10 ,8.0 , 3600\n",
        '"submitted_at","gpus","duration_s"\n"0","1","60"\n\n"10","8","3600"\n',
        "gpus,duration_s,submitted_at\n8,3600,10\n1,60,0\n",
    ],
    ids=["blank lines", "CRLF", "byte order mark", "spaces", "quotes", "another order"],
)
def test_the_same_trace_written_in_other_ways(given, text):
    jobs = load(given(text)).jobs
    assert jobs.drop("id").equals(load(given(SMALL, "small.csv")).jobs.drop("id"))


def test_a_gzip_file_is_read_whatever_its_name(given):
    packed = gzip.compress(SMALL.encode())
    assert load(given(packed, "jobs.csv.gz")).jobs.equals(load(given(packed, "odd.csv")).jobs)


def test_quoted_fields_may_hold_commas_quotes_and_line_ends(given):
    trace = load(given('id,submitted_at,gpus,duration_s,name\na,0,1,1,"x, ""y""\nz"\nb,1,1,1,w\n'))
    assert trace.jobs["name"].to_list() == ['x, "y"\nz', "w"]


def test_unknown_columns_are_ignored_and_named(given):
    trace = load(given("submitted_at,gpus,duration_s,priorty,line\n0,1,60,high,7\n"))
    assert trace.notes == ["ignored columns priorty, line"]
    assert trace.jobs["priority"].to_list() == ["normal"]


@pytest.mark.parametrize(
    ("ids", "in_order_of_people"),
    [
        (["10", "9", "2"], ["2", "9", "10"]),
        (["job10", "job9", "job-1"], ["job-1", "job9", "job10"]),
        (["12_10", "12_9", "3"], ["3", "12_9", "12_10"]),
        (["a", "7", "007", "07"], ["007", "07", "7", "a"]),
        (
            ["99999999999999999999", "100000000000000000000"],
            ["99999999999999999999", "100000000000000000000"],
        ),
    ],
)
def test_jobs_that_come_together_are_in_the_order_people_count(given, ids, in_order_of_people):
    rows = "".join(f"{name},5,1,1\n" for name in ids)
    assert load(given("id,submitted_at,gpus,duration_s\n" + rows)).jobs["id"].to_list() == in_order_of_people


def test_submission_comes_before_the_id(given):
    trace = load(given("id,submitted_at,gpus,duration_s\nz1,1,1,1\na1,2,1,1\ny2,0.5,1,1\ny10,0.5,1,1\n"))
    assert trace.jobs["id"].to_list() == ["y2", "y10", "z1", "a1"]


texts = st.text(st.characters(codec="utf-8"), max_size=8)
jobs = st.lists(
    st.fixed_dictionaries(
        {
            "id": texts.filter(lambda text: text.strip() != ""),
            "submitted_at": st.floats(0, 1e11),
            "gpus": st.integers(1, 1_000_000),
            "duration_s": st.floats(0, 1e10, exclude_min=True),
            **dict.fromkeys(("user", "tenant", "name", "group", "model"), texts),
            "priority": st.sampled_from(["high", "normal", "low"]),
            "preemption_cost_s": st.none() | st.floats(0, 1e10),
            "preemptible": st.none() | st.booleans(),
        }
    ),
    min_size=1,
    max_size=20,
    unique_by=lambda job: job["id"],
)


@settings(deadline=None)  # a busy machine is no failure
@for_all(jobs, st.sampled_from(["t.csv", "t.csv.gz"]))
def test_what_is_written_reads_back_exactly(tmp_path_factory, rows, name):
    table = pl.DataFrame(rows, schema={key: SCHEMA[key] for key in rows[0]})
    trace = Trace("any", in_order(complete(table)))
    path = tmp_path_factory.mktemp("round") / name
    write(trace, path)
    assert load(path, format="tiresias").jobs.equals(trace.jobs)


def test_the_same_trace_gives_the_same_bytes(tmp_path, given):
    trace = load(given(SMALL))
    write(trace, tmp_path / "a.csv.gz")
    write(trace, tmp_path / "b.csv.gz")
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    write(trace, tmp_path / "c.csv")
    assert (
        tmp_path / "c.csv"
    ).read_text() == "id,submitted_at,gpus,duration_s\n1,0.0,1,60.0\n2,10.0,8,3600.0\n"
