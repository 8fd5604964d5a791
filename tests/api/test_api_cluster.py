"""Nodes, policy, limits, usage, history, figures: what is not about one job."""

from __future__ import annotations

import httpx
import pytest
from api_server import eventually, job, phase, until_ended

from tiresias.api.client import ApiError


@pytest.fixture(scope="module")
def http(server):
    transport = httpx.HTTPTransport(uds=str(server.home / "manager.sock"))
    with httpx.Client(transport=transport, base_url="http://localhost") as client:
        yield client


def samples(text: str) -> dict[str, float]:
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in lines}


def test_the_manager_says_that_it_is_well(http, admin, server):
    assert http.get("/healthz").json() == {"status": "ok"}
    assert http.get("/readyz").json() == {"status": "ready"}
    assert http.get("/version").json()["api"] == "v1"
    assert admin.status()["pid"] == server.process.pid


def test_a_slot_is_drained_and_used_again(admin):
    [node] = admin.nodes()
    slot = f"{node['name']}:1"
    [drained] = admin.drain(slot, "a fan is loud")["nodes"]
    assert [each["state"] for each in drained["slots"]] == ["free", "out"]
    assert drained["slots"][1]["reason"] == "a fan is loud"
    [back] = admin.undrain(slot)["nodes"]
    assert [each["state"] for each in back["slots"]] == ["free", "free"]


def test_a_whole_node_is_drained_and_used_again(admin):
    [node] = admin.nodes()
    assert admin.drain(node["name"])["nodes"][0]["is_drained"]
    assert not admin.undrain(node["name"])["nodes"][0]["is_drained"]
    with pytest.raises(ApiError) as refused:
        admin.drain("no-such-node")
    assert (refused.value.status, "no-such-node" in refused.value.message) == (404, True)


def test_the_policy_is_changed_while_jobs_run_and_none_is_lost(admin):
    [running] = admin.submit(job("sleep", "600"))
    eventually(lambda: phase(admin, running) == "RUNNING")
    assert admin.set_policy("fifo")["name"] == "fifo"
    assert phase(admin, running) == "RUNNING"
    samples_of_past_jobs = {"distribution": "\n".join(map(str, range(1, 3000)))}
    assert admin.set_policy("tiresias-g", samples_of_past_jobs)["options"] == samples_of_past_jobs
    assert admin.set_policy("tiresias-l", {"queues": "100"})["options"] == {"queues": "100"}
    with pytest.raises(ApiError) as refused:
        admin.set_policy("no-such-policy")
    assert (refused.value.status, refused.value.code) == (422, "invalid")
    with pytest.raises(ApiError, match="no_such_option"):
        admin.set_policy("fifo", {"no_such_option": "1"})
    assert admin.policy()["name"] == "tiresias-l"
    admin.cancel(running)
    until_ended(admin, running)


def test_limits_are_set_kept_and_lifted(admin):
    admin.set_limits("nobody", max_running_gpus=1, max_active_jobs=5)
    assert admin.limits()["nobody"] == {"max_running_gpus": 1, "max_active_jobs": 5}
    admin.set_limits("nobody")
    assert "nobody" not in admin.limits()


def test_usage_and_history_tell_what_has_run(admin):
    [id] = admin.submit(job("true", tenant="vision"))
    until_ended(admin, id)
    assert "vision" in {row["who"] for row in admin.usage("tenant")}
    assert sum(row["jobs"] for row in admin.usage("user", since_s=3600)) > 0
    rows = list(admin.history())
    assert id in {row["id"] for row in rows}
    assert len(rows) == len({row["id"] for row in rows})


def test_figures_are_those_of_the_manager(http, admin):
    [id] = admin.submit(job("sleep", "600", gpus=2))
    eventually(lambda: phase(admin, id) == "RUNNING")
    found = samples(http.get("/metrics").text)
    assert found['tiresias_jobs{phase="RUNNING"}'] == 1
    [node] = admin.nodes()
    assert found[f'tiresias_slots{{node="{node["name"]}",state="busy"}}'] == 2
    assert found["tiresias_ready"] == 1
    assert found["tiresias_starts_paused"] == 0
    assert found["process_resident_memory_bytes"] > 0
    asked = 'tiresias_http_requests_total{method="POST",route="/api/v1/jobs",status="201"}'
    assert found[asked] >= 1
    admin.cancel(id)
    until_ended(admin, id)


def test_figures_have_no_label_that_a_caller_can_choose(http):
    http.get("/api/v1/no-such-thing-at-all")
    http.request("BREW", "/api/v1/status")
    text = http.get("/metrics").text
    assert "no-such-thing" not in text
    assert "BREW" not in text


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "word"),
    [
        ("GET", "/no/such/place", None, 404, "/no/such/place"),
        ("POST", "/api/v1/status", None, 405, "POST"),
        ("POST", "/api/v1/jobs", "{", 422, "JSON"),
        ("POST", "/api/v1/jobs", "[" * 100_000, 400, "body"),
        ("POST", "/api/v1/jobs", '{"command": ["x"], "cwd": "/", "gpus": -1}', 422, "gpus: "),
        ("POST", "/api/v1/jobs", '{"command": ["x"], "cwd": "/", "gpu": 1}', 422, "gpu: "),
        ("POST", "/api/v1/jobs", '{"jobs": [{"command": ["x"]}]}', 422, "jobs.0.cwd: "),
        ("POST", "/api/v1/jobs", '{"command": ["x"], "cwd": "there"}', 422, "'there'"),
        ("GET", "/api/v1/jobs?phase=SLEEPING", None, 422, "SLEEPING"),
        ("GET", "/api/v1/jobs?limit=0", None, 422, "limit: "),
        ("GET", "/api/v1/usage?by=moon", None, 422, "by: "),
    ],
)
def test_what_makes_no_sense_is_answered_with_where_and_what(http, method, path, body, status, word):
    answer = http.request(method, path, content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"code", "message"}
    assert word in error["message"]


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_request_that_would_fill_the_memory_is_refused(http, is_announced):
    parts = [b" " * 1024 * 1024] * 65
    answer = http.post("/api/v1/jobs", content=b"".join(parts) if is_announced else iter(parts))
    assert answer.status_code == 413
    assert "in parts" in answer.json()["error"]["message"]
