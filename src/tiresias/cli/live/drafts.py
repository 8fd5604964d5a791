"""From a command line or a file to the jobs that are sent to the manager.

Rules: what is not given is left out, so that the manager's defaults hold. Paths become absolute here, where
they mean something. Everything that can be seen to be wrong is said before anything is sent or copied.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tiresias.cli.errors import Stop
from tiresias.cli.live import checks, expand, job_files, scripts, snapshot
from tiresias.cli.live.job_options import JobOptions, value_of
from tiresias.cli.live.sizes import parse_size, written
from tiresias.cli.live.talking import is_remote
from tiresias.spec.job import BY_KEY
from tiresias.spec.kinds import LONGEST_LINE, MOST_JOBS

if TYPE_CHECKING:
    from tiresias.api.client import Client

NOT_HANDED_ON = frozenset({"_", "OLDPWD", "SHLVL", "TIRESIAS_TOKEN"})
SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm")


@dataclass(slots=True)
class Asked:
    """What the user wants to run, from wherever it was told."""

    command: list[str]
    options: JobOptions
    parameters: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    script: str = ""  # a script's path, which is a word of the command


@dataclass(slots=True)
class Draft:
    """The jobs to submit, all or none."""

    jobs: list[dict[str, Any]]
    notes: list[str]
    snapshot: snapshot.Snapshot | None = None

    @property
    def count(self) -> int:
        return sum(len(job["array"]["indices"]) if "array" in job else 1 for job in self.jobs)


def understand(words: list[str], command: list[str] | None, job: JobOptions) -> Asked:
    """A command after `--`, a job.yaml, a script with its arguments, or a command without options."""
    if command is not None:
        if words:
            raise Stop(f"{words[0]!r} stands before --, and the command after it; keep one of them")
        if not command:
            raise Stop("nothing follows --; write the command there: tir submit -g 1 -- python train.py")
        return _plain(command, job)
    if not words:
        raise Stop(
            "what shall run? Write for example: tir submit -g 1 -- python train.py\n"
            "or name a file: tir submit job.yaml, tir submit script.sh"
        )
    path = Path(words[0])
    if path.suffix in (".yaml", ".yml"):
        if len(words) > 1:
            raise Stop(f"{words[1]!r} after {path}: arguments of a job.yaml are set by --set key=value")
        found = job_files.read(path, job.texts("set"))
        return Asked(found.command, job.over(found.options), found.parameters)
    if _is_script(path):
        script = scripts.read(path, words[1:])
        asked = _plain(script.command, job.over(script.options))
        return replace(asked, notes=script.notes, script=str(path.absolute()))
    return _plain(words, job)


def _plain(command: list[str], job: JobOptions) -> Asked:
    if job.texts("set"):
        raise Stop("--set changes a job.yaml, and none is given; to vary a command see --sweep")
    return Asked(command, job)


def _is_script(path: Path) -> bool:
    if path.suffix in SCRIPTS:
        return True
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!" and "/" not in str(path) and not os.access(path, os.X_OK)
    except OSError:
        return False


def make(asked: Asked, client: Client, home: Path, *, is_trial: bool = False) -> Draft:
    """The jobs, checked; with the copy of the tree that they run in, unless it is only a trial."""
    job = asked.options
    cwd = Path(os.path.abspath(job.text("workdir") or os.getcwd()))
    notes = list(asked.notes)
    env = environment(job, cwd, notes)
    if not is_remote():
        checks.check_directory(cwd, "--workdir" if job.text("workdir") else "the current directory")
    indices = job.text("array")
    array = None if indices is None else expand.parse_array(indices)
    points = expand.points(expand.parse_sweep(job.texts("sweep")))
    common = _common(job, client, array)
    jobs = [{**common, **_at_point(asked, point, cwd, env)} for point in points]
    if len(jobs) * (len(array.indices) if array else 1) > MOST_JOBS:
        raise Stop(f"this makes more than {MOST_JOBS:,} jobs; submit it in parts")
    _check_checkpoints(jobs, array)
    if not job.is_set("force") and not is_remote():
        for command in {tuple(each["command"]): None for each in jobs}:
            checks.check_command(command, cwd, env)
    draft = Draft(jobs, notes)
    if job.is_set("snapshot") and not is_trial:
        _take_snapshot(draft, asked, cwd, home)
    return draft


def environment(job: JobOptions, cwd: Path, notes: list[str]) -> dict[str, str]:
    """This shell's environment with what --env says in its place."""
    env: dict[str, str] = {}
    if not job.is_set("clean_env"):
        handed = {k: v for k, v in os.environ.items() if not k.startswith("TIRESIAS_SWEEP_")}
        strange = [name for name, value in handed.items() if not _is_text(name + value)]
        if strange:
            notes.append(f"not handed on, because it is not UTF-8: {', '.join(map(repr, strange))}")
        env = {k: v for k, v in handed.items() if k not in NOT_HANDED_ON and k not in strange}
        env["PWD"] = str(cwd)
    for text in job.texts("env"):
        name, equals, value = text.partition("=")
        if not name:
            raise Stop(f"--env {text!r}: write NAME=VALUE, or NAME to hand this shell's value on")
        if not equals:
            if name not in os.environ:
                raise Stop(f"--env {name}: it is not set in this shell; write {name}=VALUE")
            value = os.environ[name]
        if not _is_text(name + value):
            raise Stop(f"--env {name}: its value is not UTF-8 text")
        env[name] = value
    return env


def _is_text(value: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in value)


def _common(job: JobOptions, client: Client, array: expand.Array | None) -> dict[str, Any]:
    """What is the same for every job of a sweep."""
    body: dict[str, Any] = {}
    for key, option in BY_KEY.items():
        if option.name and not option.is_resolved and key in job.values:
            text = job.values[key]
            body[option.name] = (
                value_of(option, text, option.flag) if isinstance(text, str) else option.flag_value
            )
    if (refs := job.text("after")) is not None:
        body["after"] = _after(refs, client)
    if array is not None:
        body["array"] = {"indices": array.indices, "limit": array.limit}
    return {**body, **_profile(job.text("profile"), job.text("model"))}


def _profile(file: str | None, model: str | None) -> dict[str, Any]:
    """The contents of the file go with the job, so that it is not needed again.

    The name of a model in place of a file is understood as well.
    """
    if file is None:
        return {}
    if model is not None:
        raise Stop(f"--model {model} and --profile {file} contradict each other; give one of them")
    from tiresias.profiles import readers, stored, zoo

    path = os.path.expanduser(file)
    if not os.path.exists(path) and zoo.knows(file):
        return {"model": file}
    if not os.path.exists(path):
        step = "tiresias profile MODEL --save FILE.json makes one; a model by its name: --model"
        raise Stop(f"--profile {file}: there is no such file; {step}")
    return {"profile": stored.as_dict(readers.load(os.path.abspath(path)))}


def _after(text: str, client: Client) -> list[int]:
    """Ids; names are looked up, because the next job of that name may be another."""
    refs = [ref.strip() for ref in text.split(",") if ref.strip()]
    if not refs:
        raise Stop(f"--after {text!r} names no job; write ids or names separated by commas")
    return [int(ref) if ref.isdecimal() else int(client.job(ref)["summary"]["id"]) for ref in refs]


def _at_point(asked: Asked, point: Mapping[str, str], cwd: Path, env: Mapping[str, str]) -> dict[str, Any]:
    """What one point of a sweep changes."""
    job, parameters = asked.options, {**asked.parameters, **point}
    command = expand.filled_command(asked.command, asked.parameters, point)
    given_name, checkpoints = job.text("name"), job.text("ckpt_dir")
    name = name_of(asked.command) if given_name is None else expand.fill(given_name, asked.parameters)
    given = {text.partition("=")[0] for text in job.texts("env")}
    filled = {key: expand.fill(env[key], parameters) for key in given}
    body: dict[str, Any] = {
        "command": command,
        "cwd": str(cwd),
        "env": {**env, **filled, **expand.environment(point)},
        "name": expand.named(name, point)[:LONGEST_LINE],
    }
    if checkpoints is not None:
        body["checkpoint_dir"] = os.path.abspath(os.path.expanduser(expand.fill(checkpoints, parameters)))
    return body


def name_of(command: Sequence[str]) -> str:
    """A name for a job that was given none: its Python script or module, else its program."""
    words = [Path(word).stem for word in command if word.endswith(".py")]
    words += [after.rpartition(".")[2] for word, after in pairwise(command) if word == "-m"]
    words += [Path(word).stem for word in command[1:2] if word.endswith(SCRIPTS)]
    found = re.sub(r"[^\w.=+-]", "", [*words, Path(command[0]).name][0])
    return "" if found.isdigit() or found in (".", "..") else found


def _check_checkpoints(jobs: Sequence[Mapping[str, Any]], array: expand.Array | None) -> None:
    """Two jobs that save to the same place destroy each other's work."""
    places = [job["checkpoint_dir"] for job in jobs if "checkpoint_dir" in job]
    shared = len(set(places)) < len(places) or (array and any("{i}" not in place for place in places))
    if shared and len(jobs) * (len(array.indices) if array else 1) > 1:
        raise Stop(
            f"--ckpt-dir {places[0]} would be shared by several jobs, which would overwrite each other's "
            "checkpoints; put {i} (array) or {name} (sweep) in it, or leave it out: each job then has its own"
        )


def _take_snapshot(draft: Draft, asked: Asked, cwd: Path, home: Path) -> None:
    if is_remote():
        raise Stop("--snapshot copies on this machine, and TIRESIAS_URL may be another: leave one out")
    limit = parse_size(asked.options.text("snapshot_limit") or snapshot.DEFAULT_LIMIT, "--snapshot-limit")
    copy = snapshot.take(cwd, home, limit)
    tree = snapshot.git_top(cwd) or cwd
    for word in checks.names_outside(draft.jobs[0]["command"], tree):
        if word != asked.script:
            draft.notes.append(f"{word} is named absolutely: the job uses that file, not the one in the copy")
    for job in draft.jobs:
        job["cwd"], job["snapshot"] = str(copy.cwd), str(copy.root)
        if "PWD" in job["env"]:
            job["env"]["PWD"] = str(copy.cwd)
        if asked.script.startswith(f"{tree}/"):
            inside = str(copy.root / Path(asked.script).relative_to(tree))
            job["command"] = [inside if word == asked.script else word for word in job["command"]]
    at = f" at {copy.commit[:12]}" if copy.commit else ""
    draft.notes.append(f"copied {copy.files:,} files ({written(copy.size_bytes)}) of {tree}{at}")
    draft.snapshot = copy
