"""Reads a model from `module:function`, which returns it on the meta device, where nothing is allocated."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tiresias.profiles.errors import ProfileError
from tiresias.profiles.model import ModelProfile
from tiresias.profiles.readers.found import Found, profile_of

FORM = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
LIMIT_S = 300.0


def is_function(source: str) -> bool:
    return FORM.fullmatch(source) is not None


def read(source: str, limit_s: float = LIMIT_S) -> ModelProfile:
    """The model that `module:function` returns; ProfileError says what it raised, and where."""
    module, _, name = source.partition(":")
    with tempfile.TemporaryDirectory(prefix="tiresias-profile-") as folder:
        answer = Path(folder) / "answer.json"
        command = [sys.executable, "-m", f"{__package__}.function_child", module, name, str(answer)]
        code, stderr = _run(command, source, limit_s)
        if not answer.exists():
            last = stderr.strip().splitlines()[-1:] or ["nothing on stderr"]
            raise ProfileError(f"{source}: its process ended with exit code {code} and no model: {last[0]}")
        answered = json.loads(answer.read_text(encoding="utf-8"))
    if "error" in answered:
        raise ProfileError(f"{source}: {answered['error']}")
    found = [Found(*each) for each in answered["tensors"]]
    return profile_of(source, found, source, "PyTorch on the meta device")


def _run(command: list[str], source: str, limit_s: float) -> tuple[int, str]:
    """The exit code and what the process wrote to stderr; its stdout is discarded."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        _, stderr = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise ProfileError(f"{source}: it did not return within {limit_s:g} s") from None
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    return process.returncode, stderr
