"""`tiresias demo`: real trainings, preempted and resumed, and nothing left behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from live_cli import DEADLINE_S, PROGRAM, environment, eventually

from tiresias.cli.errors import Stop
from tiresias.cli.live.demo import GPUS, JOBS, WARM_UP, Arrivals, Training, checked
from tiresias.cli.live.demo_training import alone
from tiresias.cli.live.demo_view import view
from tiresias.core.defaults import DEFAULT_POLICY
from tiresias.sim import simulate
from tiresias.testing.builders import a_trace

SMALL = ("demo", "--jobs", "4", "--scale", "0.2")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """A demo in a process of its own, whose temporary files have a directory of their own."""
    running: list[subprocess.Popen[str]] = []
    with tempfile.TemporaryDirectory(prefix="tir") as place:  # short: a socket's path has 107 characters

        def start(*args: str) -> subprocess.Popen[str]:
            env = environment(tmp_path / "elsewhere") | {"TMPDIR": place, "PYTHONUNBUFFERED": "1"}
            env["PYTHONIOENCODING"] = "ascii"  # as on a terminal without Unicode
            pipe = subprocess.PIPE
            running.append(subprocess.Popen([*PROGRAM, *args], env=env, stdout=pipe, stderr=pipe, text=True))
            return running[-1]

        yield start
        for process in running:
            assert process.poll() is not None
        assert os.listdir(place) == []
        assert not [pid for pid in processes() if place in pid]
    assert not (tmp_path / "elsewhere").exists()


def processes() -> list[str]:
    """What all processes were started with."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            found.append((path / "cmdline").read_text() + (path / "environ").read_text(errors="replace"))
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


def test_trainings_may_be_preempted_and_end_with_exactly_their_steps(started):
    demo = started(*SMALL)
    out, err = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 0, err
    assert out.isascii()
    assert "6 short trainings first" in out
    assert "4 trainings, " in out
    story = re.findall(r"^ +\d+\.\d s  (\S+) +(.+)$", out, re.MULTILINE)
    of_each = [[what for who, what in story if who == name] for name in {who for who, _ in story}]
    assert len(of_each) == 4
    assert all(each[0] == "runs" and each[-1] == "run ended: finished" for each in of_each), out
    between = [
        "must save and stop",
        "run ended: preempted",
        "runs",
    ]  # whether that pays depends on the machine
    assert all(each[1:-1] == between * (len(each) // 3) for each in of_each), out
    assert re.search(r"4 trainings made exactly their \d+ steps, with \d", out)
    assert f"{DEFAULT_POLICY}, measured" in out
    assert re.search(r"^fifo-skip +\S*\d", out, re.MULTILINE)
    assert "Fidelity of the replay" in out
    assert out.endswith("the manager is down; no run is left\n")


def test_an_interrupted_demo_leaves_nothing_behind(started):
    demo = started("demo", "--jobs", "2")
    line = ""
    while " runs" not in line:
        line = demo.stdout.readline()
        assert line, demo.stderr.read()
    demo.send_signal(signal.SIGINT)
    demo.send_signal(signal.SIGTERM)  # somebody is impatient
    out, err = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 130
    assert "the manager is down; no run is left" in out
    assert err.endswith("interrupted\n")


def test_a_demo_whose_manager_dies_ends_what_it_started(started):
    demo = started("demo", "--jobs", "1")
    said = demo.stdout.readline()
    [pid] = re.findall(r"pid (\d+)", said)
    eventually(lambda: "  runs" in demo.stdout.readline())
    os.kill(int(pid), signal.SIGKILL)
    out, err = demo.communicate(timeout=DEADLINE_S)
    assert demo.returncode == 5
    assert "no manager answers" in err
    assert "the manager is down; no run is left" in out


def ended(training: Training, **more: Any) -> dict[str, Any]:
    return {"phase": "SUCCEEDED", "reason": "Finished", "preemptions": 1, **more}


def test_a_training_with_a_step_too_few_or_another_loss_fails_the_demo():
    training = Training(number=7, gpus=2, steps=5)
    losses = alone(5, 7)
    assert "exactly their 5 steps, with 1 preemption." in checked([training], [ended(training)], [losses])
    with pytest.raises(Stop, match="after 4 of 5 steps"):
        checked([training], [ended(training)], [losses[:4]])
    with pytest.raises(Stop, match="is FAILED"):
        checked([training], [ended(training, phase="FAILED")], [losses])
    with pytest.raises(Stop, match="the losses of"):
        checked([training], [ended(training)], [[*losses[:4], losses[4] + 1e-12]])


def test_the_demo_has_long_and_short_trainings_and_gangs_of_several_sizes():
    assert len(JOBS) == 12
    assert {gpus for gpus, _, _ in JOBS} == {1, 2, 4}
    seconds = [seconds for _, seconds, _ in JOBS]
    assert max(seconds) >= 10 * min(seconds)


def test_the_long_trainings_take_all_gpus_before_the_short_ones_come():
    long = [(gpus, seconds) for gpus, seconds, comes_at in JOBS if comes_at == 0]
    short = [seconds for _, seconds, comes_at in JOBS if comes_at > 0]
    assert sum(gpus for gpus, _ in long) == GPUS
    assert max(short) * 4 < min(seconds for _, seconds in long)


@pytest.mark.parametrize("cost_s", [0.2, 0.5, 1.0])
def test_the_default_policy_preempts_them_and_is_far_ahead_of_fifo_skip(cost_s: float):
    """The demo's trainings as a trace, with what a preemption costs on a machine that is quiet or busy."""
    long_s = min(seconds for _, seconds, comes_at in JOBS if comes_at == 0)
    later = [(4.0 + comes_at * long_s, gpus, seconds) for gpus, seconds, comes_at in JOBS]
    trace = a_trace([*((0.0, gpus, seconds) for gpus, seconds in WARM_UP), *sorted(later)])
    ours, other = (
        simulate(trace, f"1x{GPUS}", policy, preemption_cost_s=cost_s).summary()
        for policy in (DEFAULT_POLICY, "fifo-skip")
    )
    assert ours["preemptions"] >= 1
    assert ours["avg_jct_s"] < 0.7 * other["avg_jct_s"]


def test_short_trainings_are_submitted_as_the_long_ones_get_on():
    class Client:
        def __init__(self):
            self.names: list[str] = []

        def submit(self, jobs):
            self.names += [job["name"] for job in jobs]
            return range(len(self.names) - len(jobs), len(self.names))

    client = Client()
    trainings = [Training(0, 4, 200), Training(1, 1, 10, 0.1), Training(2, 2, 10, 0.5)]
    arrivals = Arrivals(client, trainings, Path("/home"))
    assert not arrivals.submit_due([])
    assert client.names == ["4gpu-20s"]
    long = {"phase": "RUNNING", "progress": None}
    assert not arrivals.submit_due([long])
    long["progress"] = {"fraction": 0.3}
    short = {"phase": "SUCCEEDED", "progress": None}
    assert not arrivals.submit_due([long])
    assert client.names == ["4gpu-20s", "1gpu-1s"]
    assert not arrivals.submit_due([long, short])  # the end of a short one counts for nothing
    long["phase"] = "SUCCEEDED"
    assert arrivals.submit_due([long, short])
    assert client.names == ["4gpu-20s", "1gpu-1s", "2gpu-1s"]
    assert arrivals.ids == [0, 1, 2]


def test_the_table_shows_who_holds_which_gpu_and_how_far_each_is():
    from rich.console import Console

    job = {
        "id": 1, "name": "2gpu-16s", "gpus": 2, "phase": "RUNNING",
        "progress": {"step": 40, "fraction": 0.25}, "runs": 2, "preemptions": 1, "queue": 2,
        "submitted_at": 100.0, "finished_at": None,
    }  # fmt: skip
    waiting = job | {"id": 2, "name": "1gpu-3s", "phase": "PENDING", "progress": None, "runs": 0, "queue": 1}
    waiting["preemptions"] = 0
    slots = [{"job_id": 1}, {"job_id": 1}, {"job_id": None}]
    screen = Console(width=100, file=open(os.devnull, "w"), record=True)  # noqa: SIM115
    with screen.file:
        screen.print(view([job, waiting], [{"slots": slots}], 112.5))
    lines = screen.export_text().splitlines()
    assert re.match(r" 12.5 s   GPUs +2gpu-16s +2gpu-16s +· *$", lines[0])
    assert re.match(r"2gpu-16s +2 +RUNNING +\S+ +40 +2 +1 +Q2", lines[4])
    assert re.match(r"1gpu-3s +2 +PENDING +0 +0 +0 +Q1", lines[5])
