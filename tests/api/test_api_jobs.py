"""A job's life through the API of a real manager."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from api_server import eventually, job, phase, python, until_ended

from tiresias.api.client import ApiError


def test_a_job_runs_and_its_output_and_its_end_can_be_read(admin):
    [id] = admin.submit(python("print('hello')", name="greeter"))
    assert until_ended(admin, id)["phase"] == "SUCCEEDED"
    assert admin.logs(id) == b"hello\n"
    assert admin.job("greeter")["summary"]["id"] == id
    [run] = admin.runs(id)
    assert (run["number"], run["cause"], run["exit_code"]) == (1, "finished", 0)
    assert [event["job_id"] for event in admin.job_events(id)] == [id] * len(admin.job_events(id)) != []


def test_jobs_are_submitted_all_or_none(admin):
    before = {each["id"] for each in admin.jobs(all=True)}
    with pytest.raises(ApiError) as refused:
        admin.submit([job(), job(gpus=1000)])
    assert (refused.value.status, refused.value.code) == (422, "impossible")
    assert "1000" in refused.value.message
    assert {each["id"] for each in admin.jobs(all=True)} == before


def test_the_same_key_submits_once_and_another_body_under_it_is_refused(admin):
    first = admin.submit([job(name="once"), job()], key="k1")
    assert admin.submit([job(name="once"), job()], key="k1") == first
    with pytest.raises(ApiError) as refused:
        admin.submit(job(), key="k1")
    assert (refused.value.status, refused.value.code) == (409, "conflict")
    assert "k1" in refused.value.message


def test_many_submit_at_once_and_every_job_is_there_once(admin):
    """One client, several threads, and two that send the same key."""
    with ThreadPoolExecutor(8) as threads:
        keys = [f"at once {number // 2}" for number in range(80)]
        found = list(threads.map(lambda key: admin.submit(job(begin_at=4e9, name=key), key=key), keys))
    ids = [id for [id] in found]
    assert ids[::2] == ids[1::2]
    assert len(set(ids)) == 40
    assert {each["id"] for each in admin.jobs()} >= set(ids)
    for id in set(ids):
        admin.cancel(id)


def test_an_array_is_one_job_an_index(admin):
    ids = admin.submit(python("print({i})", array={"indices": [3, 5], "limit": 1}))
    assert len(ids) == 2
    for id, index in zip(ids, (3, 5), strict=True):
        until_ended(admin, id)
        assert admin.logs(id) == f"{index}\n".encode()
        assert admin.job(id)["array_index"] == index


def test_a_job_is_held_released_changed_and_cancelled(admin):
    [id] = admin.submit(job("sleep", "600", gpus=2, name="sleeper"))
    eventually(lambda: phase(admin, id) == "RUNNING")
    [waiting] = admin.submit(job(gpus=2, priority="low"))
    assert admin.why(waiting)["next_step"]
    assert admin.hold(waiting)["phase"] == "HELD"
    assert admin.release(waiting)["phase"] == "PENDING"
    assert admin.change(waiting, name="renamed", retries=1)["name"] == "renamed"
    assert admin.cancel(waiting)["phase"] == "CANCELLED"
    with pytest.raises(ApiError) as refused:
        admin.cancel(waiting)
    assert refused.value.status == 409
    admin.cancel("sleeper")
    assert until_ended(admin, id)["phase"] == "CANCELLED"


def test_a_job_that_is_requeued_runs_again(admin):
    [id] = admin.submit(job("sleep", "600"))
    eventually(lambda: phase(admin, id) == "RUNNING")
    admin.requeue(id)
    eventually(lambda: len(admin.runs(id)) == 2)
    admin.cancel(id)
    assert until_ended(admin, id)["runs"] == 2


def test_a_dry_run_says_where_it_would_run_and_submits_nothing(admin):
    before = {each["id"] for each in admin.jobs(all=True)}
    trial = admin.dry_run(job())
    assert trial["starts_now"]
    assert len(trial["slots"]) == 1
    assert {each["id"] for each in admin.jobs(all=True)} == before


def test_jobs_are_listed_by_page_and_by_phase(admin):
    ids = admin.submit([job("true") for _ in range(5)])
    for id in ids:
        until_ended(admin, id)
    listed = [each["id"] for each in admin.jobs(all=True)]
    assert set(ids) <= set(listed)
    assert len(set(listed)) == len(listed)
    seen, cursor = [], None
    while True:
        query = "?all=true&limit=2" + (f"&cursor={cursor}" if cursor is not None else "")
        page = admin.requester.value("GET", "/api/v1/jobs" + query)
        seen += [each["id"] for each in page["jobs"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == listed
    assert {each["phase"] for each in admin.jobs(all=True, phase="succeeded")} == {"SUCCEEDED"}
    assert list(admin.jobs(user="nobody-of-this-name")) == []


def pages(admin, query):
    """The ids of each page."""
    found, cursor = [], None
    while not found or cursor is not None:
        more = f"&cursor={cursor}" if cursor is not None else ""
        page = admin.requester.value("GET", f"/api/v1/jobs?{query}{more}")
        found.append([each["id"] for each in page["jobs"]])
        cursor = page["next"]
    return found


def test_active_jobs_are_paged_too(admin):
    done = admin.submit([job("true") for _ in range(3)])
    for id in done:
        until_ended(admin, id)
    ids = admin.submit([job("true", begin_at=time.time() + 9999) for _ in range(4)])
    try:
        listed = [each["id"] for each in admin.jobs()]
        assert listed == ids
        assert pages(admin, "limit=3") == [ids[:3], ids[3:]]
        assert pages(admin, "limit=4") == [ids]
        both = pages(admin, "all=true&limit=4")
        assert both[0] == ids
        assert all(len(page) <= 4 for page in both)
        every = [id for page in pages(admin, "all=true&limit=3") for id in page]
        assert every == [each["id"] for each in admin.jobs(all=True)]
        assert every[:4] == ids
        assert set(done) <= set(every[4:])
    finally:
        for id in ids:
            admin.cancel(id)


@pytest.mark.parametrize("ref", [999999, "no-such-job", 2**70, "²"])
def test_a_job_that_is_not_there_is_not_found(admin, ref):
    with pytest.raises(ApiError) as refused:
        admin.job(ref)
    assert (refused.value.status, refused.value.code) == (404, "not-found")
    assert str(ref) in refused.value.message


def test_half_a_character_in_a_metric_is_shown_and_breaks_no_list(admin):
    """A job reports a metric whose name and value are no UTF-8."""
    line = {"at": 1.0, "step": 1, "metrics": {"lo\ud800ss": "\udfff", "other": 0.5}}
    text = f"""
import os, time
with open(os.environ["TIRESIAS_RUN_DIR"] + "/report-0.jsonl", "w") as file:
    file.write({json.dumps(line)!r} + "\\n")
time.sleep(600)
"""
    [id] = admin.submit(python(text))
    eventually(lambda: (admin.job(id)["summary"]["progress"] or {}).get("step") == 1)
    assert admin.job(id)["summary"]["progress"]["metrics"] == {"lo\\ud800ss": "\\udfff", "other": 0.5}
    assert id in [each["id"] for each in admin.jobs(all=True)]
    admin.cancel(id)
    until_ended(admin, id)
    assert id in [each["id"] for each in admin.jobs(all=True)]
