"""Which checkpoints this job has written, and whether they are still complete.

The list is a file in the directory for checkpoints, with the key of the job in its name, so that two jobs
with the same directory have two lists. A checkpoint enters the list when all of it is written, with the sizes
and times of its files. One that was cut, changed or written over since then is not used.
"""

from __future__ import annotations

import json
import os

from ._say import say

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

MOST = 50  # entries that are kept
CLAIM = ".tiresias-job"  # in a directory of checkpoints: the key of the job to which it belongs
SAME_S = 2.0  # file systems differ in how exactly they keep times


class Saves:
    """The checkpoints of one job. `kind` is the framework, `nth` counts its trainings in one process."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.key = environ.get("TIRESIAS_JOB_KEY") or environ.get("TIRESIAS_JOB_ID") or "0"
        self.directory = os.path.abspath(environ.get("TIRESIAS_CHECKPOINT_DIR") or "checkpoints")
        self.path = os.path.join(self.directory, f".tiresias-{self.key}.json")
        self._environ = environ

    def own(self, name: str) -> str:
        """A path in the directory for checkpoints that no other job uses."""
        return os.path.join(self.directory, f"{name}-{self.key}")

    def add(self, kind: str, nth: int, step: int, path: str) -> None:
        """Note that the checkpoint at `path`, a file or a directory, is complete."""
        entry = {"kind": kind, "nth": nth, "step": step, "path": os.path.abspath(path), "files": files(path)}
        others = [each for each in self._read() if each["path"] != entry["path"]]
        self._write([*others, entry][-MOST:])

    def last(self, kind: str, nth: int) -> Any:
        """The latest complete checkpoint, or None; says which later ones are not complete."""
        for entry in reversed(self._read()):
            if entry.get("kind") != kind or entry.get("nth") != nth or not os.path.exists(entry["path"]):
                continue  # frameworks remove old checkpoints
            problem = damage(entry)
            if not problem:
                return entry
            say(f"the checkpoint {entry['path']} is not used: {problem}")
        return None

    def paths(self, kind: str, nth: int) -> list[str]:
        """Where the checkpoints are, the oldest first."""
        return [entry["path"] for entry in self._read() if (entry["kind"], entry["nth"]) == (kind, nth)]

    def _read(self) -> list[Any]:
        try:
            with open(self.path, encoding="utf-8") as file:
                found = json.load(file)
        except FileNotFoundError:
            return []
        except (OSError, ValueError) as error:
            say(f"the list of checkpoints {self.path} cannot be read ({error}): the training begins anew")
            return []
        entries = found.get("saves", []) if isinstance(found, dict) else []
        wanted = {"kind", "nth", "step", "path", "files"}
        return [each for each in entries if isinstance(each, dict) and wanted <= each.keys()]

    def _write(self, entries: list[dict[str, Any]]) -> None:
        from ._files import save
        from ._newest import newest

        text = json.dumps({"saves": entries}, indent=1).encode()
        save(self.path, lambda file: file.write(text), newest(self._environ))


def files(path: str) -> dict[str, list[float]]:
    """Size and time of each file of a checkpoint, by its path in it."""
    if not os.path.isdir(path):
        return {"": of(path)}
    below = [os.path.join(top, name) for top, _, names in os.walk(path) for name in names]
    return {os.path.relpath(each, path): of(each) for each in sorted(below)}


def of(path: str) -> list[float]:
    found = os.stat(path)
    return [found.st_size, found.st_mtime]


def damage(entry: Mapping[str, Any]) -> str:
    """What is wrong with a checkpoint; empty if it is as it was written."""
    for name, (size, changed_at) in entry["files"].items():
        path = os.path.join(entry["path"], name) if name else entry["path"]
        try:
            now_size, now_changed_at = of(path)
        except OSError:
            return f"{name or path} is missing"
        if now_size != size:
            return f"{name or path} has {now_size} bytes and not {size:.0f}"
        if abs(now_changed_at - changed_at) > SAME_S:
            return f"{name or path} was changed after this job had written it"
    return ""


def claimed(directory: str, key: str) -> str:
    """`directory` itself, or one of this job below it if another job keeps its checkpoints there."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, CLAIM)
    fresh = os.path.join(directory, f"{CLAIM}.{key}.{os.getpid()}")
    try:
        with open(fresh, "w", encoding="utf-8") as file:
            file.write(key)
        os.link(fresh, path)  # which never replaces an existing file
    except FileExistsError:
        pass
    finally:
        if os.path.exists(fresh):
            os.remove(fresh)
    owner = owner_of(directory)
    if owner in ("", key):
        return directory
    own = os.path.join(directory, f"job-{key}")
    say(
        f"{directory} has the checkpoints of another job ({owner}), which this job leaves alone: its own are"
        f" in {own}"
    )
    return own


def released(directory: str, key: str) -> None:
    """Give the directory free again, because this job does not need its checkpoints any more."""
    if owner_of(directory) == key:
        os.remove(os.path.join(directory, CLAIM))


def owner_of(directory: str) -> str:
    try:
        with open(os.path.join(directory, CLAIM), encoding="utf-8") as file:
            return file.read().strip()
    except OSError:
        return ""
