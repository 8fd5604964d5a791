"""The connection to the manager, and the exit codes of its refusals."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tiresias.cli import errors
from tiresias.cli.console import echo
from tiresias.cli.declare import Argument, Option
from tiresias.cli.errors import Stop

if TYPE_CHECKING:
    from tiresias.api.client import ApiError, Client
    from tiresias.api.transport import Address

HomeOption = Annotated[
    Path | None,
    Option("--home", metavar="DIR", help="Home of the manager. Default: TIRESIAS_HOME, or ~/.tiresias."),
]
Reference = Annotated[str, Argument(metavar="JOB", help="Id or name of a job.")]
Key = Annotated[
    str | None, Option("--key", metavar="TEXT", help="Idempotency key: the same key never submits twice.")
]
SEVERAL = "Ids, names, arrays or patterns of jobs, such as 'train-*'."
References = Annotated[list[str], Argument(metavar="JOB…", help=SEVERAL)]
MaybeReferences = Annotated[list[str] | None, Argument(metavar="JOB…", help=SEVERAL)]

EXIT_CODES = {
    "invalid": errors.USAGE,
    "not-found": errors.NOT_FOUND,
    "denied": errors.DENIED,
    "impossible": errors.REJECTED,
    "conflict": errors.REJECTED,
    "unavailable": errors.UNREACHABLE,
    "unreachable": errors.UNREACHABLE,
}
UNAUTHENTICATED = 401


def home_of(given: Path | None = None) -> Path:
    """The home of the manager, as an absolute path."""
    chosen = given or Path(os.environ.get("TIRESIAS_HOME") or "~/.tiresias")
    return chosen.expanduser().absolute()


def is_remote() -> bool:
    """Whether the manager is reached over TCP and so may be on another machine."""
    return bool(os.environ.get("TIRESIAS_URL"))


@contextmanager
def connected(home: Path | None = None) -> Iterator[Client]:
    """A client of the manager; a refusal ends the command."""
    from tiresias.api.client import ApiError, Client

    client = Client(home_of(home)) if home is not None or not is_remote() else Client()
    try:
        yield client
    except ApiError as error:
        raise refused(error) from None


def manager_address() -> Address:
    """Where the manager is: at TIRESIAS_URL, or in its home."""
    from tiresias.api.transport import Address

    if is_remote():
        return Address.of_url(os.environ["TIRESIAS_URL"], os.environ.get("TIRESIAS_TOKEN", ""))
    return Address.of_home(home_of())


def refused(error: ApiError) -> Stop:
    """The end of a command whose request was refused or not answered."""
    if error.status == UNAUTHENTICATED:
        return Stop(error.message, errors.DENIED)
    return Stop(error.message, EXIT_CODES.get(error.code, errors.FAILED))


def print_json(value: Any) -> None:
    """Print JSON on stdout, indented."""
    echo(json.dumps(value, indent=2, ensure_ascii=False))


def print_json_line(value: Any) -> None:
    """Print JSON on stdout, in one line."""
    echo(json.dumps(value, ensure_ascii=False))
