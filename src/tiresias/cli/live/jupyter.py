"""`tir jupyter`: a notebook server on GPUs, from the user's own environment."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tiresias.cli import errors
from tiresias.cli.console import echo, notify
from tiresias.cli.declare import Argument
from tiresias.cli.errors import Stop
from tiresias.cli.live.connection import connected, home_of, is_remote
from tiresias.cli.live.job_options import JobOptions, takes_job_options
from tiresias.cli.live.run import ENDED, outcome
from tiresias.cli.units import duration

if TYPE_CHECKING:
    from tiresias.api.client import Client

PROGRAMS = ("jupyter-lab", "jupyter-notebook")
URL = "jupyter.url"  # as tiresias.job._jupyter names it, in the directory of the job
IS_URL = re.compile(r"http://127\.0\.0\.1:[0-9]{1,5}/[!-~]*")
MOST_URL_BYTES = 4096
LOOK_AGAIN_S = 0.2
LAST_LINES = 15

MaybeJob = Annotated[
    str | None, Argument(metavar="[JOB]", help="A job of tir jupyter: print its URL, and start nothing.")
]


@takes_job_options
def jupyter(job: JobOptions, ref: MaybeJob = None) -> None:
    """Start Jupyter on GPUs, and print its URL.

    It is the Jupyter of this environment, in this directory, at the loopback address of the manager's
    machine. The job is not preempted; it is ended when no kernel was used for a while.
    """
    if is_remote():
        raise Stop("tir jupyter starts a server on this machine; use it on the machine of the manager")
    with connected() as client:
        id = _start(client, job) if ref is None else client.find(ref)[0]
        url = _until_up(client, id)
        found = client.job(id)
    seconds, slots = found["idle_limit_s"], found["runs"][-1]["slots"]
    where = slots[0].partition(":")[0] if slots else os.uname().nodename
    echo(url)
    port = url.split(":")[2].split("/")[0]
    echo(
        f"job {id}; it is ended when no kernel was used for {duration(seconds)}   end it: tir cancel {id}\n"
        f"from another machine, first: ssh -L {port}:127.0.0.1:{port} {where}",
        err=True,
    )


def _start(client: Client, job: JobOptions) -> int:
    from tiresias.cli.live import preparation
    from tiresias.cli.live.submit import send

    program = _program()
    python = Path(program).with_name("python3")
    command = [str(python) if python.exists() else "python3", "-m", "tiresias.job._jupyter", program]
    own = JobOptions.of(
        name=job.text("name") or "jupyter",
        interactive=True,
        env=[*job.texts("env"), f"JUPYTER_TOKEN={secrets.token_urlsafe(24)}"],
    )
    prepared = preparation.prepare(preparation.read_source([], command, own.over(job)), client, home_of())
    notify(prepared.notes)
    ids: list[int] = send(client, prepared, None)["ids"]
    if len(ids) != 1:
        raise Stop("a notebook server is one job; leave --array and --sweep out")
    return ids[0]


def _program() -> str:
    for name in PROGRAMS:
        if found := shutil.which(name):
            return found
    where = os.environ.get("VIRTUAL_ENV") or os.environ.get("CONDA_PREFIX") or "the directories of PATH"
    raise Stop(f"there is no Jupyter in {where}; install it in your environment: pip install jupyterlab")


def _until_up(client: Client, id: int) -> str:
    """The URL, once the server answers. Meanwhile it is shown what the job waits for."""
    said = ""
    try:
        while True:
            job = client.job(id)
            phase, runs = job["summary"]["phase"], job["summary"]["runs"]
            if phase in ENDED:
                lines, _ = client.last_lines(id, LAST_LINES) if runs else ([], None)
                output = b"".join(lines).decode(errors="replace")
                raise Stop(f"{output}{outcome(job)}", errors.FAILED)
            if runs and (url := _url(id, runs)):
                return url
            if (text := job["why"]["text"]) != said and phase in ("PENDING", "HELD"):
                echo(f"job {id} waits: {text}", err=True)
                said = text
            time.sleep(LOOK_AGAIN_S)
    except KeyboardInterrupt:
        echo(f"\njob {id} continues; its URL: tir jupyter {id}   end it: tir cancel {id}", err=True)
        raise


def _url(id: int, run: int) -> str:
    from tiresias.core.model import JobId
    from tiresias.live.home_paths import HomePaths

    path = HomePaths.of(home_of()).run(JobId(id), run) / "job" / URL
    try:
        return read_url(path)
    except FileNotFoundError:
        return ""
    except PermissionError:
        raise Stop(f"job {id} belongs to another user", errors.DENIED) from None


def read_url(path: Path) -> str:
    """The URL in this file, which is in a directory of the user of the job: anything may be in its place.

    An administrator may look at it: so no link is followed, nothing is waited for, and only what is a URL of
    a notebook server is shown. Stop if it is something else.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            found = file.read(MOST_URL_BYTES) or b""
    except (FileNotFoundError, PermissionError):
        raise
    except OSError:  # a link, or a directory
        found = b""
    text = found.decode(errors="replace").strip()
    if not IS_URL.fullmatch(text):
        raise Stop(f"{path} has no URL of a notebook server; start one again: tir jupyter", errors.FAILED)
    return text
