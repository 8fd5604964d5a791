"""Windows of the past: use over time, and the runs on a timeline."""

from __future__ import annotations

import httpx
import pytest
from api_server import eventually, job, phase, until_ended

PAGES = 5


@pytest.fixture(scope="module")
def http(server):
    transport = httpx.HTTPTransport(uds=str(server.home / "manager.sock"))
    with httpx.Client(transport=transport, base_url="http://localhost/api/v1", timeout=60) as client:
        yield client


@pytest.fixture(scope="module")
def ran(admin, people):
    """Jobs of two users; the last one of them runs on."""
    [first] = people.ada.submit(job("sh", "-c", "sleep 0.3", name="secret-name", gpus=2, tenant="vision"))
    [second] = people.bob.submit(job("sh", "-c", "sleep 0.2", tenant="language"))
    until_ended(admin, first)
    until_ended(admin, second)
    [third] = people.bob.submit(job("sleep", "600", gpus=2))
    eventually(lambda: phase(admin, third) == "RUNNING")
    return first, second, third


def test_the_use_of_a_window_adds_up(http, admin, ran):
    found = http.get("/use", params={"since_s": 3600, "steps": 10, "by": "user"}).json()
    assert (found["capacity"], len(found["gpus"]), found["by"]) == (2, 10, "user")
    assert found["ended_jobs"] >= 2
    assert found["wait"]["jobs"] == sum(step["jobs"] for step in found["waits"]) >= 3
    area = sum(found["gpus"]) * found["step_s"]
    assert area == pytest.approx(sum(share["gpu_s"] for share in found["shares"]), rel=0.01)
    assert {share["who"] for share in found["shares"]} == {"daemon", "nobody"}
    by_tenant = http.get("/use", params={"since_s": 3600, "by": "tenant"}).json()
    assert {"vision", "language"} <= {share["who"] for share in by_tenant["shares"]}


def test_a_timeline_says_who_held_which_slot_and_no_name(http, ran):
    answer = http.get("/timeline", params={"since_s": 3600})
    runs = {run["job_id"]: run for run in answer.json()["runs"]}
    assert set(runs) == set(ran)
    node = runs[ran[0]]["slots"][0].rpartition(":")[0]
    assert runs[ran[0]]["slots"] == [f"{node}:0", f"{node}:1"]
    assert (runs[ran[0]]["user"], runs[ran[0]]["cause"]) == ("daemon", "finished")
    assert (runs[ran[2]]["exited_at"], runs[ran[2]]["user"]) == (None, "nobody")
    assert "secret-name" not in answer.text, "names of jobs may belong to others"
    assert http.get("/timeline", params={"limit": 1}).json()["is_cut"]
    assert len(http.get("/timeline", params={"node": node}).json()["runs"]) == 3


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/use", {"since_s": 0}), ("/use", {"since_s": "nan"}), ("/use", {"since_s": 1e300}),
        ("/use", {"steps": 401}), ("/use", {"by": "name"}), ("/timeline", {"limit": 5001}),
        ("/timeline", {"node": "<b>no such node</b>"}), ("/timeline", {"since_s": -1}),
    ],
)  # fmt: skip
def test_a_window_that_makes_no_sense_is_refused(http, path, asked):
    answer = http.get(path, params=asked)
    assert answer.status_code == 422
    assert answer.json()["error"]["message"]


def test_a_window_needs_a_caller(server, people):
    about = server.about
    with httpx.Client(base_url=about["url"], trust_env=False) as stranger:
        for path in ("/api/v1/use", "/api/v1/timeline", "/api/v1/what-if"):
            assert stranger.get(path).status_code == 401
