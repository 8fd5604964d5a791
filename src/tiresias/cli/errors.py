"""What ends a command early: a message for a person and an exit code for a program."""

from __future__ import annotations

FAILED = 1  # the job failed, or something of ours did
USAGE = 2  # what was given is wrong
NOT_FOUND = 3
DENIED = 4
UNREACHABLE = 5  # no manager answers
REJECTED = 6  # it can never be met here, or it contradicts what is
TIMEOUT = 124
INTERRUPTED = 130


class Stop(Exception):
    """Ends the command with this message on stderr and this exit code; an empty message says nothing."""

    def __init__(self, message: str, code: int = USAGE):
        super().__init__(message)
        self.code = code
