"""ls, show and why: what is where, and why."""

from __future__ import annotations

import re

from live_cli import eventually

from tiresias.cli.live import job_text
from tiresias.cli.live.job_tables import listing
from tiresias.core.model import Phase

FIELDS = [
    "id", "name", "user", "phase", "reason", "gpus", "runs", "preemptions", "service_gpu_s", "submitted_at",
    "first_started_at", "finished_at", "exit_code", "progress",
]  # fmt: skip


REPORTER = """
import time
from tiresias import job
job.report(step=25, total_steps=100, loss=0.5)
time.sleep(100)
"""


def is_running(tir, id: int) -> bool:
    return any(job["id"] == id and job["phase"] == "RUNNING" for job in tir("ls", "-o", "json").json)


def test_the_list_for_programs_has_the_fields_that_are_promised_in_their_order(tir):
    id = tir("submit", "-g", "2", "-n", "listed", "--", "sleep", "100").id
    eventually(lambda: is_running(tir, id))
    [job] = tir("ls", "-o", "json").json
    assert list(job)[: len(FIELDS)] == FIELDS
    assert (job["id"], job["name"], job["phase"], job["gpus"], job["runs"]) == (id, "listed", "RUNNING", 2, 1)
    assert job["finished_at"] is None
    assert tir("ls", "-o", "json", "-s", "pending").json == []


def test_ended_jobs_are_listed_when_asked_for_the_latest_first(tir):
    ids = []
    for _ in range(2):  # one after the other: jobs that run at the same time may end in any order
        ids.append(tir("submit", "-n", "over", "--", "true").id)
        tir("wait", ids[-1])
    assert tir("ls", "-o", "json").json == []
    found = tir("ls", "--all", "-o", "json", "--limit", "2").json
    assert [job["id"] for job in found] == ids[::-1]
    found = tir("ls", "-s", "succeeded", "-o", "json", "-l", "2").json
    assert {job["phase"] for job in found} == {"SUCCEEDED"}
    assert tir("ls").out == "no jobs\n"


def test_jobs_of_one_user(tir, client):
    id = tir("submit", "--", "sleep", "100").id
    me = client.whoami()["user"]
    assert [job["id"] for job in tir("ls", "-u", "me", "-o", "json").json] == [id]
    assert [job["id"] for job in tir("ls", "-u", me, "-o", "json").json] == [id]
    assert tir("ls", "-u", "nobody-like-that", "-o", "json").json == []


def test_every_phase_can_be_asked_for_and_has_a_colour(tir):
    assert set(job_text.PHASES) == set(Phase) == set(job_text.COLOURS)
    assert set(job_text.ENDED) == {Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED}
    for phase in Phase:
        assert tir("ls", "--phase", phase.lower(), "-o", "json").code == 0


def test_a_phase_that_there_is_not_is_named(tir):
    done = tir("ls", "-s", "runing")
    assert done.code == 2
    assert "'RUNING'" in done.err
    assert "RUNNING" in done.err


def test_the_table_says_in_a_line_what_is_the_matter(tir, client):
    first = tir("submit", "-g", "4", "--no-preempt", "-n", "first", "--", "sleep", "100").id
    eventually(lambda: is_running(tir, first))
    tir("submit", "-g", "2", "-n", "second", "--", "sleep", "100")
    held = tir("submit", "-n", "third", "--", "sleep", "100").id
    tir("hold", held)
    lines = tir("ls").out.splitlines()
    assert re.search(r"first .*RUNNING", lines[2])
    assert re.search(r"second .*PENDING .*other jobs are ahead", lines[3])
    assert re.search(r"third .*HELD .*tir release", lines[4])
    assert "\x1b" not in "".join(lines)
    wide = tir("ls", "-o", "wide").out.splitlines()[0].split()
    assert wide[-1] == "REASON"
    assert {"RANK", "RUNS", "PREEMPTED", "GPU-H", "SUBMITTED"} <= set(wide)


def test_the_table_has_the_exit_code_of_a_failure_whose_cause_is_not_known(tir):
    id = tir("submit", "--retries", "0", "--", "sh", "-c", "exit 3").id
    assert tir("wait", id).code == 3
    assert re.search(r"FAILED .*failed for an unknown reason: exit code 3$", tir("ls", id).out, re.MULTILINE)


def test_progress_is_shown_as_far_as_the_training_tells_it(tir, tmp_path):
    (tmp_path / "t.py").write_text(REPORTER)
    id = tir("submit", "-n", "reporter", "--", "python", "t.py").id

    def reported() -> dict | None:
        [job] = tir("ls", "-o", "json").json
        return job["progress"]

    progress = eventually(reported)
    assert (progress["step"], progress["fraction"]) == (25, 0.25)
    assert "25%" in tir("ls").out
    assert "step 25 of 100, 25%" in tir("show", id).out
    assert "loss 0.5" in tir("show", id).out


def test_a_narrow_terminal_keeps_what_matters(tir, in_terminal):
    name = "a-very-long-name-of-a-training-that-nobody-would-ever-type-lr=1e-3-seed=42"
    tir("submit", "-n", name, "--begin", "+1h", "--", "true")
    for columns in (80, 120):
        terminal = in_terminal("ls", columns=columns)
        assert terminal.exit_code() == 0
        lines = [line for line in terminal.lines() if line.strip()]
        assert all(len(line) <= columns for line in lines)
        assert lines[0].split() == ["ID", "NAME", "USER", "GPUS", "PHASE", "SINCE", "PROGRESS", "REASON"]
        assert "PENDING" in lines[2]
        assert "a-very-long" in lines[2]
        assert "…" in lines[2]
    assert name in tir("ls").out  # a pipe loses nothing


def test_on_a_terminal_an_empty_list_says_where_ended_jobs_are(tir, in_terminal):
    terminal = in_terminal("ls")
    terminal.read_until("no jobs\r\njobs that have ended: tir ls --all")
    assert terminal.exit_code() == 0
    assert tir("ls").err == ""


def test_watching_goes_on_until_ctrl_c(tir, client, in_terminal):
    terminal = in_terminal("ls", "--watch", "--interval", "0.1")
    terminal.read_until("no jobs")
    tir("submit", "-n", "newcomer", "--", "sleep", "100")
    terminal.read_until("newcomer")
    terminal.press_ctrl_c()
    assert terminal.exit_code() == 0
    assert "Traceback" not in terminal.seen


def test_show_tells_the_story_of_every_run(tir):
    program = "echo 'RuntimeError: CUDA out of memory. Tried to allocate 2 GiB'; exit 1"
    options = ("-n", "greedy", "--retries", "0", "--env", "TOKEN=very-secret")
    id = tir("submit", *options, "--", "sh", "-c", program).id
    tir("wait", id)
    text = tir("show", "greedy").out
    assert f"job {id} greedy  FAILED" in text
    assert "1 run:" in text
    assert "exit code 1" in text
    assert "CUDA out of memory" in text
    assert "very-secret" not in text + str(tir("show", id, "-o", "json").json)
    job = tir("show", id, "-o", "json").json
    assert "TOKEN" in job["env_names"]
    assert job["summary"]["exit_code"] == 1


def test_why_names_the_reason_who_is_ahead_and_the_next_step(tir):
    first = tir("submit", "-g", "4", "--no-preempt", "--", "sleep", "100").id
    eventually(lambda: is_running(tir, first))
    second = tir("submit", "-g", "2", "--", "sleep", "100").id
    reason = tir("why", second, "-o", "json").json
    assert (reason["code"], reason["ahead"], reason["free_gpus"]) == ("BehindHigherRank", [first], 0)
    text = tir("why", second).out
    assert f"ahead of it: job {first}\n" in text
    assert "free now: 0 GPUs\n" in text
    assert "tir ls" in text
    later = tir("submit", "--after", str(first), "--", "true").id
    assert f"job {first}" in tir("why", later).out


def test_a_job_that_there_is_not_is_exit_code_3(tir):
    for verb in ("show", "why", "logs", "cancel", "hold", "release", "requeue"):
        assert tir(verb, "999999").code == 3, verb
        done = tir(verb, "no-such-name")
        assert done.code == 3, verb
        assert "no-such-name" in done.err


def test_what_users_write_cannot_play_tricks_on_a_terminal(tir, client):
    program = "printf 'ImportError: \\033[2J\\033]0;evil\\007'; exit 1"
    id = tir("submit", "--retries", "0", "--", "sh", "-c", program).id
    tir("wait", id)
    assert "\x1b" not in tir("show", id).out + tir("why", id).out + tir("ls", "-a").out


def test_a_list_from_a_manager_that_is_not_yet_upgraded_is_shown(tir):
    """After an upgrade of the program the manager runs on in the former version: no elastic jobs."""
    tir("submit", "-g", "2", "-n", "former", "--", "sleep", "100")
    [job] = tir("ls", "-o", "json").json
    del job["min_gpus"], job["max_gpus"]
    assert "former" in str(listing([job], 0.0, wide=False))
