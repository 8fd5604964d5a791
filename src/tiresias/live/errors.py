"""What the manager refuses, by blame. The API turns each into a status, the CLI into an exit code."""

from __future__ import annotations


class Refused(Exception):
    """A request that cannot be met; the message names the value and the next step."""

    code = "refused"


class Invalid(Refused):
    """The request makes no sense."""

    code = "invalid"


class NotFound(Refused):
    """There is no such job, node or token."""

    code = "not-found"


class Denied(Refused):
    """The caller may not do this."""

    code = "denied"


class Impossible(Refused):
    """It can never be met here: more GPUs than there are, a command known to fail, a limit."""

    code = "impossible"


class Conflict(Refused):
    """It contradicts what is: the job has ended, the key was used for something else."""

    code = "conflict"


class Unavailable(Refused):
    """Not now: the journal cannot be written, or the manager shuts down. Nothing was lost; try again."""

    code = "unavailable"


class Unreached(Refused):
    """What the manager works with does not answer."""

    code = "unreached"
