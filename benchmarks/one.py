"""One simulation alone in its process: `python -m benchmarks.one TRACE CLUSTER POLICY [JOBS LOAD SEED]`."""

from __future__ import annotations

import json
import sys
import time

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
    before, began = yardstick_s(time.process_time), time.process_time()
    result = simulate(trace, cluster, policy)
    cpu_s = time.process_time() - began
    took = {"cpu_s": cpu_s, "yardstick_s": (before + yardstick_s(time.process_time)) / 2}
    print(json.dumps(result.summary() | took | {"peak_bytes": peak_bytes()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
