"""`python -m tiresias.testing.faults SEED [--nodes] [--count N]`: the story of one seed, or many seeds."""

from __future__ import annotations

import argparse
import gc
import logging
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter, process_time
from types import ModuleType

from tiresias.testing.faults import campaign as one_machine
from tiresias.testing.faults.campaign import Failure, Tally
from tiresias.testing.faults.nodes import campaign as many_nodes

MEMORY = "/dev/shm"  # where files are in memory: there are thousands of them
PIECE = 250


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tiresias.testing.faults", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=1, help="try so many seeds, from SEED on")
    parser.add_argument("--nodes", action="store_true", help="the simulation of many nodes")
    options = parser.parse_args()
    simulated = many_nodes if options.nodes else one_machine
    logging.getLogger("tiresias").addHandler(logging.NullHandler())  # clocks that jump are reported there
    logging.getLogger("tiresias").propagate = False
    with tempfile.TemporaryDirectory(dir=MEMORY if os.access(MEMORY, os.W_OK) else None) as folder:
        if options.count == 1:
            return int(simulated.print_story(options.seed, Path(folder), sys.stdout))
        return try_many(options.seed, options.seed + options.count, Path(folder), simulated)


def try_many(first: int, end: int, folder: Path, simulated: ModuleType) -> int:
    """Try all seeds from `first` to before `end`; say after each piece how far it came."""
    gc.freeze()  # the modules: looking for garbage among them takes a twentieth of the time
    gc.set_threshold(20_000)
    begun, total, failed = perf_counter(), Tally(), list[int]()
    at = first
    while at < end:
        try:
            total += simulated.campaign(range(at, min(at + PIECE, end)), folder)
            at = min(at + PIECE, end)
        except Failure as failure:
            print(f"{failure}\nagain: {simulated.command(failure.seed)}", flush=True)
            failed.append(failure.seed)
            total += failure.tally
            at = failure.seed + 1
        spent = f"{perf_counter() - begun:.0f} s, {process_time():.0f} s of processor time"
        print(f"until {at}: {total} in {spent}; failed: {failed or 'none'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
