"""Errors that end a command: a message for the user and an exit code for programs."""

from __future__ import annotations

FAILED = 1  # the job failed, or Tiresias did
USAGE = 2  # an argument or option is wrong
NOT_FOUND = 3
DENIED = 4
UNREACHABLE = 5  # no manager answers
REJECTED = 6  # the request can never be met here, or contradicts the present state
TIMEOUT = 124
INTERRUPTED = 130


class Stop(Exception):
    """Ends the command with this message on stderr and this exit code; an empty message is not printed."""

    def __init__(self, message: str, code: int = USAGE):
        super().__init__(message)
        self.code = code
