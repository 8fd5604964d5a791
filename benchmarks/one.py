"""One simulation alone in its process: `python -m benchmarks.one TRACE CLUSTER POLICY [JOBS LOAD SEED]`."""

from __future__ import annotations

import json
import sys

from benchmarks.common import peak_bytes, yardstick_s
from tiresias.sim import simulate, traces
from tiresias.sim.clusters import parse


def main(source: str, cluster: str, policy: str, *generated: str) -> None:
    if generated:
        jobs, load, seed = generated
        gpus = parse(cluster).gpus
        trace = traces.generate(source, jobs=int(jobs), load=float(load), cluster_gpus=gpus, seed=int(seed))
    else:
        trace = traces.load(source)
    before = yardstick_s()
    result = simulate(trace, cluster, policy)
    answer = result.summary() | {"yardstick_s": (before + yardstick_s()) / 2, "peak_bytes": peak_bytes()}
    print(json.dumps(answer))


if __name__ == "__main__":
    main(*sys.argv[1:])
