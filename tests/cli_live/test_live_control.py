"""cancel, hold, release, requeue, set: change what becomes of jobs."""

from __future__ import annotations

import pytest
from live_cli import Tir, eventually

from tiresias.api.client import ApiError
from tiresias.cli.errors import Stop
from tiresias.cli.live.control import _all_of, _cancel_unless_ended, parse_changes


def phase(client, id: int) -> str:
    return client.job(id)["summary"]["phase"]


def running(tir, client, *options: str) -> int:
    id = tir("submit", *options, "--", "sleep", "1000").id
    eventually(lambda: phase(client, id) == "RUNNING")
    return id


def test_a_job_is_cancelled_by_id_or_name_and_others_in_the_same_breath(tir, client):
    ids = [running(tir, client, "-n", name) for name in ("one", "two")]
    done = tir("cancel", ids[0], "two")
    assert done.code == 0
    named = [line.split(":")[0] for line in done.out.splitlines()]
    assert named == [f"job {ids[0]} (one)", f"job {ids[1]} (two)"]
    eventually(lambda: [phase(client, id) for id in ids] == ["CANCELLED"] * 2)


def test_a_job_that_ignores_its_signal_is_cancelled_now(tir, client):
    stubborn = "trap '' TERM; echo ready; while :; do sleep 0.05; done"
    id = tir("submit", "--grace", "1h", "--", "sh", "-c", stubborn).id
    eventually(lambda: "ready" in tir("logs", id).out)
    assert tir("cancel", id).code == 0
    eventually(lambda: phase(client, id) == "STOPPING")
    assert tir("cancel", "--now", id).code == 0
    eventually(lambda: phase(client, id) == "CANCELLED")


def test_a_refusal_of_one_does_not_spare_the_others(tir, client):
    id = running(tir, client)
    done = tir("cancel", "999999", id, "-o", "json")
    assert done.code == 3
    assert [job["id"] for job in done.json] == [id]
    assert "999999" in done.err
    eventually(lambda: phase(client, id) == "CANCELLED")
    assert tir("cancel", id).code == 6  # it has ended


def test_all_of_ones_jobs_are_cancelled_when_one_is_sure(tir, client):
    ids = tir("submit", "--array", "0-2", "--", "sleep", "1000").ids
    asked = Tir(tir.home)("cancel", "--all")  # there is nobody to answer: standard input is empty
    assert asked.code == 1
    assert "Cancel 3 jobs?" in asked.err
    assert len(list(client.jobs())) == 3
    assert tir("cancel", "--all", "--yes").code == 0
    eventually(lambda: {phase(client, id) for id in ids} == {"CANCELLED"})
    for words in ([], ["--user", "me"], ["--all", "12"]):
        assert tir("cancel", *words).code == 2


def test_a_job_that_ends_between_the_list_and_its_turn_is_no_refusal(tir, client):
    id = running(tir, client)
    listed = _all_of(client, "me")
    client.cancel(id)
    eventually(lambda: phase(client, id) == "CANCELLED")
    assert listed == [str(id)]
    assert _cancel_unless_ended(client, now=False)(listed[0])["phase"] == "CANCELLED"
    with pytest.raises(ApiError, match="there is no job 999999"):
        _cancel_unless_ended(client, now=False)("999999")


def test_a_held_job_gives_its_gpus_back_and_runs_again_when_released(tir, client):
    id = running(tir, client, "-g", "4", "-n", "held")
    assert tir("hold", "held").code == 0
    eventually(lambda: phase(client, id) == "HELD")
    assert client.status()["free_slots"] == 4
    assert tir("release", "held").code == 0
    eventually(lambda: phase(client, id) == "RUNNING")
    assert client.job(id)["summary"]["runs"] == 2
    again = tir("release", id)
    assert again.code == 6
    assert "not on hold" in again.err


def test_a_requeued_job_gets_another_run(tir, client):
    id = running(tir, client)
    assert tir("requeue", id).code == 0
    eventually(lambda: client.job(id)["summary"]["runs"] == 2)


def test_a_job_can_be_changed_while_it_runs(tir, client):
    id = running(tir, client)
    done = tir("set", id, "priority=low", "name=other", "tenant=vision", "time=12h", "retries=7", "grace=5s")
    assert done.code == 0, done.err
    job = client.job("other")
    assert (job["summary"]["priority"], job["summary"]["tenant"]) == ("low", "vision")
    assert (job["time_limit_s"], job["retries"], job["grace_s"]) == (43200, 7, 5)
    assert tir("set", id, "time=none").code == 0
    assert client.job(id)["time_limit_s"] is None
    assert tir("set", id, "priority=urgent").code == 2


@pytest.mark.parametrize("text", ["gpus=3", "priority", "retries=many", "time=8", "=3"])
def test_a_change_that_is_not_understood_is_refused(text):
    with pytest.raises(Stop) as stopped:
        parse_changes([text])
    assert stopped.value.code == 2
