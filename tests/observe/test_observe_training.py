"""Real trainings are observed: a command is run, watched, ended, and nothing of it is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from observe_scenes import typical_step_s

from tiresias.executors import procfs
from tiresias.observe import ObserveError, Pattern, observe
from tiresias.observe.trial import Trial

EXAMPLE = Path(__file__).parents[2] / "examples/train_parameter_server.py"
TENSORS = (3_211_264, 1_048_576, 262_144, 5_120, 2_048, 2_048, 512, 40)
HEADER = 12
SECONDS = 100.0
FOREVER = "1000000000"


@pytest.fixture(autouse=True)
def small(built, monkeypatch):
    """One thread a process, and the library of this session's cache."""
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "1")


def python(program: str, *arguments: str) -> list[str]:
    return [sys.executable, "-c", program, *arguments]


@pytest.mark.parametrize(("workers", "servers"), [(1, 2), (2, 1)])
def test_tensors_and_skew_of_a_training_with_parameter_servers(workers, servers):
    gang = ["--workers", str(workers), "--servers", str(servers)]
    seen = observe(
        [sys.executable, str(EXAMPLE), *gang, "--steps", FOREVER, "--step-seconds", "0.01"],
        seconds=SECONDS,
        output=subprocess.DEVNULL,
    )
    assert seen.pattern is Pattern.SERVERS
    assert (seen.workers, seen.servers) == (workers, servers)
    assert seen.skew == pytest.approx(TENSORS[0] / sum(TENSORS), rel=0.05)
    assert seen.model_bytes == pytest.approx(sum(TENSORS), rel=0.05)
    assert seen.tensor_bytes == TENSORS
    each_way = workers * (sum(TENSORS) + HEADER * len(TENSORS))
    assert seen.bytes_per_iteration == pytest.approx(2 * each_way, rel=0.01)
    assert seen.iterations >= 20


GANG = """
import os, socket, sys, time
worker, workers = int(os.environ["TIRESIAS_WORKER"]), int(os.environ["TIRESIAS_WORKERS"])
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))

def exchange(ends):
    for end in ends:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else steps wait for answers
    for step in range(int(sys.argv[1])):
        if worker == 0:
            print(time.monotonic(), flush=True)
        time.sleep(0.01)
        for end in ends:
            for size in (500_000, 20_000, 3_000):
                end.sendall(bytes(size))
        for end in ends:
            left = 523_000
            while left:
                left -= len(end.recv(left)) or exit()

if worker == 0:
    with socket.create_server(place) as listening:
        exchange([listening.accept()[0] for _ in range(workers - 1)])
else:
    while True:
        try:
            connection = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    exchange([connection])
"""


def test_a_gang_is_started_and_its_workers_find_each_other():
    seen = observe(python(GANG, FOREVER), workers=3, seconds=SECONDS, output=subprocess.DEVNULL)
    assert seen.processes == 3
    assert (seen.workers, seen.servers) == (2, 1)
    assert seen.bytes_per_iteration == pytest.approx(4 * 523_000, rel=0.01)
    assert seen.tensor_bytes == (500_000, 20_000, 3_000)


def test_the_period_is_that_of_the_trainings_own_clock():
    """The training is observed to its end, and prints the time at each of its steps."""
    reading, writing = os.pipe()
    with open(reading, encoding="utf-8") as file:
        seen = observe(python(GANG, "80"), workers=2, iterations=10**6, seconds=SECONDS, output=writing)
        os.close(writing)
        step_s = typical_step_s(file)
    assert seen.period_s == pytest.approx(step_s, rel=0.15)
    assert 70 <= seen.iterations <= 80
    assert seen.notes == ()


STUBBORN = """
import os, signal, socket, subprocess, sys, threading, time
if "child" not in sys.argv:
    child = [sys.executable, "-c", os.environ["PROGRAM"], "child"]
    subprocess.Popen(child, start_new_session=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
time.sleep(1000)
"""


def marked(directory: Path) -> list[int]:
    mark = [f"TIRESIAS_OBSERVE_DIR={directory}".encode()]
    return [each.pid for each in procfs.all_processes() if each.alive and procfs.carries(each.pid, mark)]


def test_what_does_not_stop_is_ended_its_children_in_other_sessions_too(built, tmp_path):
    env = dict(os.environ) | {"PROGRAM": STUBBORN}
    trial = Trial(tuple(python(STUBBORN)), tmp_path, built, grace_s=0.2, env=env)
    deadline = time.monotonic() + SECONDS
    try:
        trial.start()
        while len(marked(tmp_path)) < 2:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    finally:
        trial.end()
    assert marked(tmp_path) == []
    assert trial.was_stopped


def test_a_command_that_clears_its_environment_is_ended_too(built, tmp_path):
    program = "import os, sys; os.execve(sys.executable, ['python', '-c', os.environ['PROGRAM']], {})"
    env = dict(os.environ) | {"PROGRAM": "import signal; signal.signal(15, signal.SIG_IGN); signal.pause()"}
    trial = Trial(tuple(python(program)), tmp_path, built, grace_s=0.2, env=env)
    trial.run(1, 0.5)
    assert [process.returncode for process in trial.processes] in ([-signal.SIGKILL], [-signal.SIGTERM])


def test_ctrl_c_ends_the_command_and_what_was_recorded_is_removed(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def interrupt() -> None:
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and not list(tmp_path.glob("*/*.messages")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    thread.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            observe(
                python(GANG, FOREVER), workers=2, iterations=10**9, seconds=SECONDS, output=subprocess.DEVNULL
            )
    finally:
        signal.signal(signal.SIGINT, before)
    thread.join()
    assert list(tmp_path.iterdir()) == []
    assert [each.pid for each in procfs.all_processes() if str(tmp_path) in env_of(each.pid)] == []


def env_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/environ").read_text(errors="replace")
    except OSError:
        return ""


def test_a_trial_leaves_no_checkpoint_behind_and_finds_none(tmp_path):
    program = """
import os, pathlib
folder = pathlib.Path(os.environ["TIRESIAS_CHECKPOINT_DIR"])
assert not folder.exists() and folder != pathlib.Path(os.environ["OURS"])
folder.mkdir()
"""
    env = dict(os.environ) | {"TIRESIAS_CHECKPOINT_DIR": str(tmp_path), "OURS": str(tmp_path)}
    records = tmp_path / "records"
    records.mkdir()
    trial = Trial(tuple(python(program)), records, Path("/nonexistent.so"), env=env)
    trial.run(1, SECONDS)
    assert trial.failures == []
    assert (records / "checkpoints").is_dir()


def test_a_library_preloaded_before_stays(built, tmp_path):
    trial = Trial(("true",), tmp_path, built, env={"LD_PRELOAD": "libother.so"})
    assert trial.environment()["LD_PRELOAD"] == f"{built}:libother.so"


def test_a_command_that_fails_says_so():
    with pytest.raises(ObserveError, match=r"nothing was sent that .* It failed with exit code 3"):
        observe(python("raise SystemExit(3)"))


def test_a_command_that_sends_nothing_says_what_can_be_seen():
    with pytest.raises(ObserveError, match="RDMA, NVLink, shared memory"):
        observe(python("print('no sockets here')"), output=subprocess.DEVNULL)


def test_a_command_that_is_not_there_is_named():
    with pytest.raises(ObserveError, match="cannot run 'no-such-program': No such file or directory; check"):
        observe(["no-such-program", "--steps", "3"])
    with pytest.raises(ObserveError, match="no command given"):
        observe([])
