"""A process that commits until it is killed, and prints the number of the last fact after each commit."""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

from store_worlds import Happening, Life, a_controller, commit

from tiresias.core.controller import Controller
from tiresias.core.plugins import placers
from tiresias.store import Chosen, Store


def main(path: Path, seed: int) -> None:
    rng = Random(seed)
    with Store.open(path) as store:
        if store.is_new:
            life = Life(a_controller())
            store.begin(life.controller, Chosen("tiresias-l"))
        else:
            loaded = store.load()
            life = Life(Controller(loaded.state, loaded.policy, placers.make("packed")))
            life.at = max(loaded.state.at, 0.0)
            life.jobs = store.next_job_id - 1
            commit(store, life.controller, life.restart(life.controller))
        while True:
            steps = []
            for _ in range(rng.randrange(1, 4)):
                steps += life.live(
                    Happening(rng.randrange(14), rng.randrange(51), rng.choice((0.0, 0.5, 8.0)))
                )
            print(commit(store, life.controller, steps), flush=True)
            if rng.random() < 0.05:
                store.compact(life.at - 20.0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
