"""Whoever ends us ends what we have started: signals at any time, and the benchmark as a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from uuid import uuid4

import pytest

from tiresias.executors import procfs
from tiresias.executors.interrupts import deferring_signals, exiting_on_signals

ROOT = Path(__file__).parents[2]
PATIENCE_S = 60.0
MARK = "TIRESIAS_TEST_MARK"
# A shell's background jobs ignore Ctrl-C, and so would this one if the tests are run as such.
BENCHMARK = (
    "import runpy, signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    "runpy.run_module('benchmarks', run_name='__main__')"
)


@pytest.fixture
def minding():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_a_signal_raises_where_it_is_handled(minding):
    before = signal.getsignal(signal.SIGTERM)  # of whoever runs the tests
    with pytest.raises(SystemExit, match="143"), exiting_on_signals():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("number", "error"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_at_a_bad_moment_is_handled_after_it(minding, number, error):
    done = []

    def work() -> None:
        with deferring_signals():
            for _ in range(3):
                signal.raise_signal(number)
            done.append("all of it")
        done.append("too much")

    with exiting_on_signals(), pytest.raises(error):
        work()
    assert done == ["all of it"]


def test_a_thread_that_gets_no_signals_changes_nothing(minding):
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def inside() -> None:
        with deferring_signals():
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [before]


def marked(mark: str) -> list[procfs.Process]:
    sign = [f"{MARK}={mark}".encode()]
    return [each for each in procfs.all_processes() if each.alive and procfs.carries(each.pid, sign)]


@pytest.mark.parametrize("is_training", [False, True])
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)])
def test_the_benchmark_leaves_no_training_behind(built, tmp_path, number, code, is_training):
    """While they are started, and when one trains and the other is stopped."""
    mark = uuid4().hex
    env = dict(os.environ) | {MARK: mark, "TMPDIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    ours = subprocess.Popen(
        [sys.executable, "-c", BENCHMARK, "observe"],
        cwd=ROOT,
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (any(each.state == "T" for each in marked(mark)) if is_training else len(marked(mark)) > 1):
            assert ours.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        ours.send_signal(number)
        ours.communicate(timeout=PATIENCE_S)  # to the end of stderr: nobody holds it any more
        assert ours.returncode == code
        assert marked(mark) == []
        assert list(tmp_path.iterdir()) == []
    finally:
        for each in marked(mark):
            procfs.send(each, signal.SIGKILL)
        ours.communicate()
