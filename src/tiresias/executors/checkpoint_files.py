"""The files in the checkpoint directory of a job: what a run has made or changed. Standard library only.

Files are only listed, never opened, and links are not followed: programs of users write there. A file that
the run is about to write under a temporary name (`.part`, as `job.save` does) is not saved yet.
"""

from __future__ import annotations

import marshal
import os
import select
import time

TYPE_CHECKING = False  # a supervisor that loads neither typing nor enum starts in half the time
if TYPE_CHECKING:
    import signal

    from tiresias.executors.spawn_worker import Account
else:
    import _signal as signal

MOST = 20_000  # files and directories that are looked at
MOST_S = 10.0  # a file system of the user's own may never answer

Files = dict[str, tuple[int, int, int]]
"""By path: the inode, the size, and when it was written, in nanoseconds."""


def look(directory: str) -> Files | None:
    """The files below a directory, none if it does not exist; None if it has too many or cannot be read."""
    found: Files = {}
    waiting, seen = [directory], 0
    while waiting:
        path = waiting.pop()
        try:
            with os.scandir(path) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MOST:
                        return None
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
                    elif not entry.name.endswith(".part") and (state := _state(entry)):
                        found[entry.path] = state
        except FileNotFoundError:  # it does not exist yet, or was removed meanwhile
            continue
        except OSError:
            return None
    return found


def look_as(account: Account | None, directory: str) -> Files | None:
    """The same as the user of this account; None as well if there is no answer within MOST_S."""
    if account is None or os.geteuid() != 0:
        return look(directory)
    try:
        reader, writer = os.pipe2(os.O_CLOEXEC)
    except OSError:
        return None
    try:
        pid = os.fork()
        if pid == 0:
            _answer_as(account, directory, writer)
    except OSError:
        os.close(reader)
        return None
    finally:
        os.close(writer)
    try:
        return _answer_of(reader)
    finally:
        os.close(reader)
        os.kill(pid, signal.SIGKILL)  # not waited for yet, so this is its number
        os.waitpid(pid, os.WNOHANG)  # a call to a file system may keep it; then it is found with the workers


def _answer_as(account: Account, directory: str, writer: int) -> None:
    """Runs in the child, and never returns."""
    try:
        uid, gid, groups, *_ = account
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        with open(writer, "wb") as file:
            file.write(marshal.dumps(look(directory)))
    finally:
        os._exit(0)


def _answer_of(reader: int) -> Files | None:
    ends, found = time.monotonic() + MOST_S, b""
    while True:
        ready, _, _ = select.select([reader], [], [], max(0.0, ends - time.monotonic()))
        if not ready:
            return None
        piece = os.read(reader, 1 << 16)
        if not piece:
            break
        found += piece
    try:
        answer: Files | None = marshal.loads(found)
    except (EOFError, ValueError, TypeError):  # it was ended
        return None
    return answer


def _state(entry: os.DirEntry[str]) -> tuple[int, int, int] | None:
    try:
        status = entry.stat(follow_symlinks=False)
    except FileNotFoundError:  # removed meanwhile
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def changed(directory: str, before: Files | None, account: Account | None = None) -> tuple[int | None, float]:
    """How many files were made or changed since then, and when the last of them was written (epoch seconds).

    None: that is not known.
    """
    after = None if before is None else look_as(account, directory)
    if before is None or after is None:
        return None, 0.0
    new = [state for path, state in after.items() if before.get(path) != state and state[1]]
    return len(new), max([written for _, _, written in new], default=0) / 1e9
