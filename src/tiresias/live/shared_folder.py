"""The folder that all nodes of a manager share: whose it is, and whether it can be used at all.

`manager.json` names the manager to which the folder belongs, and the lock beside it keeps a second process
of that manager out. Both are for people who start a second manager by mistake; what is in the folder is
protected by the id of the journal in every record.
"""

from __future__ import annotations

import fcntl
import json
import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tiresias.executors.directories import insecure, make_passage
from tiresias.job._files import save
from tiresias.live.errors import Conflict, Invalid

OWNER, LOCK = "manager.json", "manager.lock"
OURS = ("", "jobs", "agents", "sdk", "checks", "given-up")  # it, and what only a manager may change in it


def checked(text: str | None) -> Path:
    """The folder that `--shared` names, or Invalid: it must be there, and have hard links.

    A manager that runs as root refuses one that others could write, as it does for its home.
    """
    if not text:
        raise Invalid("--shared is missing: a manager of many nodes needs a folder that all of them share")
    shared = Path(text)
    here = platform.node()
    if not shared.is_absolute():
        raise Invalid(f"--shared {text}: give the path from / on, which must be the same on every node")
    if not shared.is_dir():
        raise Invalid(
            f"--shared {text}: there is no such folder on {here}; mount it, or make it with"
            f" `mkdir {text}` if every node sees that"
        )
    if os.geteuid() == 0:
        problems = [problem for name in OURS if (problem := insecure(shared / name))]
        if problems:  # others could put anything in the place of what root starts there
            raise Invalid(f"--shared {text}: {problems[0]}, or choose a folder that only root can write")
    probe, second = (shared / f".probe-{os.getpid()}{end}" for end in ("", "-link"))
    try:
        probe.write_text("")
    except OSError as error:
        raise Invalid(
            f"--shared {text}: it cannot be written on {here}: {error.strerror}; allow it"
        ) from None
    try:
        os.link(probe, second)
    except OSError as error:
        why = f"{error.strerror} on {here}"
        raise Invalid(f"--shared {text}: it has no hard links ({why}); choose a folder that has") from None
    finally:
        for path in (probe, second):
            with suppress(OSError):
                path.unlink()
    return shared


class SharedFolder:
    """Taken for one manager, until `close`. `about` is what others can read: journal, home, host, pid."""

    def __init__(self, folder: Path, about: dict[str, Any], journal_ids: Iterable[str]):
        self.path, self.about = folder, about
        self._lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            self._take(folder, about, set(journal_ids))
        except BaseException:
            self.close()
            raise

    def _take(self, folder: Path, about: dict[str, Any], journal_ids: set[str]) -> None:
        owner = _owner(folder)
        who = f"the manager of {owner.get('home')} on {owner.get('host')} (pid {owner.get('pid')})"
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Conflict(f"{who} uses the folder {folder}; end it with `tir down` there first") from None
        if owner and owner.get("journal") not in journal_ids:
            raise Conflict(
                f"the folder {folder} belongs to {who}; continue with that home, or give another --shared"
            )
        make_passage(folder / "jobs")
        save(folder / OWNER, lambda file: file.write(json.dumps(about).encode() + b"\n"))

    def close(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def _owner(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / OWNER).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
