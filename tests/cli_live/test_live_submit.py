"""Submitting: every way to say what shall run, and every way to say it wrong."""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from live_cli import PROGRAM, Program, environment, eventually

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


def ended(client, id: int) -> dict:
    """The job, once it has ended."""
    return eventually(lambda: (job := client.job(id))["summary"]["phase"] in ENDED and job)


def output(client, id: int) -> str:
    assert ended(client, id)["summary"]["phase"] == "SUCCEEDED", client.logs(id)
    return client.logs(id).decode()


def test_a_command_runs_here_with_this_environment(tir, client, tmp_path, monkeypatch):
    monkeypatch.setenv("MINE", "from the shell")
    monkeypatch.setenv("TIRESIAS_TOKEN", "secret")
    command = ("sh", "-c", "pwd; echo $MINE; echo $GIVEN; echo $TIRESIAS_TOKEN")
    id = tir("submit", "--env", "GIVEN=a=b", "--", *command).id
    assert output(client, id) == f"{tmp_path}\nfrom the shell\na=b\n\n"


def test_only_the_id_is_on_stdout_and_json_has_it_too(tir):
    done = tir("submit", "-n", "quick", "--", "true")
    assert (done.code, done.out.strip().isdigit(), done.err) == (0, True, "")
    printed = tir("submit", "-o", "json", "--", "true").json
    assert printed == {"id": printed["ids"][0], "ids": printed["ids"], "arrays": []}


def test_what_is_asked_for_is_what_the_manager_knows(tir, client, tmp_path):
    before = tir("submit", "--", "sleep", "100").id
    options = "-g 2 -n bert --workers 2 --grace 90s --retries 1 --time 8h --priority low --no-preempt"
    more = f"--after {before} --begin +1h --model resnet50 --ckpt-dir runs/a --tenant vision"
    id = tir("submit", *options.split(), *more.split(), "--", "sleep", "100").id
    job = client.job(id)
    of = job["summary"]
    assert (of["gpus"], of["name"], of["tenant"], of["priority"]) == (2, "bert", "vision", "low")
    assert (job["workers"], job["grace_s"], job["retries"], job["time_limit_s"]) == (2, 90, 1, 28800)
    assert (job["preemptible"], job["model"], job["after"]) == (False, "resnet50", [before])
    assert job["checkpoint_dir"] == str(tmp_path / "runs/a")
    assert of["reason"] == "Dependency"


def test_a_profile_goes_with_the_job_and_its_file_is_not_needed_again(tir, client, tmp_path):
    assert tir("profile", "vgg16", "--compute", "0.2", "--save", "mine.json").code == 0
    (tmp_path / "job.yaml").write_text("command: 'true'\nplacement: {profile: mine.json}\n")
    ids = [tir("submit", "--profile", "mine.json", "--", "true").id, tir("submit", "job.yaml").id]
    (tmp_path / "mine.json").unlink()
    [model] = {client.job(id)["model"] for id in ids}
    assert model.startswith("vgg16@")
    assert model in tir("show", ids[0]).out
    assert client.job(tir("submit", "--model", model, "--", "true").id)["model"] == model


def test_a_job_may_come_after_another_by_name(tir, client):
    first = tir("submit", "-n", "the-first", "--", "sleep", "100").id
    second = tir("submit", "--after", "the-first", "--", "true").id
    assert client.job(second)["after"] == [first]


def test_an_environment_of_its_own(tir, client, monkeypatch):
    monkeypatch.setenv("MINE", "from the shell")
    id = tir("submit", "--clean-env", "--env", "MINE", "--env", "A=1", "--", "/usr/bin/env").id
    given = {line.partition("=")[0] for line in output(client, id).splitlines()}
    assert {"MINE", "A", "TIRESIAS_JOB_ID"} <= given
    assert "HOME" not in {name for name in given if name not in ("PWD",)} or os.geteuid() == 0


def test_an_array_is_a_job_an_index(tir, client):
    ids = tir("submit", "--array", "3,5%1", "--", "sh", "-c", "echo {i} $TIRESIAS_ARRAY_INDEX").ids
    assert [output(client, id) for id in ids] == ["3 3\n", "5 5\n"]


def test_a_sweep_is_a_job_a_combination(tir, client):
    command = ("sh", "-c", "echo $0 $1 $TIRESIAS_SWEEP_SEED", "{lr}")
    ids = tir("submit", "-n", "s", "--sweep", "lr=0.1,0.2", "--sweep", "seed=7,8", "--", *command).ids
    assert [output(client, id) for id in ids] == [
        "0.1 --seed=7 7\n",
        "0.1 --seed=8 8\n",
        "0.2 --seed=7 7\n",
        "0.2 --seed=8 8\n",
    ]
    assert client.job(ids[2])["summary"]["name"] == "s-lr=0.2-seed=7"


def test_a_sweep_that_is_larger_than_one_request_is_submitted_whole(tir, client, monkeypatch):
    for number in range(12):
        monkeypatch.setenv(f"LARGE_{number}", "x" * 15_000)
    seeds = ",".join(map(str, range(30)))  # 30 jobs of 180 KB
    submitted = tir("submit", "--hold", "--name", "wide", "--sweep", f"seed={seeds}", "--", "true")
    ids = [int(line) for line in submitted.out.splitlines()]
    assert [client.job(id)["summary"]["name"] for id in ids] == [f"wide-seed={n}" for n in range(30)]
    for id in ids:
        client.cancel(id)


def test_a_sweep_that_is_refused_halfway_prints_what_was_submitted_and_goes_on_with_its_key(
    tir, client, monkeypatch
):
    for number in range(12):
        monkeypatch.setenv(f"LARGE_{number}", "x" * 15_000)
    me, active = client.whoami()["user"], sum(1 for _ in client.jobs())
    client.set_limits(me, max_active_jobs=active + 25)
    words = ("submit", "--hold", "--sweep", f"seed={','.join(map(str, range(30)))}", "--key", "halfway")
    try:
        refused = tir(*words, "--", "true")
    finally:
        client.set_limits(me)
    first = [int(line) for line in refused.out.splitlines()]
    assert refused.code != 0
    assert 0 < len(first) < 30
    assert f"{30 - len(first)} were not submitted; repeat the command with --key halfway" in refused.err
    ids = [int(line) for line in tir(*words, "--", "true").out.splitlines()]
    assert ids[: len(first)] == first
    assert len(set(ids)) == 30
    for id in ids:
        client.cancel(id)


def test_jobs_that_would_share_checkpoints_are_refused(tir, client):
    for many in (["--array", "0-1"], ["--sweep", "lr=1,2"]):
        done = tir("submit", *many, "--ckpt-dir", "runs", "--", "true")
        assert done.code == 2
        assert "overwrite each other's checkpoints" in done.err
    ids = tir("submit", "--sweep", "lr=1,2", "--ckpt-dir", "runs/{lr}", "--", "true").ids
    assert [Path(client.job(id)["checkpoint_dir"]).name for id in ids] == ["1", "2"]
    ids = tir("submit", "--array", "0-1", "--ckpt-dir", "runs/{i}", "--", "true").ids
    assert [Path(client.job(id)["checkpoint_dir"]).name for id in ids] == ["0", "1"]


def test_a_file_and_a_script_are_jobs(tir, client, tmp_path):
    (tmp_path / "job.yaml").write_text("name: from-file\ncommand: echo {word}\nparams: {word: hello}\n")
    id = tir("submit", "job.yaml", "--set", "word=bye", "-n", "over").id
    assert output(client, id) == "bye\n"
    assert client.job(id)["summary"]["name"] == "over"

    lines = ("#!/bin/sh", "#TIR -n scripted", "#SBATCH --mem=1G", "echo $1 $(basename $0)")
    (tmp_path / "job.sh").write_text("\n".join(lines))
    done = tir("submit", "job.sh", "argument")
    assert "ignored options of Slurm: --mem" in done.err
    assert output(client, done.id) == "argument job.sh\n"
    assert client.job(done.id)["summary"]["name"] == "scripted"


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ([], "there is no command; write"),
        (["--"], "there is no command after --"),
        (["-g", "1", "python", "t.py", "--lr", "3"], "no such option: --lr. If it belongs to your command"),
        (["--", "no-such-program-here"], "no program 'no-such-program-here' on PATH"),
        (["--", "cd", "src"], "a command is not given to a shell, so write bash -c"),
        (["--", "cd src && make"], "write bash -c 'cd src && make'."),
        (["--", "LR=3", "python", "train.py"], "give a variable with --env LR=3."),
        (["--", "bash", "job.sh"], "no file 'job.sh'"),
        (["--", "./not-there"], "there is no program './not-there'"),
        (["--", "python", "trian.py"], "there is no file 'trian.py'"),
        (["--", "my-script"], "to run the file here, write bash my-script."),
        (["--", "train.py"], "to run the file here, write python train.py."),
        (["--", "my-program"], "to run the file here, write ./my-program."),
        (["--", "python train.py --lr 3"], "write the command without quotes, or bash -c 'python train.py"),
        (["--gpu", "2", "--", "true"], "no such option: --gpu. Did you mean --gpus? See: "),
        (["--gpus-per-nodes=2", "--", "true"], "--gpus-per-nodes. Did you mean --gpus-per-node?"),
        (["-n", "a/b", "--", "true"], "a name has no slash"),
        (["-n", "x" * 201, "--", "true"], "give 0 to 200 characters"),
        (["--", "./my-script"], "chmod +x"),
        (["--workdir", "nowhere", "--", "true"], "nowhere: there is no such directory"),
        (["--model", "resnet51", "--", "true"], "no model 'resnet51'; near are resnet"),
        (["--profile", "none.json", "--", "true"], "--profile none.json: there is no such file"),
        (["--profile", "odd.json", "--", "true"], "odd.json: missing key 'parallelism'"),
        (["--profile", "my-script", "--model", "vgg16", "--", "true"], "contradict each other"),
        (["--workdir", "my-script", "--", "true"], "is not a directory"),
        (["--time", "8", "--", "true"], "--time '8': not a duration"),
        (["--begin", "soon", "--", "true"], "--begin 'soon': not an instant"),
        (["--priority", "urgent", "--", "true"], "--priority 'urgent': choose high"),
        (["--env", "NOT_SET_ANYWHERE", "--", "true"], "is not set in this shell"),
        (["--env", "=3", "--", "true"], "write NAME=VALUE"),
        (["--after", ",", "--", "true"], "names no job"),
        (["--array", "3-1", "--", "true"], "--array"),
        (["--set", "a=1", "--", "true"], "--set changes a job.yaml"),
        (["my-script", "--", "true"], "is before --"),
        (["nothing.yaml"], "nothing.yaml"),
        (["--launcher", "rocket", "--", "true"], "launcher 'rocket'"),
        (["-g", "5", "--gpus-per-node", "2", "--", "true"], "5 GPUs cannot be shared out in parts of 2"),
        (["--name", "12", "--", "true"], "name: a name of digits alone"),
        (["--workers", "2", "--", "true"], "workers: 2 workers cannot share 1 GPU"),
        (["--gpus", "-1", "--", "true"], "--gpus '-1': give a whole number from 0 up"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(tir, tmp_path, words, complaint):
    (tmp_path / "my-script").write_text("no first line")
    (tmp_path / "train.py").write_text("")
    (tmp_path / "my-program").touch(0o755)
    (tmp_path / "odd.json").write_text('{"format": 1, "name": "odd", "unseen_bytes": 9}')
    done = tir("submit", *words)
    assert done.code == 2
    assert complaint in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_a_directory_that_was_deleted_is_a_message(fresh, tmp_path):
    """The shell of a user may stand in a directory that somebody else has removed."""
    here = f"mkdir gone && cd gone && rmdir ../gone && exec {shlex.join([*PROGRAM, 'submit', '--', 'true'])}"
    env = environment(fresh.home)
    done = subprocess.run(["sh", "-c", here], cwd=tmp_path, env=env, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: the current directory was deleted")


def test_what_can_never_run_here_is_rejected(tir):
    done = tir("submit", "-g", "5", "--", "true")
    assert done.code == 6
    assert "asks for 5 GPUs, and there are 4" in done.err
    assert tir("submit", "--after", "999999", "--", "true").code == 3
    assert tir("submit", "--after", "nobody", "--", "true").code == 3


def test_a_job_may_be_submitted_on_hold_and_starts_when_it_is_released(tir, client):
    id = tir("submit", "--hold", "--", "echo", "released").id
    summary = client.job(id)["summary"]
    assert (summary["phase"], summary["reason"], summary["runs"]) == ("HELD", "Held", 0)
    assert "would be on hold" in tir("submit", "--dry-run", "--hold", "--", "true").out
    assert tir("release", id).code == 0
    assert output(client, id) == "released\n"


def test_a_held_job_stays_on_hold_when_what_it_comes_after_has_succeeded(tir, client):
    first = tir("submit", "--", "true").id
    second = tir("submit", "--hold", "--after", first, "--", "echo", "second").id
    ended(client, first)
    assert client.job(second)["summary"]["phase"] == "HELD"
    assert tir("release", second).code == 0
    assert output(client, second) == "second\n"


def test_a_comment_is_shown_and_can_be_changed(tir, client, tmp_path):
    (tmp_path / "job.sh").write_text("#SBATCH --comment='from Slurm'\ntrue\n")
    done = tir("submit", "--begin", "+1h", "job.sh")
    assert (client.job(done.id)["comment"], done.err) == ("from Slurm", "")
    id = tir("submit", "--begin", "+1h", "--comment", "first try", "--", "true").id
    assert "comment      first try\n" in tir("show", id).out
    assert tir("set", id, "comment=lr was too high").code == 0
    assert client.job(id)["comment"] == "lr was too high"


def test_force_submits_what_is_not_there_yet(tir, client):
    id = tir("submit", "--force", "--", "./made-later").id
    assert ended(client, id)["summary"]["phase"] == "FAILED"


def test_a_trial_says_where_it_would_run_and_submits_nothing(tir, client):
    trial = tir("submit", "--dry-run", "-g", "4", "-o", "json", "--", "true").json
    assert trial["starts_now"]
    assert len(trial["slots"]) == 4
    assert "would start now on" in tir("submit", "--dry-run", "--array", "0-3", "--", "true").out
    assert tir("submit", "--dry-run", "-g", "9", "--", "true").code == 6
    tir("submit", "-g", "4", "--no-preempt", "--", "sleep", "100")
    assert "would wait" in tir("submit", "--dry-run", "-g", "1", "--", "true").out
    assert len(list(client.jobs())) == 1


def test_a_copy_is_what_runs_and_it_goes_with_the_job(tir, client, shared_home, tmp_path):
    (tmp_path / "say.sh").write_text("sleep 0.5; cat words; pwd\n")
    (tmp_path / "words").write_text("as submitted\n")
    done = tir("submit", "--snapshot", "--begin", "+1s", "say.sh")
    (tmp_path / "words").write_text("changed since\n")
    (tmp_path / "say.sh").write_text("echo changed\n")
    assert "copied 2 files" in done.err
    text, place = output(client, done.id).splitlines()
    assert text == "as submitted"
    copy = Path(place)
    assert copy.parent == shared_home / "snapshots"
    eventually(lambda: not copy.exists())


def test_a_copy_that_is_not_submitted_is_removed(tir, shared_home, tmp_path):
    (tmp_path / "a").write_text("a")
    assert tir("submit", "--snapshot", "-g", "99", "--", "true").code == 6
    assert list((shared_home / "snapshots").glob("*")) == []
    done = tir("submit", "--snapshot", "--snapshot-limit", "0", "--", "true")
    assert done.code == 6
    assert "the limit is 0 bytes" in done.err


def test_the_same_key_submits_once(tir, client):
    first = tir("submit", "--key", "k1", "--", "sleep", "100").ids
    assert tir("submit", "--key", "k1", "--", "sleep", "100").ids == first
    other = tir("submit", "--key", "k1", "--", "sleep", "200")
    assert other.code == 6
    assert len(list(client.jobs())) == 1


def test_an_answer_that_is_lost_does_not_submit_twice(tir, client, here, tmp_path):
    with CutOnce(tir.home / "manager.sock", tmp_path / "cut/manager.sock"):
        id = here(tmp_path / "cut")("submit", "-n", "once", "--", "sleep", "100").id
    assert [job["id"] for job in client.jobs()] == [id]


class CutOnce:
    """A way to the manager that swallows the first answer."""

    def __init__(self, manager: Path, ours: Path):
        self.manager = manager
        ours.parent.mkdir()
        self.listening = socket.socket(socket.AF_UNIX)
        self.listening.bind(str(ours))
        self.listening.listen()
        self.was_cut = False

    def __enter__(self) -> CutOnce:
        threading.Thread(target=self._serve, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        assert self.was_cut

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                theirs, _ = self.listening.accept()
                self._pass_on(theirs)

    def _pass_on(self, theirs: socket.socket) -> None:
        with socket.socket(socket.AF_UNIX) as far, theirs:
            far.connect(str(self.manager))
            far.sendall(_whole(theirs))
            answer = _whole(far)
            if self.was_cut:
                theirs.sendall(answer)
            self.was_cut = True


def _whole(sender: socket.socket) -> bytes:
    """One request or answer: its head and, as the head tells how long it is, its body."""
    read = b""
    while b"\r\n\r\n" not in read:
        read += _some(sender)
    head, _, body = read.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    while length is not None and len(body) < int(length[1]):
        body += _some(sender)
    return head + b"\r\n\r\n" + body


def _some(sender: socket.socket) -> bytes:
    part = sender.recv(65536)
    if not part:
        raise ConnectionResetError("hung up")
    return part


def test_a_git_tree_is_copied_as_it_is(tir, client, tmp_path):
    subprocess.run(["git", "init", "-q", "."], check=True, capture_output=True)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/a.txt").write_text("inside\n")
    (tmp_path / ".gitignore").write_text("big\n")
    (tmp_path / "big").write_text("x" * 10000)
    done = tir("submit", "--snapshot", "--snapshot-limit", "5K", "--workdir", "sub", "--", "cat", "a.txt")
    assert output(client, done.id) == "inside\n"
    outside = tir("submit", "--snapshot", "--snapshot-limit", "5K", "--", "cat", tmp_path / "sub/a.txt")
    assert f"{tmp_path}/sub/a.txt is an absolute path" in outside.err


def test_without_a_manager_the_way_to_start_one_is_said(fresh: Program):
    done = fresh("submit", "--", "true")
    assert done.code == 5
    assert "tir up" in done.err


def test_many_jobs_are_one_submission(tir, client):
    assert len(tir("submit", "--array", "0-99", "--begin", "+1h", "--", "true").ids) == 100
    assert tir("submit", "--array", "0-9999", "--sweep", "a=1,2", "--", "true").code == 2
    assert len(list(client.jobs())) == 100
    assert tir("cancel", "--all", "-y").code == 0
