"""The files in the directory of a run. Standard library only, because every supervisor imports this.

    run.json     which run of which journal the directory belongs to; there before anything else
    claim.json   which process started the gang; only the process that creates it may start the gang
    up.json      every worker executes its program
    stop.json    the run must stop, with this grace
    pace.json    the run works in this one of so many slices of time, of so many seconds
    exit.json    the exit record: how the run ended; durable before the manager gets to know of the end

A file appears whole or not at all. `run.json`, `claim.json` and `exit.json` name the journal and the run that
they belong to, because another journal may have used the same path. They are created once and never change:
they are put in place with a hard link, which never replaces an existing file.
"""

from __future__ import annotations

import os

from tiresias.executors import kernel as kernels
from tiresias.executors.kernel import KERNEL, read_all, write_all

TYPE_CHECKING = False  # so that a supervisor does not load typing
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from tiresias.executors.kernel import Kernel

RUN, CLAIM, UP, STOP, EXIT = "run.json", "claim.json", "up.json", "stop.json", "exit.json"
RESERVED = "exit.reserved"
RESERVED_BYTES = 16384  # allocated at the start, for the case that the disk is full at the end
PACE = "pace.json"
JOB, JOB_STOP = "job", "stop"  # the directory of the job in that of the run; see `ask_job_to_stop`
SIGNALLED = "told"  # WorkerExit.was_signalled in exit.json; managers of every version read this key


def read(run_dir: str, name: str, kernel: Kernel = KERNEL) -> dict[str, Any] | None:
    """The content of a file; None if there is no file, empty if it is damaged (by a loss of power, say)."""
    import json  # here, because most supervisors read no file

    try:
        data = read_all(os.path.join(run_dir, name), kernel)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        found = json.loads(data.decode())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def ask_job_to_stop(run_dir: str) -> None:
    """Leave the file that `job.should_stop()` looks for, for programs whose handler of SIGTERM hides it.

    The directory belongs to the user of the job, who may have put anything in this place: nothing that exists
    is followed, changed or reported.
    """
    try:
        directory = os.open(os.path.join(run_dir, JOB), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # SIGTERM says the same
        return
    try:
        fresh = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        os.close(os.open(JOB_STOP, fresh, 0o644, dir_fd=directory))
    except OSError:
        return
    finally:
        os.close(directory)


def exists(run_dir: str, name: str, kernel: Kernel = KERNEL) -> bool:
    return kernels.exists(os.path.join(run_dir, name), kernel)


def own(run_dir: str, *, journal: str, run_id: int, kernel: Kernel = KERNEL) -> None:
    """Make the directory that of this run, unless it is that of a run already (see `other_owner`)."""
    if not exists(run_dir, RUN, kernel):
        _create(run_dir, RUN, {"journal": journal, "run_id": run_id}, kernel)


def other_owner(run_dir: str, *, journal: str, run_id: int, kernel: Kernel = KERNEL) -> str:
    """Which other run the files here belong to, in words; empty if they are those of this run, or none.

    Files of earlier versions name no journal, which is right for runs whose journal is the empty text. A file
    that is damaged, as after a loss of power, names nothing.
    """
    for name in (RUN, CLAIM, EXIT):
        found = read(run_dir, name, kernel)
        if not found:
            continue
        its_run, its_journal = found.get("run_id", run_id), found.get("journal", "")
        if (its_run, its_journal) != (run_id, journal):
            return f"run {its_run} of the journal {its_journal or 'of an earlier version'} ({name})"
    return ""


def claim(
    run_dir: str,
    *,
    journal: str,
    run_id: int,
    boot: str,
    pid: int,
    start: int,
    port: int = 0,
    kernel: Kernel = KERNEL,
) -> bool:
    """Claim the run; True for exactly one caller, which may start it. `pid` 0: the run must never start."""
    content = {
        "journal": journal,
        "run_id": run_id,
        "boot_id": boot,
        "pid": pid,
        "start": start,
        "port": port,
    }
    return _create(run_dir, CLAIM, content, kernel)


def reserve_exit(run_dir: str, kernel: Kernel = KERNEL) -> None:
    """Reserve disk space for the exit record."""
    fd = kernel.open(os.path.join(run_dir, RESERVED), os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        kernel.posix_fallocate(fd, 0, RESERVED_BYTES)
    finally:
        kernel.close(fd)


def write_exit(run_dir: str, record: Mapping[str, Any], kernel: Kernel = KERNEL) -> None:
    """Write the exit record, durable on return. An existing one stays as it is."""
    data = _encode(record)
    reserved = os.path.join(run_dir, RESERVED)
    fd = kernel.open(reserved, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, data, kernel)
        kernel.ftruncate(fd, len(data))
        kernel.fsync(fd)
    finally:
        kernel.close(fd)
    try:
        kernel.link(reserved, os.path.join(run_dir, EXIT))
    except FileExistsError:
        pass
    finally:
        _unlink(reserved, kernel)
    directory = kernel.open(run_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        kernel.fsync(directory)
    finally:
        kernel.close(directory)


def put(run_dir: str, name: str, content: Mapping[str, Any], kernel: Kernel = KERNEL) -> None:
    """Write or replace a file. It is not synced, so a loss of power may lose it."""
    temporary = os.path.join(run_dir, f"{name}.{kernel.getpid()}")
    try:
        _write(temporary, _encode(content), kernel)
        kernel.replace(temporary, os.path.join(run_dir, name))
    except OSError:
        _unlink(temporary, kernel)
        raise


def put_once(run_dir: str, name: str, content: Mapping[str, Any], kernel: Kernel = KERNEL) -> bool:
    """Write a file unless it exists already; True for exactly one caller."""
    return _create(run_dir, name, content, kernel)


def remove(run_dir: str, name: str, kernel: Kernel = KERNEL) -> None:
    """Remove a file, if it is there."""
    _unlink(os.path.join(run_dir, name), kernel)


def _create(run_dir: str, name: str, content: Mapping[str, Any], kernel: Kernel) -> bool:
    """Write a file unless it exists already; True for exactly one caller."""
    temporary = os.path.join(run_dir, f"{name}.{kernel.getpid()}.new")
    try:
        _write(temporary, _encode(content), kernel)
        kernel.link(temporary, os.path.join(run_dir, name))
    except FileExistsError:
        return False
    finally:
        _unlink(temporary, kernel)
    return True


def _encode(content: Mapping[str, Any]) -> bytes:
    return _json({"version": 1, **content}).encode(errors="replace") + b"\n"


def _json(value: Any) -> str:
    """Like `json.dumps`. To import json would take most of the time of a supervisor of a short run."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        if value.isprintable() and '"' not in value and "\\" not in value:
            return f'"{value}"'
        return '"' + "".join(f"\\u{ord(c):04x}" if c < " " or c in '"\\\x7f' else c for c in value) + '"'
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_json(key)}: {_json(each)}" for key, each in value.items()) + "}"
    return "[" + ", ".join(_json(each) for each in value) + "]"


def _write(path: str, data: bytes, kernel: Kernel) -> None:
    fd = kernel.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        write_all(fd, data, kernel)
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from None  # with the name, for the user
    finally:
        kernel.close(fd)


def _unlink(path: str, kernel: Kernel) -> None:
    try:  # noqa: SIM105  (contextlib would have to be loaded)
        kernel.unlink(path)
    except FileNotFoundError:
        pass
