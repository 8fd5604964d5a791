"""`tir logs`: the output of jobs. Its bytes go to stdout unchanged; messages go to stderr.

The output is in files that belong to the owner of the job. So it can be read while no manager answers.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tiresias.cli import errors
from tiresias.cli.console import echo, notify
from tiresias.cli.declare import Option
from tiresias.cli.errors import Stop
from tiresias.cli.live.connection import References, connected, home_of, is_remote
from tiresias.cli.live.run import write

if TYPE_CHECKING:
    from tiresias.api.client import Client
    from tiresias.core.model import JobId
    from tiresias.store.reader import Reader

BLOCK_BYTES = 1024 * 1024


def logs(
    refs: References,
    follow: Annotated[
        bool, Option("--follow", "-f", help="Follow the output, also of later runs, until the job has ended.")
    ] = False,
    run: Annotated[
        int | None, Option("--run", metavar="N", min=1, help="Number of the run. Default: the latest.")
    ] = None,
    worker: Annotated[int, Option("--worker", metavar="N", min=0, help="Number of the worker, from 0.")] = 0,
    tail: Annotated[
        int | None,
        Option("--tail", metavar="N", min=0, help="Only the last N lines; with --follow, then what follows."),
    ] = None,
) -> None:
    """Print the output of jobs, also while the manager is down."""
    from tiresias.api.client import Unreachable

    with connected() as client:
        try:
            ids = [id for ref in refs for id in client.find(ref)]
        except Unreachable as error:
            if is_remote():
                raise
            _print_stored(refs, run, worker, tail, error.message)
            return
        if follow:
            if len(ids) > 1:
                raise Stop(f"{len(ids)} jobs are meant, and --follow follows one; name it by its id")
            _follow(client, ids[0], run, worker, tail)
            return
        for id in ids:
            _head(id, len(ids))
            if tail is None:
                for chunk in client.log_pieces(id, run=run, worker=worker):
                    write(chunk)
            else:
                write(b"".join(client.last_lines(id, tail, run, worker)[0]))


def _head(id: int, jobs: int) -> None:
    if jobs > 1:
        echo(f"==> job {id} <==", err=True)


def _follow(client: Client, id: int, run: int | None, worker: int, tail: int | None) -> None:
    offset, last = 0, None
    if tail is not None:
        lines, end = client.last_lines(id, tail, run, worker)
        write(b"".join(lines))
        run, offset = end.run, end.offset
    for chunk in client.follow_logs(id, run=run, worker=worker, offset=offset):
        if last not in (None, chunk.run) and sys.stderr.isatty():
            echo(f"run {chunk.run}", err=True)
        last = chunk.run
        write(chunk.data)


# --- without a manager ---------------------------------------------------------------------------------


def _print_stored(refs: list[str], run: int | None, worker: int, tail: int | None, message: str) -> None:
    """Print what is on the disk."""
    from tiresias.live.home_paths import HomePaths

    paths = HomePaths.of(home_of())
    ids: list[int] = []
    for ref in refs:
        ids += [int(ref)] if ref.isdecimal() else _ids_in(paths.journal, ref, message)
    notify(["no manager answers; this is the output that is stored"])
    for id in ids:
        _head(id, len(ids))
        _print_file(_log_of(paths.jobs / str(id) / "runs", str(id), run, worker), tail)


def _ids_in(journal: Path, ref: str, message: str) -> list[int]:
    """The jobs that are meant by a name, an array or a pattern, as the journal has them.

    Only the owner of the home can read the journal. For everybody else only ids are known without a manager.
    """
    from fnmatch import fnmatchcase
    from pwd import getpwuid

    from tiresias.live.references import LATEST, is_pattern
    from tiresias.store.errors import StoreError
    from tiresias.store.reader import Reader

    me = getpwuid(os.geteuid()).pw_name
    try:
        with Reader(journal) as reader:
            active, ended = [each.job for each in reader.active()], reader.history
            named = max((job.id for job in active if job.name == ref), default=None)
            if found := named or ended.latest_of_name(ref):
                return _of_same_name(reader, found, ref)
            several = {job.id for job in active if job.group == ref} | set(ended.of_group(ref, None, LATEST))
            if not several and is_pattern(ref):
                mine = {job.id for job in active if job.user == me and fnmatchcase(job.name, ref)}
                several = mine | set(ended.of_pattern(ref, me, LATEST))
    except StoreError:
        raise Stop(
            f"{message}\nWithout a manager, name the job by its id, not {ref!r}.", errors.UNREACHABLE
        ) from None
    if not several:
        raise Stop(f"{message}\nThe journal has no job or array named {ref!r}.", errors.NOT_FOUND)
    return sorted(several)


def _of_same_name(reader: Reader, named: JobId, name: str) -> list[int]:
    """The job of this name, and the other jobs of its array that have the name, too."""
    from tiresias.live.references import LATEST

    active = {job.id: job.job for job in reader.active()}
    stored = None if named in active else reader.job(named)
    array = active[named].group if named in active else "" if stored is None else stored.job.group
    if not array:
        return [named]
    several = {id for id, job in active.items() if job.group == array and job.name == name}
    return sorted(several.union(reader.history.of_name_in_group(name, array, LATEST), [named]))


def _log_of(runs: Path, ref: str, run: int | None, worker: int) -> Path:
    try:
        numbers = sorted(int(name) for name in os.listdir(runs) if name.isdecimal())
    except FileNotFoundError:
        numbers = []
    except PermissionError:
        raise Stop(f"job {ref} belongs to another user", errors.DENIED) from None
    number = run if run is not None else next(iter(reversed(numbers)), None)
    if number not in numbers:
        what = f"run {run} of job {ref}" if run is not None else f"job {ref}"
        raise Stop(f"there is no output of {what} in {runs.parent.parent.parent}", errors.NOT_FOUND)
    found = runs / str(number) / f"worker-{worker}.log"
    if not found.is_file():
        raise Stop(f"run {number} of job {ref} has no output of worker {worker}", errors.NOT_FOUND)
    return found


def _print_file(path: Path, tail: int | None) -> None:
    with path.open("rb") as file:
        if tail is not None:
            file.seek(_start_of_last(file.fileno(), tail))
        while block := file.read(BLOCK_BYTES):
            write(block)


def _start_of_last(file: int, lines: int) -> int:
    """Where the last lines begin; a last line without a line break counts as one."""
    end = os.fstat(file).st_size
    if not lines:
        return end
    left = lines + (1 if end and os.pread(file, 1, end - 1) == b"\n" else 0)
    at = end
    while at > 0:
        size = min(at, BLOCK_BYTES)
        block = os.pread(file, size, at - size)
        breaks = block.count(b"\n")
        if breaks >= left:
            where = len(block)
            for _ in range(left):
                where = block.rindex(b"\n", 0, where)
            return at - size + where + 1
        left, at = left - breaks, at - size
    return 0
