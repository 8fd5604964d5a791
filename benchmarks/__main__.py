"""`make bench` runs all benchmarks, `python -m benchmarks speed.philly quality.testbed` some of them.

`python -m benchmarks tables` writes the tables of README and docs; `make bench` checks them.
"""

from __future__ import annotations

import sys

from benchmarks import (
    allocators,
    attack,
    cli,
    dashboard,
    failing,
    fleet,
    foresight,
    gangs,
    instants,
    job,
    ladder,
    learning,
    live,
    network,
    observe,
    placement,
    placing,
    predicting,
    quality,
    refits,
    sharing,
    speed,
    store,
    tables,
    unsaving,
)
from tiresias.cli import interpreter
from tiresias.executors.interrupts import exiting_on_signals

ALL = {
    "speed.philly": speed.philly,
    "speed.profile": speed.profile,
    "speed.scale": speed.scale,
    "speed.load": speed.load,
    "speed.worker": speed.worker,
    "speed.instants": instants.instants,
    "speed.nodes": instants.nodes,
    "speed.network": network.network,
    "speed.placement": placement.speed,
    "quality.testbed": quality.testbed,
    "quality.philly": quality.philly,
    "quality.learning": learning.learning,
    "quality.predicting": predicting.predicting,
    "quality.allocators": allocators.philly,
    "quality.flood": allocators.flood,
    "quality.fairness": allocators.fairness,
    "quality.failures": failing.failing,
    "quality.predictions": allocators.predictions,
    "quality.gandiva": sharing.gandiva,
    "quality.placement": placement.quality,
    "quality.unsaving": unsaving.unsaving,
    "live.start": live.start,
    "live.decide": live.decide,
    "live.refits": refits.refits,
    "live.submit": live.submit,
    "live.restart": live.restart,
    "live.idle": live.idle,
    "live.fleet": fleet.fleet,
    "live.attack": attack.attack,
    "live.dashboard": dashboard.dashboard,
    "quality.foresight": foresight.foresight,
    "gangs": gangs.gangs,
    "cli": cli.cli,
    "store": store.store,
    "checksums": store.checksums,
    "job": job.job,
    "observe": observe.overhead,
    "placing": placing.placing,
    "tables": tables.check,
    "ladder": ladder.ladder,
}

if __name__ == "__main__":
    if sys.argv[1:2] == ["tables"]:
        sys.exit(tables.main(sys.argv[2:]))
    wanted = sys.argv[1:] or [name for name in ALL if name != "ladder"]  # it takes much longer
    unknown = [name for name in wanted if name not in ALL]
    if unknown:
        sys.exit(f"no benchmark {unknown[0]!r}; there are {', '.join(ALL)}")
    print(f"== {interpreter.described()}", flush=True)
    with exiting_on_signals():
        for name in wanted:
            print(f"== {name}", flush=True)
            ALL[name]()
