"""`restore`: continue with a backup, or with a journal as it is, so that no run is taken for another.

The journal gets a new id, and directories of runs that it does not know are set aside. It may be killed at
any instant: once the journal is in its place, a start is refused as long as there are directories of jobs
that the journal does not know, and a second `restore` finishes what the first one began.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tiresias.executors import procfs, run_files
from tiresias.executors.directories import make_passage
from tiresias.live import run_directories
from tiresias.live.errors import Invalid
from tiresias.live.home_paths import HomePaths
from tiresias.store import Reader, StoreError
from tiresias.store.backup import prepare
from tiresias.store.errors import damaged
from tiresias.store.lock import Lock
from tiresias.store.mark import path_of

GRACE_S = 30.0  # of runs that must end, whatever grace they had asked for
KILLED_WITHIN_S = 30.0  # after the grace


@dataclass(slots=True, frozen=True)
class Restored:
    journal: str  # its new id
    last_seq: int
    aside: Path | None  # where the files are that were set aside; None if there were none


def restore(
    home: Path, file: Path, *, stamp: str, ends_runs: bool = False, accepts_damage: bool = False
) -> Restored:
    """Put the backup in the place of the journal. `stamp` names the directory for what is set aside.

    Invalid if runs are alive that the backup does not know; with `ends_runs` they are ended.
    """
    paths, aside = HomePaths.of(home), home / f"set-aside-{stamp}"
    make_passage(home)
    lock = Lock(paths.journal.with_name(f"{paths.journal.name}.lock"), home)
    copy = home / "journal.restoring"
    try:
        id = prepare(file, copy, accepts_damage=accepts_damage)
        with Reader(copy) as journal:
            if damage := journal.damage():
                raise StoreError(damaged(file, damage))
            unknown, last_seq = unknown_directories(paths, journal), journal.last_seq
        _end(unknown, ends_runs=ends_runs)
        if paths.journal.exists() or unknown:
            aside.mkdir(mode=0o700)
        _replace(paths.journal, copy, aside)
        files = paths.files / f"set-aside-{stamp}"  # on the same disk as what is moved there
        for path in unknown:
            to = files / path.relative_to(paths.files)
            to.parent.mkdir(parents=True, exist_ok=True)
            os.rename(path, to)
        with Reader(paths.journal) as journal:
            run_directories.take(paths, journal)
        return Restored(id, last_seq, aside if aside.exists() else None)
    finally:
        copy.unlink(missing_ok=True)
        lock.release()


def unknown_directories(paths: HomePaths, journal: Reader) -> list[Path]:
    """Directories of jobs and runs that this journal does not know, and would use for others."""
    owner = run_directories.owner_of(paths)
    is_ours = not owner or owner in journal.journal_ids().values()
    found = run_directories.job_directories(paths)
    unknown = [path for id, path in found.items() if not is_ours or id >= journal.next_job_id]
    if is_ours:
        for job in journal.active():
            known = max((run.number for run in journal.runs(job.id)), default=0)
            runs = paths.job(job.id) / "runs"
            names = os.listdir(runs) if job.id in found and runs.is_dir() else []
            unknown += [runs / name for name in names if name.isdigit() and int(name) > known]
    return sorted(unknown)


def _end(directories: Iterable[Path], *, ends_runs: bool) -> None:
    """End the runs in these directories, or refuse to go on while some are alive."""
    alive = _supervisors(directories)
    if alive and not ends_runs:
        where, pid = next((run, pid) for run, (pid, _) in alive.items())
        raise Invalid(
            f"{len(alive)} of the runs that the backup does not know are still running, the first in {where}"
            f" (pid {pid}); wait for them, or end them with --end-runs. Nothing was changed"
        )
    try:
        for run, (_, pidfd) in alive.items():
            run_files.put(str(run), run_files.STOP, {"grace_s": GRACE_S})
            signal.pidfd_send_signal(pidfd, signal.SIGTERM)
        for run, (pid, pidfd) in alive.items():
            if not select.select([pidfd], [], [], GRACE_S + KILLED_WITHIN_S)[0]:
                raise Invalid(f"{run}: this run (pid {pid}) does not end; end it, then restore again")
    finally:
        for _, pidfd in alive.values():
            os.close(pidfd)
    marks = [b"TIRESIAS_RUN_DIR=" + os.fsencode(path) + b"/" for path in directories]
    if left := [each.pid for each in procfs.all_processes() if _has_variable(each.pid, marks)]:
        raise Invalid(
            f"process {left[0]} belongs to a run that the backup does not know, and its supervisor was"
            " killed; end the process, then restore again. Nothing was changed"
        )


def _supervisors(directories: Iterable[Path]) -> dict[Path, tuple[int, int]]:
    """The runs below these directories whose supervisor is alive: its pid and a pidfd."""
    alive = {}
    for directory in directories:
        runs = [directory] if directory.parent.name == "runs" else list(directory.glob("runs/*"))
        for run in runs:
            claim = run_files.read(str(run), run_files.CLAIM) or {}
            if not claim.get("pid") or claim.get("boot_id") != procfs.boot_id():
                continue
            pidfd = procfs.open_pidfd(claim["pid"], claim["start"])
            if pidfd is not None:
                alive[run] = (claim["pid"], pidfd)
    return alive


def _has_variable(pid: int, beginnings: list[bytes]) -> bool:
    try:
        variables = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False
    return any(each.startswith(beginning) for each in variables for beginning in beginnings)


def _replace(journal: Path, copy: Path, aside: Path) -> None:
    """Put the copy in the place of the journal. The log goes first, so that SQLite never applies it to it."""
    wal, shm = (journal.with_name(journal.name + end) for end in ("-wal", "-shm"))
    move: Callable[[Path], None] = lambda path: os.rename(path, aside / path.name)  # noqa: E731
    for path in (wal, journal, path_of(journal)):
        if path.exists():
            move(path)
    shm.unlink(missing_ok=True)
    os.rename(copy, journal)
    descriptor = os.open(journal.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
