"""Every command that the manager advises is carried out as it is printed, and works."""

from __future__ import annotations

import re
import shlex

from live_cli import eventually


def phase(client, id: int) -> str:
    return client.job(id)["summary"]["phase"]


def advised(text: str) -> list[list[str]]:
    """The commands in a text, without the name of the program."""
    return [shlex.split(each)[1:] for each in re.findall(r"`(tir [^`]+)`", text)]


def follow(tir, text: str) -> list[str]:
    """Carry out every command in the text; their verbs."""
    commands = advised(text)
    assert commands, ("no command is advised", text)
    for command in commands:
        done = tir(*command)
        assert done.code == 0, (command, done.err)
    return [command[0] for command in commands]


def ended(tir, client, *command: str) -> int:
    id = tir("submit", *command).id
    eventually(lambda: phase(client, id) in ("FAILED", "SUCCEEDED", "CANCELLED"))
    return id


def test_a_mistake_in_the_code_is_shown_by_its_own_line_and_not_run_again(tir, client, tmp_path):
    script = tmp_path / "train.py"
    for text, line in (
        ("def f():\n    raise ValueError('bad')\nf()\n", "ValueError: bad (train.py, line 2, in f)"),
        ("import apexx\n", "ModuleNotFoundError: No module named 'apexx' (train.py, line 1)"),
        ("input('name? ')\n", "EOFError: EOF when reading a line (train.py, line 1)"),
    ):
        script.write_text(text)
        id = ended(tir, client, "--force", "--", "python", str(script))
        assert phase(client, id) == "FAILED"
        assert client.job(id)["summary"]["runs"] == 1
        assert line in client.why(id)["text"]
        assert follow(tir, client.why(id)["next_step"]) == ["logs"]


def test_a_run_that_somebody_killed_is_called_killed(tir, client):
    id = ended(tir, client, "--retries", "0", "--", "sh", "-c", "kill -9 $$")
    assert client.job(id)["summary"]["reason"] == "Killed"
    assert "memory" not in tir("ls", "--all", str(id)).out


def test_after_a_time_limit_the_advice_gives_the_job_more_time(tir, client):
    id = ended(tir, client, "--time", "1s", "--grace", "1s", "--", "sleep", "1000")
    why = client.why(id)
    assert why["code"] == "TimeLimit"
    assert follow(tir, why["next_step"]) == ["again"]
    newest = max(job["id"] for job in client.jobs(all=True))
    assert client.job(newest)["time_limit_s"] == 2
    assert tir("cancel", newest, "--now").code == 0


def test_the_advice_about_jobs_that_wait(tir, client):
    held = tir("submit", "--hold", "--", "sleep", "0").id
    assert follow(tir, client.why(held)["next_step"]) == ["release"]
    failed = ended(tir, client, "--retries", "0", "--", "false")
    missing = tir("why", "987654")
    assert missing.code != 0
    assert follow(tir, missing.err) == ["ls"]
    first = tir("submit", "--", "sleep", "1000").id
    behind = tir("submit", "--after", first, "--", "sleep", "0").id
    assert tir("cancel", first, "--now").code == 0
    eventually(lambda: phase(client, behind) == "FAILED")
    assert follow(tir, client.why(behind)["text"]) == ["show"]
    assert follow(tir, client.why(failed)["next_step"]) == ["logs"]


def test_the_advice_about_gpus_that_are_out_of_service(tir, client):
    [node] = client.nodes()
    id = tir("submit", "-g", node["gpus"], "--hold", "--", "sleep", "0").id
    assert tir("drain", f"{node['name']}:0").code == 0
    assert tir("release", id).code == 0
    why = client.why(id)
    assert why["code"] == "OutOfService"
    [cancel, undrain] = advised(why["next_step"])
    assert undrain == ["undrain", f"{node['name']}:0"]
    assert tir(*cancel).code == 0
    assert tir(*undrain).code == 0
