"""run, wait and logs: stay with a job."""

from __future__ import annotations

import signal
import subprocess

from live_cli import PROGRAM, environment, eventually

FIRST_STOPPED = "trap 'exit 75' TERM; echo run $TIRESIAS_RUN; test $TIRESIAS_RUN = 2 || sleep 1000 & wait"


def running(client, name: str) -> int:
    def find() -> int | None:
        jobs = [job for job in client.jobs() if job["name"] == name and job["phase"] == "RUNNING"]
        return jobs[0]["id"] if jobs else None

    return eventually(find)


def phase(client, id: int) -> str:
    return client.job(id)["summary"]["phase"]


def test_run_prints_the_output_and_exits_with_the_jobs_code(tir):
    good = tir("run", "-g", "1", "--", "sh", "-c", "printf 'no line end'; echo err >&2")
    assert (good.code, good.out) == (0, "no line enderr\n")
    bad = tir("run", "--", "sh", "-c", "echo before; exit 7")
    assert (bad.code, bad.out) == (7, "before\n")
    assert "FAILED" in bad.err
    quiet = tir("run", "-q", "--", "false")
    assert (quiet.code, quiet.err) == (1, "")


def test_a_failure_under_somebodys_eyes_is_final_unless_asked_otherwise(tir, client):
    tir("run", "-n", "once", "--", "false")
    assert client.job("once")["summary"]["runs"] == 1


def test_a_job_that_is_cancelled_is_no_success(tir, client, shared_home):
    process = subprocess.Popen(
        [*PROGRAM, "run", "-n", "victim", "--", "sleep", "1000"],
        env=environment(shared_home),
        stderr=subprocess.PIPE,
    )
    with process:
        client.cancel(running(client, "victim"))
        assert process.wait() == 1
        assert b"CANCELLED" in process.stderr.read()


def test_run_says_why_it_waits_and_follows_over_runs(tir, client, in_terminal):
    blocker = tir("submit", "-g", "4", "--no-preempt", "--", "sleep", "1000").id
    terminal = in_terminal("run", "-n", "patient", "--", "sh", "-c", FIRST_STOPPED)
    terminal.read_until("waits: .*ahead")
    client.cancel(blocker)
    terminal.read_until("run 1")
    client.requeue(running(client, "patient"))
    terminal.read_until("run 2 of job")
    assert terminal.exit_code() == 0


def test_ctrl_c_once_leaves_the_job_alone(in_terminal, client):
    terminal = in_terminal("run", "-n", "left", "--", "sh", "-c", "echo up; sleep 1000")
    terminal.read_until("up")
    assert "standard input is closed for it" in terminal.seen
    terminal.press_ctrl_c()
    terminal.read_until(r"continues. Ctrl-C again within 2 s cancels it")
    assert terminal.exit_code() == 130
    assert "Traceback" not in terminal.seen
    running(client, "left")


def test_ctrl_c_twice_cancels_the_job(in_terminal, client):
    terminal = in_terminal("run", "-n", "ended", "--", "sh", "-c", "echo up; exec sleep 1000")
    terminal.read_until("up")
    terminal.press_ctrl_c()
    terminal.read_until("Ctrl-C again")
    terminal.press_ctrl_c()
    assert terminal.exit_code() == 130
    assert phase(client, client.job("ended")["summary"]["id"]) == "CANCELLED"


def test_ctrl_c_may_cancel_at_once(in_terminal, client):
    terminal = in_terminal(
        "run", "--cancel-on-interrupt", "-n", "at-once", "--", "sh", "-c", "echo up; exec sleep 1000"
    )
    terminal.read_until("up")
    terminal.press_ctrl_c()
    assert terminal.exit_code() == 130
    assert phase(client, client.job("at-once")["summary"]["id"]) == "CANCELLED"


def test_waiting_may_have_an_end(tir, client):
    done = tir("run", "--timeout", "1s", "-n", "endless", "--", "sleep", "1000")
    assert done.code == 124
    assert "has not ended after 1 s and continues" in done.err
    assert tir("wait", "endless", "--timeout", "1s").code == 124
    assert phase(client, running(client, "endless")) == "RUNNING"


def test_wait_ends_with_the_first_failure(tir):
    good = tir("submit", "--", "true").id
    bad = tir("submit", "--retries", "0", "--", "sh", "-c", "exit 5").id
    done = tir("wait", good, bad, good)
    assert done.code == 5
    assert f"job {good} (true): SUCCEEDED" in done.out
    assert tir("wait", "-q", good).out == ""
    assert [job["exit_code"] for job in tir("wait", good, bad, "-o", "json").json] == [0, 5]
    assert tir("wait", "999999").code == 3


def test_run_follows_one_job_only(tir):
    done = tir("run", "--array", "0-3", "--", "true")
    assert done.code == 2
    assert "tir submit" in done.err


def test_logs_are_bytes_of_the_run_and_worker_asked_for(tir, client):
    program = "printf '\\377%s\\n' $TIRESIAS_WORKER"
    id = tir("submit", "-g", "2", "--workers", "2", "--", "sh", "-c", program).id
    tir("wait", id)
    for worker in (0, 1):
        command = [*PROGRAM, "logs", str(id), "--worker", str(worker)]
        done = subprocess.run(command, env=environment(tir.home), capture_output=True)
        assert done.stdout == b"\xff%d\n" % worker
    assert tir("logs", id, "--run", "2").code == 3
    assert tir("logs", id, "--worker", "9").code == 3


def test_logs_of_the_end_of_another_run_and_of_a_job_by_name(tir, client):
    id = tir("submit", "-n", "talker", "--", "sh", "-c", FIRST_STOPPED).id
    running(client, "talker")
    eventually(lambda: "run 1" in client.logs(id).decode())
    assert tir("requeue", "talker").code == 0
    tir("wait", id)
    assert tir("logs", "talker").out == "run 2\n"
    assert tir("logs", id, "--run", "1").out == "run 1\n"
    assert tir("logs", id, "-f", "--run", "1").out == "run 1\nrun 2\n"
    many = tir("submit", "--", "seq", "1", "100").id
    tir("wait", many)
    assert tir("logs", many, "--tail", "2").out == "99\n100\n"
    assert tir("logs", many, "--tail", "0").out == ""


def test_following_ends_with_the_job_and_misses_nothing(tir, shared_home):
    id = tir("submit", "--", "sh", "-c", "for i in 1 2 3 4 5; do echo $i; sleep 0.1; done").id
    command = [*PROGRAM, "logs", "-f", str(id)]
    done = subprocess.run(command, env=environment(shared_home), capture_output=True)
    assert (done.returncode, done.stdout) == (0, b"1\n2\n3\n4\n5\n")


def test_logs_of_a_job_that_has_not_run_say_why(tir):
    id = tir("submit", "--begin", "+1h", "--", "true").id
    done = tir("logs", id)
    assert done.code == 3
    assert "has not run" in done.err


def test_a_reader_that_went_away_is_silent(tir, shared_home):
    id = tir("submit", "--", "seq", "1", "1000000").id
    tir("wait", id)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([*PROGRAM, "logs", str(id)], env=environment(shared_home), **pipes)
    with process:
        process.stdout.read(10)
        process.stdout.close()
        assert process.stderr.read() == b""


def test_a_program_that_is_signalled_to_end_leaves_the_job_alone(shared_home, client):
    command = [*PROGRAM, "run", "-n", "survivor", "--", "sleep", "1000"]
    with subprocess.Popen(command, env=environment(shared_home)) as process:
        id = running(client, "survivor")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM
    assert phase(client, id) == "RUNNING"
