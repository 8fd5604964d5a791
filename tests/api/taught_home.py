"""A home whose past is enough for estimates of starts, which have been wrong there."""

from __future__ import annotations

from pathlib import Path

from tiresias.live.eta import LEAST_HISTORY, Estimate
from tiresias.live.foresight import LEAST
from tiresias.live.submission import Caller, Submission
from tiresias.testing.still import still_manager

ANN = Caller("ann", is_admin=True)


def teach(home: Path) -> None:
    """The real manager, whose runs have no processes; every job waits far longer than was estimated."""
    home.mkdir(exist_ok=True)
    with still_manager(home, 1, "fifo") as (manager, executor):
        for _ in range(max(LEAST, LEAST_HISTORY) + 1):
            asked = [Submission(("true",), str(home), {"PATH": "/bin"})]
            [first] = manager.requests.submit(ANN, asked)
            manager.flush()
            manager.poll()
            [second] = manager.requests.submit(ANN, asked)
            manager.flush()
            estimate = Estimate(1.0, 2.0, 100, "", 3.0, 4.0)
            manager.forecasts.keep(second, manager.now() - 1e6, estimate)
            for id in (first, second):
                run = manager.state.jobs[id].run
                assert run is not None
                executor.finish(run.id)
                manager.poll()
                manager.tick()
                manager.flush()
                manager.poll()
                manager.flush()
        assert len(manager.forecasts.record.latest) > LEAST
