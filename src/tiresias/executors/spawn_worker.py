"""The start of a worker process by its supervisor, and the messages for everything that can go wrong.

Standard library only. If the child cannot execute its program, it writes the reason into a pipe; otherwise
the pipe is closed by the execution of the program.
"""

from __future__ import annotations

import errno
import os

from tiresias.executors import cgroups

TYPE_CHECKING = False  # a supervisor that loads neither typing nor enum starts in half the time
if TYPE_CHECKING:
    import signal
    from typing import Any, NoReturn
else:
    import _signal as signal

Account = tuple[int, int, tuple[int, ...], int, tuple[tuple[int, int, int], ...]]
"""uid, gid, supplementary groups, umask, and limits (resource, soft, hard)."""

KEYCTL = {"x86_64": 250, "aarch64": 219, "riscv64": 219}  # the number of the system call keyctl
KEYCTL_GET_KEYRING_ID, KEYCTL_JOIN_SESSION_KEYRING, KEY_SPEC_SESSION_KEYRING = 0, 1, -3

BLOCKED = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)
IGNORED = (signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ)  # by the supervisor or by Python
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_log(path: str, account: Account | None) -> int:
    """The file to which a worker's output is appended; it belongs to the submitter."""
    log = os.open(path, APPEND, 0o600)
    os.set_blocking(log, True)  # opened non-blocking, so that a pipe with this name cannot block us
    if account is not None:
        os.fchown(log, account[0], account[1])
    return log


def spawn(
    worker: dict[str, Any],
    cwd: str,
    account: Account | None,
    cgroup: str,
    output: int,
    *,
    is_terminal: bool = False,
) -> tuple[int, int, str]:
    """Return (pid, pipe, error). The pipe yields an error message, or only its end if the program runs.

    The worker writes to `output`, which is closed here: its log, a pipe, or a terminal, which is its standard
    input as well. If `error` is not empty, there is no process and no pipe.
    """
    reader, writer = os.pipe2(os.O_CLOEXEC)
    # A stop that arrives now must end the child and not run the handler of the supervisor in it.
    signal.pthread_sigmask(signal.SIG_BLOCK, BLOCKED)
    try:
        if account is not None:
            # It may open its output again by a name such as /dev/stderr.
            os.fchown(output, account[0], -1 if is_terminal else account[1])
            _prepare_imports()
        pid = cgroups.fork_into(cgroup) if cgroup else -1
        is_inside = pid >= 0
        if not is_inside:
            pid = os.fork()
        if pid == 0:
            _become(worker, cwd, account, "" if is_inside else cgroup, output, writer, is_terminal)
    except OSError as error:
        os.close(reader)
        return 0, -1, f"cannot start a process: {reason(error)}"
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, BLOCKED)
        os.close(output)
        os.close(writer)
    return pid, reader, ""


def _become(
    worker: dict[str, Any],
    cwd: str,
    account: Account | None,
    cgroup: str,
    output: int,
    writer: int,
    is_terminal: bool,
) -> None:
    """Execute the program of the worker, in `cgroup` if it is given. Runs in the child and never returns."""
    try:
        message = _execute(worker, cwd, account, cgroup, output, is_terminal)
        os.write(1, f"tiresias: {message}\n".encode(errors="replace"))
        os.write(writer, message.encode(errors="replace"))
    finally:
        os._exit(127)


def _execute(
    worker: dict[str, Any],
    cwd: str,
    account: Account | None,
    cgroup: str,
    output: int,
    is_terminal: bool,
) -> str:
    """Return the reason for which the program could not be executed."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    for number in (*BLOCKED, *IGNORED):
        signal.signal(number, signal.SIG_DFL)
    if is_terminal:
        from tiresias.executors.terminal import take_terminal  # loaded by the supervisor already

        take_terminal(output)
    os.dup2(output if is_terminal else os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(output, 2)
    protect(0)
    try:
        if cgroup:
            cgroups.enter(cgroup)
    except OSError as error:
        return f"cannot enter the cgroup {cgroup}: {reason(error)}"
    if account is not None and (problem := _change_user(account)):
        return problem
    try:
        os.chdir(cwd)  # as the user, who may have rights that root lacks (NFS)
    except OSError as error:
        return f"cannot enter the working directory {cwd!r}: {reason(error)}; submit from one that exists"
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    return _exec(worker["argv"], worker["env"])


def _change_user(account: Account) -> str:
    """Become the submitter; return the reason if that fails."""
    uid, gid, groups, umask, limits = account
    os.umask(umask)
    for resource, soft, hard in limits:
        _limit(resource, soft, hard)
    try:
        os.setgroups(groups)  # first, because only root may; the uid last, because it drops root
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    except OSError as error:
        who = f"uid {uid}, gid {gid}, groups {list(groups)}"
        return f"cannot become {who}: {reason(error)}; the manager must run as root for this"
    if not _leave_keyring():
        return f"cannot make a session keyring for uid {uid}; see its quota in /proc/key-users"
    return ""


def _prepare_imports() -> None:
    """Load what the child needs after it has become a user who may not be able to read these files."""
    import _ctypes
    import resource

    assert _ctypes, resource


def _limit(which: int, soft: int, hard: int) -> None:
    """Set a limit of the submitter. Without the right to raise the hard limit, as far as it allows."""
    import resource

    most = resource.getrlimit(which)[1]
    try:
        resource.setrlimit(which, (soft, hard))
    except (OSError, ValueError):
        both = [most if each == resource.RLIM_INFINITY or each > most >= 0 else each for each in (soft, hard)]
        resource.setrlimit(which, (both[0], both[1]))


def _leave_keyring() -> bool:
    """Join a new session keyring, because that of the manager gives access to its keys.

    A kernel without keyrings, or a container that forbids their use, refuses both calls: then there is
    nothing to leave. False if the process still has the keyring of the manager.
    """
    import _ctypes

    number = KEYCTL.get(os.uname().machine)
    if number is None:
        return True
    call = _ctypes.dlsym(_ctypes.dlopen(None, 0), "syscall")  # type: ignore[arg-type]
    if _ctypes.call_function(call, (number, KEYCTL_JOIN_SESSION_KEYRING, None)) != -1:
        return True
    found = _ctypes.call_function(call, (number, KEYCTL_GET_KEYRING_ID, KEY_SPEC_SESSION_KEYRING, 0))
    return bool(found == -1)


def _exec(argv: list[str], env: dict[str, str]) -> str:
    program = argv[0]
    try:
        _search(program, argv, env)
    except FileNotFoundError:
        if "/" in program and os.path.exists(program):
            return f"cannot run {program!r}: the interpreter named in its first line does not exist"
        where = f"in {os.getcwd()}" if "/" in program else f"in PATH={env.get('PATH', os.defpath)}"
        return f"program {program!r} not found {where}; check its name, or give its full path"
    except PermissionError:
        return f"program {program!r} may not be executed: permission denied; try chmod +x"
    except OSError as error:
        hint = ""
        if error.errno == errno.ENOEXEC:
            hint = "; a script needs a first line such as #!/bin/sh, or name its interpreter"
        elif error.errno == errno.E2BIG:
            hint = f"; the environment has {sum(len(k) + len(v) for k, v in env.items())} characters"
        return f"cannot run {program!r}: {reason(error)}{hint}"
    except ValueError as error:  # a NUL byte
        return f"cannot run {program!r}: {error}"


def _search(program: str, argv: list[str], env: dict[str, str]) -> NoReturn:
    """Like os.execvpe, but without its import: the new user may not be able to read the module."""
    if "/" in program:
        os.execve(program, argv, env)
    refused: OSError | None = None
    for directory in env.get("PATH", os.defpath).split(":"):
        try:
            os.execve(f"{directory or '.'}/{program}", argv, env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            refused = refused or error
    raise refused or FileNotFoundError(program)


def protect(score: int) -> None:
    """Set oom_score_adj: the lower, the later the kernel kills this process (only root may lower it)."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write(str(score))
    except OSError:
        pass


def reason(error: OSError) -> str:
    text = (error.strerror or str(error)).lower()
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        text += " (free some space on that disk, then requeue the job)"
    return text
