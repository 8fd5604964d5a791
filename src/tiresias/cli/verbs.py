"""The verbs of the program, the modules that have them, and their headings in --help.

Rules: the module of a verb is imported when the verb is needed. A command line that begins with a verb needs
only that one, so that `tir ls` does not load the others; --help needs all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any

JOBS, CLUSTER, SIMULATION = "Jobs", "Cluster", "Simulation"
HEADINGS = (JOBS, CLUSTER, SIMULATION)


@dataclass(slots=True, frozen=True)
class Verb:
    """`target` is MODULE:NAME below tiresias.cli; a Group there, or a Typer, has verbs of its own."""

    heading: str
    target: str
    carries: bool = False  # another command follows `--`
    takes_words: bool = False  # the verb itself handles words that look like options

    def load(self) -> Any:
        module, _, name = self.target.partition(":")
        return getattr(import_module(f"tiresias.cli.{module}"), name)


VERBS = {
    "submit": Verb(JOBS, "live.submit:submit", carries=True, takes_words=True),
    "run": Verb(JOBS, "live.run:run", carries=True, takes_words=True),
    "shell": Verb(JOBS, "live.terminal:shell"),
    "attach": Verb(JOBS, "live.terminal:attach"),
    "jupyter": Verb(JOBS, "live.jupyter:jupyter"),
    "ls": Verb(JOBS, "live.jobs:ls"),
    "show": Verb(JOBS, "live.jobs:show_job"),
    "why": Verb(JOBS, "live.jobs:why"),
    "logs": Verb(JOBS, "live.logs:logs"),
    "wait": Verb(JOBS, "live.run:wait"),
    "again": Verb(JOBS, "live.control:again"),
    "cancel": Verb(JOBS, "live.control:cancel"),
    "hold": Verb(JOBS, "live.control:hold"),
    "release": Verb(JOBS, "live.control:release"),
    "requeue": Verb(JOBS, "live.control:requeue"),
    "set": Verb(JOBS, "live.control:set_job"),
    "up": Verb(CLUSTER, "live.up_down:up"),
    "down": Verb(CLUSTER, "live.up_down:down"),
    "status": Verb(CLUSTER, "live.up_down:status"),
    "top": Verb(CLUSTER, "live.top:top"),
    "dashboard": Verb(CLUSTER, "live.dashboard:dashboard"),
    "nodes": Verb(CLUSTER, "live.nodes:nodes"),
    "drain": Verb(CLUSTER, "live.nodes:drain"),
    "undrain": Verb(CLUSTER, "live.nodes:undrain"),
    "events": Verb(CLUSTER, "live.events:events"),
    "usage": Verb(CLUSTER, "live.usage:usage"),
    "slowdowns": Verb(CLUSTER, "live.slowdowns:slowdowns"),
    "report": Verb(CLUSTER, "live.report:report"),
    "doctor": Verb(CLUSTER, "live.doctor:doctor"),
    "backup": Verb(CLUSTER, "live.backup:backup"),
    "restore": Verb(CLUSTER, "live.backup:restore"),
    "install-service": Verb(CLUSTER, "live.install_service:install_service"),
    "notify": Verb(CLUSTER, "live.notify:app"),
    "prune": Verb(CLUSTER, "live.prune:prune"),
    "policy": Verb(CLUSTER, "live.policy:app"),
    "limits": Verb(CLUSTER, "live.limits:app"),
    "token": Verb(CLUSTER, "live.token:app"),
    "history": Verb(CLUSTER, "live.history:app"),
    "demo": Verb(CLUSTER, "live.demo:demo"),
    "simulate": Verb(SIMULATION, "simulate:simulate"),
    "compare": Verb(SIMULATION, "compare:compare"),
    "sweep": Verb(SIMULATION, "sweep:sweep"),
    "size": Verb(SIMULATION, "size:size"),
    "policies": Verb(SIMULATION, "plugins:policies"),
    "placers": Verb(SIMULATION, "plugins:placers"),
    "profile": Verb(SIMULATION, "profile:profile", carries=True),
    "trace": Verb(SIMULATION, "trace:app"),
}


HELP = {"help": "-h, or tir VERB -h", "version": "--version", "man": "-h, or tir VERB -h"}
ELSEWHERE = {  # what other schedulers call it, and the verb here
    "queue": "ls",
    "squeue": "ls",
    "qstat": "ls",
    "jobs": "ls",
    "list": "ls",
    "ps": "ls",
    "sacct": "ls --all",
    "sbatch": "submit",
    "qsub": "submit",
    "srun": "run",
    "salloc": "shell",
    "sattach": "attach",
    "scancel": "cancel",
    "qdel": "cancel",
    "kill": "cancel",
    "stop": "cancel",  # and not `top`, which is similar
    "rm": "cancel",
    "delete": "cancel",
    "pause": "hold",
    "suspend": "hold",
    "resume": "release",
    "restart": "again",
    "rerun": "again",
    "retry": "again",
    "resubmit": "again",
    "tail": "logs -f",
    "sinfo": "nodes",
    "scontrol": "show",
    "info": "show",
    "start": "up",
    "shutdown": "down",
}


def needed(words: list[str]) -> Iterable[str]:
    """The verbs that a command line can need."""
    return words[:1] if words and words[0] in VERBS else VERBS
