"""Which Python runs this program, in words: the same code is not equally fast on every build of it."""

from __future__ import annotations

import os
import platform
import sys


def described() -> str:
    """The implementation, the version, the compiler that built it, and where it is."""
    is_debug = hasattr(sys, "gettotalrefcount")
    built = f"built by {platform.python_compiler()}" + (" with checks for debugging" if is_debug else "")
    return f"{platform.python_implementation()} {platform.python_version()}, {built}, {_real(sys.executable)}"


def of_process(pid: int) -> str:
    """The interpreter of another process; empty if that cannot be known."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def is_ours(path: str) -> bool:
    return path == _real(sys.executable)


def _real(path: str) -> str:
    return os.path.realpath(path) if path else "embedded"
