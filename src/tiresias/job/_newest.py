"""Whether this run is the newest one of its job.

A manager that has not heard of a machine for long gives its run up and lets the job run elsewhere. Processes
of the old run may have been paused only, and wake later. They must not replace what the newer run has saved.
A run has a directory, named by its number, beside those of the other runs of the job, and it is made before a
process of the run begins.

A check before the file is replaced is not enough: the process may be paused just after it. So the name of the
file that takes the place of the old one names the run, and a newer run removes such files of earlier runs
before it saves for the first time. What has passed the check before there was a newer run is then missing.
"""

from __future__ import annotations

import os

from ._reporter import complain

TYPE_CHECKING = False  # typing takes longer to import than this whole package
if TYPE_CHECKING:
    from collections.abc import Mapping

AHEAD = 3  # runs that could not begin may have left no directory
SUPERSEDED = 75  # as of a run that was preempted: the job goes on elsewhere


class Newest:
    """`mark` is in the names of the files that this run writes before they replace others."""

    def __init__(self, runs: str, number: int, key: str) -> None:
        self._runs, self._number, self._key = runs, number, key
        self.mark = f"{key}.run{number}."

    def newer(self) -> int:
        """The number of a newer run of this job; 0 if there is none."""
        for number in range(self._number + 1, self._number + 1 + AHEAD):
            if os.path.exists(os.path.join(self._runs, str(number))):
                return number
        return 0

    def check(self, target: str) -> None:
        """End this process if there is a newer run: nothing that it does is of use any more."""
        if newer := self.newer():
            why = f"run {newer} of this job has begun, and this is run {self._number}"
            complain(f"{target} is not replaced: {why}")
            raise SystemExit(SUPERSEDED)

    def is_earlier(self, rest: str) -> bool:
        """Whether the rest of a name begins with the mark of an earlier run of this job."""
        key, _, rest = rest.partition(".run")
        number = rest.partition(".")[0]
        return key == self._key and number.isdigit() and int(number) < self._number


def newest(environ: Mapping[str, str]) -> Newest | None:
    """None for a process that is no run, or whose directory is not that of a numbered run."""
    runs, number = os.path.split(os.path.dirname(environ.get("TIRESIAS_RUN_DIR", "")))
    if not number.isdigit() or number != environ.get("TIRESIAS_RUN"):
        return None
    return Newest(runs, int(number), environ.get("TIRESIAS_JOB_KEY") or environ.get("TIRESIAS_JOB_ID") or "0")
