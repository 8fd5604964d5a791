"""`python -m tiresias.testing.kill SEED [--kills N]`: run one campaign in a new home."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tiresias.testing.kill.accounts import other_names
from tiresias.testing.kill.campaign import Campaign
from tiresias.testing.kill.small_disk import surroundings


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tiresias.testing.kill", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--kills", type=int, default=50)
    options = parser.parse_args()
    names = other_names()
    with tempfile.TemporaryDirectory(prefix="tiresias-kill-") as top, surroundings(Path(top)) as (home, disk):
        print(f"home: {home}", flush=True)
        jobs_each = max(4, options.kills // 8)
        with Campaign(
            home, options.seed, options.kills, jobs_each=jobs_each, names=names, disk=disk
        ) as campaign:
            print(campaign.run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
