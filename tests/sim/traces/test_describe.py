"""What is in a trace, in numbers and as a table."""

from __future__ import annotations

import json

import pytest

from tiresias.sim.traces import describe, load, table
from tiresias.sim.traces.describe import span_text

TRACE = "submitted_at,gpus,duration_s,user,tenant\n100,1,3600,ann,lab\n200,1,1800,bob,lab\n1100,4,900,ann,\n"


def test_a_small_trace_in_numbers(given):
    found = describe(load(given(TRACE)))
    assert (found["jobs"], found["users"], found["tenants"], found["largest_gpus"]) == (3, 2, 1, 4)
    assert (found["first_submitted_at"], found["last_submitted_at"]) == (100.0, 1100.0)
    assert found["span_s"] == 1000.0
    assert found["gpu_hours"] == 2.5
    assert found["busy_gpus"] == 9.0  # 9,000 GPU-seconds in 1,000 s
    assert found["sizes"] == [
        {"gpus": 1, "jobs": 2, "jobs_share": pytest.approx(2 / 3), "service_share": 0.6},
        {"gpus": 4, "jobs": 1, "jobs_share": pytest.approx(1 / 3), "service_share": 0.4},
    ]
    assert {name: found["duration_s"][name] for name in ("min", "p50", "max", "mean")} == {
        "min": 900.0,
        "p50": 1800.0,
        "max": 3600.0,
        "mean": 2100.0,
    }
    assert found["service_gpu_s"]["p50"] == 3600.0


def test_jobs_that_all_come_at_once_have_no_load():
    found = describe(load("builtin:example"))
    assert found["busy_gpus"] is None
    assert ("GPUs busy on average", "all jobs at once") in table(found)


def test_the_description_is_plain_json():
    found = describe(load("builtin:testbed-480"))
    assert json.loads(json.dumps(found)) == found


def test_the_table_says_it_for_people(given):
    path = given(TRACE + "5,-1,1,,\n")
    rows = table(describe(load(path, skip_bad_rows=True)))
    assert ("jobs", "3") in rows
    assert ("span", "16 min 40 s") in rows
    assert ("1 GPU", "2 jobs (66.67%), 60.00% of the GPU-time") in rows
    assert ("4 GPUs", "1 job (33.33%), 40.00% of the GPU-time") in rows
    assert ("largest job", "4 GPUs") in rows
    assert ("bad rows skipped", "1") in rows
    assert rows[-1][0] == "note"
    assert "line 5, column gpus: '-1' is below 0" in rows[-1][1]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (12.5, "12.5 s"), (61, "1 min 1 s"), (7260, "2 h 1 min"), (9408690, "108 d 21 h")],
)
def test_spans_read_well(seconds, text):
    assert span_text(seconds) == text
