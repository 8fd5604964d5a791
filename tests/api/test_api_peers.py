"""Other users of the machine, known by the credentials of their connection; only root can be another."""

from __future__ import annotations

import grp
import json
import os
import pwd
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from api_server import Server, job, until_ended

from tiresias.api.client import ApiError, Client

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")


@pytest.fixture(scope="module")
def shared() -> Iterator[Server]:
    """A manager of root's that the group of nobody may use, in a place that nobody can reach."""
    place = Path(tempfile.mkdtemp())
    place.chmod(0o711)
    group = grp.getgrgid(pwd.getpwnam("nobody").pw_gid).gr_name
    made = Server(place / "h", group=group)
    try:
        yield made.start()
    finally:
        made.stop()
        shutil.rmtree(place)


def as_user(name: str, do: Callable[[], Any]) -> Any:
    """What it returns (or refuses) in a process of that user."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            account = pwd.getpwnam(name)
            os.setgroups([])
            os.setgid(account.pw_gid)
            os.setuid(account.pw_uid)
            try:
                answer = {"value": do()}
            except ApiError as error:
                answer = {"status": error.status, "code": error.code, "message": error.message}
            os.write(writing, json.dumps(answer).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        answer = json.loads(file.read())
    os.waitpid(child, 0)
    if "value" not in answer:
        raise ApiError(**answer)
    return answer["value"]


def test_the_managers_own_user_is_an_admin_and_another_is_a_user(shared):
    assert shared.client().whoami() == {"user": "root", "role": "admin"}
    assert as_user("nobody", lambda: Client(shared.home).whoami()) == {"user": "nobody", "role": "user"}


def test_a_run_belongs_to_its_submitter(shared):
    [id] = as_user("nobody", lambda: Client(shared.home).submit(job("id", "-un")))
    assert until_ended(shared.client(), id)["phase"] == "SUCCEEDED", shared.client().runs(id)
    assert shared.client().logs(id) == b"nobody\n"
    assert as_user("nobody", lambda: Client(shared.home).logs(id).decode()) == "nobody\n"


def test_a_run_can_save_in_its_checkpoint_directory(shared):
    save = ("sh", "-c", 'echo 1 > "$TIRESIAS_CHECKPOINT_DIR/step"')
    [id] = as_user("nobody", lambda: Client(shared.home).submit(job(*save)))
    assert until_ended(shared.client(), id)["phase"] == "SUCCEEDED", shared.client().logs(id)


def test_another_user_cannot_touch_an_admins_job_or_read_the_journal(shared):
    [id] = shared.client().submit(job(begin_at=4e9))
    with pytest.raises(ApiError) as refused:
        as_user("nobody", lambda: Client(shared.home).cancel(id))
    assert refused.value.status == 403
    readable = as_user("nobody", lambda: os.access(shared.home / "journal.db", os.R_OK))
    assert not readable
    assert not as_user("nobody", lambda: os.access(shared.home / "manager.log", os.R_OK))


def test_a_user_outside_the_group_gets_the_next_step(shared):
    with pytest.raises(ApiError) as refused:
        as_user("daemon", lambda: Client(shared.home).whoami())
    assert (refused.value.status, refused.value.code) == (403, "denied")
    assert "--group" in refused.value.message


def test_a_root_manager_makes_tokens_for_accounts_only(shared):
    with pytest.raises(ApiError, match="no-such-account") as refused:
        shared.client().create_token("x", "no-such-account")
    assert refused.value.status == 422
