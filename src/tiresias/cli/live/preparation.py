"""From a command line or a file to the jobs that are sent to the manager.

Rules: options that are not given are left out, so that the manager's defaults apply. Paths are made absolute
here, where they are known. All errors that can be found here are reported before anything is sent or copied.
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
from tiresias.cli.live import arrays, checks
from tiresias.cli.live.connection import is_remote
from tiresias.cli.live.job_options import JobOptions, value_of
from tiresias.cli.live.sizes import parse_size, written
from tiresias.spec.job import BY_KEY
from tiresias.spec.kinds import LONGEST_LINE, MOST_JOBS, largest

if TYPE_CHECKING:
    from tiresias.api.client import Client
    from tiresias.cli.live.snapshot import Snapshot

NOT_PASSED_ON = frozenset({"_", "OLDPWD", "SHLVL", "TIRESIAS_TOKEN"})
SCRIPTS = (".sh", ".bash", ".sbatch", ".slurm")


@dataclass(slots=True)
class JobSource:
    """What the user wants to run, from a command line, a job.yaml or a script."""

    command: list[str]
    options: JobOptions
    parameters: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    script: str = ""  # the path of a script, which is a word of the command


@dataclass(slots=True)
class Prepared:
    """The jobs to submit, all or none."""

    jobs: list[dict[str, Any]]
    notes: list[str]
    snapshot: Snapshot | None = None


def read_source(words: list[str], command: list[str] | None, job: JobOptions) -> JobSource:
    """A command after `--`, a job.yaml, a script with its arguments, or a command without options."""
    if command is not None:
        if words:
            raise Stop(f"{words[0]!r} is before --, and the command is after it; keep one of them")
        if not command:
            raise Stop("there is no command after --; write for example: tir submit -g 1 -- python train.py")
        return _plain(command, job)
    if not words:
        raise Stop(
            "there is no command; write for example: tir submit -g 1 -- python train.py\n"
            "or name a file: tir submit job.yaml, tir submit script.sh"
        )
    path = Path(words[0])
    if path.suffix in (".yaml", ".yml"):
        if len(words) > 1:
            raise Stop(f"{words[1]!r} after {path}: set parameters of a job.yaml with --set key=value")
        from tiresias.cli.live import job_files

        found = job_files.read(path, job.texts("set"))
        return JobSource(found.command, job.over(found.options), found.parameters)
    if _is_script(path):
        from tiresias.cli.live import scripts

        script = scripts.read(path, words[1:])
        source = _plain(script.command, job.over(script.options))
        return replace(source, notes=script.notes, script=str(path.absolute()))
    return _plain(words, job)


def _plain(command: list[str], job: JobOptions) -> JobSource:
    if job.texts("set"):
        raise Stop("--set changes a job.yaml, and none is given; to vary a command use --sweep")
    return JobSource(command, job)


def _is_script(path: Path) -> bool:
    if path.suffix in SCRIPTS:
        return True
    try:
        with path.open("rb") as file:
            return file.read(2) == b"#!" and "/" not in str(path) and not os.access(path, os.X_OK)
    except OSError:
        return False


def prepare(source: JobSource, client: Client, home: Path, *, is_trial: bool = False) -> Prepared:
    """The jobs, checked. For a dry run (`is_trial`) no copy of the tree is made."""
    job = source.options
    cwd = _directory(job.text("workdir"))
    notes = list(source.notes)
    env = environment(job, cwd, notes)
    if not is_remote():
        checks.check_directory(cwd, "--workdir" if job.text("workdir") else "the current directory")
    indices = job.text("array")
    array = None if indices is None else arrays.parse_array(indices)
    points = arrays.points(arrays.parse_sweep(job.texts("sweep")))
    common = _common(job, client, array)
    jobs = [{**common, **_at_point(source, point, cwd, env)} for point in points]
    if len(jobs) * (len(array.indices) if array else 1) > MOST_JOBS:
        raise Stop(f"this makes more than {MOST_JOBS:,} jobs; submit it in parts")
    _check_checkpoints(jobs, array)
    if not job.is_set("force") and not is_remote():
        for command in {tuple(each["command"]): None for each in jobs}:
            checks.check_command(command, cwd, env)
    prepared = Prepared(jobs, notes)
    if job.is_set("snapshot") and not is_trial:
        _take_snapshot(prepared, source, cwd, home)
    return prepared


def environment(job: JobOptions, cwd: Path, notes: list[str]) -> dict[str, str]:
    """This shell's environment, changed by --env."""
    env: dict[str, str] = {}
    if not job.is_set("clean_env"):
        handed = {k: v for k, v in os.environ.items() if not k.startswith("TIRESIAS_SWEEP_")}
        strange = [name for name, value in handed.items() if not _is_text(name + value)]
        if strange:
            notes.append(
                f"left out of the environment, because they are not UTF-8: {', '.join(map(repr, strange))}"
            )
        env = {k: v for k, v in handed.items() if k not in NOT_PASSED_ON and k not in strange}
        env["PWD"] = str(cwd)
    for text in job.texts("env"):
        name, equals, value = text.partition("=")
        if not name:
            raise Stop(f"--env {text!r}: write NAME=VALUE, or NAME for this shell's value")
        if not equals:
            if name not in os.environ:
                raise Stop(f"--env {name}: the variable is not set in this shell; write {name}=VALUE")
            value = os.environ[name]
        if not _is_text(name + value):
            raise Stop(f"--env {name}: the value is not UTF-8 text")
        env[name] = value
    return env


def _is_text(value: str) -> bool:
    return not any("\ud800" <= each <= "\udfff" for each in value)


def _common(job: JobOptions, client: Client, array: arrays.Array | None) -> dict[str, Any]:
    """What is the same for every job of a sweep."""
    body: dict[str, Any] = {}
    for key, option in BY_KEY.items():
        if option.name and not option.is_resolved and key in job.values:
            text = job.values[key]
            body[option.name] = (
                value_of(option, text, option.flag) if isinstance(text, str) else option.flag_value
            )
    if (gpus := job.text("gpus")) is not None and (most := largest(gpus)) is not None:
        body["max_gpus"] = most
    for key in ("after", "afterany", "afternotok"):
        if (refs := job.text(key)) is not None:
            body[BY_KEY[key].name] = _after(refs, client, BY_KEY[key].flag)
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


def _after(text: str, client: Client, flag: str) -> list[int]:
    """Ids of jobs; names are looked up now, because a later job may have the same name."""
    refs = [ref.strip() for ref in text.split(",") if ref.strip()]
    if not refs:
        raise Stop(f"{flag} {text!r} names no job; write ids or names separated by commas")
    return [id for ref in refs for id in ([int(ref)] if ref.isdecimal() else client.find(ref))]


def _directory(given: str | None) -> Path:
    """Where the jobs run."""
    try:
        return Path(os.path.abspath(given or os.getcwd()))
    except FileNotFoundError:
        raise Stop("the current directory was deleted; change to another, or give a full --workdir") from None


def _at_point(
    source: JobSource, point: Mapping[str, str], cwd: Path, env: Mapping[str, str]
) -> dict[str, Any]:
    """What one point of a sweep changes."""
    job, parameters = source.options, {**source.parameters, **point}
    command = arrays.filled_command(source.command, source.parameters, point)
    given_name, checkpoints = job.text("name"), job.text("ckpt_dir")
    name = name_of(source.command) if given_name is None else arrays.fill(given_name, source.parameters)
    given = {text.partition("=")[0] for text in job.texts("env")}
    filled = {key: arrays.fill(env[key], parameters) for key in given}
    body: dict[str, Any] = {
        "command": command,
        "cwd": str(cwd),
        "env": {**env, **filled, **arrays.environment(point)},
        "name": arrays.named(name, point)[: LONGEST_LINE if point else None],
    }
    if checkpoints is not None:
        body["checkpoint_dir"] = os.path.abspath(os.path.expanduser(arrays.fill(checkpoints, parameters)))
    return body


def name_of(command: Sequence[str]) -> str:
    """A name for a job without one: its Python script or module, else its program."""
    words = [Path(word).stem for word in command if word.endswith(".py")]
    words += [after.rpartition(".")[2] for word, after in pairwise(command) if word == "-m"]
    words += [Path(word).stem for word in command[1:2] if word.endswith(SCRIPTS)]
    found = re.sub(r"[^\w.=+-]", "", [*words, Path(command[0]).name][0])
    return "" if found.isdigit() or found in (".", "..") else found


def _check_checkpoints(jobs: Sequence[Mapping[str, Any]], array: arrays.Array | None) -> None:
    """Refuse several jobs that would save to the same directory."""
    directories = [job["checkpoint_dir"] for job in jobs if "checkpoint_dir" in job]
    shared = len(set(directories)) < len(directories) or (
        array and any("{i}" not in each for each in directories)
    )
    if shared and len(jobs) * (len(array.indices) if array else 1) > 1:
        raise Stop(
            f"--ckpt-dir {directories[0]} is shared by several jobs, which would overwrite each other's "
            "checkpoints; put {i} (array) or {name} (sweep) in it, or leave it out: each job then has its own"
        )


def _take_snapshot(prepared: Prepared, source: JobSource, cwd: Path, home: Path) -> None:
    if is_remote():
        raise Stop(
            "--snapshot copies files on this machine, and TIRESIAS_URL may be another one; leave one out"
        )
    from tiresias.cli.live import snapshot
    from tiresias.live.home_paths import HomePaths

    limit = parse_size(source.options.text("snapshot_limit") or snapshot.DEFAULT_LIMIT, "--snapshot-limit")
    copy = snapshot.take(cwd, HomePaths.of(home).files, limit)
    tree = snapshot.git_top(cwd) or cwd
    for word in checks.names_outside(prepared.jobs[0]["command"], tree):
        if word != source.script:
            prepared.notes.append(f"{word} is an absolute path: the job uses that file, not its copy")
    for job in prepared.jobs:
        job["cwd"], job["snapshot"] = str(copy.cwd), str(copy.root)
        if "PWD" in job["env"]:
            job["env"]["PWD"] = str(copy.cwd)
        if source.script.startswith(f"{tree}/"):
            inside = str(copy.root / Path(source.script).relative_to(tree))
            job["command"] = [inside if word == source.script else word for word in job["command"]]
    at = f" at {copy.commit[:12]}" if copy.commit else ""
    prepared.notes.append(f"copied {copy.files:,} files ({written(copy.size_bytes)}) of {tree}{at}")
    prepared.snapshot = copy
