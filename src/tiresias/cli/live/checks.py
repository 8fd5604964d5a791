"""Errors that can be found before a job waits for its GPUs: in directories, programs, scripts."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from tiresias.cli.errors import Stop

SHELLS = ("sh", "bash", "dash", "zsh", "ksh")
ONLY_IN_A_SHELL = (".", "cd", "conda", "export", "module", "set", "source", "ulimit", "unset")
OVERRIDE = "If it will exist when the job starts, use --force."


def check_directory(path: Path, option: str) -> None:
    if not path.exists():
        raise Stop(f"{option} {path}: there is no such directory")
    if not path.is_dir():
        raise Stop(f"{option} {path} is not a directory")


def check_command(command: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
    """Refuse a program or a Python script that does not exist."""
    program = command[0]
    if "/" in program:
        _check_file(cwd / program, program)
    elif shutil.which(program, path=env.get("PATH", os.defpath)) is None:
        raise Stop(f"there is no program {program!r} on PATH{_instead(program, cwd, env)}. {OVERRIDE}")
    script = _script_of(command)
    if script is not None and not (cwd / script).exists():
        close = get_close_matches(script, [each.name for each in cwd.glob(f"*{Path(script).suffix}")], n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise Stop(f"there is no file {script!r} in {cwd}.{hint} {OVERRIDE}")


def _instead(program: str, cwd: Path, env: Mapping[str, str]) -> str:
    """What was probably meant by a program that does not exist."""
    here = cwd / program
    if here.is_file():
        return f"; to run the file here, write {_how_to_run(here, program)}"
    first, _, rest = program.partition(" ")
    is_for_a_shell = first in ONLY_IN_A_SHELL
    sets_a_variable = re.match(r"[A-Za-z_]\w*=", first) is not None
    if rest and (is_for_a_shell or sets_a_variable):
        return f"; write bash -c {shlex.quote(program)}"
    if rest and (shutil.which(first, path=env.get("PATH", os.defpath)) or (cwd / first).is_file()):
        return f"; write the command without quotes, or bash -c {shlex.quote(program)}"
    if is_for_a_shell:
        return "; a command is not given to a shell, so write bash -c '…'"
    return f"; give a variable with --env {program}" if sets_a_variable else ""


def _how_to_run(path: Path, program: str) -> str:
    if os.access(path, os.X_OK):
        return f"./{program}"
    return f"python {program}" if path.suffix == ".py" else f"bash {program}"


def _check_file(path: Path, program: str) -> None:
    if not path.exists():
        raise Stop(f"there is no program {program!r} ({path}). {OVERRIDE}")
    if path.is_dir():
        raise Stop(f"{program!r} is a directory, not a program")
    if not os.access(path, os.X_OK):
        how = _how_to_run(path, program)
        raise Stop(f"{program!r} is not executable; change that with `chmod +x {program}`, or write: {how}")


def _script_of(command: Sequence[str]) -> str | None:
    """The script in `python [-u …] script.py …` or in `bash script.sh …`, if there is one."""
    program = Path(command[0]).name
    if program in SHELLS and len(command) > 1:
        return command[1] if command[1].endswith(".sh") and " " not in command[1] else None
    if not re.fullmatch(r"python[\d.]*", program):
        return None
    words = iter(command[1:])
    for word in words:
        if word in ("-W", "-X"):
            next(words, None)
        elif not word.startswith("-"):
            return word if word.endswith(".py") else None
        elif word.startswith(("-m", "-c")) or word == "-":
            return None
    return None


def names_outside(command: Sequence[str], tree: Path) -> list[str]:
    """Words of a command that are absolute paths into the tree, and so not into its copy."""
    return [word for word in command if word.startswith(f"{tree}/") and Path(word).exists()]
