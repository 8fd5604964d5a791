"""`tiresias profile -- COMMAND`: a training is observed, and its model profiled."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tiresias.executors import procfs
from tiresias.observe.errors import ObserveError
from tiresias.observe.library import compiler
from tiresias.profiles import readers

EXAMPLE = Path(__file__).parents[2] / "examples/train_parameter_server.py"
TRAINING = [sys.executable, EXAMPLE, "--workers", "1", "--servers", "1", "--steps", "100000"]
SKEW = 0.709
PATIENCE_S = 60.0


@pytest.fixture
def observing(monkeypatch, tmp_path):
    """Skips where there is no compiler; else the library is built in a cache of the test's own."""
    try:
        compiler()
    except ObserveError as error:
        pytest.skip(str(error))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")


def test_a_person_sees_the_iteration_the_messages_and_the_verdict(tiresias, observing):
    outcome = tiresias("profile", "--seconds", 100, "--", *TRAINING)
    assert outcome.code == 0, outcome.err
    assert "iterations, 1 worker and 1 parameter server" in outcome.out
    assert "70.9% of what is sent" in outcome.out
    assert "each message between workers and servers is a tensor" in outcome.out
    assert "tensor-1 is 70.9% of what is sent, above the limit" in outcome.out
    assert "step 1 loss" in outcome.err
    assert "step 1 loss" not in outcome.out


def test_a_program_gets_json_and_the_profile_is_stored(tiresias, observing, tmp_path):
    outcome = tiresias("profile", "--json", "--save", "mine.json", "--compute", 0.1, "--", *TRAINING)
    assert outcome.code == 0, outcome.err
    seen = outcome.json["observed"]
    assert seen["bytes_per_iteration"] == pytest.approx(2 * 4_531_848, rel=0.01)
    assert seen["skew"] == outcome.json["skew"] == pytest.approx(SKEW, abs=0.001)
    assert seen["messages"][0] == {"bytes": 3_211_264, "per_iteration": 2}
    assert outcome.json["consolidate"] is True
    assert outcome.json["slowdown"] > 1
    stored = readers.load(str(tmp_path / "mine.json"))
    assert stored.skew == pytest.approx(SKEW, abs=0.001)
    assert stored.compute_s == 0.1
    assert tiresias("profile", "mine.json").code == 0


MESH = """
import os, socket, time
listening = socket.create_server(("127.0.0.1", 0))
ends = {0: [], 1: [], 2: []}
for a, b in ((0, 1), (0, 2), (1, 2)):
    ends[a].append(socket.create_connection(listening.getsockname()))
    ends[b].append(listening.accept()[0])
for end in sum(ends.values(), []):
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else every other step may wait for an answer
for node in ends:
    if os.fork() == 0:
        for step in range(100_000):
            time.sleep(0.01)
            for end in ends[node]:
                end.sendall(bytes(30_000))
                end.sendall(bytes(5_000))
            for end in ends[node]:
                left = 35_000
                while left:
                    left -= len(end.recv(left)) or os._exit(0)
for _ in ends:
    os.wait()
"""


def test_without_an_inferred_model_the_traffic_is_shown_and_nothing_is_stored(tiresias, observing, tmp_path):
    """Three processes send to each other what may be anything."""
    mesh = ["--save", "no.json", "--", sys.executable, "-c", MESH]
    outcome = tiresias("profile", "--json", *mesh)
    assert outcome.code == 2
    assert "--save no.json: not even the size of the model is known; every process sends" in outcome.err
    assert not (tmp_path / "no.json").exists()
    assert json.loads(outcome.out)["observed"]["bytes_per_iteration"] == pytest.approx(6 * 35_000, rel=0.01)
    said = tiresias("profile", *mesh[2:])
    assert said.code == 0
    assert "size not visible" in said.out


STUBBORN = """
import os, signal, subprocess, sys, time
def signalled(number, frame):
    print("signalled", flush=True)
if "child" not in sys.argv:  # one in a session of its own, beyond the signals to a group
    child = subprocess.Popen([sys.executable, "-c", os.environ["PROGRAM"], "child"], start_new_session=True)
signal.signal(signal.SIGTERM, signalled if sys.argv[1:] == ["stubborn"] else signal.SIG_DFL)
print("pid", os.getpid(), flush=True)
while True:
    time.sleep(1000)
"""
# A shell's background jobs ignore Ctrl-C, and so would this one if the tests are run as such.
MINDING = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "from tiresias.cli.main import run; run()"
)


@pytest.fixture
def profiling(observing, outside_environment, tmp_path):
    """`tiresias profile -- COMMAND` with a child; the pids of both. They hold our stderr while they live."""
    env = outside_environment | {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PROGRAM": STUBBORN}
    begun, left = [], []

    def begin(*how):
        words = ["profile", "--", sys.executable, "-c", STUBBORN, *how]
        ours = subprocess.Popen([sys.executable, "-c", MINDING, *words], stderr=subprocess.PIPE, env=env)
        begun.append(ours)
        pids = [int(until(ours, b"pid ").split()[1]) for _ in range(2)]
        left.extend(map(procfs.look, pids))
        return ours, pids

    yield begin
    for process in filter(None, left):
        procfs.send(process, signal.SIGKILL)
    for ours in begun:
        ours.kill()
        ours.communicate(timeout=PATIENCE_S)


def until(ours, beginning):
    """The next line of that kind."""
    return next(line for line in ours.stderr if line.startswith(beginning))


def alive(pids):
    return [pid for pid in pids if (found := procfs.look(pid)) is not None and found.alive]


def ended(ours):
    """Its exit code, when nobody is left that could write to its stderr."""
    ours.communicate(timeout=PATIENCE_S)
    return ours.returncode


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_a_signal_that_ends_us_ends_the_command_and_its_children(profiling, number, code):
    """A training in a session of its own would go on for ever when `timeout` ends us."""
    ours, pids = profiling()
    ours.send_signal(number)
    assert ended(ours) == code
    assert alive(pids) == []


def test_a_second_ctrl_c_during_the_grace_kills_at_once_and_leaves_nothing(profiling):
    ours, pids = profiling("stubborn")
    ours.send_signal(signal.SIGTERM)
    until(ours, b"signalled")
    for _ in range(20):  # one of them cuts the grace short, the others come while the rest is killed
        ours.send_signal(signal.SIGINT)
    assert ended(ours) == 130
    assert alive(pids) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["vgg16", "--", "true"], "'vgg16' and a command after --; give one of them"),
        (["--"], "no command given: write it after --"),
        (["--", "no-such-program"], "cannot run 'no-such-program': No such file or directory"),
        (["--", sys.executable, "-c", "1/0"], "nothing was sent that could be seen"),
        (["--workers", "0", "--", "true"], "0: give a whole number from 1 up"),
        (["--seconds", "nan", "--", "true"], "nan: give a number of seconds above 0"),
        ([], "name a model, or give a command after --"),
    ],
)
def test_what_cannot_be_observed_is_one_message(tiresias, observing, words, message):
    outcome = tiresias("profile", *words)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.replace("│", " ").split())
    assert "tiresias/" not in outcome.err
    assert outcome.out == ""
