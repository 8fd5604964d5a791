"""`python -m tiresias.api.what_if_child`: the process that computes a what-if for a manager.

It reads one question as a line of JSON and writes lines of JSON: progress, then the result or why there is
none. Rules: it is polite (the lowest priority), bounded in processor time and memory, reads the journal only,
and ends as soon as its input ends: with the manager, and with whoever asked.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

MOST_CPU_S = 300
MOST_DATA_BYTES = 4 * 2**30
MOST_JOBS = 20_000  # the latest
PAGE = 500  # jobs that are read at once
POLITE = 19
FIRST_TO_GO = "800"  # if the machine runs out of memory, this is ended, and no job and no manager


def main() -> int:
    os.nice(POLITE)
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(FIRST_TO_GO)
    resource.setrlimit(resource.RLIMIT_CPU, (MOST_CPU_S, MOST_CPU_S + 5))
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_DATA_BYTES, MOST_DATA_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    question = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_input, daemon=True).start()
    try:
        say("result", answered(question))
    except Exception as error:  # noqa: BLE001  (a plug-in may raise anything; the caller gets the message)
        say("failed", {"message": _message(error)})
    return 0


def _message(error: Exception) -> str:
    from tiresias.live.errors import Refused
    from tiresias.sim.errors import InputError
    from tiresias.store import StoreError

    if isinstance(error, InputError | StoreError | Refused):
        return str(error)
    return f"the replay failed: {type(error).__name__}: {str(error)[:300]}"


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(0)


def say(name: str, value: Any) -> None:
    sys.stdout.write(json.dumps([name, value], allow_nan=False) + "\n")
    sys.stdout.flush()


def answered(question: Mapping[str, Any]) -> dict[str, Any]:
    """The result, as JSON; without `result` if nothing can be replayed."""
    import tiresias.placers
    import tiresias.policies  # noqa: F401  (both for what they register)
    from tiresias.api.home import OPTIONS
    from tiresias.api.serve import load_plugins, read_options
    from tiresias.core.model import Cluster, Node
    from tiresias.core.plugins import Placer, placers
    from tiresias.sim import past as pasts
    from tiresias.sim.what_if import Scenario, what_if
    from tiresias.store.profiles import profiles_in
    from tiresias.store.reader import Reader

    load_plugins(read_options(Path(question["home"]) / OPTIONS))
    with Reader(Path(question["journal"])) as reader:
        profiles = profiles_in(reader)
        rows = list(_rows(reader, question["since_at"]))
    past = pasts.past_of(rows, since_at=question["since_at"])
    if past is None:
        return {"jobs": 0}
    nodes = [Node(name, gpus, sockets=tuple(map(tuple, groups))) for name, gpus, groups in question["nodes"]]

    def make_placer() -> Placer:
        placer: Placer = placers.make(question["placer"], question["placer_options"], profiles=profiles)
        return placer

    scenarios = [
        Scenario(pasts.Choice(each["policy"], each["options"]), each["more_gpus"])
        for each in question["scenarios"]
    ]
    found = what_if(past, Cluster(nodes), scenarios, make_placer, question["user"], _progress)
    return {**asdict(found), "left_out": past.never_ran + past.earlier, "is_cut": len(rows) == MOST_JOBS}


def _progress(number: int, done: int, total: int) -> None:
    say("progress", {"scenario": number, "done": done, "jobs": total})


def _rows(reader: Any, since_at: float) -> Iterator[dict[str, Any]]:
    """The history from then on, the latest first, and at most MOST_JOBS of it."""
    from tiresias.live.ended import trace_row
    from tiresias.live.submission import Caller

    everybody = Caller("", is_admin=True)
    cursor, left = None, MOST_JOBS
    while left:
        records, cursor = reader.history.page(min(PAGE, left), cursor)
        spans = reader.spans(record.id for record in records)
        for record in records:
            if (record.ended_at or 0.0) < since_at:
                return
            yield trace_row(record, spans.get(record.id, []), everybody)
        left -= len(records)
        if cursor is None:
            return


if __name__ == "__main__":
    sys.exit(main())
