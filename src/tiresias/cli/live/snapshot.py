"""`--snapshot`: a copy of the working tree as it is now, so that later edits do not change the job.

Rules: in a git repository the copy has all tracked files, as they are on the disk, and new files that are not
ignored; elsewhere it has the whole directory. Links are copied as links. A copy above the limit is refused
before anything is written, with the largest parts named. A copy that was not submitted is removed. The
manager removes copies in its own home when their jobs have ended; copies in the user's home are removed by
the user's next submission.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tiresias.cli.errors import REJECTED, Stop
from tiresias.cli.live.sizes import written

DIRECTORY = "snapshots"
ABOUT = ".tiresias-snapshot.json"
DEFAULT_LIMIT = "1G"
MOST_FILES = 100_000


@dataclass(slots=True, frozen=True)
class Snapshot:
    """A copy: its directory, and the directory in it that is the job's working directory."""

    root: Path
    cwd: Path
    files: int
    size_bytes: int
    commit: str

    def remove(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)

    def note_jobs(self, home: Path, ids: Sequence[int]) -> None:
        """Write into the copy which jobs of which manager run in it."""
        path = self.root / ABOUT
        about = json.loads(path.read_text(encoding="utf-8"))
        path.write_text(json.dumps({**about, "home": str(home), "jobs": list(ids)}, indent=2) + "\n")


def own() -> Path:
    """The directory for copies of users who may not write to the manager's home."""
    return Path("~/.tiresias").expanduser() / DIRECTORY


def tidy(folder: Path, home: Path, has_ended: Callable[[int], bool]) -> None:
    """Remove the copies whose jobs have all ended."""
    for path in folder.glob(f"*/{ABOUT}"):
        try:
            about = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue
        if about.get("home") == str(home) and all(map(has_ended, about.get("jobs", []))):
            shutil.rmtree(path.parent, ignore_errors=True)


def take(cwd: Path, home: Path, limit_bytes: int) -> Snapshot:
    """Copy the tree that contains `cwd`."""
    top = git_top(cwd)
    source = top or cwd
    ours = (home, own().parent)  # a copy contains no other copies and no state of a manager
    names = sorted(set(_tracked(source) if top else _everything(source)))
    names = [name for name in names if not any((source / name).is_relative_to(each) for each in ours)]
    sizes = {name: size for name in names if (size := _size(source / name)) is not None}
    _require_small(source, sizes, limit_bytes, bool(top))
    root = _room(home)
    try:
        for name in sizes:
            _copy(source / name, root / name)
        commit = _git(source, "rev-parse", "HEAD").strip() if top else ""
        about = {"source": str(source), "commit": commit, "files": len(sizes), "made_at": time.time()}
        (root / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        inside = root / cwd.relative_to(source)
        inside.mkdir(parents=True, exist_ok=True)
    except BaseException:
        shutil.rmtree(root, ignore_errors=True)
        raise
    return Snapshot(root, inside, len(sizes), sum(sizes.values()), commit)


def git_top(cwd: Path) -> Path | None:
    """The top of the git repository that contains this directory; None without one, or without git."""
    found = _git(cwd, "rev-parse", "--show-toplevel").rstrip("\n")
    return Path(found) if found and cwd.is_relative_to(found) else None


def _git(where: Path, *words: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(where), *words], capture_output=True, text=True, errors="surrogateescape"
        )
    except FileNotFoundError:
        return ""
    return done.stdout if done.returncode == 0 else ""


def _tracked(top: Path) -> Iterator[str]:
    """The tracked files and the new ones that are not ignored, also of submodules."""
    listed = _git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    for name in filter(None, listed.split("\0")):
        path = top / name
        if path.is_dir() and not path.is_symlink():  # a submodule, or a repository within
            yield from (str(Path(name) / inner) for inner in _tracked(path))
        else:
            yield name


def _everything(top: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if os.path.join(folder, name) != str(own().parent)]
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        for name in [*files, *links]:
            yield os.path.relpath(os.path.join(folder, name), top)


def _size(path: Path) -> int | None:
    """The size of a file; None if it no longer exists or is a socket, a pipe or the like."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_size if path.is_symlink() or path.is_file() else None


def _require_small(source: Path, sizes: dict[str, int], limit: int, is_git: bool) -> None:
    total = sum(sizes.values())
    if total <= limit and len(sizes) <= MOST_FILES:
        return
    parts: dict[str, int] = {}
    for name, size in sizes.items():
        part = Path(name).parts[0]
        parts[part] = parts.get(part, 0) + size
    largest = sorted(parts, key=lambda part: (-parts[part], part))[:3]
    listed = ", ".join(f"{part} ({written(parts[part])})" for part in largest)
    way = "name them in .gitignore" if is_git else "make it a git repository and name them in .gitignore"
    raise Stop(
        f"--snapshot: {source} has {len(sizes):,} files, {written(total)}; the limit is {written(limit)} and "
        f"{MOST_FILES:,} files. The largest parts: {listed}. Keep data and checkpoints out of the copy "
        f"({way}), or raise --snapshot-limit.",
        REJECTED,
    )


def _room(home: Path) -> Path:
    """A new directory in the manager's home if that is writable, else in the user's own."""
    name = secrets.token_hex(8)
    for folder in (home / DIRECTORY, own()):
        root = folder / name
        try:
            if folder.parent == home and not home.is_dir():
                continue
            root.mkdir(parents=True, mode=0o700)
        except (PermissionError, NotADirectoryError):
            continue
        return root
    raise Stop(f"--snapshot: neither {home / DIRECTORY} nor ~/.tiresias can be written; make one writable")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        shutil.copy2(source, target, follow_symlinks=False)
    except FileNotFoundError:
        if source.exists():
            raise  # else it was removed during the copy, and is no longer part of the tree
