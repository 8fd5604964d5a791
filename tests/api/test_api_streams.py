"""Streams over a network that breaks: every byte of a log and every event once and in order."""

from __future__ import annotations

import json
import random
import socket
import sys
import threading
from itertools import pairwise
from pathlib import Path

import httpx
import pytest
from api_proxy import CuttingProxy
from api_server import eventually, job, phase, python, until_ended

from tiresias.api import sse
from tiresias.api.client import Client

WRITER = """
import sys, time
for i in range(600):
    sys.stdout.buffer.write(f"{i} é€🚀 ".encode() * (i % 7) * 10 + b"\\n")
    sys.stdout.buffer.flush()
    if i % 20 == 0:
        time.sleep(0.02)
"""


MORE_THAN_WRITTEN = 2_000_000


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_log_followed_over_a_breaking_network_is_the_log(server, admin, tmp_path, seed):
    with CuttingProxy(tmp_path, server.home / "manager.sock", random.Random(seed), 50_000) as proxy:
        [id] = admin.submit(python(WRITER))
        chunks = read(Client(tmp_path).follow_logs(id))
    whole = admin.logs(id)
    assert whole.count(b"\n") == 600
    assert b"".join(chunk.data for chunk in chunks) == whole
    assert [chunk.offset for chunk in chunks] == offsets(chunks)
    assert proxy.cuts > 3
    for chunk in chunks:
        chunk.data.decode()  # no character is split


def test_a_connection_that_always_breaks_within_the_first_line_is_tried_again(server, admin, tmp_path):
    [id] = admin.submit(python("print('hello')"))
    until_ended(admin, id)
    with CuttingProxy(tmp_path, server.home / "manager.sock", random.Random(1), 10) as proxy:
        calmer = threading.Timer(0.5, lambda: setattr(proxy, "is_calm", True))
        calmer.start()
        assert [chunk.text for chunk in Client(tmp_path).follow_logs(id)] == ["hello\n"]
        calmer.join()
        assert proxy.cuts > 0


def read(following):
    """Everything, or so much that it cannot be right."""
    chunks, size = [], 0
    for chunk in following:
        chunks.append(chunk)
        size += len(chunk.data)
        assert size < MORE_THAN_WRITTEN, "it begins again and again"
    return chunks


def offsets(chunks):
    found, at = [], 0
    for chunk in chunks:
        at += len(chunk.data)
        found.append(at)
    return found


def test_what_is_no_text_arrives_as_it_is(server, admin):
    text = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 20 + b'\\xe2\\x82')"
    [id] = admin.submit(python(text))
    assert b"".join(chunk.data for chunk in admin.follow_logs(id)) == bytes(range(256)) * 20 + b"\xe2\x82"


def test_following_goes_on_with_the_next_run_until_the_job_has_ended(admin, tmp_path):
    text = f"""
import os, sys, time
run = os.environ["TIRESIAS_RUN"]
print("run", run, flush=True)
if run == "1":
    open({str(tmp_path / "up")!r}, "w").close()
    time.sleep(600)
"""
    [id] = admin.submit(python(text))
    following = admin.follow_logs(id)
    first = next(following)
    assert (first.run, first.text) == (1, "run 1\n")
    eventually(lambda: phase(admin, id) == "RUNNING")
    admin.requeue(id)
    assert [(chunk.run, chunk.text) for chunk in following] == [(2, "run 2\n")]
    assert admin.logs(id, run=1) == b"run 1\n"
    assert admin.logs(id) == b"run 2\n"


def test_a_job_that_waits_is_followed_from_its_first_byte_and_one_that_never_runs_to_its_end(admin):
    [ahead] = admin.submit(job("sleep", "600", gpus=2, preemptible=False))
    eventually(lambda: phase(admin, ahead) == "RUNNING")
    waiting, never = admin.submit([job("echo", "at last"), job("echo", "never")])
    admin.hold(never)
    followed = admin.follow_logs(waiting)
    admin.cancel(ahead)
    assert [chunk.text for chunk in followed] == ["at last\n"]
    admin.cancel(never)
    assert list(admin.follow_logs(never)) == []


def test_a_name_that_another_job_takes_over_is_not_followed_to_that_one(server, admin, tmp_path):
    rng = random.Random(5)
    with CuttingProxy(tmp_path, server.home / "manager.sock", rng, 50_000) as proxy:
        [id] = admin.submit(python(WRITER, name="twin"))
        following = Client(tmp_path).follow_logs("twin")
        chunks = [next(following)]
        [other] = admin.submit(python("print('the other')", name="twin"))
        chunks += read(following)
        assert proxy.cuts > 1
    assert b"".join(chunk.data for chunk in chunks) == admin.logs(id)
    until_ended(admin, other)


def test_events_followed_over_a_breaking_network_are_the_events(server, admin, tmp_path):
    since = max((event["seq"] for event in admin.events()), default=0)
    with CuttingProxy(tmp_path, server.home / "manager.sock", random.Random(7), 4000) as proxy:
        following = Client(tmp_path).events(since, follow=True)
        ids = admin.submit([job("true") for _ in range(15)])
        for id in ids:
            until_ended(admin, id)
        wanted = list(admin.events(since))
        found = [next(following) for _ in wanted]
        assert proxy.cuts > 1
        proxy.is_calm = True
        following.close()
    assert found == wanted
    assert all(a["seq"] < b["seq"] for a, b in pairwise(found))


def test_a_log_is_read_in_parts_by_offset(server, admin):
    [id] = admin.submit(python("print('0123456789' * 10)"))
    until_ended(admin, id)
    transport = httpx.HTTPTransport(uds=str(server.home / "manager.sock"))
    with httpx.Client(transport=transport, base_url="http://localhost") as http:
        answer = http.get(f"/api/v1/jobs/{id}/logs", params={"offset": 95, "limit": 4})
        assert answer.content == b"5678"
        assert answer.headers["content-type"].startswith("text/plain")
        headers = {name: answer.headers[name] for name in ("x-job", "x-run", "x-offset", "x-over")}
        assert headers == {"x-job": str(id), "x-run": "1", "x-offset": "99", "x-over": "false"}
        answer = http.get(f"/api/v1/jobs/{id}/logs", params={"offset": 99})
        assert (answer.content, answer.headers["x-over"]) == (b"9\n", "true")


def test_the_stream_is_what_browsers_and_other_clients_read(server, admin):
    [id] = admin.submit(python("print('a\\nb')"))
    until_ended(admin, id)
    transport = httpx.HTTPTransport(uds=str(server.home / "manager.sock"))
    with httpx.Client(transport=transport, base_url="http://localhost") as http:
        answer = http.get(f"/api/v1/jobs/{id}/logs", params={"follow": "true"})
        assert answer.headers["content-type"].startswith(sse.MEDIA_TYPE)
        lines = answer.text.splitlines()
        assert "id: 1:4" in lines
        assert "event: log" in lines
        assert json.loads(lines[-2].removeprefix("data: ")) == {"phase": "SUCCEEDED", "exit_code": 0}
        resumed = http.get(
            f"/api/v1/jobs/{id}/logs", params={"follow": "true"}, headers={"Last-Event-ID": "1:2"}
        )
        [log, end] = [each for each in sse.read(resumed.content.splitlines(keepends=True)) if each.name]
        assert (log.value(), end.name) == ({"run": 1, "offset": 4, "text": "b\n"}, "end")
        for wrong in ("x", "1:", "0:0", "1:-1", f"1:{2**70}"):
            answer = http.get(
                f"/api/v1/jobs/{id}/logs", params={"follow": "true"}, headers={"Last-Event-ID": wrong}
            )
            assert answer.status_code == 422, wrong
            assert "RUN:OFFSET" in answer.json()["error"]["message"]


def test_nothing_is_left_of_a_stream_that_its_reader_has_left(server, admin):
    [id] = admin.submit(job("sleep", "600"))
    eventually(lambda: phase(admin, id) == "RUNNING")
    open_files = Path(f"/proc/{server.process.pid}/fd")
    before = len(list(open_files.iterdir()))
    readers = []
    for _ in range(20):
        reader = socket.socket(socket.AF_UNIX)
        reader.connect(str(server.home / "manager.sock"))
        target = f"/api/v1/jobs/{id}/logs?follow=true"
        reader.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        assert reader.recv(100).startswith(b"HTTP/1.1 200")
        readers.append(reader)
    assert len(list(open_files.iterdir())) >= before + 20
    for reader in readers:
        reader.close()
    eventually(lambda: len(list(open_files.iterdir())) <= before)
    admin.cancel(id)
    until_ended(admin, id)


def test_the_output_of_every_worker_is_kept_apart(admin):
    text = "import os; print('worker', os.environ['TIRESIAS_WORKER'])"
    [id] = admin.submit(job(sys.executable, "-c", text, gpus=2, workers=2))
    until_ended(admin, id)
    assert [admin.logs(id, worker=number) for number in (0, 1)] == [b"worker 0\n", b"worker 1\n"]
