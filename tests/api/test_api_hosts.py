"""Requests under names that are not the manager's, and requests of other sites, are refused."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from api_server import DEADLINE_S, Server


@contextmanager
def http(server: Server, over: str) -> Iterator[httpx.Client]:
    about = server.about
    assert about is not None
    if over == "tcp":
        with httpx.Client(base_url=about["url"], timeout=DEADLINE_S) as client:
            yield client
    else:
        transport = httpx.HTTPTransport(uds=about["socket"])
        with httpx.Client(transport=transport, base_url="http://localhost", timeout=DEADLINE_S) as client:
            yield client


@pytest.fixture(params=["unix", "tcp"])
def client(request, server):
    with http(server, request.param) as client:
        yield client


FOREIGN = ["evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.7"]
FOREIGN += ["localhost@evil.example", "manager", "[::1", "localhost:x", "evil.example#localhost"]


@pytest.mark.parametrize("host", FOREIGN)
def test_a_name_that_is_not_the_managers_is_misdirected(client, host):
    for path in ("/healthz", "/api/v1/status", "/no-such"):
        answer = client.get(path, headers={"Host": host})
        assert (answer.status_code, answer.json()["error"]["code"]) == (421, "invalid")
        assert "--allow-host" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:99", "127.0.0.1:80", "127.1.2.3", "[::1]:5", "localhost."]
)
def test_a_loopback_name_is_the_managers(client, host):
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


def test_names_that_the_operator_allows_are_the_managers(tmp_path):
    made = Server(tmp_path / "h", listen="127.0.0.1:0", allow_host=["gpubox", "Box.Example.org"]).start()
    try:
        with http(made, "tcp") as client:
            for host in ("gpubox", "gpubox:8080", "box.example.org"):
                assert client.get("/healthz", headers={"Host": host}).status_code == 200
            assert client.get("/healthz", headers={"Host": "example.org"}).status_code == 421
    finally:
        made.stop()


@pytest.mark.parametrize(
    "origin",
    ["http://evil.example", "null", "http://[::1", "https://localhost.evil.example", "http://localhost:3"],
)
def test_another_site_may_read_and_not_change(client, admin, origin):
    before = len(list(admin.tokens()))
    body = {"name": f"stolen {origin}", "user": "nobody", "role": "admin"}
    answer = client.post("/api/v1/tokens", json=body, headers={"Origin": origin})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "denied")
    assert len(list(admin.tokens())) == before
    assert client.get("/healthz", headers={"Origin": origin}).status_code == 200


def test_pages_of_the_managers_own_name_may_change(client):
    headers = {"Origin": "http://localhost:8080", "Host": "localhost:8080"}
    assert client.post("/api/v1/jobs/dry-run", json={}, headers=headers).status_code in (401, 422)


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_length_that_is_given_twice_is_refused(server, method):
    path = "/healthz" if method == "GET" else "/api/v1/jobs"
    head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n"
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(DEADLINE_S)
        client.connect(str(server.home / "manager.sock"))
        client.sendall(
            head.encode() + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /version HTTP/1.1\r\n\r\n"
        )
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 400")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"Transfer-Encoding" in answer


def test_listening_beyond_this_machine_is_warned_of(tmp_path):
    made = Server(tmp_path / "h").start()
    made.client().create_token("ada", "nobody")
    assert "not encrypted" not in made.log()
    made.stop()
    made.options["listen"] = "0.0.0.0:0"
    made.start()
    try:
        assert "WARNING tiresias.api: http://0.0.0.0:" in made.log()
        assert "not encrypted" in made.log()
    finally:
        made.stop()
