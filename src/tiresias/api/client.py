"""The Python client, for the command line and for scripts.

    from tiresias.api.client import Client

    client = Client()
    [id] = client.submit({"command": ["python", "train.py"], "cwd": "/home/me/project", "gpus": 2})
    for chunk in client.follow_logs(id):
        print(chunk.text, end="")

Answers are plain values, as docs/reference/http-api.md describes them. A refusal is an ApiError. A request
that may safely be sent twice is sent again when the connection breaks; this includes submissions, because
they carry an idempotency key. Streams reconnect by themselves and continue where they were.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Concatenate, ParamSpec, Self, TypeVar

from tiresias.api.client_cluster import Cluster
from tiresias.api.client_jobs import Jobs, new_key
from tiresias.api.client_output import LogChunk, Output
from tiresias.api.home import default_home
from tiresias.api.parts import PartlySubmitted
from tiresias.api.requester import Ref, Requester, Value
from tiresias.api.transport import Address, ApiError, Transport, Unreachable

__all__ = ["ApiError", "Client", "LogChunk", "PartlySubmitted", "Ref", "Unreachable", "Value", "new_key"]

P = ParamSpec("P")
Part = TypeVar("Part")
R = TypeVar("R")


def _of(
    part: Callable[[Requester], Part], method: Callable[Concatenate[Part, P], R]
) -> Callable[Concatenate[Client, P], R]:
    """The method of a part as one of the client."""

    @wraps(method)
    def call(self: Client, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(part(self.requester), *args, **kwargs)

    return call


class Client:
    """A client of one manager: that of `home`, or the one at `url` with a token.

    Its methods are those of its parts: Jobs, Output and Cluster.
    """

    def __init__(
        self,
        home: Path | str | None = None,
        *,
        url: str | None = None,
        token: str | None = None,
        timeout_s: float = 30.0,
    ):
        if url is None and home is None:
            url = os.environ.get("TIRESIAS_URL") or None
        if url is not None:
            address = Address.of_url(url, token or os.environ.get("TIRESIAS_TOKEN", ""))
        else:
            address = Address.of_home(default_home() if home is None else Path(home).absolute())
        self.requester = Requester(Transport(address, timeout_s))

    def close(self) -> None:
        self.requester.transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    submit = _of(Jobs, Jobs.submit)
    submitted = _of(Jobs, Jobs.submitted)
    again = _of(Jobs, Jobs.again)
    dry_run = _of(Jobs, Jobs.dry_run)
    jobs = _of(Jobs, Jobs.jobs)
    find = _of(Jobs, Jobs.find)
    job = _of(Jobs, Jobs.job)
    why = _of(Jobs, Jobs.why)
    runs = _of(Jobs, Jobs.runs)
    job_events = _of(Jobs, Jobs.job_events)
    cancel = _of(Jobs, Jobs.cancel)
    hold = _of(Jobs, Jobs.hold)
    release = _of(Jobs, Jobs.release)
    requeue = _of(Jobs, Jobs.requeue)
    change = _of(Jobs, Jobs.change)

    logs = _of(Output, Output.logs)
    log_pieces = _of(Output, Output.log_pieces)
    last_lines = _of(Output, Output.last_lines)
    follow_logs = _of(Output, Output.follow_logs)
    events = _of(Output, Output.events)
    attach = _of(Output, Output.attach)
    type_in = _of(Output, Output.type_in)
    resize = _of(Output, Output.resize)

    status = _of(Cluster, Cluster.status)
    whoami = _of(Cluster, Cluster.whoami)
    nodes = _of(Cluster, Cluster.nodes)
    drain = _of(Cluster, Cluster.drain)
    undrain = _of(Cluster, Cluster.undrain)
    policy = _of(Cluster, Cluster.policy)
    set_policy = _of(Cluster, Cluster.set_policy)
    limits = _of(Cluster, Cluster.limits)
    set_limits = _of(Cluster, Cluster.set_limits)
    shares = _of(Cluster, Cluster.shares)
    set_shares = _of(Cluster, Cluster.set_shares)
    usage = _of(Cluster, Cluster.usage)
    slowdowns = _of(Cluster, Cluster.slowdowns)
    profiles = _of(Cluster, Cluster.profiles)
    history = _of(Cluster, Cluster.history)
    notify = _of(Cluster, Cluster.notify)
    set_notify = _of(Cluster, Cluster.set_notify)
    test_notify = _of(Cluster, Cluster.test_notify)
    prune = _of(Cluster, Cluster.prune)
    tokens = _of(Cluster, Cluster.tokens)
    create_token = _of(Cluster, Cluster.create_token)
    revoke_token = _of(Cluster, Cluster.revoke_token)
    shutdown = _of(Cluster, Cluster.shutdown)
