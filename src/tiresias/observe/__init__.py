"""Observes a training from outside: what its processes send, iteration by iteration.

    from tiresias.observe import observe

    seen = observe(["python", "train.py"])
    print(seen.period_s, seen.bytes_per_iteration, seen.skew)

Like the paper's profiler, which watched RDMA, this is independent of the framework: a small library that is
preloaded into the command and its children records the size and time of each message over a socket
(messages.c). From these follow the iterations (sequences.py, rhythm.py), what the gang sends in one iteration
(gang.py), and, if messages are tensors, the size and skew of the model (patterns.py).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO

from tiresias.observe.errors import ObserveError
from tiresias.observe.gang import gang
from tiresias.observe.library import library
from tiresias.observe.observed import Observed, observed
from tiresias.observe.patterns import Pattern
from tiresias.observe.records import Process, read_all
from tiresias.observe.trial import Trial

__all__ = ["ObserveError", "Observed", "Pattern", "analyse", "observe"]

ITERATIONS = 20
SECONDS = 120.0
FEW = 10


def observe(
    command: Sequence[str],
    *,
    workers: int = 1,
    iterations: int = ITERATIONS,
    seconds: float = SECONDS,
    cwd: Path | None = None,
    output: int | IO[str] | None = None,
) -> Observed:
    """Run a command until so many iterations were seen or the time is up, and return what it sent.

    `workers` is how many times it is started, as the workers of a gang (TIRESIAS_WORKER, MASTER_ADDR, …).
    """
    if not command:
        raise ObserveError("no command given: write it after --, as in -- python train.py")
    built = library()
    with tempfile.TemporaryDirectory(prefix="tiresias-observe-") as directory:
        trial = Trial(tuple(command), Path(directory), built, workers, cwd=cwd, output=output)
        took_s = trial.run(iterations, seconds)
        try:
            seen = analyse(Path(directory), tuple(command), took_s)
        except ObserveError as error:
            if trial.failures:
                raise ObserveError(f"{error} It failed with {_exit(trial.failures[0])}.") from None
            raise
    if trial.failures:
        return replace(seen, notes=(*seen.notes, f"the command failed with {_exit(trial.failures[0])}"))
    return seen


def analyse(directory: Path, command: tuple[str, ...] = (), observed_s: float = 0.0) -> Observed:
    """What the recorded messages in a directory show; they may be from several machines."""
    processes = read_all(directory)
    if not any(each.flows for each in processes):
        hidden = "RDMA, NVLink, shared memory and statically linked programs are not visible"
        raise ObserveError(f"nothing was sent that could be seen: only messages over sockets are; {hidden}.")
    found = gang(processes)
    if found is None:
        sent = sum(flow.bytes for each in processes for flow in each.flows)
        raise ObserveError(
            f"{sent:,} bytes were sent within {observed_s:.0f} s, but nothing was repeated: "
            "give it more time (--seconds), or let it do more steps."
        )
    return observed(found, command, observed_s, len(processes), tuple(_notes(processes, found.iterations)))


def _notes(processes: Sequence[Process], iterations: int) -> list[str]:
    notes = []
    if iterations < FEW:
        notes.append(f"only {iterations} iterations were seen: give it more time (--seconds) to be sure")
    local = sum(each.local_bytes for each in processes)
    network = sum(flow.bytes for each in processes for flow in each.flows)
    if local > network:
        notes.append(f"{local:,} bytes were sent over Unix sockets and are not counted")
    return notes


def _exit(code: int) -> str:
    return f"exit code {code}" if code > 0 else f"signal {-code}"
