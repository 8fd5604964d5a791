"""`python -m tiresias.testing.faults SEED [--count N]`: print the story of one seed, or try many seeds."""

from __future__ import annotations

import argparse
import logging
import sys
import tempfile
from pathlib import Path
from time import perf_counter

from tiresias.testing.faults.campaign import Failure, campaign, command, print_story


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tiresias.testing.faults", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--count", type=int, default=1, help="try so many seeds, from SEED on")
    options = parser.parse_args()
    logging.getLogger("tiresias").addHandler(logging.NullHandler())  # clocks that jump are reported there
    with tempfile.TemporaryDirectory() as folder:
        if options.count == 1:
            return print_story(options.seed, Path(folder), sys.stdout)
        begun = perf_counter()
        try:
            tally = campaign(range(options.seed, options.seed + options.count), Path(folder))
        except Failure as failure:
            print(failure)
            print(f"again: {command(failure.seed)}")
            return 1
        print(f"{tally} in {perf_counter() - begun:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
