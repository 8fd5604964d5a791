"""No request that OpenAPI allows, or forbids, makes a live manager fail.

Schemathesis makes the requests from the OpenAPI that the manager serves. TIRESIAS_API_EXAMPLES is how many
for each route (`make soak` asks for more).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pytest
import schemathesis
from api_server import job, until_ended
from hypothesis import given, settings
from hypothesis import strategies as st
from schemathesis import APIOperation, Case, GenerationMode

EXAMPLES = int(os.environ.get("TIRESIAS_API_EXAMPLES", "8"))
NOT_CALLED = {("POST", "/api/v1/shutdown")}  # there is only one manager to be asked


@pytest.fixture(scope="module")
def token(admin):
    """An admin, so that requests get as far as they can; its jobs would run as nobody."""
    return admin.create_token("fuzz", "nobody", "admin")


@pytest.fixture(scope="module")
def schema(server):
    return schemathesis.openapi.from_url(server.about["url"] + "/openapi.json")


@dataclass
class Known:
    """What can be asked about."""

    jobs: list[int]
    slot: str


@pytest.fixture(scope="module")
def known(admin):
    ended, waiting, *more = admin.submit([job("echo", "hello"), *(job(begin_at=4e9) for _ in range(4))])
    until_ended(admin, ended)
    [node] = admin.nodes()
    return Known([ended, waiting, *more], f"{node['name']}:1")


def tamed(case: Case) -> Case:
    """The same request, but without harm: it follows nothing, and starts no program but `true`."""
    if isinstance(case.query, dict) and case.query.get("follow"):
        case.query["follow"] = "false"
    for each in jobs_of(case):
        if isinstance(each.get("command"), list):
            each["command"] = ["true", *each["command"]]
    return case


def jobs_of(case: Case) -> list[dict[str, Any]]:
    if not isinstance(case.body, dict):
        return []
    jobs = case.body.get("jobs", [case.body])
    return [each for each in jobs if isinstance(each, dict)] if isinstance(jobs, list) else []


def steered(case: Case, number: int, known: Known) -> Case:
    """Towards what is there: jobs that can be met, names that somebody has."""
    names = {"ref": known.jobs[number % len(known.jobs)], "what": known.slot, "user": "nobody"}
    case.path_parameters |= {name: names[name] for name in case.path_parameters if name in names}
    for each in jobs_of(case):
        each |= {"gpus": 1 + number % 2, "cwd": "/", "nodes": None, "workers": 1, "launcher": "plain"}
        each |= {"name": f"job {number}", "after": [], "time_limit_s": None, "begin_at": 4e9}
    bodies = {
        "/api/v1/policy": {"policy": ("fifo", "las", "tiresias-l")[number % 3]},
        "/api/v1/jobs/{ref}": ({"priority": "low"}, {"name": "x"}, {"time_limit_s": None})[number % 3],
        "/api/v1/tokens": {"name": f"token {number}", "user": "nobody"},
    }
    case.body = bodies.get(case.path, case.body) if case.method != "GET" else case.body
    return case


def fuzz(operation: APIOperation, headers: dict[str, str], known: Known) -> None:
    """Send it requests that fit its description, and requests that do not, and some that are met."""
    name = f"{operation.method.upper()} {operation.path}"
    any_case = st.one_of(operation.as_strategy(generation_mode=mode) for mode in GenerationMode)

    @settings(max_examples=EXAMPLES)
    @given(any_case.map(tamed), st.none() | st.integers(0, 11))
    def send(case: Case, number: int | None) -> None:
        answer = (case if number is None else steered(case, number, known)).call(headers=headers, timeout=30)
        assert answer.status_code < 500, (name, answer.status_code, answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()["error"]) == {"code", "message"}, (name, answer.text)

    send()


def test_no_request_makes_the_manager_fail(server, schema, token, admin, known):
    operations = [found.ok() for found in schema.get_all_operations()]
    called = [each for each in operations if (each.method.upper(), each.path) not in NOT_CALLED]
    assert len(called) == len(operations) - len(NOT_CALLED)
    for operation in sorted(called, key=lambda each: each.path.endswith("/cancel")):
        fuzz(operation, {"Authorization": f"Bearer {token}"}, known)
    assert admin.status()["pid"] == server.process.pid
    assert "Traceback (most recent call last)" not in server.log()  # the word alone may be in a path
