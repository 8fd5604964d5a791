"""`python -m tiresias.testing.kill SEED [--kills N]`: run one campaign in a new home."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tiresias.testing.kill.campaign import Campaign


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tiresias.testing.kill", description=__doc__)
    parser.add_argument("seed", type=int)
    parser.add_argument("--kills", type=int, default=50)
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="tiresias-kill-")) / "home"
    print(f"home: {home}", flush=True)
    with Campaign(home, options.seed, options.kills) as campaign:
        print(campaign.run())
    return 0


if __name__ == "__main__":
    sys.exit(main())
