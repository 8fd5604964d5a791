"""What an operator may tune, with the defaults."""

from __future__ import annotations

from dataclasses import dataclass

DAY_S = 86_400.0
MIB = 2**20


@dataclass(slots=True)
class Settings:
    backoff_s: float = 10.0  # before the first retry; doubles with each
    most_backoff_s: float = 600.0
    most_lost_runs: int = 10  # a job fails when more of its runs were lost than this
    most_quick_requeues: int = 10  # consecutive runs that may ask at their start to be run again
    quick_s: float = 5.0  # a run that asks within this time asks at its start
    refuse_after: int = 3  # a command is refused when so many of its jobs failed in the same way
    withdraw_after: int = 3  # a GPU is taken out of service when so many different jobs died of it
    judge_after_s: float = 30.0  # a job whose run lasted so long and saved nothing does not save
    refuse_unresumable: int = 0  # 1: jobs that are known not to save are refused
    most_grace_s: float = 3600.0  # of any job: how long a run that must stop may take to save
    auto: bool = False  # every job has --auto; an option of `tir up` and not one of `settings`
    gpu_check_s: float = 10.0
    fake_gpu_memory_bytes: float = 0.0  # the memory that each fake GPU is said to have; 0: not known
    measure_s: float = 30.0  # a speed is measured over at least this time
    correct_every_s: float = 600.0  # the least time between two corrections of the placer
    preflight_check_s: float = 0.5
    most_log_bytes: float = 256.0 * MIB  # that the output of a job may take on the disk; 0: no cap
    reserve_bytes: float = 1024.0 * MIB  # while less is free on the disk, all output is cut short
    idle_notice_s: float = 1800.0  # a run that has written and reported nothing for so long is idle
    interactive_share: float = 0.25  # of the GPUs, that interactive jobs may hold together; at least one GPU
    interactive_jobs: int = 2  # that a user may have at once
    interactive_idle_s: float = 3600.0  # an interactive job that nobody has used for so long is ended
    interactive_time_s: float = 43_200.0  # the longest time limit of an interactive job, and the usual one
    lease_s: float = 60.0  # a run on many nodes that cannot write to the shared folder for so long is ended
    compact_every_s: float = 3600.0
    keep_facts_s: float = 7 * DAY_S
