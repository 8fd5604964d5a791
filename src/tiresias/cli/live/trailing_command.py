"""A command line that carries another one: `tir submit OPTIONS -- COMMAND …`.

Everything after the first `--` is the job's, untouched. Without `--` the words may be a file (job.yaml, a
script and its arguments) or a command that has no options of its own.
"""

from __future__ import annotations

from difflib import get_close_matches

from tiresias.cli.declare import CommandLine
from tiresias.cli.errors import Stop
from tiresias.spec.job import BY_KEY

ALIKE = 0.75  # of 1: so alike is a flag to one that does not exist that it was probably meant


def split(line: CommandLine, words: list[str]) -> tuple[list[str], list[str] | None]:
    """The words before `--`, and the command after it (None: there was no `--`)."""
    strange = next((word for word in words if word.startswith("-") and word != "-"), None)
    if strange is not None:
        flag = strange.partition("=")[0]
        is_before = line.after_dashes is not None
        hint = "" if is_before else " If it belongs to your command, put -- before the command."
        raise Stop(f"no such option: {flag}.{_meant(flag)}{hint} See: {line.path} -h")
    return words, line.after_dashes


def _meant(flag: str) -> str:
    known = [option.flag for option in BY_KEY.values() if option.flag]
    close = get_close_matches(flag, known, n=1, cutoff=ALIKE)
    return f" Did you mean {close[0]}?" if close else ""
