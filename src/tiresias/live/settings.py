"""What an operator may tune, with what holds otherwise."""

from __future__ import annotations

from dataclasses import dataclass

DAY_S = 86_400.0


@dataclass(slots=True)
class Settings:
    backoff_s: float = 10.0  # before the first retry; doubles with each
    most_backoff_s: float = 600.0
    most_lost_runs: int = 10  # a job whose runs vanish so often has failed
    most_quick_requeues: int = 10  # so often in a row may a run ask at once to be run again
    quick_s: float = 5.0  # what "at once" means
    refuse_after: int = 3  # jobs that failed alike until the same command is refused
    withdraw_after: int = 3  # jobs that died of the same GPU until it is taken out of service
    gpu_check_s: float = 10.0
    measure_s: float = 30.0  # of reports that tell how fast a run was
    correct_every_s: float = 600.0  # at most so often the placer learns from that
    preflight_check_s: float = 0.5
    compact_every_s: float = 3600.0
    keep_facts_s: float = 7 * DAY_S
