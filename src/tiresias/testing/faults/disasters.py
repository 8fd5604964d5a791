"""Random faults: kills, full disks, clocks that jump, lost supervisors, reboots."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from tiresias.testing.faults.effects import Effects
from tiresias.testing.faults.world import World


@dataclass(slots=True)
class Odds:
    """Probabilities of faults at each event."""

    kill: float = 0.04
    full_disk: float = 0.01
    room_again: float = 0.2
    jump: float = 0.01
    lost_supervisor: float = 0.01
    reboot: float = 0.004
    busy: float = 0.2  # the manager does not react to this event yet


JUMPS_S = (-86400.0, -60.0, -1.0, 1.0, 60.0, 3600.0)


class Disasters:
    def __init__(self, rng: Random, odds: Odds):
        self.rng = rng
        self.odds = odds

    def strike(self, world: World, effects: Effects) -> bool:
        """Cause faults by the odds; return whether the machine was rebooted."""
        rng, odds = self.rng, self.odds
        if effects.left is None and rng.random() < odds.kill:
            effects.left = rng.randrange(1, 16)
        if effects.is_disk_full:
            effects.is_disk_full = rng.random() >= odds.room_again
        elif rng.random() < odds.full_disk:
            world.log("the disk is full")
            effects.is_disk_full = True
        if rng.random() < odds.jump:
            by_s = rng.choice(JUMPS_S)
            world.log("the wall clock jumps", by_s)
            world.clocks.jump(by_s)
        supervised = [gang for gang in world.live if gang.is_supervised]
        if supervised and rng.random() < odds.lost_supervisor:
            gang = rng.choice(supervised)
            world.log("loses its supervisor", gang.spec.run_id)
            world.lose_supervisor(gang)
        if rng.random() < odds.reboot:
            world.log("REBOOT")
            world.reboot()
            return True
        return False
