"""A person works in a job: run --pty, shell, attach, and what keeps such jobs from taking the cluster."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import struct
import termios

from live_cli import Terminal, Tir, eventually, start_in_terminal

SHELL = ("bash", "--norc", "-i")


def phase(client, ref) -> str:
    return client.job(ref)["summary"]["phase"]


def test_a_person_types_and_the_program_answers(in_terminal):
    terminal = in_terminal("run", "--pty", "--", "sh", "-c", "read name; echo hello $name; tty")
    terminal.read_until("Ctrl-] detaches")
    terminal.type("you\n")
    terminal.read_until("hello you")
    terminal.read_until("/dev/pts/")
    assert terminal.exit_code() == 0


def test_a_breakpoint_is_where_a_person_looks_at_the_program(in_terminal, tmp_path):
    (tmp_path / "train.py").write_text("loss = 0.25\nbreakpoint()\nprint('after', loss)\n")
    terminal = in_terminal("run", "--pty", "--", "python", "train.py")
    terminal.read_until(r"\(Pdb\)")
    terminal.type("p loss * 4\n")
    terminal.read_until(r"\n1\.0")
    terminal.type("c\n")
    terminal.read_until("after 0.25")
    assert terminal.exit_code() == 0


def test_the_exit_code_is_that_of_the_program_and_the_screen_is_not_searched_for_a_cause(in_terminal, client):
    terminal = in_terminal("run", "-n", "left", "--pty", "--", *SHELL)
    terminal.read_until(r"[$#] ")
    terminal.type("echo 'ValueError: long ago'; exit 7\n")
    assert terminal.exit_code() == 7
    run = client.job("left")["runs"][-1]
    assert run["sentence"] == "Its program ended with exit code 7."


def test_ctrl_c_and_ctrl_z_are_for_the_program(in_terminal):
    terminal = in_terminal("run", "--pty", "--", *SHELL)
    terminal.read_until(r"[$#] ")
    loop = "while :; do sleep 0.05; done"
    terminal.type(f"sh -c 'trap \"exit 7\" INT; echo read''y; {loop}'; echo \"code <$?>\"\n")
    terminal.read_until("ready")
    terminal.press_ctrl_c()
    terminal.read_until("code <7>")
    # It waits by itself: a shell whose child is stopped between vfork and exec cannot be stopped before that.
    terminal.type("sh -c 'echo agai''n; read line; :'\n")
    terminal.read_until("again")
    terminal.type("\x1a")
    terminal.read_until("Stopped")
    terminal.type("kill %1; exit 0\n")
    terminal.type("exit 0\n")
    assert terminal.exit_code() == 0


def test_who_detaches_finds_everything_again(in_terminal, tir, client):
    terminal = in_terminal("run", "-n", "kept", "--pty", "--", *SHELL)
    terminal.read_until(r"[$#] ")
    terminal.type("x=17; echo s''et\n")
    terminal.read_until("set")
    terminal.type("\x1d")
    terminal.read_until("detached: job .* continues")
    assert terminal.exit_code() == 0
    assert phase(client, "kept") == "RUNNING"
    again = in_terminal("attach", "kept")
    again.read_until("set")  # what was on the screen
    again.type("echo $((x + 1))\n")
    again.read_until("18")
    again.type("exit\n")
    assert again.exit_code() == 0
    assert phase(client, "kept") == "SUCCEEDED"


def test_a_connection_that_is_lost_leaves_the_job_alone(in_terminal, client):
    terminal = in_terminal("run", "-n", "lost", "--pty", "--", *SHELL)
    terminal.read_until(r"[$#] ")
    os.kill(terminal.pid, signal.SIGHUP)
    terminal.exit_code()
    assert phase(client, "lost") == "RUNNING"
    in_terminal("attach", "lost").read_until(r"[$#] ")


def resize(terminal: Terminal, rows: int, columns: int) -> None:
    fcntl.ioctl(terminal.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def test_the_window_of_the_job_follows_that_of_the_person(in_terminal):
    script = "trap 'stty size' WINCH; stty size; while :; do sleep 0.05; done"
    terminal = in_terminal("run", "--pty", "--", "sh", "-c", script, columns=77)
    terminal.read_until("30 77")
    resize(terminal, 41, 133)
    terminal.read_until("41 133")


def test_a_restart_of_the_manager_does_not_end_the_session(tmp_path):
    home = tmp_path / "home"
    program = Tir(home)
    try:
        assert program("up", "--fake-gpus", "1").code == 0
        terminal = start_in_terminal(home, tmp_path, ["run", "--pty", "--", *SHELL], 100)
        try:
            terminal.read_until(r"[$#] ")
            terminal.type("y=20; echo befor''e\n")
            terminal.read_until("before")
            manager = json.loads((home / "manager.json").read_text())["pid"]
            os.kill(manager, signal.SIGKILL)
            terminal.type("echo $((y + 3))\n")  # nobody is there to take it
            assert program("up").code == 0
            terminal.read_until("23")
            terminal.type("exit 0\n")
            assert terminal.exit_code() == 0
            assert terminal.seen.count("\r23\r") == 1
        finally:
            terminal.close()
    finally:
        program("down", "--stop-jobs")


def test_ctrl_c_while_it_waits_cancels_it(in_terminal, tir, client):
    tir("submit", "-g", "4", "--no-preempt", "--", "sleep", "1000")
    terminal = in_terminal("run", "-n", "impatient", "--pty", "--", *SHELL)
    terminal.read_until("waits:")
    terminal.press_ctrl_c()
    assert terminal.exit_code() == 130
    eventually(lambda: phase(client, "impatient") == "CANCELLED")


def test_a_shell_is_one_word(in_terminal, client):
    terminal = in_terminal("shell", "-g", "0")
    terminal.read_until("Ctrl-] detaches")
    terminal.type("echo $TIRESIAS_JOB_NAME\n")
    terminal.read_until("\nshell")
    terminal.type("exit 0\n")
    assert terminal.exit_code() == 0


def test_cancel_ends_a_shell_at_once_though_it_ignores_sigterm(in_terminal, tir, client):
    terminal = in_terminal("run", "-n", "stubborn", "--pty", "--", *SHELL)
    terminal.read_until(r"[$#] ")
    tir("cancel", "stubborn")
    terminal.exit_code()
    assert "killed" not in client.job("stubborn")["runs"][-1]["sentence"]


def test_without_a_terminal_pty_is_refused(tir):
    done = tir("run", "--pty", "--", "true")
    assert done.code == 2
    assert "standard input is not a terminal" in done.err
    assert "tir shell connects this terminal" in tir("shell").err


def test_a_job_without_a_terminal_cannot_be_attached_to(in_terminal, tir):
    id = tir("submit", "--", "sleep", "1000").id
    terminal = in_terminal("attach", str(id))
    terminal.read_until("has no terminal; submit it with --pty")
    assert terminal.exit_code() == 2


# --- what keeps interactive jobs from taking the cluster ------------------------------------------------


def test_interactive_jobs_hold_a_share_of_the_gpus_at_most(tir, client):
    refused = tir("submit", "-g", "2", "--pty", "--", "cat")
    assert refused.code != 0
    assert "interactive jobs may hold 1 together" in refused.err
    first = tir("submit", "--pty", "--", "cat").id
    eventually(lambda: phase(client, first) == "RUNNING")
    second = tir("submit", "--interactive", "--", "sleep", "1000").id
    why = client.why(second)
    assert why["code"] == "InteractiveLimit"
    assert "limit of interactive jobs reached" in tir("ls").out
    tir("cancel", first)
    eventually(lambda: phase(client, second) == "RUNNING")


def test_a_user_has_two_interactive_jobs_at_most(tir):
    for _ in range(2):
        assert tir("submit", "-g", "0", "--pty", "--", "cat").code == 0
    third = tir("submit", "-g", "0", "--pty", "--", "cat")
    assert third.code != 0
    assert "may have 2 interactive jobs at once and has 2" in third.err


def test_a_job_in_which_a_person_works_is_not_preempted(tir, client):
    id = tir("submit", "--pty", "--", "cat").id
    eventually(lambda: phase(client, id) == "RUNNING")
    detail = client.job(id)
    assert not detail["preemptible"]
    assert (detail["idle_limit_s"], detail["time_limit_s"], detail["retries"]) == (3600.0, 43200.0, 0)
    tir("submit", "-g", "4", "--", "true")
    assert phase(client, id) == "RUNNING"


def test_limits_longer_than_those_of_the_lab_are_refused(tir):
    assert "may last 12.0 h at most" in tir("submit", "--pty", "--time", "2d", "--", "cat").err
    assert "may be idle for 60 min at most" in tir("submit", "--pty", "--idle-limit", "2h", "--", "cat").err
    id = tir("submit", "--pty", "--", "cat").id
    assert "may last 12.0 h at most" in tir("set", id, "time=2d").err


def test_a_session_that_nobody_uses_is_warned_and_ended(in_terminal, client):
    terminal = in_terminal("run", "-n", "forgotten", "--pty", "--idle-limit", "2s", "--", *SHELL)
    terminal.read_until("it is ended in")
    assert terminal.exit_code() > 0
    assert "Nobody used it for 2 s, so it was ended." in terminal.seen
    assert client.job("forgotten")["why"]["code"] == "Idle"


def test_a_failing_session_is_no_reason_to_refuse_the_next_one(in_terminal):
    for _ in range(5):
        terminal = in_terminal("run", "--pty", "--", "sh", "-c", "echo 'ValueError: x'; exit 1")
        assert terminal.exit_code() == 1
        assert "refused" not in terminal.seen


def test_a_terminal_is_that_of_one_process(tir):
    done = tir("submit", "--pty", "-g", "1", "--launcher", "per-gpu", "--", "cat")
    assert "a terminal is that of one process" in done.err
    assert "leave --preflight out" in tir("submit", "--pty", "--preflight", "--", "cat").err
