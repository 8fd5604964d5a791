"""The specification of a job: one field per option, with all that is to be said about it.

The command line, job.yaml, `#TIR` lines, the HTTP schema, what is stored and the tables of the reference
follow from these fields. A new option is one new field here, and code where it takes effect.

Rules: standard library only, because the command line imports it and must start fast. A field has the name
and the unit that it has in HTTP and in storage. None means that the manager decides, or that there is no
limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from operator import attrgetter
from typing import Any, Self

from tiresias.spec.kinds import (
    Bytes,
    Choice,
    Command,
    Directory,
    Document,
    Gpus,
    Instant,
    Jobs,
    Seconds,
    Share,
    Switch,
    Text,
    Variables,
    Whole,
    YesNo,
    check_name,
)
from tiresias.spec.notices import LONGEST_URL, check_events
from tiresias.spec.options import OPTION, Form, Option, about

DEFAULT_GRACE_S = 60.0
DEFAULT_RETRIES = 3
DEFAULT_PREFLIGHT_S = 60.0
PRIORITIES = ("high", "normal", "low")
SHOWN = 80  # characters of a wrong value in a message
PER_GPU = "per-gpu"


class SpecError(ValueError):
    """A value that no job may have. The message names the option, what is wrong, and the value."""


@dataclass(slots=True, frozen=True)
class JobSpec:
    """Everything that a user may ask for in one job."""

    command: tuple[str, ...] = field(
        metadata=about(
            Command(),
            "The program and its arguments. They are not given to a shell.",
            in_detail=True,
        )
    )
    cwd: str = field(
        metadata=about(
            Directory(),
            "The directory in which the job runs.",
            flag="--workdir",
            metavar="DIR",
            default="the current one",
            sbatch="chdir",
            api_help="The directory in which it runs: an absolute path on the manager's machine.",
            is_resolved=True,
            in_detail=True,
        )
    )
    env: Mapping[str, str] = field(
        default_factory=dict,
        metadata=about(
            Variables(),
            "Environment variable NAME=VALUE, or NAME for this shell's value; may be repeated.",
            flag="--env",
            metavar="K[=V]",
            form=Form.VALUES,
            more="Values are never shown.",
            api_help="The complete environment, `PATH` included. Only what a run needs is added to it.",
            is_resolved=True,
        ),
    )
    gpus: int = field(
        default=1,
        metadata=about(
            Gpus(0),
            "Number of GPUs, all of them at once, or a range such as 2..8. 0: CPU work beside the GPUs.",
            flag="--gpus",
            short="-g",
            metavar="N",
            default="1",
            in_group="resources.gpus",
            more="[A job without GPUs](../howto/run-cpu-work.md) holds no slots and is never preempted. With"
            " a range the job is [elastic](../explanation/elastic-jobs.md): allocators that size jobs give it"
            " any number of GPUs in the range, and all others the smaller one.",
            api_help="Number of GPUs. The job gets all of them at once. 0: CPU work beside the GPUs. With"
            " `max_gpus`: the smallest number.",
        ),
    )
    max_gpus: int | None = field(
        default=None,
        metadata=about(
            Whole(1),
            "The largest number of GPUs of an elastic job.",
            api_help="The largest number of GPUs of an [elastic](../explanation/elastic-jobs.md) job; null:"
            " it runs on `gpus` only.",
        ),
    )
    name: str = field(
        default="",
        metadata=about(
            Text(rule=check_name),
            "Name of the job.",
            flag="--name",
            short="-n",
            metavar="NAME",
            default="the script's name",
            sbatch="job-name",
            more="It has no slash and is not made of digits alone. Commands accept it"
            " [in place of the id](#common-to-all).",
            api_help="A name by which the job can be found. It has no slash and is not made of digits alone.",
            is_resolved=True,
            can_change=True,
        ),
    )
    nodes: int | None = field(
        default=None,
        metadata=about(
            Whole(1),
            "Number of nodes. The GPUs are shared out evenly among them.",
            flag="--nodes",
            metavar="N",
            default="the placer chooses",
            in_group="resources.nodes",
            api_help="On how many nodes the GPUs must be, shared out evenly; null: the placer chooses.",
            in_detail=True,
        ),
    )
    gpus_per_node: int | None = field(
        default=None,
        metadata=about(
            Whole(1),
            "GPUs on each node. With --nodes, --gpus may be left out.",
            flag="--gpus-per-node",
            metavar="N",
            default="the placer chooses",
            in_group="resources.gpus_per_node",
            api_help="How many GPUs it has on each node; `gpus` is a multiple of it.",
            in_detail=True,
        ),
    )
    gpu_type: str = field(
        default="",
        metadata=about(
            Text(),
            "Type of the GPUs, as tir nodes shows it.",
            flag="--gpu-type",
            metavar="TYPE",
            default="any",
            in_group="resources.gpu_type",
            api_help="The type of its GPUs, as `GET /nodes` names it; empty: any.",
            in_detail=True,
        ),
    )
    gpu_memory_bytes: int | None = field(
        default=None,
        metadata=about(
            Bytes(),
            "Memory of each GPU that the job needs. With it the job may share GPUs.",
            flag="--gpu-memory",
            metavar="16G",
            default="it may need all of it, and shares none",
            in_group="resources.gpu_memory",
            more="Jobs share GPUs under policies that let them, such as"
            " [`gandiva`](../explanation/gandiva.md), as far as the memory of the GPU is enough for all of"
            " them. Nothing enforces it: a job that takes more can make the others fail.",
            api_help="The memory that it needs of each GPU, in bytes; null: it may need all of it.",
            in_detail=True,
        ),
    )
    cpu_speed: float | None = field(
        default=None,
        metadata=about(
            Share(),
            "Speed on CPUs as a share of that on GPUs; with it the job may run on nodes without GPUs.",
            flag="--cpu-speed",
            metavar="X",
            default="it runs on GPUs only",
            in_group="resources.cpu_speed",
            more="While the GPUs are full it runs on CPUs, and it is stopped there when its GPUs are free"
            " ([Jobs on CPUs](../explanation/jobs-on-cpus.md)).",
            api_help="Its speed on CPUs as a share of that on GPUs; null: it cannot run on CPUs.",
            in_detail=True,
        ),
    )
    cpus: int | None = field(
        default=None,
        metadata=about(
            Whole(1),
            "How many CPU cores' worth of time the job may use, all its processes together.",
            flag="--cpus",
            metavar="N",
            default="no limit",
            in_group="resources.cpus",
            more="Needs the [cpu controller](../explanation/how-runs-are-supervised.md#cpus-and-memory).",
            in_detail=True,
            label="cpus",
        ),
    )
    memory_bytes: int | None = field(
        default=None,
        metadata=about(
            Bytes(),
            "How much memory the job may use, all its processes together.",
            flag="--mem",
            metavar="16G",
            default="no limit",
            in_group="resources.mem",
            more="The kernel kills a run that uses more. Needs the"
            " [memory controller](../explanation/how-runs-are-supervised.md#cpus-and-memory).",
            in_detail=True,
            label="memory",
        ),
    )
    workers: int = field(
        default=1,
        metadata=about(
            Whole(1),
            "Number of processes. The GPUs are divided among them.",
            flag="--workers",
            metavar="N",
            default="1",
            in_detail=True,
        ),
    )
    launcher: str = field(
        default="plain",
        metadata=about(
            Text(1),
            "How processes are started: plain, or per-gpu for one process per GPU.",
            flag="--launcher",
            metavar="NAME",
            default="`plain`",
            more="`per-gpu` sets `RANK`, `LOCAL_RANK` and `WORLD_SIZE` as torchrun does.",
            in_detail=True,
        ),
    )
    checkpoint_dir: str = field(
        default="",
        metadata=about(
            Directory(may_be_empty=True),
            "The job's TIRESIAS_CHECKPOINT_DIR, the same for all its runs.",
            flag="--ckpt-dir",
            metavar="DIR",
            default="one of its own in the manager's home",
            in_group="checkpoint.dir",
            api_help="Its `TIRESIAS_CHECKPOINT_DIR`; if empty, a directory of its own in the manager's home.",
            is_resolved=True,
            in_detail=True,
        ),
    )
    grace_s: float = field(
        default=DEFAULT_GRACE_S,
        metadata=about(
            Seconds(),
            "Time to save between SIGTERM and SIGKILL.",
            flag="--grace",
            metavar="60s",
            default="60s",
            in_group="checkpoint.grace",
            can_change=True,
            in_detail=True,
        ),
    )
    retries: int = field(
        default=DEFAULT_RETRIES,
        metadata=about(
            Whole(0),
            "How often to run the job again after failures that another run can cure.",
            flag="--retries",
            metavar="N",
            default="3",
            in_group="limits.retries",
            can_change=True,
            in_detail=True,
        ),
    )
    time_limit_s: float | None = field(
        default=None,
        metadata=about(
            Seconds(above_zero=True),
            "How long the job may hold GPUs, all runs together.",
            flag="--time",
            metavar="8h",
            default="no limit",
            in_group="limits.time",
            can_change=True,
            in_detail=True,
        ),
    )
    priority: str = field(
        default="normal",
        metadata=about(
            Choice(PRIORITIES),
            "Priority class: high (admins only), normal or low.",
            flag="--priority",
            metavar="CLASS",
            default="`normal`",
            can_change=True,
        ),
    )
    preemptible: bool = field(
        default=True,
        metadata=about(
            Switch(),
            "Never stop the job to make room for another one.",
            flag="--no-preempt",
            flag_value=False,
            api_help="Whether the job may be stopped to make room for another one.",
            in_detail=True,
        ),
    )
    pty: bool = field(
        default=False,
        metadata=about(
            Switch(),
            "Give the job a terminal, to which its user can attach: tir attach. Implies --interactive.",
            flag="--pty",
            more="`tir run --pty` attaches at once ([Interactive work](../howto/work-interactively.md)).",
            api_help="Whether the job has a terminal, to which its user can attach. Implies `interactive`.",
            in_detail=True,
        ),
    )
    interactive: bool = field(
        default=False,
        metadata=about(
            Switch(),
            "A person works in the job: it is not preempted, and it is ended when nobody uses it.",
            flag="--interactive",
            more="[Limits](../howto/work-interactively.md#limits) apply to such jobs.",
            api_help="Whether a person works in the job: it is not preempted, and it is ended when nobody"
            " uses it.",
            in_detail=True,
        ),
    )
    idle_limit_s: float | None = field(
        default=None,
        metadata=about(
            Seconds(above_zero=True),
            "End the job when nobody has used it for so long.",
            flag="--idle-limit",
            metavar="1h",
            default="1h for interactive jobs, none for others",
            in_group="limits.idle",
            more="A job is in use while there is input or output at its terminal, and while its processes"
            " take more than 2 % of a core.",
            in_detail=True,
            label="ended when idle for",
        ),
    )
    auto: bool = field(
        default=False,
        metadata=about(
            Switch(),
            "Save and resume trainings of Hugging Face and Lightning by themselves.",
            flag="--auto",
            more="See [Resume without changes](../explanation/resume-without-changes.md). `TIRESIAS_AUTO=0`"
            " in the environment turns it off where `tir up --auto` has turned it on for all jobs.",
            in_detail=True,
        ),
    )
    resumable: bool | None = field(
        default=None,
        metadata=about(
            YesNo(),
            "Whether the job saves its work when it is stopped, and resumes from that: yes or no.",
            flag="--resumable",
            metavar="yes|no",
            default="the manager finds out",
            more="With `no`, its runs are [not preempted](../explanation/jobs-that-do-not-save.md), up to a"
            " share of the GPUs. With `yes`, work that the manager does not see saved counts as saved, until"
            " a run begins anew.",
            api_help="Whether its work outlives a stop; null: the manager finds out.",
            can_change=True,
            in_detail=True,
        ),
    )
    after: tuple[int, ...] = field(
        default=(),
        metadata=about(
            Jobs(),
            "Start only when these jobs have succeeded (ids or names, separated by commas).",
            flag="--after",
            metavar="JOB,…",
            api_help="Ids of jobs. It starts only when all of them have succeeded.",
            is_resolved=True,
            in_detail=True,
        ),
    )
    after_any: tuple[int, ...] = field(
        default=(),
        metadata=about(
            Jobs(),
            "Start only when these jobs have ended, whether they succeeded or not.",
            flag="--afterany",
            metavar="JOB,…",
            api_help="Ids of jobs. It starts only when all of them have ended, in whatever way.",
            is_resolved=True,
            in_detail=True,
        ),
    )
    after_not_ok: tuple[int, ...] = field(
        default=(),
        metadata=about(
            Jobs(),
            "Start only when these jobs have failed or were cancelled.",
            flag="--afternotok",
            metavar="JOB,…",
            more="If one of them succeeds, the job is cancelled, because nobody needs it.",
            api_help="Ids of jobs. It starts only when all of them have failed or were cancelled; if one"
            " succeeds, the job is cancelled.",
            is_resolved=True,
            in_detail=True,
        ),
    )
    begin_at: float | None = field(
        default=None,
        metadata=about(
            Instant(),
            "Earliest start: +2h, 22:00 or 2026-01-31T22:00 (local time).",
            flag="--begin",
            metavar="WHEN",
            api_help="The earliest start, in epoch seconds.",
        ),
    )
    hold: bool = field(
        default=False,
        metadata=about(
            Switch(),
            "Submit the job on hold. It starts only after tir release.",
            flag="--hold",
            sbatch="hold",
            more="A preflight runs all the same.",
            api_help="Submit the job on hold. It starts only after it has been released.",
        ),
    )
    tenant: str = field(
        default="",
        metadata=about(
            Text(),
            "Team to which the job is accounted. Policies that share GPUs between teams, or learn from"
            " earlier jobs of a team, consider it.",
            flag="--tenant",
            metavar="TEAM",
            sbatch="account",
            more="`tir usage --by tenant` adds up what each team got.",
            can_change=True,
        ),
    )
    comment: str = field(
        default="",
        metadata=about(
            Text(),
            "Comment on the job, shown by tir show.",
            flag="--comment",
            metavar="TEXT",
            sbatch="comment",
            api_help="A comment on the job, part of what is answered about it.",
            can_change=True,
            in_detail=True,
            label="comment",
        ),
    )
    notify: str = field(
        default="",
        metadata=about(
            Text(most=LONGEST_URL),
            "URL that gets a notice when the job ends or fails (none: no notices).",
            flag="--notify",
            metavar="URL",
            default="that of `tir notify set`",
            more="[Notices](../howto/get-notices.md) has the forms and how they are signed.",
            api_help="A URL that gets notices of what becomes of the job; `none`: no notices; empty: that of"
            " the user's defaults.",
            can_change=True,
            in_detail=True,
            label="notices to",
        ),
    )
    notify_on: str = field(
        default="",
        metadata=about(
            Text(rule=check_events),
            "What causes a notice: a list of ended, failed, preempted, idle.",
            flag="--notify-on",
            metavar="EVENTS",
            default="ended,failed",
            api_help="What causes a notice: a list of `ended`, `failed`, `preempted`, `idle`; empty: the"
            " user's defaults.",
            in_detail=True,
        ),
    )
    model: str = field(
        default="",
        metadata=about(
            Text(),
            "The model that the job trains, for example resnet50.",
            flag="--model",
            metavar="NAME",
            in_group="placement.model",
            api_help="The model: a name of the [zoo](profiles.md#the-zoo), or of a profile"
            " that came with an earlier job. Other names are refused.",
            more="A name of the [zoo](profiles.md#the-zoo), or of a profile that came with an earlier job"
            " (`mine`, or `mine@3f2a9c1b04d7` as `show` prints it). Other names are refused.",
            in_detail=True,
        ),
    )
    profile: Mapping[str, Any] | None = field(  # once a job is accepted, only its name is left, in `model`
        default=None,
        metadata=about(
            Document(),
            "A profile of the model that the job trains (see: tiresias profile --save).",
            flag="--profile",
            metavar="FILE",
            in_group="placement.profile",
            more="The [profile](profiles.md#a-stored-profile) is stored with the job; the file is not needed"
            " again.",
            api_help="A [stored profile](profiles.md#a-stored-profile) of the model, instead of `model`. It"
            " is kept in the journal, and `model` becomes its name with a digest of its contents.",
            is_resolved=True,
        ),
    )
    preflight: bool = field(
        default=False,
        metadata=about(
            Switch(),
            "Try the command on one GPU first, until its first progress report.",
            flag="--preflight",
            more="The trial has `TIRESIAS_PREFLIGHT=1` in its environment.",
        ),
    )
    preflight_limit_s: float = field(
        default=DEFAULT_PREFLIGHT_S,
        metadata=about(
            Seconds(),
            "Longest duration of the preflight.",
            flag="--preflight-limit",
            metavar="60s",
            default="60s",
        ),
    )
    snapshot: str = field(
        default="",
        metadata=about(
            Directory(may_be_empty=True),
            "Run in a copy of the working tree that is made now.",
            flag="--snapshot",
            form=Form.SWITCH,
            more="See [Snapshots](#snapshots).",
            api_help="The copy of the working tree that `cwd` is in. It is removed when no job needs it.",
            is_resolved=True,
        ),
    )
    force: bool = field(
        default=False,
        metadata=about(
            Switch(),
            "Submit even if the program does not exist yet, or the command failed before.",
            flag="--force",
            api_help="Submit even if the same command failed in the same way before.",
        ),
    )

    def for_preflight(self) -> Self:
        """The job that tries the command on one GPU, once."""
        return replace(
            self,
            gpus=min(1, self.gpus),
            max_gpus=None,
            nodes=None,
            gpus_per_node=None,
            cpu_speed=None,
            workers=1,
            retries=0,
            hold=False,
            preflight=False,
            interactive=False,
            idle_limit_s=None,
            checkpoint_dir="",
            snapshot="",
        )

    @property
    def is_interactive(self) -> bool:
        """Whether a person works in it."""
        return self.interactive or self.pty

    @property
    def node_count(self) -> int | None:
        """On how many nodes it must be; None: the placer chooses."""
        if self.nodes is not None or self.gpus_per_node is None:
            return self.nodes
        return self.gpus // self.gpus_per_node

    @property
    def most_gpus(self) -> int:
        """How many GPUs it may hold at once."""
        return self.gpus if self.max_gpus is None else self.max_gpus

    def completed(self) -> Self:
        """With the number of GPUs that follows from --nodes and --gpus-per-node, where none is given."""
        if self.gpus_per_node is None or self.gpus != DEFAULTS["gpus"]:
            return self
        return replace(self, gpus=self.gpus_per_node * (self.nodes or 1))

    def check(self, names: Iterable[str] | None = None) -> None:
        """Raise SpecError if an option, or one of those named, has a value that no job may have."""
        if names is None:
            for name, value, default in zip(BY_NAME, _values(self), DEFAULTS.values(), strict=True):
                if value is not default:  # a default is right, and most options have it
                    check_value(name, value)
        else:
            for name in names:
                if (value := getattr(self, name)) is not DEFAULTS[name]:
                    check_value(name, value)
        self._check_sizes()
        self._check_shape()
        if self.launcher == PER_GPU and not self.gpus:
            raise SpecError(
                "launcher: per-gpu starts one process per GPU, and the job asks for none (--gpus)"
            )
        if self.pty and (self.workers > 1 or self.launcher == PER_GPU):
            raise SpecError("pty: a terminal is that of one process; leave --workers and --launcher out")
        if self.is_interactive and self.preflight:
            raise SpecError("preflight: nobody can work in a trial; leave --preflight out")
        gpus = self.completed().gpus
        if self.workers > max(1, gpus):
            few = f"{self.workers} workers cannot share {gpus} GPU{'' if gpus == 1 else 's'}"
            raise SpecError(f"workers: {few}; ask for at least one GPU per worker (--gpus)")

    def _check_sizes(self) -> None:
        if self.max_gpus is None:
            return
        if not self.gpus:
            raise SpecError("gpus: a job without GPUs has one size; give no range and no max_gpus")
        if self.max_gpus < self.gpus:
            raise SpecError(f"max_gpus: {self.max_gpus} is below the smallest size, {self.gpus} (gpus)")
        if self.nodes is not None or self.gpus_per_node is not None:
            raise SpecError(
                "gpus: a gang on a number of nodes has one size; give one number of GPUs, or leave --nodes"
                " and --gpus-per-node out"
            )

    def _check_shape(self) -> None:
        gpus, nodes, each = self.completed().gpus, self.nodes, self.gpus_per_node
        if each is not None and nodes is not None and gpus != nodes * each:
            raise SpecError(
                f"gpus: {nodes} nodes of {each} GPUs are {nodes * each} and not {gpus}; leave --gpus out"
            )
        if each is not None and gpus % each:
            raise SpecError(
                f"gpus_per_node: {gpus} GPUs cannot be shared out in parts of {each}; ask for"
                f" {gpus - gpus % each or each} or {gpus - gpus % each + each} (--gpus)"
            )
        if nodes is not None and nodes > max(1, gpus):
            raise SpecError(
                f"nodes: {gpus} GPUs cannot be on {nodes} nodes; ask for at least one GPU per node (--gpus)"
            )


def _named(each: Any) -> Option:
    found: Option = each.metadata[OPTION]
    return replace(found, name=each.name)


BY_NAME = {each.name: _named(each) for each in fields(JobSpec)}
DEFAULTS = {each.name: each.default for each in fields(JobSpec)}
_values = attrgetter(*BY_NAME)
OPTIONAL = frozenset(name for name, default in DEFAULTS.items() if default is None)  # may be None (null)
CHANGEABLE = tuple(name for name, option in BY_NAME.items() if option.can_change)
IN_DETAIL = tuple(name for name, option in BY_NAME.items() if option.in_detail)

# Options of a submission that are not fields of a job: one submission may be many jobs, and some options only
# say how the command line makes the fields.
ARRAY = Option(
    Text(),
    "One job per index; {i} in the command is the index, and %4 lets 4 of them run at once.",
    flag="--array",
    metavar="0-15%4",
    sbatch="array",
    more="Indices are `0-15`, `1,3,5-9` or `0-100:10`. `{i}` also works in the name and in `--ckpt-dir`, and"
    " `TIRESIAS_ARRAY_INDEX` has the index too.",
    api_help='`{"indices": […], "limit": n}`: one job per index, with at most `limit` of them holding GPUs at'
    " once. `{i}` in command, name and checkpoint directory is replaced by the index.",
    is_resolved=True,
    name="array",
)
CLIENT_OPTIONS = (
    Option(
        Text(),
        "One job per value, with {K} in the command; repeat it for all combinations.",
        flag="--sweep",
        metavar="K=V,V",
        form=Form.VALUES,
        more="With `lr=1e-3,1e-4`, `{lr}` is the value; if the command does not contain it, `--lr=VALUE` is"
        " appended. `TIRESIAS_SWEEP_LR` has the value too.",
    ),
    Option(
        Text(),
        "Change a key or a parameter of the job file.",
        flag="--set",
        metavar="KEY=VALUE",
        form=Form.VALUES,
    ),
    Option(
        Switch(),
        "Use only the variables of --env, not this shell's environment.",
        flag="--clean-env",
        form=Form.SWITCH,
    ),
    Option(
        Text(),
        "Largest copy that --snapshot may make.",
        flag="--snapshot-limit",
        metavar="1G",
        default="1G",
    ),
)
SURROUNDINGS = ("cwd", "env")  # listed after what the job itself needs
ALL_OPTIONS = (
    *(option for option in BY_NAME.values() if option.name not in SURROUNDINGS),
    *(BY_NAME[name] for name in SURROUNDINGS),
    ARRAY,
    *CLIENT_OPTIONS,
)
BY_KEY = {option.key: option for option in ALL_OPTIONS if option.flag}


def check_value(name: str, value: Any) -> None:
    """Raise SpecError if the option may not have this value."""
    if value is None and name in OPTIONAL:
        return
    try:
        BY_NAME[name].kind.check(value)
    except ValueError as error:
        raise SpecError(f"{name}: {error}{shown(name, value)}") from None


def shown(name: str, value: object) -> str:
    """A wrong value as a message repeats it; never one of an environment, which may be a secret."""
    is_short = name != "env" and isinstance(value, str | int | float | bool)
    return f" (is {repr(value)[:SHOWN]})" if is_short else ""
