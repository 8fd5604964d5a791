"""The process of `tiresias compare --open`: it has the rules of every local page, and one answer."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from tiresias.api.local_pages import Sessions
from tiresias.api.pages import SIMULATION, files
from tiresias.api.simulation import SimulationPages

SHOWN = {"kind": "compare", "trace": "</script><b>", "results": []}


def app() -> SimulationPages:
    made = SimulationPages(SHOWN, "tiresias compare --open")
    made.port = 4711
    return made


def asked(app: SimulationPages, method: str, path: str, **more: object) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{app.port}") as client:
            return await client.request(method, path, **more)  # type: ignore[arg-type]

    return asyncio.run(ask())


def session(app: SimulationPages) -> dict[str, str]:
    answer = asked(app, "POST", "/session", json={"code": app.url().partition("code=")[2]})
    return {"Authorization": f"Bearer {answer.json()['session']}"}


def test_the_result_is_told_to_a_session_only():
    served = app()
    refused = asked(served, "GET", "/api/v1/simulation")
    assert refused.status_code == 401
    assert "run `tiresias compare --open` again" in refused.json()["error"]["message"]
    assert "b>" not in refused.text
    answer = asked(served, "GET", "/api/v1/simulation", headers=session(served))
    assert (answer.json(), answer.headers["content-encoding"]) == (SHOWN, "gzip")
    assert answer.headers["cache-control"] == "no-store"
    assert "default-src 'none'" in answer.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/api/v1/simulation"), ("GET", "/api/v1/jobs"), ("GET", "/web/now.js"), ("GET", "/etc/passwd")],
)
def test_nothing_else_is_served(method: str, path: str):
    served = app()
    assert asked(served, method, path, headers=session(served)).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [{"Host": "evil.example"}, {"Origin": "http://127.0.0.1:1"}, {"Sec-Fetch-Site": "same-site"}],
)
def test_another_name_another_port_and_another_site_are_refused(headers: dict[str, str]):
    served = app()
    answer = asked(served, "GET", "/api/v1/simulation", headers={**session(served), **headers})
    assert answer.status_code in (403, 421)


def test_a_code_is_good_once():
    served = SimulationPages(SHOWN, "x", Sessions())
    served.port = 4711
    code = served.url().partition("code=")[2]
    assert asked(served, "POST", "/session", json={"code": code}).status_code == 200
    assert asked(served, "POST", "/session", json={"code": code}).status_code == 403


def test_its_files_are_small_and_only_those_that_it_needs():
    found = files("code", SIMULATION)
    assert sum(len(each.body) for each in found.values()) < 150_000
    assert sum(len(each.compressed) for each in found.values()) < 60_000
    assert b"/web/simulation.js" in found["/"].body
    assert "/web/simulation.js" not in files()
    assert json.dumps(SHOWN)
