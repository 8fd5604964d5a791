"""How a manager starts, ends, and refuses to start."""

from __future__ import annotations

import grp
import json
import logging
import os
import socket
import stat
import subprocess

import pytest
from api_server import DEADLINE_S, Server, eventually, job, phase, serve_command, until_ended

from tiresias.api import serve
from tiresias.api.client import ApiError, Client, Unreachable
from tiresias.api.serve import main
from tiresias.executors import procfs


@pytest.fixture
def a_server(tmp_path):
    made = Server(tmp_path / "h")
    yield made
    if made.process is not None:
        if made.process.poll() is not None:
            made.options = {"fake_gpus": 2}
            made.start()  # to end what its runs have left
        made.stop()


@pytest.fixture
def refused(capsys, within):
    """What a manager says that does not start, and its exit code."""

    def try_to_start(home) -> tuple[int, str]:
        with within(DEADLINE_S):
            code = main(["--home", str(home)])
        message = capsys.readouterr().err
        assert message.startswith("Error: ")
        assert message.removeprefix("Error: ") in (home / "manager.log").read_text()
        return code, message

    return try_to_start


def test_a_second_manager_on_the_same_home_is_refused_and_the_first_goes_on(server, admin):
    done = subprocess.run(serve_command(server.home), capture_output=True, text=True, timeout=DEADLINE_S)
    code, message = done.returncode, done.stderr
    assert code == 6
    assert "Traceback" not in message
    assert str(server.home) in message
    assert str(server.process.pid) in message
    assert admin.status()["pid"] == server.process.pid
    assert server.about["pid"] == server.process.pid


def test_a_manager_that_was_killed_leaves_a_socket_that_the_next_one_replaces(a_server):
    a_server.start()
    [id] = a_server.client().submit(job("sleep", "600"))
    eventually(lambda: phase(a_server.client(), id) == "RUNNING")
    a_server.kill()
    assert (a_server.home / "manager.sock").is_socket()
    with pytest.raises(Unreachable, match="tir up"):
        a_server.client().status()
    a_server.start()
    assert phase(a_server.client(), id) == "RUNNING"
    assert len(a_server.client().runs(id)) == 1


def test_a_manager_ends_orderly_and_its_runs_go_on(a_server):
    a_server.start()
    [id] = a_server.client().submit(job("sleep", "600"))
    eventually(lambda: phase(a_server.client(), id) == "RUNNING")
    following = a_server.client().events(follow=True)
    assert next(following)
    assert a_server.terminate() == 0
    assert not (a_server.home / "manager.sock").exists()
    assert a_server.about is None
    a_server.start()
    assert phase(a_server.client(), id) == "RUNNING"
    assert len(a_server.client().runs(id)) == 1
    assert next(following)["job_id"] == id  # the stream found the new manager and goes on
    following.close()


# In the globals of the Controller: an exception in the code of a plug-in is no bug of the manager.
POISON = """
from tiresias.core import controller

exec('''
def poisoned(self, at, step, plan=Controller._plan):
    assert all(job.job.name != "poison" for job in self.state.jobs.values()), "a claim that is not true"
    plan(self, at, step)

Controller._plan = poisoned
''', vars(controller))
"""


def test_a_bug_within_the_manager_ends_it_and_loses_nothing(tmp_path):
    (tmp_path / "fragile.py").write_text(POISON)
    made = Server(tmp_path / "h", plugins=[str(tmp_path / "fragile.py")]).start()
    [id] = made.client().submit(job("sleep", "600"))
    eventually(lambda: phase(made.client(), id) == "RUNNING")
    with pytest.raises(Unreachable):
        made.client().submit(job(name="poison"))
    assert made.process.wait(DEADLINE_S) == 1
    assert "a claim that is not true" in made.log()
    made.start()
    try:
        assert [each["id"] for each in made.client().jobs(all=True)] == [id]
        assert phase(made.client(), id) == "RUNNING"
        assert len(made.client().runs(id)) == 1
    finally:
        made.stop()


def test_a_bug_that_touched_nothing_is_an_answer_and_the_manager_goes_on(server, admin):
    log = server.home / "jobs" / "log"
    [id] = admin.submit(job())
    until_ended(admin, id)
    runs = server.home / "jobs" / str(id) / "runs" / "1"
    runs.rename(log)
    runs.write_text("not a directory")
    with pytest.raises(ApiError) as trouble:
        admin.logs(id)
    assert (trouble.value.status, trouble.value.code) == (500, "internal")
    assert "log" in trouble.value.message
    assert admin.status()["pid"] == server.process.pid


def test_the_socket_and_the_journal_are_for_the_managers_user_only(server):
    for name in ("manager.sock", "journal.db", "manager.log"):
        assert stat.S_IMODE((server.home / name).stat().st_mode) == 0o600, name


def test_a_group_may_use_the_socket_and_sees_nothing_else(tmp_path):
    group = grp.getgrgid(os.getgid()).gr_name
    made = Server(tmp_path / "h", group=group).start()
    try:
        socket_file = (made.home / "manager.sock").stat()
        assert (stat.S_IMODE(socket_file.st_mode), socket_file.st_gid) == (0o660, os.getgid())
        assert stat.S_IMODE(made.home.stat().st_mode) & 0o070 == 0o010
        assert stat.S_IMODE((made.home / "journal.db").stat().st_mode) == 0o600
    finally:
        made.stop()


def test_a_home_that_lies_very_deep_has_a_socket_too(tmp_path):
    home = tmp_path / ("d" * 60) / ("e" * 60)
    home.parent.mkdir()
    made = Server(home).start()
    try:
        assert made.client().status()["slots"] == 2
    finally:
        assert made.stop() == 0


def test_what_is_said_of_a_running_manager_is_true(server, admin):
    about = server.about
    assert about["pid"] == server.process.pid
    assert about["socket"] == str(server.home / "manager.sock")
    assert about["url"].startswith("http://127.0.0.1:")
    process = procfs.look(about["pid"])
    assert process is not None
    assert about["start"] == process.start


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("{", ["options.json"]),
        ("[]", ["options.json"]),
        ({"fake_gpus": 2, "policy": "no-such"}, ["no-such"]),
        ({"fake_gpus": 2, "listen": "8080"}, ["8080", "HOST:PORT"]),
        ({"fake_gpus": 2, "listen": "0.0.0.0:0"}, ["0.0.0.0", "token"]),
        ({"fake_gpus": 2, "group": "no-such-group"}, ["no-such-group"]),
        ({"fake_gpus": 0}, ["0"]),
        ({"fake_gpu": 2}, ["fake_gpu"]),
        ({"fake_gpus": "two"}, ["fake_gpus", "two"]),
        ({"fake_gpus": 2, "set": []}, ["set", "[]"]),
    ],
)
def test_options_that_make_no_sense_are_named(tmp_path, refused, options, words):
    (tmp_path / "options.json").write_text(options if isinstance(options, str) else json.dumps(options))
    code, message = refused(tmp_path)
    assert code == 2, message
    for word in words:
        assert word in message
    assert not (tmp_path / "manager.sock").exists()


def test_an_unreadable_journal_is_named_and_left_as_it_is(tmp_path, refused):
    (tmp_path / "options.json").write_text('{"fake_gpus": 2}')
    (tmp_path / "journal.db").write_bytes(b"this is no database" * 100)
    code, message = refused(tmp_path)
    assert code == 1
    assert str(tmp_path / "journal.db") in message
    assert (tmp_path / "journal.db").read_bytes() == b"this is no database" * 100


def test_something_else_in_the_sockets_place_is_not_removed(tmp_path, refused):
    (tmp_path / "options.json").write_text('{"fake_gpus": 2}')
    (tmp_path / "manager.sock").write_text("mine")
    code, message = refused(tmp_path)
    assert code == 2
    assert str(tmp_path / "manager.sock") in message
    assert (tmp_path / "manager.sock").read_text() == "mine"


def test_a_port_that_is_taken_is_named(tmp_path, refused):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        (tmp_path / "options.json").write_text(json.dumps({"fake_gpus": 2, "listen": address}))
        code, message = refused(tmp_path)
    assert (code, address in message) == (2, True)


def test_where_no_manager_is_the_client_says_how_to_start_one(tmp_path):
    with pytest.raises(Unreachable, match="tir up") as trouble:
        Client(tmp_path).status()
    assert str(tmp_path) in trouble.value.message
    with pytest.raises(ApiError, match="http://HOST:PORT"):
        Client(url="127.0.0.1:80")


def test_every_file_of_a_rotated_log_is_private(tmp_path, monkeypatch):
    monkeypatch.setattr(serve, "LARGEST_LOG_BYTES", 100)
    before = os.umask(0o022)
    try:
        with serve.logging_to(tmp_path / "manager.log"):
            for number in range(10):
                serve.log.info("line %d of a log that is rotated at each line, as it is so long", number)
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert modes == dict.fromkeys(["manager.log", *(f"manager.log.{n}" for n in (1, 2, 3))], 0o600)


def test_a_log_on_a_full_disk_is_no_error_while_it_is_written_nor_when_it_is_closed(tmp_path, capsys):
    with serve.logging_to(tmp_path / "manager.log"):
        [log] = [each for each in logging.getLogger().handlers if isinstance(each, serve.PrivateLog)]
        before = log.setStream(os.fdopen(os.open("/dev/full", os.O_WRONLY), "w"))
        serve.log.error("cannot commit, trying again")
    before.close()
    assert "Traceback" not in capsys.readouterr().err
