"""The faults of the machine are not those of the jobs: real faults keep runs from starting for a while."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import which

import pytest

from tiresias.core.model import JobId
from tiresias.executors.base import RunGone, WorkerExit
from tiresias.executors.causes import HOST_FAULTS, Kind, classify, host_fault
from tiresias.testing.live import ADMIN, LiveLab

NOBODY = 65_531  # a user without any processes


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with few inodes."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system with few inodes")
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64m,mode=0700,nr_inodes=200", "tmpfs", str(place)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a file system here: {mounted.stderr.strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


@contextmanager
def no_inodes(place: Path) -> Iterator[None]:
    """Use up all inodes of the file system that holds this directory."""
    made: list[Path] = []
    while os.statvfs(place).f_ffree:
        path = place / f"filler-{len(made)}"
        path.touch()
        made.append(path)
    yield
    for path in made:
        path.unlink()


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Let this process open nothing more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, hard))
    holes: list[int] = []
    with suppress(OSError):
        while True:
            holes.append(os.open(os.devnull, os.O_RDONLY))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in holes:
            os.close(fd)


def is_untouched(lab: LiveLab, job: JobId) -> None:
    """It still waits, has used no retry, and its command is not blamed."""
    assert lab.of(job).phase in ("PENDING", "SUSPENDED")
    assert lab.manager.queries.detail(ADMIN, job).retries_used == 0
    assert len(lab.manager.failures) == 0


def test_a_disk_without_inodes_fails_no_job(small_disk: Path) -> None:
    with LiveLab(small_disk, gpus=2, settings={"backoff_s": 0.2, "most_backoff_s": 0.2}) as lab:
        with no_inodes(small_disk):
            jobs = [lab.submit("true", retries=0) for _ in range(5)]
            lab.until(lambda: sum(lab.of(job).runs for job in jobs) >= 8)  # through several pauses
            lab.until(lambda: lab.manager.queries.status().start_problem and not lab.manager.state.runs)
            for job in jobs:
                is_untouched(lab, job)
            status = lab.manager.queries.status()
            assert "no space or no inodes left on the disk of the manager's home" in status.start_problem
            why = lab.manager.queries.why(ADMIN, jobs[0])
            assert why.code == lab.of(jobs[0]).reason == "HostFault"
            assert why.text.startswith("the machine cannot start runs: no run can be started on this machine")
        assert {end.phase for end in lab.until_ended(*jobs)} == {"SUCCEEDED"}
        assert lab.manager.queries.status().start_problem == ""


def test_one_fault_pauses_the_start_of_all_jobs_and_the_pause_outlives_the_manager(small_disk: Path) -> None:
    with LiveLab(small_disk, gpus=1, settings={"backoff_s": 3600.0}) as lab:
        with no_inodes(small_disk):
            jobs = [lab.submit("true") for _ in range(3)]
            lab.until(lambda: lab.manager.queries.status().start_problem)
            for _ in range(5):
                lab.turn()
            assert sum(lab.of(job).runs for job in jobs) == 1, "the others were not even tried"
            assert lab.manager.next_due_at > lab.manager.now()
        lab.restart()
        lab.until_ended(*jobs)


def test_a_manager_without_descriptors_fails_no_job(tmp_path: Path) -> None:
    with LiveLab(tmp_path, gpus=2, settings={"backoff_s": 0.1, "most_backoff_s": 0.1}) as lab:
        jobs = [lab.submit("true", retries=0, hold=True) for _ in range(3)]
        for job in jobs:
            lab.manager.requests.release(ADMIN, job)
        lab.manager.journal.commit()
        with no_descriptors():
            lab.manager.dispatcher.carry_out()
            for update in lab.manager.runs.poll():
                lab.manager._handle(update)
            assert "no run can be started on this machine" in lab.manager.queries.status().start_problem
        for job in jobs:
            assert lab.manager.queries.detail(ADMIN, job).retries_used == 0
        assert {end.phase for end in lab.until_ended(*jobs)} == {"SUCCEEDED"}


WITHOUT_PROCESSES = """
import resource, sys
from pathlib import Path
from tiresias.testing.live import ADMIN, LiveLab
soft, hard = resource.getrlimit(resource.RLIMIT_NPROC)
with LiveLab(Path(sys.argv[1]), gpus=1, settings={"backoff_s": 0.1, "most_backoff_s": 0.1}) as lab:
    resource.setrlimit(resource.RLIMIT_NPROC, (1, hard))
    job = lab.submit("true", retries=0)
    lab.until(lambda: lab.of(job).runs >= 3 and lab.manager.queries.status().start_problem)
    print(lab.of(job).reason, lab.manager.queries.status().start_problem)
    resource.setrlimit(resource.RLIMIT_NPROC, (soft, hard))
    print(lab.until_ended(job)[0].phase)
"""


def test_a_machine_without_room_for_processes_fails_no_job(tmp_path: Path) -> None:
    """In a process of its own, without the capabilities for which no limit on processes holds."""
    drop: list[str] = []
    if os.geteuid() == 0:
        if which("setpriv") is None:
            pytest.skip("setpriv is missing, and without it no limit on processes holds for root")
        drop = ["setpriv", f"--ruid={NOBODY}", "--bounding-set=-sys_resource,-sys_admin", "--inh-caps=-all"]
    script = [*drop, sys.executable, "-c", WITHOUT_PROCESSES, str(tmp_path)]
    done = subprocess.run(script, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    reason, ended = done.stdout.splitlines()
    assert reason.startswith("HostFault no run can be started on this machine"), reason
    assert "no room for another process" in reason
    assert ended == "SUCCEEDED"


@pytest.mark.parametrize("code", HOST_FAULTS)
def test_every_message_of_the_executor_about_the_machine_is_understood(code: int) -> None:
    text = os.strerror(code).lower()
    for error in (
        str(OSError(code, os.strerror(code), "/home/jobs/1/1")),
        f"cannot start a process: {text}",
        f"cannot open the output file /home/jobs/1/1/worker-0.log: {text} (free some space)",
        f"cannot reserve space for the exit record in /home/jobs/1/1: {text}",
        f"the supervisor of the run could not begin in /home/jobs/1/1: {text}",
    ):
        cause = classify(RunGone(1, (WorkerExit(error=error),), error=error))  # type: ignore[arg-type]
        assert cause.kind is Kind.HOST, error
        assert HOST_FAULTS[code] in cause.sentence


@pytest.mark.parametrize(
    "error",
    [
        "program 'cannot start a process: too many open files' not found in PATH=/bin",
        "program '[Errno 28] No space left on device' not found in PATH=/bin; check its name",
        "cannot enter the working directory '/x: no space left on device': no such file or directory",
        "cannot run '/x': resource temporarily unavailable",
        "[Errno 2] No such file or directory: 'no space left on device'",
    ],
)
def test_what_a_user_may_write_is_no_fault_of_the_machine(error: str) -> None:
    assert host_fault(error) == ""
