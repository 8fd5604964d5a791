"""Random faults: kills, what the machine lacks for a while, clocks that jump, lost supervisors, reboots."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from random import Random

from tiresias.testing.faults.effects import Effects
from tiresias.testing.faults.world import World


@dataclass(slots=True)
class Odds:
    """Probabilities of faults at each event."""

    kill: float = 0.04
    shortage: float = 0.03
    enough_again: float = 0.2
    few_descriptors: float = 0.15  # at each start of a manager
    jump: float = 0.01
    lost_supervisor: float = 0.01
    reboot: float = 0.004
    busy: float = 0.2  # the manager does not react to this event yet


SHORTAGES = {
    errno.ENOSPC: "the disk is full",
    errno.EMFILE: "the manager has no descriptor left",
    errno.EAGAIN: "there is no room for another process",
    errno.ENOMEM: "there is no memory for another process",
}
JUMPS_S = (-86400.0, -60.0, -1.0, 1.0, 60.0, 3600.0)


class Disasters:
    def __init__(self, rng: Random, odds: Odds):
        self.rng = rng
        self.odds = odds

    def strike_at_start(self, world: World) -> None:
        """A manager that has just been started may have few descriptors."""
        if self.rng.random() < self.odds.few_descriptors:
            world.log(SHORTAGES[errno.EMFILE])
            world.shortages[errno.EMFILE] = 0.1

    def strike(self, world: World, effects: Effects) -> bool:
        """Cause faults by the odds; return whether the machine was rebooted."""
        rng, odds = self.rng, self.odds
        if effects.left is None and rng.random() < odds.kill:
            effects.left = rng.randrange(1, rng.choice((16, 100)))
        if rng.random() < odds.shortage:
            code = rng.choice(list(SHORTAGES))
            world.log(SHORTAGES[code])
            world.shortages[code] = rng.choice((0.1, 0.5, 0.9))
        for code in sorted(world.shortages):
            if rng.random() < odds.enough_again:
                world.log("no longer:", SHORTAGES[code])
                del world.shortages[code]
        if rng.random() < odds.jump:
            by_s = rng.choice(JUMPS_S)
            world.log("the wall clock jumps", by_s)
            world.clocks.jump(by_s)
        if rng.random() < odds.lost_supervisor and (supervisors := world.supervisors):
            process = rng.choice(supervisors)
            assert process.plan is not None
            world.log("loses its supervisor", process.plan["run_id"])
            world.kill(process)
        if rng.random() < odds.reboot:
            world.log("REBOOT")
            world.reboot()
            return True
        return False
