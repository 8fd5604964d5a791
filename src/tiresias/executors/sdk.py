"""What a manager puts on the Python path of runs: the package `tiresias` with the SDK alone, and the hook.

The files are copied into the manager's home. There every user can read them, whatever the rights of the
manager's own installation are, and a run keeps the version with which it was started when that installation
is replaced. The name of the directory is a digest of the contents.

    DIGEST/package/tiresias/__init__.py     steps aside for an installation of the user's own
    DIGEST/package/tiresias/job/            the SDK
    DIGEST/hook/sitecustomize.py            for jobs with --auto
"""

from __future__ import annotations

import os
import re
from hashlib import sha256
from pathlib import Path

import tiresias.job
from tiresias.executors.directories import make_passage

MANAGER_ONLY = ("reports.py", "progress.py")  # modules of `tiresias.job` that read what trainings write
PACKAGE, HOOK = "package", "hook"
READABLE = 0o755
PUBLISHED = re.compile(r"/[0-9a-f]{16}/(package|hook)$")  # an entry that any manager has written


def package(published: Path) -> Path:
    """The directory with the package `tiresias`."""
    return published / PACKAGE


def hook(published: Path) -> Path:
    """The directory with `sitecustomize`."""
    return published / HOOK


def python_path(given: str, published: Path, *, with_hook: bool) -> str:
    """PYTHONPATH for a run: the SDK behind what the user has given; the hook before it, so that it is found.

    A job that is submitted from inside another one would pass on what that one was given.
    """
    own = [entry for entry in given.split(os.pathsep) if not PUBLISHED.search(entry)] if given else []
    before = [str(hook(published))] if with_hook else []
    return os.pathsep.join([*before, *own, str(package(published))])


def contents() -> dict[str, bytes]:
    """The files by their path in the directory."""
    ours = Path(__file__).with_name("run_path")
    job = Path(tiresias.job.__file__).parent
    files = {
        f"{PACKAGE}/tiresias/__init__.py": (ours / "package.py").read_bytes(),
        f"{HOOK}/sitecustomize.py": (ours / "sitecustomize.py").read_bytes(),
    }
    for path in sorted(job.glob("*.py")):
        if path.name not in MANAGER_ONLY:
            files[f"{PACKAGE}/tiresias/job/{path.name}"] = path.read_bytes()
    return files


def publish(root: Path) -> Path:
    """Write the files into a directory of `root`, unless they are there, and return the directory."""
    files = contents()
    digest = sha256()
    for name, content in files.items():
        digest.update(f"{name} {len(content)}\n".encode() + content)
    make_passage(root)
    published = root.absolute() / digest.hexdigest()[:16]
    for name, content in files.items():
        _write(published, name, content)
    return published


def _write(published: Path, name: str, content: bytes) -> None:
    path = published / name
    directories = [each for each in reversed(path.parents) if each == published or published in each.parents]
    for each in directories:
        each.mkdir(exist_ok=True)
        each.chmod(READABLE)  # whatever the umask is
    try:
        if path.read_bytes() == content:
            return
    except FileNotFoundError:
        pass
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fresh.write_bytes(content)
    fresh.chmod(0o644)
    os.replace(fresh, path)
