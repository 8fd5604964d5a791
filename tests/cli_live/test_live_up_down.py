"""The manager's own life: up, down, status, and what goes wrong on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from live_cli import PROGRAM, Program, Tir, environment, eventually

from tiresias.cli.live.manager_process import read_record


def up(program: Program, *options: str) -> dict:
    done = program("up", *options, "-o", "json")
    assert done.code == 0, done.err
    return done.json


def kept(program: Program) -> dict:
    return json.loads((program.home / "options.json").read_text())


def test_up_starts_a_manager_once_and_a_later_up_uses_the_same_options(fresh):
    first = up(fresh, "--fake-gpus", "3", "--policy", "tiresias-l", "--set", "queues=100,200")
    assert (first["slots"], first["policy"]) == (3, "tiresias-l")
    assert first["policy_options"] == {"queues": "100,200"}
    assert up(fresh)["pid"] == first["pid"]
    assert up(fresh, "--fake-gpus", "3")["pid"] == first["pid"]

    record = read_record(fresh.home)
    assert record is not None
    assert record.pid == first["pid"]
    down = fresh("down")
    assert down.code == 0
    assert "runs continue" in down.out
    assert not record.is_alive
    assert fresh("down").out == f"no manager runs in {fresh.home}\n"

    again = up(fresh)
    assert again["pid"] != first["pid"]
    assert (again["slots"], again["policy_options"]) == (3, {"queues": "100,200"})


def test_the_placer_and_its_options_are_kept_and_may_change_while_it_runs(fresh):
    assert up(fresh, "--fake-gpus", "2", "--placer-set", "floor_s=5")["placer"] == "profile"
    assert "floor_s=5" in fresh("policy", "show").out
    up(fresh, "--placer-set", "expected_s=60")
    assert kept(fresh)["placer_set"] == {"floor_s": "5", "expected_s": "60"}
    policy = fresh("policy", "set", "tiresias-l", "--placer-set", "floor_s=7", "-o", "json").json
    assert (policy["placer"], policy["placer_options"]) == ("profile", {"floor_s": "7"})
    assert fresh("down").code == 0
    assert up(fresh, "--placer", "packed")["placer"] == "packed"
    assert kept(fresh)["placer_set"] == {}


def test_a_policy_is_given_to_the_running_manager_and_other_options_need_a_new_one(fresh):
    pid = up(fresh, "--fake-gpus", "2")["pid"]
    changed = fresh("up", "--policy", "fifo", "-o", "json")
    assert (changed.code, changed.json["pid"], changed.json["policy"]) == (0, pid, "fifo")
    assert "now uses fifo" in changed.err

    refused = fresh("up", "--fake-gpus", "4")
    assert refused.code == 6
    assert "runs with --fake-gpus 2" in refused.err
    assert "tir down && tir up --fake-gpus 4" in refused.err
    assert kept(fresh)["fake_gpus"] == 2

    fresh("policy", "set", "tiresias-l", "--set", "queues=77")
    fresh("down")
    assert up(fresh)["policy_options"] == {"queues": "77"}  # what was chosen while it ran is not forgotten
    fresh("down")
    assert up(fresh, "--policy", "fifo")["policy"] == "fifo"


def test_runs_outlive_the_manager_unless_they_are_to_be_stopped(fresh):
    up(fresh, "--fake-gpus", "1")
    id = fresh("submit", "--", "sleep", "1000").id
    eventually(lambda: fresh("ls", "-o", "json").json[0]["phase"] == "RUNNING")
    fresh("down")
    assert len(runs_of(fresh.home)) == 1
    up(fresh)
    job = fresh("ls", "-o", "json").json[0]
    assert (job["id"], job["phase"], job["runs"]) == (id, "RUNNING", 1)

    stopped = fresh("down", "--stop-jobs")
    assert (stopped.code, stopped.out) == (0, "the manager is down; no run is left\n")
    assert runs_of(fresh.home) == []
    assert fresh("down", "--stop-jobs").code == 5  # nobody is there to stop anything


def runs_of(home: Path) -> list[int]:
    """Processes of runs of this home, from /proc."""
    mark = f"TIRESIAS_RUN_DIR={home}/jobs/".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_a_killed_manager_is_followed_by_another(fresh):
    pid = up(fresh, "--fake-gpus", "1")["pid"]
    os.kill(pid, signal.SIGKILL)
    record = read_record(fresh.home)
    assert record is not None
    eventually(lambda: not record.is_alive)
    unreachable = fresh("ls")
    assert unreachable.code == 5
    assert "tir up" in unreachable.err
    assert up(fresh)["pid"] != pid


def test_two_at_the_same_time_start_one(fresh):
    outside = Tir(fresh.home)
    with ThreadPoolExecutor(2) as both:
        found = list(both.map(lambda _: outside("up", "--fake-gpus", "2", "-o", "json"), range(2)))
    assert [each.code for each in found] == [0, 0], [each.err for each in found]
    assert found[0].json["pid"] == found[1].json["pid"]


def test_a_number_that_is_none_is_named(fresh):
    done = fresh("up", "--fake-gpus", "four")
    assert done.code == 2
    assert "'four'" in done.err
    assert "--fake-gpus" in done.err
    assert not fresh.home.exists()


def test_without_gpus_the_way_to_go_on_is_said_and_nothing_is_left(fresh):
    done = fresh("up")
    if done.code == 0:  # this machine has GPUs
        return
    assert done.code == 6
    assert "tir up --fake-gpus" in done.err
    assert not fresh.home.exists()


def test_a_manager_that_does_not_start_says_why_and_its_options_are_not_kept(fresh):
    up(fresh, "--fake-gpus", "1")
    fresh("down")
    failed = fresh("up", "--listen", "not-an-address")
    assert failed.code == 2
    assert "'not-an-address' is not HOST:PORT" in failed.err
    assert "Traceback" not in failed.err
    assert kept(fresh)["listen"] is None
    assert up(fresh)["slots"] == 1


def test_a_damaged_journal_is_a_message(fresh):
    up(fresh, "--fake-gpus", "1")
    fresh("down")
    (fresh.home / "journal.db").write_bytes(b"this is not a journal" * 1000)
    failed = fresh("up")
    assert failed.code == 1
    assert "journal.db" in failed.err
    assert "Traceback" not in failed.err
    assert fresh("doctor").code == 1
    (fresh.home / "journal.db").unlink()


def test_mistakes_are_found_before_anything_is_started(fresh):
    for options, complaint in (
        (["--fake-gpus", "2", "--gpus", "0"], "cannot be combined"),
        (["--fake-gpus", "2", "--policy", "lifo"], "lifo"),
        (["--fake-gpus", "2", "--set", "groth=3"], "growth"),
        (["--fake-gpus", "2", "--placer", "nowhere"], "nowhere"),
        (["--fake-gpus", "2", "--placer-set", "floors=1"], "profile has no option 'floors'"),
        (["--fake-gpus", "2", "--placer-set", "floor_s"], "write key=value"),
        (["--gpus", "3-1"], "ends before it begins"),
    ):
        done = fresh("up", *options)
        assert done.code == 2, options
        assert complaint in done.err
        assert not fresh.home.exists()


def test_a_home_that_is_a_file_is_a_message(fresh):
    fresh.home.write_text("in the way")
    done = fresh("up", "--fake-gpus", "1")
    assert done.code == 2
    assert "is a file" in done.err or "Not a directory" in done.err


@pytest.mark.parametrize("home", ["/proc/home", "link", "link/home"])
def test_a_home_that_cannot_be_made_is_a_message(fresh, tmp_path, home):
    (tmp_path / "link").symlink_to(tmp_path / "nothing" / "there")
    done = fresh("up", "--fake-gpus", "1", "--home", tmp_path / home)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("Error: ")
    assert done.err.count("\n") == 1
    assert done.err.endswith(": No such file or directory\n")


def test_status_tells_what_there_is(fresh):
    assert fresh("status").code == 5
    up(fresh, "--fake-gpus", "2")
    status = fresh("status", "-o", "json").json
    assert {"pid", "uptime_s", "policy", "slots", "free_slots", "jobs"} <= set(status)
    assert (status["slots"], status["free_slots"], status["jobs"]) == (2, 2, {})
    assert "2 of 2 free" in fresh("status").out


def test_the_home_may_be_named(fresh, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    started = fresh("up", "--fake-gpus", "1", "--home", elsewhere)
    assert started.code == 0
    assert str(elsewhere) in started.out
    assert fresh("ls").code == 5
    assert fresh("status", "--home", elsewhere).code == 0
    assert fresh("down", "--home", elsewhere).code == 0


def test_in_the_foreground_it_stays_until_it_is_signalled_to_end(fresh, tmp_path):
    with subprocess.Popen(
        [*PROGRAM, "up", "--fake-gpus", "1", "--foreground"], env=environment(fresh.home), cwd=tmp_path
    ) as process:
        eventually(lambda: fresh("status").code == 0)
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 0


def test_a_policy_of_ones_own_is_loaded_now_and_later(fresh, tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from tiresias.core.plugins import policies\n"
        "from tiresias.policies.fifo import Fifo\n"
        "@policies.register\n"
        "class Mine(Fifo):\n"
        "    '''First in, first out, under another name.'''\n"
        "    name = 'mine'\n"
    )
    outside = Tir(fresh.home)  # a plugin stays loaded in the process that has loaded it
    done = outside("--plugin", plugin, "up", "--fake-gpus", "1", "--policy", "mine", "-o", "json")
    assert done.code == 0, done.err
    assert done.json["policy"] == "mine"
    outside("down")
    again = outside("up", "-o", "json")
    assert again.code == 0, again.err
    assert again.json["policy"] == "mine"
    outside("submit", "--name", "a", "--", "true")
    assert outside("wait", "a").code == 0
    report = outside("report", "-o", "json")
    assert report.code == 0, report.err
    assert report.json["replayed"][0]["policy"] == "mine"


def test_a_policy_of_ones_own_that_raises_is_named_with_its_line(fresh, tmp_path):
    plugin = tmp_path / "mine.py"
    plugin.write_text(
        "from tiresias.core.plugins import policies\n"
        "from tiresias.policies.fifo import Fifo\n"
        "@policies.register\n"
        "class Mine(Fifo):\n"
        "    '''It cannot rank a job.'''\n"
        "    name = 'mine'\n"
        "    def rank(self, job, memory, at):\n"
        "        return (job.no_such_field,)\n"
    )
    outside = Tir(fresh.home)
    done = outside("--plugin", plugin, "up", "--fake-gpus", "1", "--policy", "mine")
    assert done.code == 0, done.err
    assert outside("submit", "--name", "a", "--", "true").code == 0
    assert outside("wait", "a").code == 0
    status = outside("status", "-o", "json").json
    assert status["policy"] == "tiresias"
    assert (
        f"AttributeError: 'JobState' object has no attribute 'no_such_field' at {plugin}, line 8, in rank"
        in (status["plugin_problem"])
    )
    assert f"{plugin}, line 8" in outside("status").out.replace("\n", "")
    [finding] = [each for each in outside("doctor", "-o", "json").json if each["what"] == "policy"]
    assert not finding["is_ok"]
    assert f"{plugin}, line 8" in finding["text"]
    assert "tir policy set tiresias" in finding["next_step"]
    assert outside("policy", "set", "tiresias-l").code == 0
    assert not outside("status", "-o", "json").json["plugin_problem"]

    plugin.write_text(plugin.read_text().replace("no_such_field", "id"))  # as doctor advises
    assert outside("down").code == 0
    assert outside("up").code == 0
    again = outside("policy", "set", "mine")
    assert (again.code, again.err) == (0, "")
    assert outside("status", "-o", "json").json["policy"] == "mine"
    plugin.write_text("1 / 0")
    assert outside("policy", "set", "mine").code == 2
    assert outside("policy", "set", "fifo").code == 0


def as_an_older_version_left_it(program: Program) -> None:
    """Options as they were written when the default was another one, and did not say which it was."""
    options = kept(program)
    del options["default_policy"]
    (program.home / "options.json").write_text(json.dumps(options))


def test_a_home_with_the_default_of_an_older_version_keeps_it_and_is_told_how_to_change(fresh):
    up(fresh, "--fake-gpus", "1", "--policy", "tiresias-l")
    assert fresh("down").code == 0
    as_an_older_version_left_it(fresh)
    for _ in range(2):  # at a start, and while it runs
        again = fresh("up")
        assert "tiresias-l" in again.out
        assert "this home keeps tiresias-l" in again.err
        assert "tir policy set tiresias." in again.err
    assert fresh("policy", "set", "tiresias").code == 0
    assert "keeps" not in fresh("up").err


def test_who_chooses_the_former_default_is_not_told_again(fresh):
    up(fresh, "--fake-gpus", "1", "--policy", "tiresias-l")
    assert fresh("down").code == 0
    as_an_older_version_left_it(fresh)
    assert "keeps" not in fresh("up", "--policy", "tiresias-l").err
    assert "keeps" not in fresh("up").err


def test_a_new_home_has_the_default_and_no_note(fresh):
    first = fresh("up", "--fake-gpus", "1")
    assert ": 1 GPU, tiresias, home" in first.out
    assert "keeps" not in first.err


def test_a_prior_that_cannot_be_used_is_named_and_the_manager_starts_without(fresh, tmp_path):
    (tmp_path / "bad.json").write_text('{"format": "tiresias prior", "version": 99, "classes": []}')
    up(fresh, "--fake-gpus", "1", "--set", f"prior=@{tmp_path / 'bad.json'}")
    assert "of version 99" in fresh("status", "-o", "json").json["plugin_problem"]
    assert "the prior is not used" in fresh("policy", "show").out
    assert fresh("submit", "--name", "a", "--", "true").code == 0
    assert fresh("wait", "a").code == 0
