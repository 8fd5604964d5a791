"""`tir doctor`: look for problems, and say what to do about them.

Rules: it works with and without a manager, changes nothing, and makes all checks even if one of them fails.
Each finding says what was found; a problem also has a next step.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tiresias import __version__
from tiresias.cli import errors, interpreter
from tiresias.cli.console import console
from tiresias.cli.errors import Stop
from tiresias.cli.live import manager_options, manager_process
from tiresias.cli.live.connection import HomeOption, home_of, print_json
from tiresias.cli.live.manager_options import Settings
from tiresias.cli.live.sizes import written
from tiresias.cli.live.times import short
from tiresias.cli.plugins import AsOutput, Output

LEAST_FREE_BYTES = 2**30
CLOCK_SLACK_S = 60.0


@dataclass(slots=True, frozen=True)
class Finding:
    """The result of one check; `next_step` is empty if there is no problem."""

    what: str
    is_ok: bool
    text: str
    next_step: str = ""


def doctor(home: HomeOption = None, output: AsOutput = Output.TABLE) -> None:
    """Check the home, socket, disk, GPUs, clock and journal.

    Exit code 1 if anything is wrong.
    """
    findings = list(examine(home_of(home)))
    if output is Output.JSON:
        print_json([asdict(each) for each in findings])
    else:
        _print(findings)
    if any(not each.is_ok for each in findings):
        raise Stop("", errors.FAILED)


def examine(home_dir: Path) -> Iterator[Finding]:
    status = _ask(home_dir)
    yield _version(status)
    yield _python(status)
    yield _home(home_dir)
    yield _options(home_dir)
    yield _manager(home_dir, status)
    yield _policy(status)
    yield _socket(home_dir)
    yield _space(home_dir)
    yield _nodes(home_dir) if _has_nodes(home_dir) else _driver(home_dir)
    yield _cgroups(status)
    yield _clock(home_dir)
    yield _journal(home_dir)


def _ask(home_dir: Path) -> dict[str, Any] | str:
    """The manager's status, or why there is none."""
    from tiresias.api.client import ApiError, Client

    try:
        return Client(home_dir, timeout_s=10.0).status()
    except ApiError as error:
        return error.message


def _version(status: dict[str, Any] | str) -> Finding:
    if isinstance(status, str) or status["version"] == __version__:
        return Finding("version", True, f"tiresias {__version__}")
    text = f"this program is {__version__}, the manager is {status['version']}"
    return Finding("version", False, text, "restart the manager with the new version: tir down && tir up")


def _python(status: dict[str, Any] | str) -> Finding:
    """The interpreter of this program, and that of the manager if it is another one."""
    text = interpreter.described()
    theirs = "" if isinstance(status, str) else interpreter.of_process(int(status["pid"]))
    if theirs and not interpreter.is_ours(theirs):
        text = f"{text}; the manager runs {theirs}"
    return Finding("Python", True, text)


def _home(home_dir: Path) -> Finding:
    if not home_dir.is_dir():
        step = "start a manager: tir up" if not home_dir.exists() else "choose a directory with TIRESIAS_HOME"
        return Finding("home", False, f"{home_dir} is not a directory", step)
    seen = home_dir.stat()
    mode = stat.S_IMODE(seen.st_mode)
    if mode & 0o002:
        text = f"{home_dir} is writable by all users (mode {mode:04o})"
        return Finding("home", False, text, f"chmod o-w {home_dir}")
    if not os.access(home_dir, os.W_OK | os.X_OK):
        text = f"{home_dir} belongs to {_user(seen.st_uid)}: you can use its manager, but not start one"
        return Finding("home", True, text)
    return Finding("home", True, f"{home_dir} (mode {mode:04o})")


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _options(home_dir: Path) -> Finding:
    try:
        found = manager_options.read(home_dir)
    except (Stop, OSError) as error:
        return Finding("options", False, str(error), f"rm {home_dir / manager_options.FILE}, then tir up")
    if found is None:
        return Finding("options", True, "none kept yet")
    shown = [found.written(name) for name in found.differences(Settings())]
    return Finding("options", True, " ".join(shown) or "the defaults")


def _manager(home_dir: Path, status: dict[str, Any] | str) -> Finding:
    if isinstance(status, str):
        record = manager_process.read_record(home_dir)
        if record is not None and record.is_alive:
            step = f"see {home_dir / manager_process.LOG}; `kill -9 {record.pid}` loses nothing, then tir up"
            return Finding("manager", False, f"pid {record.pid} runs but does not answer: {status}", step)
        return Finding("manager", False, status, f"tir up   (its log: {home_dir / manager_process.LOG})")
    if status["problem"]:
        return Finding(
            "manager", False, status["problem"], "correct that; the manager then continues by itself"
        )
    return Finding("manager", True, f"pid {status['pid']} answers, up {short(status['uptime_s'])}")


def _policy(status: dict[str, Any] | str) -> Finding:
    if isinstance(status, str):
        return Finding("policy", True, "not known: no manager answers")
    if problem := status.get("plugin_problem"):  # an earlier version does not send it
        step = "correct it, restart the manager (tir down && tir up) and choose it again (tir policy set)"
        return Finding(
            "policy", False, problem, f"{step}; or keep this one: tir policy set {status['policy']}"
        )
    return Finding("policy", True, f"{status['policy']}, placer {status['placer']}")


def _socket(home_dir: Path) -> Finding:
    path = home_dir / "manager.sock"
    try:
        seen = path.lstat()
    except FileNotFoundError:
        return Finding("socket", True, "none; a manager creates it")
    except OSError as error:
        return Finding("socket", False, f"{path}: {error.strerror}", "ask the person who started the manager")
    mode = stat.S_IMODE(seen.st_mode)
    if not stat.S_ISSOCK(seen.st_mode):
        return Finding("socket", False, f"{path} is not a socket", f"move {path} elsewhere, then tir up")
    if mode & 0o007:
        text = f"{path} is open to all users (mode {mode:04o})"
        return Finding("socket", False, text, f"chmod o-rwx {path}; for a group: tir up --group NAME")
    return Finding("socket", True, f"{path} (mode {mode:04o})")


def _space(home_dir: Path) -> Finding:
    around = next(each for each in (home_dir, *home_dir.parents) if each.exists())
    free = shutil.disk_usage(around).free
    text = f"{written(free)} free at {around}"
    if free < LEAST_FREE_BYTES:
        return Finding("disk", False, text, "free some space; logs and checkpoints of jobs are there")
    return Finding("disk", True, text)


def _cgroups(status: dict[str, Any] | str) -> Finding:
    """Whether the runs of the manager, or of one that is started from here, have cgroups."""
    from tiresias.executors.cgroup_parent import find

    found = find(None if isinstance(status, str) else int(status["pid"]))
    if found.path is None:
        return Finding("cgroups", True, f"none for runs, which are tracked by their parents: {found.reason}")
    limiting = found.limiting()
    reasons = (("--cpus", limiting.no_cpus), ("--mem", limiting.no_memory))
    lacks = [f"no {flag}: {why}" for flag, why in reasons if why]
    text = "; ".join([f"one per run, below {found.path}", *(lacks or ["--cpus and --mem can be enforced"])])
    return Finding("cgroups", True, text)


def _has_nodes(home_dir: Path) -> bool:
    """Whether the manager of this home has the nodes of an engine."""
    try:
        return home_dir.is_dir() and (manager_options.read(home_dir) or Settings()).on is not None
    except (Stop, OSError):
        return False


def _nodes(home_dir: Path) -> Finding:
    """The nodes of an engine that are not used, and why."""
    from tiresias.api.client import ApiError, Client

    try:
        found = Client(home_dir, timeout_s=10.0).nodes()
    except ApiError as error:
        return Finding("nodes", True, f"not known: {error.message}")
    out = [f"{node['name']}: {node['reason']}" for node in found if node["is_silent"] or node["is_drained"]]
    if out:
        step = "mend them, then they are used by themselves; drained ones: tir undrain NODE"
        return Finding("nodes", False, "; ".join(out), step)
    return Finding("nodes", True, f"{len(found)} in service")


def _driver(home_dir: Path) -> Finding:
    from tiresias.executors.gpus import Nvml, find

    found = find(Nvml())
    try:
        fake = (manager_options.read(home_dir) or Settings()).fake_gpus if home_dir.is_dir() else None
    except (Stop, OSError):
        fake = None
    if not found.gpus:
        if fake:
            return Finding("GPUs", True, f"{fake} fake GPUs, as configured")
        return Finding("GPUs", False, found.problem, "tir up --fake-gpus N on a machine without GPUs")
    if ill := [gpu for gpu in found.gpus if gpu.unhealthy]:
        text = "; ".join(f"GPU {gpu.index}: {gpu.unhealthy}" for gpu in ill)
        return Finding("GPUs", False, text, "see nvidia-smi -q; the manager does not use them")
    names = ", ".join(sorted({gpu.name for gpu in found.gpus}))
    near = f"; {found.topology.summary()}" if len(found.gpus) > 1 else ""
    return Finding("GPUs", True, f"{len(found.gpus)} ({names}){near}")


def _clock(home_dir: Path) -> Finding:
    """Compare the clock with the journal, whose instants never decrease."""
    last = _of_journal(home_dir, "SELECT max(at) FROM facts")
    ahead_s = (float(last) if isinstance(last, int | float) else 0.0) - time.time()
    if ahead_s > CLOCK_SLACK_S:
        text = f"the last instant in the journal is {short(ahead_s)} ahead of this machine's clock"
        return Finding("clock", False, text, "check the machine's clock (timedatectl)")
    return Finding("clock", True, time.strftime("%Y-%m-%d %H:%M:%S %Z"))


def _journal(home_dir: Path) -> Finding:
    path = home_dir / "journal.db"
    if not path.exists():
        if (home_dir / "journal.db.mark").exists():
            step = "put it back, or restore a backup: tir restore FILE"
            return Finding("journal", False, f"{path} is missing, and there was one", step)
        return Finding("journal", True, "none yet")
    if not os.access(path, os.R_OK):
        return Finding("journal", True, "you may not read it")
    from tiresias.live import run_directories
    from tiresias.live.home_paths import HomePaths
    from tiresias.store import Reader, StoreError

    step = f"stop the manager, keep a copy of {path}, and restore a backup (tir restore FILE),"
    step += f" or continue with what can be read: tir restore {path} --accept-damage"
    try:
        with Reader(path) as journal:
            if damage := journal.damage():
                return Finding("journal", False, f"{path} is damaged: {'; '.join(damage)}", step)
            wrong = journal.lost_commits() or run_directories.problem(HomePaths.of(home_dir), journal)
    except StoreError as error:
        return Finding("journal", False, str(error), step)
    if wrong:
        return Finding("journal", False, wrong, f"stop the manager, if one runs, then: tir restore {path}")
    return Finding("journal", True, f"{path} is intact ({written(path.stat().st_size)})")


def _of_journal(home_dir: Path, question: str) -> object:
    """One value from the journal, read only; or the message of SQLite."""
    import sqlite3

    path = home_dir / "journal.db"
    if not path.exists():
        return None
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=10.0)) as journal:
            row = journal.execute(question).fetchone()
            return None if row is None else row[0]
    except sqlite3.Error as error:
        return str(error)


def _print(findings: list[Finding]) -> None:
    from rich.text import Text

    screen = console()
    say: Callable[[Text], None] = lambda text: screen.print(text, soft_wrap=True)  # noqa: E731
    for each in findings:
        mark, style = ("ok", "green") if each.is_ok else ("problem", "bold red")
        say(Text.assemble((f"{mark:<8}", style), f"{each.what:<8} {each.text}"))
        if each.next_step:
            say(Text(f"{'':8}{'':8} -> {each.next_step}"))
    wrong = sum(not each.is_ok for each in findings)
    say(Text("no problems found" if not wrong else f"{wrong} to look at"))
