"""The terminal of a job over the API: its owner alone types there, and nothing is typed twice."""

from __future__ import annotations

import os
import threading

import pytest
from api_server import eventually, job, until_ended

from tiresias.api.client import ApiError


def refusal(call) -> ApiError:
    with pytest.raises(ApiError) as refused:
        call()
    return refused.value


@pytest.fixture
def shell(people):
    """A shell of ada's, and what she may do in it."""
    [id] = people.ada.submit(job("sh", pty=True))
    eventually(lambda: people.ada.job(id)["summary"]["phase"] == "RUNNING")
    yield id
    people.ada.cancel(id)
    until_ended(people.ada, id)


def screen(client, id: int) -> str:
    return client.logs(id).decode(errors="replace")


def test_what_the_owner_types_reaches_the_program(people, shell):
    there = people.ada.attach(shell, 40, 120)
    people.ada.type_in(shell, there["session"], 0, b"stty size; echo $((20 + 3))\n")
    eventually(lambda: "23" in screen(people.ada, shell))
    assert "40 120" in screen(people.ada, shell)
    people.ada.resize(shell, 50, 90)
    people.ada.type_in(shell, there["session"], 1, b"stty size\n")
    eventually(lambda: "50 90" in screen(people.ada, shell))


@pytest.mark.parametrize(
    "call",
    [
        lambda client, id: client.attach(id, 24, 80),
        lambda client, id: client.type_in(id, "00" * 8, 0, b"rm -rf ~\n"),
        lambda client, id: client.resize(id, 24, 80),
    ],
)
def test_nobody_else_may_even_an_admin(people, admin, shell, call):
    for client in (people.bob, admin):
        refused = refusal(lambda client=client: call(client, shell))
        assert (refused.status, refused.code) == (403, "denied")
    assert "rm" not in screen(people.ada, shell)


@pytest.mark.skipif(os.geteuid() != 0, reason="only a manager of root's runs jobs under other accounts")
def test_the_terminal_belongs_to_the_account_of_the_job(people, shell, server):
    there = people.ada.attach(shell, 24, 80)
    people.ada.type_in(shell, there["session"], 0, b"stat -c '%U %a' $(tty); echo o''k > $(tty)\n")
    eventually(lambda: "daemon 600" in screen(people.ada, shell))
    eventually(lambda: "ok" in screen(people.ada, shell))
    path = server.home / "jobs" / str(shell) / "runs" / "1" / "terminal"
    code = f"import socket; socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET).connect('{path}')"
    people.ada.type_in(shell, there["session"], 1, f'python3 -c "{code}"; echo code $?\n'.encode())
    eventually(lambda: "code 1\r" in screen(people.ada, shell))


def test_attaching_is_in_the_audit_log_and_what_is_typed_is_not(people, shell, server):
    there = people.ada.attach(shell, 24, 80)
    people.ada.type_in(shell, there["session"], 0, b": a secret\n")
    eventually(lambda: "secret" in screen(people.ada, shell))
    log = server.log()
    assert f"POST /api/v1/jobs/{shell}/terminal by daemon: 200" in log
    assert f"jobs/{shell}/terminal/input" not in log
    refusal(lambda: people.bob.type_in(shell, there["session"], 1, b"x"))
    assert f"POST /api/v1/jobs/{shell}/terminal/input by nobody: 403" in server.log()


def test_the_same_input_again_is_not_typed_again(people, shell):
    session = people.ada.attach(shell, 24, 80)["session"]
    for _ in range(3):
        people.ada.type_in(shell, session, 0, b"echo o''nce\n")
    people.ada.type_in(shell, session, 1, b"echo l''ast\n")
    eventually(lambda: "last" in screen(people.ada, shell))
    assert screen(people.ada, shell).count("once") == 1


def test_a_stream_has_each_answer_before_the_next_line_is_typed(people, shell):
    there = people.ada.attach(shell, 24, 80)
    seen: list[str] = []
    arrived = threading.Semaphore(0)

    def follow() -> None:
        for chunk in people.ada.follow_logs(shell):
            seen.append(chunk.text)
            arrived.release()

    threading.Thread(target=follow, daemon=True).start()
    for number in range(20):
        people.ada.type_in(shell, there["session"], number, f"echo $(({number} + 999 + 1))\n".encode())
        while f"{number + 1000}" not in "".join(seen):
            assert arrived.acquire(timeout=60)


@pytest.mark.parametrize(
    ("session", "data"), [("zz", b"x"), ("00", b"x"), ("", b"x")], ids=["no hex", "short", "none"]
)
def test_a_session_that_is_none_is_refused(people, shell, session, data):
    assert refusal(lambda: people.ada.type_in(shell, session, 0, data)).status == 422


def test_too_much_at_once_is_refused_and_the_manager_goes_on(people, shell):
    session = people.ada.attach(shell, 24, 80)["session"]
    assert refusal(lambda: people.ada.type_in(shell, session, 0, b"x" * 70_000)).status == 422
    people.ada.type_in(shell, session, 0, b"echo o''k\n")
    eventually(lambda: "ok" in screen(people.ada, shell))


def test_a_job_without_a_terminal_and_one_that_has_ended_say_so(people):
    [id] = people.ada.submit(job("sleep", "1000"))
    eventually(lambda: people.ada.job(id)["summary"]["phase"] == "RUNNING")
    assert "has no terminal" in refusal(lambda: people.ada.attach(id, 24, 80)).message
    people.ada.cancel(id)
    until_ended(people.ada, id)
    assert "has ended" in refusal(lambda: people.ada.attach(id, 24, 80)).message
