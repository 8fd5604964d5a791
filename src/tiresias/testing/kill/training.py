"""A training whose steps can be checked: every step is one line in a file, and the file is its checkpoint.

    python training.py STEPS STEP_S HOW

A line (step, run, instant) is appended with one write, so that it is in the file as a whole or not at all,
even if the process is killed; on a full disk it is tried again until there is room. The next run counts the
lines and continues. A file lock, which ends with its process, shows whether two runs worked at the same time.
HOW is `good`, `stubborn` (does not stop on request), `flaky` (fails in its first run with an error that a
retry can cure), `asking` (asks once to be run again) or `patient` (does not do its last step before there is
a file `go` beside its steps).
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
import time

from tiresias import job

STEPS, TWICE, GO = "steps", "twice", "go"
FULL_S = 0.02  # between two tries on a full disk


def open_file(path: str, flags: int) -> int:
    """Open a file, or create it as soon as there is room for it."""
    while True:
        try:
            return os.open(path, flags | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            time.sleep(FULL_S)


def append(path: str, line: str) -> None:
    fd = open_file(path, os.O_WRONLY | os.O_APPEND)
    size = os.fstat(fd).st_size
    try:
        while not is_written(fd, line.encode()):
            os.ftruncate(fd, size)  # a part of a line would count as a step
            time.sleep(FULL_S)
    finally:
        os.close(fd)


def is_written(fd: int, data: bytes) -> bool:
    """Write it all, or say that there is no room."""
    try:
        return os.write(fd, data) == len(data)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise
        return False


def main(steps: int, step_s: float, how: str) -> int:
    folder = str(job.checkpoint_dir)
    path = os.path.join(folder, STEPS)
    lock = open_file(os.path.join(folder, "lock"), os.O_RDWR)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        append(os.path.join(folder, TWICE), f"run {os.environ['TIRESIAS_RUN_ID']}\n")
        return 3
    done = 0
    if os.path.exists(path):
        with open(path, encoding="ascii") as file:
            done = len(file.readlines())
    first = os.path.join(folder, "first")
    if how in ("flaky", "asking") and not os.path.exists(first):
        append(first, "1\n")
        if how == "asking":
            job.preempted()
        raise ConnectionResetError(104, "Connection reset by peer")
    while done < steps:
        if how != "stubborn" and job.should_stop():
            job.preempted()
        time.sleep(step_s)
        if how == "patient" and done == steps - 1 and not os.path.exists(os.path.join(folder, GO)):
            continue
        done += 1
        append(path, f"{done} {os.environ['TIRESIAS_RUN_ID']} {time.time():.3f}\n")
    job.finished()
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]))
