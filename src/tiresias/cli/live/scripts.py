"""A shell script as a job: `#TIR` lines have options, and the common `#SBATCH` lines are understood.

Rules: lines are read up to the first one that is neither a comment nor empty, as by sbatch. `#TIR` takes
precedence over `#SBATCH`. Options that only Slurm needs are ignored with a note; any other option that is not
understood is an error. No SLURM_* variable is set.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tiresias.cli import quick
from tiresias.cli.errors import Stop
from tiresias.cli.live.job_options import Given, JobOptions, takes_job_options
from tiresias.cli.live.times import slurm_duration_s
from tiresias.spec.job import BY_KEY

# fmt: off
IGNORED = frozenset({
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
DEPENDENCIES = {"afterok": "after", "afterany": "afterany", "afternotok": "afternotok"}
SWITCHES = frozenset({"exclusive", "no-requeue", "overcommit", "oversubscribe", "requeue", "verbose"}) | {
    name for name, key in SAME.items() if BY_KEY[key].is_switch
}


@dataclass(slots=True)
class Script:
    """A script and the options at its head."""

    command: list[str]
    options: JobOptions
    notes: list[str] = field(default_factory=list)


def read(path: Path, arguments: list[str]) -> Script:
    """The script as a job, with its arguments."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise Stop(f"{path} is not a script; to run a program, write: tir submit -- {path}") from None
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


def _words(text: str, where: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError as error:
        raise Stop(f"{where}: {error}") from None


def _interpreter(text: str) -> list[str]:
    """The interpreter of the first line, by default bash; the file need not be executable."""
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
        notes.append(f"{path} calls srun, which needs Slurm; call the program or torchrun directly")
    return notes


def parse_options(words: list[str], where: str) -> JobOptions:
    """The options of a job in a `#TIR` line."""
    found: list[JobOptions] = []

    def collect(job: JobOptions) -> None:
        found.append(job)

    command = takes_job_options(collect)
    if (right := quick.call(command, words)) is not None:
        right()
    else:
        from tiresias.cli.program import call_with_typer

        try:
            call_with_typer(command, words, "#TIR")
        except ValueError as error:
            raise Stop(f"{where}: {error}") from None
    return found[0]


# --- #SBATCH ---------------------------------------------------------------------------------------------


@dataclass(slots=True)
class SlurmOptions:
    """What all `#SBATCH` lines together ask for."""

    options: JobOptions = field(default_factory=JobOptions)
    gpus: int | None = None
    per_node: int | None = None
    per_task: int | None = None
    tasks: int | None = None
    ignored: list[str] = field(default_factory=list)

    def keep(self, **values: Given | None) -> None:
        self.options = JobOptions.of(**values).over(self.options)

    def total(self) -> int | None:
        """The number of GPUs of the whole job."""
        if self.gpus is not None:
            return self.gpus
        if self.per_node is not None:
            return self.per_node * int(self.options.text("nodes") or 1)
        return None if self.per_task is None else self.per_task * (self.tasks or 1)


def _slurm(words: list[tuple[int, str]], path: Path) -> tuple[JobOptions, list[str]]:
    asked = SlurmOptions()
    for where, name, value in _pairs(words, path):
        if name in UNDERSTOOD:
            UNDERSTOOD[name](asked, value, f"{where}: --{name}")
        if name in IGNORED and name not in SAME:
            asked.ignored.append(f"--{name}")
        elif name not in UNDERSTOOD:
            raise Stop(f"{where}: --{name} is not understood; remove it, or use an option of #TIR")
    notes = []
    if asked.ignored:
        notes.append(f"{path}: ignored options of Slurm: {', '.join(dict.fromkeys(asked.ignored))}")
    gpus = asked.total()
    if gpus is not None:
        asked.keep(gpus=str(gpus))
    return asked.options, notes


def _pairs(words: list[tuple[int, str]], path: Path) -> Iterator[tuple[str, str, str]]:
    """(where, long name, value) of each option, as Slurm reads them."""
    rest = iter(words)
    for number, word in rest:
        where = f"{path}, line {number}"
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            if not equals and name not in SWITCHES:
                value = next(rest, (0, ""))[1]
        elif word.startswith("-") and len(word) > 1:
            name = SHORT.get(word[1], word[1])
            value = word[2:] if word[2:] or name in SWITCHES else next(rest, (0, ""))[1]
        else:
            raise Stop(f"{where}: {word!r} is not an option of Slurm")
        yield where, name, value


def _number(text: str, where: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise Stop(f"{where} {text!r}: give a whole number from 1 up")
    return int(text)


def _of_gpus(text: str, where: str) -> int:
    """The number in `2` or `a100:2`; the type is ignored."""
    return _number(text.rpartition(":")[2], where)


def _gres(asked: SlurmOptions, value: str, where: str) -> None:
    for part in value.split(","):
        kind, _, rest = part.strip().partition(":")
        if kind == "gpu":
            asked.per_node = _of_gpus(rest or "1", where)
        else:
            asked.ignored.append(f"--gres={part.strip()}")


def _dependency(asked: SlurmOptions, value: str, where: str) -> None:
    for part in value.split(","):
        kind, _, ids = part.partition(":")
        if kind not in DEPENDENCIES or not ids:
            kinds = ", ".join(DEPENDENCIES)
            raise Stop(f"{where} {value!r}: write KIND:ID[:ID…] with {kinds}, separated by commas")
        key = DEPENDENCIES[kind]
        before = asked.options.text(key)
        asked.keep(**{key: ",".join(filter(None, [before, ids.replace(":", ",")]))})


def _export(asked: SlurmOptions, value: str, where: str) -> None:
    names = [each.strip() for each in value.split(",") if each.strip()]
    asked.keep(
        env=[each for each in names if each not in ("ALL", "NONE")] or None, clean_env="ALL" not in names
    )


def _begin(asked: SlurmOptions, value: str, where: str) -> None:
    units = {"second": "s", "minute": "m", "hour": "h", "day": "d", "week": "w"}
    found = re.fullmatch(r"now\+(\d+)(second|minute|hour|day|week)?s?", value)
    asked.keep(begin=f"+{found[1]}{units[found[2] or 'second']}" if found else value)


def _time(asked: SlurmOptions, value: str, where: str) -> None:
    asked.keep(time=f"{slurm_duration_s(value, where):g}s")


def _nodes(asked: SlurmOptions, value: str, where: str) -> None:
    asked.keep(nodes=str(_number(value.partition("-")[0], where)))


def _set(key: str) -> Callable[[SlurmOptions, str, str], None]:
    return lambda asked, value, where: asked.keep(**{key: BY_KEY[key].is_switch or value})


def _count(name: str, read: Callable[[str, str], int]) -> Callable[[SlurmOptions, str, str], None]:
    return lambda asked, value, where: setattr(asked, name, read(value, where))


UNDERSTOOD: dict[str, Callable[[SlurmOptions, str, str], None]] = {
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
