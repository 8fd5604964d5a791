"""A shell script as a job: its `#TIR` lines hold options, and the common `#SBATCH` lines are understood.

Rules: lines count up to the first one that is neither a comment nor empty, as for sbatch. `#TIR` goes over
`#SBATCH`. What Slurm knows and we do not need is passed over, and the user is told which; what would change
what runs and is not understood is an error. No SLURM_* variable is ever made up.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from tiresias.cli.errors import Stop
from tiresias.cli.live.job_options import Given, JobOptions, takes_job_options
from tiresias.cli.live.times import slurm_duration_s
from tiresias.spec.job import BY_KEY

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
# fmt: off
PASSED_OVER = frozenset({
    "comment", "constraint", "cores-per-socket", "cpus-per-gpu", "cpus-per-task", "distribution",
    "error", "exclude", "exclusive", "get-user-env", "gpu-bind", "hint", "input", "kill-on-invalid-dep",
    "mail-type", "mail-user", "mem", "mem-bind", "mem-per-cpu", "mem-per-gpu", "nice", "no-requeue",
    "nodelist", "ntasks", "ntasks-per-gpu", "ntasks-per-node", "ntasks-per-socket", "open-mode",
    "output", "overcommit", "oversubscribe", "parsable", "partition", "profile", "propagate", "qos",
    "quiet", "requeue", "reservation", "signal", "threads-per-core", "tmp", "verbose", "wait-all-nodes",
    "wckey",
})
# fmt: on
SHORT = {
    "J": "job-name",
    "H": "hold",
    "N": "nodes",
    "G": "gpus",
    "t": "time",
    "a": "array",
    "A": "account",
    "D": "chdir",
    "d": "dependency",
    "b": "begin",
    "o": "output",
    "e": "error",
    "i": "input",
    "p": "partition",
    "q": "qos",
    "n": "ntasks",
    "c": "cpus-per-task",
    "C": "constraint",
    "w": "nodelist",
    "x": "exclude",
}
SAME = {option.sbatch: key for key, option in BY_KEY.items() if option.sbatch}  # the same text means the same
SWITCHES = frozenset({"exclusive", "no-requeue", "overcommit", "oversubscribe", "requeue", "verbose"}) | {
    name for name, key in SAME.items() if BY_KEY[key].is_switch
}


@dataclass(slots=True)
class Script:
    """A script and what its head asks for."""

    command: list[str]
    options: JobOptions
    notes: list[str] = field(default_factory=list)


def read(path: Path, arguments: list[str]) -> Script:
    """The script as a job; its arguments follow it."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Stop(f"{path} is not a script; to run a program write: tir submit -- {path}") from None
    ours: list[str] = []
    slurms: list[tuple[int, str]] = []
    for number, line in _head(text):
        if line.startswith("#TIR"):
            ours += _words(line.removeprefix("#TIR"), f"{path}, line {number}")
        elif line.startswith("#SBATCH"):
            words = _words(line.removeprefix("#SBATCH"), f"{path}, line {number}")
            slurms += [(number, word) for word in words]
    below, notes = _slurm(slurms, path)
    options = parse_options(ours, f"{path}, #TIR").over(below)
    command = [*_interpreter(text), str(path.absolute()), *arguments]
    return Script(command, options, [*notes, *_warnings(text, path)])


def _head(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip() and not line.startswith("#"):
            return
        yield number, line


def _words(text: str, place: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise Stop(f"{place}: {error}") from None


def _interpreter(text: str) -> list[str]:
    """What the first line says runs it; the file need not be executable."""
    first = text.split("\n", 1)[0]
    return shlex.split(first.removeprefix("#!")) if first.startswith("#!") else ["bash"]


def _warnings(text: str, path: Path) -> list[str]:
    variables = sorted(set(re.findall(r"\bSLURM_[A-Z_]+", text)))
    notes = []
    if variables:
        notes.append(
            f"{path} uses {', '.join(variables)}, which Tiresias does not set; its own are TIRESIAS_JOB_ID, "
            "TIRESIAS_ARRAY_INDEX, TIRESIAS_NUM_NODES, TIRESIAS_RUN and so on"
        )
    if re.search(r"^\s*srun\b", text, flags=re.MULTILINE):
        notes.append(f"{path} calls srun, which talks to Slurm; call the program or torchrun itself")
    return notes


def parse_options(words: list[str], place: str) -> JobOptions:
    """Options of a job as they stand on a command line."""
    found: list[JobOptions] = []

    def collect(job: JobOptions) -> None:
        found.append(job)

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.command()(takes_job_options(collect))
    command: Any = typer.main.get_command(app)
    try:
        with command.make_context("#TIR", list(words)) as context:
            command.invoke(context)
    except UsageError as error:
        raise Stop(f"{place}: {error}") from None
    return found[0]


# --- #SBATCH ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Wishes:
    """What the lines of Slurm add up to."""

    options: JobOptions = field(default_factory=JobOptions)
    gpus: int | None = None
    per_node: int | None = None
    per_task: int | None = None
    tasks: int | None = None
    ignored: list[str] = field(default_factory=list)

    def keep(self, **values: Given | None) -> None:
        self.options = JobOptions.of(**values).over(self.options)

    def total(self) -> int | None:
        """GPUs of the whole job."""
        if self.gpus is not None:
            return self.gpus
        if self.per_node is not None:
            return self.per_node * int(self.options.text("nodes") or 1)
        return None if self.per_task is None else self.per_task * (self.tasks or 1)


def _slurm(words: list[tuple[int, str]], path: Path) -> tuple[JobOptions, list[str]]:
    wishes = Wishes()
    for place, name, value in _pairs(words, path):
        if name in UNDERSTOOD:
            UNDERSTOOD[name](wishes, value, f"{place}: --{name}")
        if name in PASSED_OVER:
            wishes.ignored.append(f"--{name}")
        elif name not in UNDERSTOOD:
            raise Stop(f"{place}: --{name} is not understood; take it out, or say it with #TIR")
    notes = []
    if wishes.ignored:
        notes.append(f"{path}: passed over {', '.join(dict.fromkeys(wishes.ignored))} of Slurm")
    gpus = wishes.total()
    if gpus:
        wishes.keep(gpus=str(gpus))
    return wishes.options, notes


def _pairs(words: list[tuple[int, str]], path: Path) -> Iterator[tuple[str, str, str]]:
    """(place, long name, value), as Slurm takes options apart."""
    rest = iter(words)
    for number, word in rest:
        place = f"{path}, line {number}"
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name not in SWITCHES:
                value = next(rest, (0, ""))[1]
        elif word.startswith("-") and len(word) > 1:
            name = SHORT.get(word[1], word[1])
            value = word[2:] if word[2:] or name in SWITCHES else next(rest, (0, ""))[1]
        else:
            raise Stop(f"{place}: {word!r} is no option of Slurm")
        yield place, name, value


def _number(text: str, place: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise Stop(f"{place}: {text!r} is no whole number from 1 up")
    return int(text)


def _of_gpus(text: str, place: str) -> int:
    """`2`, `a100:2`: the type is the manager's business."""
    return _number(text.rpartition(":")[2], place)


def _gres(wishes: Wishes, value: str, place: str) -> None:
    for part in value.split(","):
        kind, _, rest = part.strip().partition(":")
        if kind == "gpu":
            wishes.per_node = _of_gpus(rest or "1", place)
        else:
            wishes.ignored.append(f"--gres={part.strip()}")


def _dependency(wishes: Wishes, value: str, place: str) -> None:
    kind, _, ids = value.partition(":")
    if kind != "afterok" or not ids:
        raise Stop(f"{place} {value!r}: only afterok:ID[:ID…] is understood")
    wishes.keep(after=ids.replace(":", ","))


def _export(wishes: Wishes, value: str, place: str) -> None:
    names = [each.strip() for each in value.split(",") if each.strip()]
    wishes.keep(
        env=[each for each in names if each not in ("ALL", "NONE")] or None, clean_env="ALL" not in names
    )


def _begin(wishes: Wishes, value: str, place: str) -> None:
    units = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}
    found = re.fullmatch(r"now\+(\d+)(second|minute|hour|day|week)?s?", value)
    wishes.keep(begin=f"+{found[1]}{units[found[2] or 'second']}" if found else value)


def _time(wishes: Wishes, value: str, place: str) -> None:
    wishes.keep(time=f"{slurm_duration_s(value, place):g}s")


def _nodes(wishes: Wishes, value: str, place: str) -> None:
    wishes.keep(nodes=str(_number(value.partition("-")[0], place)))


def _set(key: str) -> Callable[[Wishes, str, str], None]:
    return lambda wishes, value, place: wishes.keep(**{key: BY_KEY[key].is_switch or value})


def _count(name: str, read: Callable[[str, str], int]) -> Callable[[Wishes, str, str], None]:
    return lambda wishes, value, place: setattr(wishes, name, read(value, place))


UNDERSTOOD: dict[str, Callable[[Wishes, str, str], None]] = {
    **{name: _set(key) for name, key in SAME.items()},
    "nodes": _nodes,
    "time": _time,
    "begin": _begin,
    "dependency": _dependency,
    "export": _export,
    "gres": _gres,
    "gpus": _count("gpus", _of_gpus),
    "gpus-per-node": _count("per_node", _of_gpus),
    "gpus-per-task": _count("per_task", _of_gpus),
    "ntasks": _count("tasks", _number),
}
