"""Compiles the library that is preloaded, from messages.c, when it is first needed.

It is kept in the user's cache under a name that depends on the source, the compiler and the machine. Two
processes may compile it at the same time: the file appears as a whole.
"""

from __future__ import annotations

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

from tiresias.observe.errors import ObserveError

SOURCE = Path(__file__).with_name("messages.c")
FLAGS = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")
LINKED = ("-ldl",)
COMPILERS = ("cc", "gcc", "clang")
PACKAGES = "apt install gcc libc6-dev, dnf install gcc, or conda install c-compiler"
TIMEOUT_S = 120.0


def library() -> Path:
    """The compiled library, to be named in LD_PRELOAD."""
    if platform.system() != "Linux":
        raise ObserveError(f"a training can be observed on Linux only, and this is {platform.system()}")
    command = [*compiler(), *FLAGS]
    built = cache() / f"libmessages-{_key(command)}.so"
    if set(str(built)) & set(": "):
        hint = "Name a directory without them in XDG_CACHE_HOME."
        raise ObserveError(f"{built.parent}: LD_PRELOAD takes no path with a space or a colon. {hint}")
    if not built.exists():
        _build(command, built)
    return built


def compiler() -> list[str]:
    """The command of the C compiler: $CC if it is set, otherwise the first one found."""
    chosen = shlex.split(os.environ.get("CC", ""))
    for words in [chosen] if chosen else [[name] for name in COMPILERS]:
        if (found := shutil.which(words[0])) is not None:
            return [found, *words[1:]]
    looked = f"CC={os.environ['CC']!r} is not in PATH" if chosen else f"no {', '.join(COMPILERS)} in PATH"
    raise ObserveError(f"a C compiler is needed to build the library that observes: {looked}. {_hint()}")


def cache() -> Path:
    """The directory in which compiled libraries are kept."""
    named = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(named) if os.path.isabs(named) else Path.home() / ".cache"
    return base / "tiresias"


def _key(command: list[str]) -> str:
    parts = [SOURCE.read_bytes(), *(word.encode() for word in command), platform.machine().encode()]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:16]


def _build(command: list[str], built: Path) -> None:
    try:
        built.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=built.parent) as work:
            fresh = Path(work) / built.name
            done = subprocess.run(
                [*command, "-o", str(fresh), str(SOURCE), *LINKED],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=TIMEOUT_S,
                check=False,
            )
            if done.returncode or not fresh.exists():
                printed = "\n".join(done.stdout.strip().splitlines()[:6])
                raise ObserveError(f"{command[0]} could not compile {SOURCE.name}:\n{printed}\n{_hint()}")
            os.replace(fresh, built)
    except subprocess.TimeoutExpired:
        raise ObserveError(f"{command[0]} took more than {TIMEOUT_S:.0f} s; is it a compiler?") from None
    except OSError as error:
        where = "Name a directory that you may write to in XDG_CACHE_HOME."
        raise ObserveError(f"{built.parent}: {(error.strerror or str(error)).lower()}. {where}") from None


def _hint() -> str:
    return f"Install one with its C library ({PACKAGES})."
