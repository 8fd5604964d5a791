"""Bodies: of unknown callers they are not read, and of known ones they are bounded in bytes and values."""

from __future__ import annotations

import socket

import httpx
import pytest
from api_server import DEADLINE_S, job

from tiresias.api.client import ApiError
from tiresias.api.request_limits import LARGEST_BODY_BYTES, MOST_VALUES

ROUTES = [
    "POST /api/v1/jobs",
    "POST /api/v1/jobs/dry-run",
    "PATCH /api/v1/jobs/1",
    "PUT /api/v1/policy",
    "POST /x",
]


@pytest.mark.parametrize("route", ROUTES)
def test_the_body_of_an_unknown_caller_is_not_read(server, route):
    """The answer comes although nothing of the body has been sent."""
    port = int(server.about["url"].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), DEADLINE_S) as client:
        head = f"{route} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        client.sendall(head.encode() + b"Content-Length: 1000000\r\nAuthorization: Bearer tir_no\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(4096), b""))
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in answer.lower()


@pytest.fixture
def http(server):
    transport = httpx.HTTPTransport(uds=str(server.home / "manager.sock"))
    with httpx.Client(transport=transport, base_url="http://localhost", timeout=DEADLINE_S) as client:
        yield client


def post(http, content):
    return http.post("/api/v1/jobs", content=content, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize("is_announced", [True, False])
def test_a_body_that_is_too_large_is_refused(http, is_announced):
    content = b" " * (LARGEST_BODY_BYTES + 1)
    answer = post(http, content if is_announced else iter([content[:-9], content[-9:]]))
    assert (answer.status_code, answer.json()["error"]["code"]) == (413, "invalid")
    assert "4 MiB" in answer.json()["error"]["message"]


@pytest.mark.parametrize("content", [b"[" + b"[]," * 999_999, b"{" * 400_000, b"1," * 400_000])
def test_a_body_of_too_many_values_is_refused_without_being_parsed(http, content):
    answer = post(http, content)
    assert answer.status_code == 413
    assert f"{MOST_VALUES:,}" in answer.json()["error"]["message"]


@pytest.mark.parametrize("content", [b"[" * 100_000, b"{", b'{"command": "\xff"}', b" " * 100_000 + b"[}"])
def test_a_body_that_is_no_json_is_refused(http, content):
    assert post(http, content).status_code in (400, 422)


def test_a_large_body_is_taken(admin):
    env = {f"KEY_{number}": "x" * 1000 for number in range(3000)}
    [id] = admin.submit(job(env=env, begin_at=4e9))
    assert admin.job(id)["summary"]["phase"] == "PENDING"
    admin.cancel(id)


@pytest.mark.parametrize("array", ["one array", "several arrays"])
def test_an_array_is_bounded_by_what_its_jobs_take_together(admin, array):
    """A small request that would fill the journal."""
    before = sum(1 for _ in admin.jobs(all=True))
    count = 5000 if array == "one array" else 2500
    large = job(env={"KEY": "x" * 40_000}, begin_at=4e9, array={"indices": list(range(count))})
    with pytest.raises(ApiError, match=r"64 MiB.*--array in several ranges") as refused:
        admin.submit(large if array == "one array" else [large, large])
    assert refused.value.status == 422
    assert sum(1 for _ in admin.jobs(all=True)) == before


def test_what_indices_add_to_a_command_counts(admin):
    wide = job("echo", "{i}" * 5000, begin_at=4e9, array={"indices": [1_000_000 - n for n in range(2000)]})
    with pytest.raises(ApiError, match="64 MiB"):
        admin.submit(wide)
