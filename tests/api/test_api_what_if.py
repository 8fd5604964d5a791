"""What-if: computed beside the manager, one at a time per user, and ended with whoever asked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from api_server import Server, eventually, job, until_ended

JOBS = 12
CHILD = "tiresias.api.what_if_child"


@pytest.fixture(scope="module", autouse=True)
def past(admin, people):
    for number in range(JOBS):
        person = people.ada if number % 2 else people.bob
        [id] = person.submit(job("true", gpus=1 + number % 2))
    until_ended(admin, id)
    eventually(lambda: not list(admin.jobs()))


@pytest.fixture
def tcp(server: Server) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.about["url"], trust_env=False, timeout=60) as client:  # type: ignore[index]
        yield client


def as_user(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def children(server: Server) -> list[int]:
    """The processes of what-ifs of this manager."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and CHILD.encode() in (entry / "cmdline").read_bytes():
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                found += [int(entry.name)] if parent == server.process.pid else []  # type: ignore[union-attr]
        except OSError:
            continue
    return found


def events(answer: httpx.Response) -> Iterator[tuple[str, Any]]:
    name = ""
    for line in answer.iter_lines():
        if line.startswith("event: "):
            name = line[7:]
        elif line.startswith("data: "):
            yield name, json.loads(line[6:])


def result(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    return next(value for name, value in events(answer) if name == "result")


def test_scenarios_are_replayed_and_the_replay_says_how_faithful_it_is(tcp, people):
    asked = {"policy": ["fifo", "srsf"], "more_gpus": [2]}
    found = result(tcp.get("/api/v1/what-if", params=asked, headers=as_user(people.ada_token)))
    assert found["jobs"] == JOBS
    labels = [(each["policy"], each["more_gpus"], each["gpus"]) for each in found["outcomes"]]
    used = labels[0][0]
    assert labels == [(used, 0, 2), ("fifo", 0, 2), ("srsf", 0, 2), (used, 2, 4)]
    assert found["measured_mine"]["jobs"] == found["outcomes"][0]["mine"]["jobs"] == JOBS // 2
    assert found["fidelity"]["avg_jct_ratio"] > 0
    assert "name" not in json.dumps(found)


@pytest.mark.parametrize(
    "asked",
    [
        {"policy": "no-such"}, {"policy": "<script>"}, {"policy": ["fifo"] * 5}, {"more_gpus": 0},
        {"more_gpus": -8}, {"more_gpus": 10_001}, {"more_gpus": [1, 2, 3, 4]}, {"since_s": 0},
    ],
)  # fmt: skip
def test_what_makes_no_sense_or_is_too_much_is_refused(tcp, people, server, asked):
    answer = tcp.get("/api/v1/what-if", params=asked, headers=as_user(people.ada_token))
    assert answer.status_code == 422
    assert children(server) == []


@pytest.fixture
def stopped(server: Server, tcp: httpx.Client, people) -> Iterator[Any]:
    """A function that begins a what-if of a user and stops its process: it takes as long as the test."""
    opened, frozen, kept = [], [], []

    def begin(token: str) -> tuple[Iterator[tuple[str, Any]], int, Any]:
        before = set(children(server))
        context = tcp.stream("GET", "/api/v1/what-if", params={"policy": "fifo"}, headers=as_user(token))
        answer = context.__enter__()
        opened.append(context)
        assert answer.status_code == 200, answer.read()
        told = events(answer)
        kept.append(told)  # it closes the connection when it is forgotten
        assert next(told)[0] == "begun"
        [pid] = eventually(lambda: set(children(server)) - before)
        os.kill(pid, signal.SIGSTOP)
        frozen.append(pid)
        return told, pid, context

    yield begin
    for pid in frozen:
        try:
            os.kill(pid, signal.SIGCONT)
        except ProcessLookupError:
            continue
    for context in opened:
        context.__exit__(None, None, None)
    eventually(lambda: children(server) == [])


def test_it_ends_with_whoever_asked(server, stopped, people):
    _, pid, context = stopped(people.ada_token)
    context.__exit__(None, None, None)
    eventually(lambda: children(server) == [] and not Path(f"/proc/{pid}").exists())


def test_a_user_has_one_at_a_time_and_the_last_one_counts(server, stopped, people):
    told, _, _ = stopped(people.ada_token)
    stopped(people.ada_token)
    assert len(children(server)) == 1
    assert [name for name, _ in told][-1] == "failed", "the former one was ended"


def test_further_users_are_told_to_come_again(server, admin, stopped, people):
    stopped(people.ada_token)
    stopped(people.bob_token)
    transport = httpx.HTTPTransport(uds=str(server.home / "manager.sock"))
    with httpx.Client(transport=transport, base_url="http://localhost") as third:
        answer = third.get("/api/v1/what-if", params={"policy": "fifo"})
    assert answer.status_code == 503
    assert "try again" in answer.json()["error"]["message"]
    assert len(children(server)) == 2
    assert admin.status()["is_ready"], "the manager answers as before"


def test_it_is_of_the_lowest_priority_and_bounded():
    command = [sys.executable, "-m", CHILD]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as child:
        assert child.stdin is not None  # it waits for a question
        eventually(lambda: limits_of(child.pid) == (19, 800, "300", str(4 * 2**30)))
        child.kill()


def limits_of(pid: int) -> tuple[int, int, str, str]:
    """Its priority, how early it is ended for want of memory, and its bounds in processor time and memory."""
    nice = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[16])
    first_to_go = int(Path(f"/proc/{pid}/oom_score_adj").read_text())
    text = Path(f"/proc/{pid}/limits").read_text()
    rows = {line[:26].strip(): line[26:].split()[0] for line in text.splitlines()[1:]}
    return nice, first_to_go, rows["Max cpu time"], rows["Max data size"]


def test_it_ends_with_a_manager_that_is_killed(tmp_path: Path) -> None:
    server = Server(tmp_path).start()
    try:
        with server.client() as client:
            [id] = client.submit(job("true"))
            until_ended(client, id)
        transport = httpx.HTTPTransport(uds=str(tmp_path / "manager.sock"))
        with (
            httpx.Client(transport=transport, base_url="http://localhost") as client,
            client.stream("GET", "/api/v1/what-if", params={"policy": "fifo"}) as answer,
        ):
            told = events(answer)  # forgotten, it would close the connection
            assert next(told)[0] == "begun"
            [pid] = eventually(lambda: children(server))
            os.kill(pid, signal.SIGSTOP)
            server.kill()
            os.kill(pid, signal.SIGCONT)
            eventually(lambda: not _is_alive(pid))
    finally:
        server.start().stop()


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
