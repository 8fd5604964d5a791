"""What each caller may do, and what no caller may read."""

from __future__ import annotations

import json

import httpx
import pytest
from api_server import job, until_ended

from tiresias.api.client import ApiError, Client
from tiresias.api.failures import FORGOTTEN_S, LONGEST_S, FailedTokens

SECRET = "s3cr3t-of-ada"
FAR_AWAY = 4e9  # begin then: it waits for as long as the tests take


@pytest.fixture(scope="module")
def adas(people):
    """A job of ada's with a secret in its environment; held, so that it stays."""
    env = {"API_KEY": SECRET, "PATH": "/bin"}
    [id] = people.ada.submit(job(name="adas", env=env, begin_at=FAR_AWAY))
    people.ada.hold(id)
    return id


def refusal(call) -> ApiError:
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value


@pytest.mark.parametrize(
    "call",
    [
        lambda client, id: client.job(id),
        lambda client, id: client.runs(id),
        lambda client, id: client.job_events(id),
        lambda client, id: client.logs(id),
        lambda client, id: list(client.follow_logs(id)),
        lambda client, id: client.cancel(id),
        lambda client, id: client.hold(id),
        lambda client, id: client.release(id),
        lambda client, id: client.requeue(id),
        lambda client, id: client.change(id, name="mine"),
    ],
)
def test_another_users_job_cannot_be_read_or_touched(people, adas, call):
    refused = refusal(lambda: call(people.bob, adas))
    assert (refused.status, refused.code) == (403, "denied")
    assert people.ada.job(adas)["summary"]["phase"] == "HELD"


def test_another_users_job_shows_in_the_list_because_it_is_ahead(people, adas):
    [listed] = [each for each in people.bob.jobs() if each["id"] == adas]
    assert listed["user"] == "daemon"
    assert SECRET not in json.dumps(listed)


def test_an_owner_sees_the_names_of_the_environment_and_no_value(people, adas):
    detail = people.ada.job(adas)
    assert set(detail["env_names"]) == {"API_KEY", "PATH"}
    assert SECRET not in json.dumps(detail)


def test_an_admin_may_touch_every_job(people, admin):
    [id] = people.ada.submit(job(begin_at=FAR_AWAY))
    assert admin.cancel(id)["phase"] == "CANCELLED"


@pytest.mark.parametrize(
    "call",
    [
        lambda client: client.drain("box"),
        lambda client: client.undrain("box"),
        lambda client: client.set_policy("fifo"),
        lambda client: client.set_limits("*", max_running_gpus=1),
        lambda client: client.set_shares({"vision": 1.0}),
        lambda client: client.tokens(),
        lambda client: client.create_token("more", "nobody", "admin"),
        lambda client: client.revoke_token("ada"),
        lambda client: client.shutdown(),
        lambda client: client.submit(job(priority="high")),
    ],
)
def test_what_is_an_admins_business_is_denied_to_a_user(people, call):
    refused = refusal(lambda: call(people.bob))
    assert (refused.status, refused.code) == (403, "denied")


def test_a_user_cannot_raise_a_job_to_high_priority_and_an_admin_can(people, admin, adas):
    refused = refusal(lambda: people.ada.change(adas, priority="high"))
    assert (refused.status, refused.code) == (403, "denied")
    assert people.ada.job(adas)["summary"]["priority"] == "normal"
    people.ada.change(adas, priority="low")
    assert people.ada.job(adas)["summary"]["priority"] == "low"
    admin.change(adas, priority="high")
    assert people.ada.job(adas)["summary"]["priority"] == "high"


def test_every_caller_can_ask_for_its_user_and_role(people, admin):
    assert people.bob.whoami() == {"user": "nobody", "role": "user"}
    assert admin.whoami()["role"] == "admin"


@pytest.mark.parametrize("token", ["", "wrong", "tir_" + "x" * 43])
def test_without_a_known_token_nobody_is_let_in_over_tcp(server, token):
    url = server.about["url"]
    refused = refusal(lambda: Client(url=url, token=token).status())
    assert (refused.status, refused.code) == (401, "denied")
    assert "token" in refused.message
    if token:
        assert token not in refused.message


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/version", "/openapi.json"])
def test_probes_need_no_token(server, path):
    assert httpx.get(server.about["url"] + path).status_code == 200


def test_metrics_need_a_token(server, people):
    url = server.about["url"] + "/metrics"
    assert httpx.get(url).status_code == 401
    assert httpx.get(url, headers={"Authorization": f"Bearer {people.bob_token}"}).status_code == 200


def test_a_revoked_token_is_no_token(server, admin):
    token = admin.create_token("short-lived", "nobody")
    with server.client(token) as client:
        assert client.whoami()["user"] == "nobody"
        admin.revoke_token("short-lived")
        assert refusal(client.whoami).status == 401
    assert refusal(lambda: admin.revoke_token("short-lived")).code == "not-found"


def test_a_name_stands_for_one_token(admin, people):
    refused = refusal(lambda: admin.create_token("ada", "nobody"))
    assert (refused.status, refused.code) == (409, "conflict")
    assert {each["name"] for each in admin.tokens()} >= {"ada", "bob"}


def test_a_wrong_environment_is_refused_without_repeating_it(people):
    wrong = ({"KEY": SECRET + "\0"}, {SECRET + "=": "x"}, {"KEY": [SECRET]}, {"KEY": {"x": SECRET}}, SECRET)
    for env in wrong:
        refused = refusal(lambda env=env: people.ada.submit(job(env=env)))
        assert refused.status == 422
        assert "env" in refused.message
        assert SECRET not in refused.message


def test_the_keys_of_two_users_do_not_meet(people):
    [first] = people.ada.submit(job(begin_at=FAR_AWAY), key="same")
    [second] = people.bob.submit(job(begin_at=FAR_AWAY), key="same")
    assert first != second


def test_no_secret_is_in_any_answer_or_in_the_managers_log(server, admin, people, adas):
    """Every route that can be read, asked by the owner and by an admin."""
    [id] = admin.submit(job("sh", "-c", "exit 3", env={"TOKEN": SECRET, "PATH": "/bin:/usr/bin"}))
    until_ended(admin, id)
    paths = ["jobs?all=true", "events", "status", "nodes", "policy", "limits", "usage", "history", "tokens"]
    for each in (adas, id):
        paths += [f"jobs/{each}"] + [f"jobs/{each}/{what}" for what in ("why", "runs", "events")]
    for path in paths:
        assert SECRET not in json.dumps(admin.requester.value("GET", f"/api/v1/{path}"))
    for path in (f"jobs/{adas}", "jobs?all=true", f"jobs/{adas}/events", "history", "events"):
        assert SECRET not in json.dumps(people.ada.requester.value("GET", f"/api/v1/{path}"))
    people.ada.submit(job(env={"KEY": SECRET}, begin_at=FAR_AWAY, name="logged"))
    people.ada.cancel("logged")
    log = server.log()
    assert "POST /api/v1/jobs/logged/cancel by daemon: 200" in log
    for secret in (SECRET, people.ada_token, people.bob_token):
        assert secret not in log


def test_tokens_that_are_not_known_are_logged_without_them(server):
    url = server.about["url"] + "/api/v1/status"
    for _ in range(2):
        assert httpx.get(url, headers={"Authorization": "Bearer tir_guessed"}).status_code == 401
    assert "a token that is not known, from 127.0.0.1" in server.log()
    assert "tir_guessed" not in server.log()


def test_a_peer_that_keeps_guessing_waits_longer_and_longer_and_others_do_not():
    now = 0.0
    failed = FailedTokens(lambda: now)
    delays = [failed.note("10.0.0.1") for _ in range(12)]
    assert delays[:5] == [0.0, 0.0, 0.0, 0.25, 0.5]
    assert delays == sorted(delays)
    assert delays[-1] == LONGEST_S
    assert failed.note("10.0.0.2") == 0.0
    now = FORGOTTEN_S + 1
    assert failed.note("10.0.0.1") == 0.0
