"""What must be there before a run can begin: its directories, with the owners and modes that they need."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tiresias.executors import run_files
from tiresias.executors.causes import HOST_FAULTS
from tiresias.executors.directories import make, make_passage

if TYPE_CHECKING:
    from tiresias.executors.base import RunSpec
    from tiresias.executors.cgroup_parent import Limiting
    from tiresias.executors.kernel import Kernel


def prepare(spec: RunSpec, limiting: Limiting, kernel: Kernel) -> None:
    """Make the directories of a run; ValueError or OSError if it cannot begin on this machine."""
    if not spec.command:
        raise ValueError("the command is empty; give a program after --")
    if refusal := limiting.refusal(spec.cpus, spec.memory_bytes):
        raise ValueError(f"cannot limit the run: {refusal}")
    make_run_dir(spec, kernel)
    make(spec.job_dir, 0o700, kernel)
    identity = spec.identity
    if identity is not None and os.geteuid() not in (0, identity.uid):
        raise ValueError(
            f"cannot run as {identity.user} (uid {identity.uid}): the manager is uid {os.geteuid()}, not root"
        )
    _give(spec, spec.job_dir, kernel)
    if spec.has_own_checkpoints:
        _make_checkpoint_dir(spec, kernel)


def make_run_dir(spec: RunSpec, kernel: Kernel) -> None:
    """Make the directory of a run, with the file that says whose it is."""
    make_passage(spec.part_dir, kernel)
    run_files.own(str(spec.part_dir), journal=spec.journal, run_id=int(spec.run_id), kernel=kernel)


def _give(spec: RunSpec, path: Path, kernel: Kernel) -> None:
    """Make the directory that of the user of the job."""
    if spec.identity is not None and os.geteuid() == 0:
        kernel.chown(str(path), spec.identity.uid, spec.identity.gid)


def _make_checkpoint_dir(spec: RunSpec, kernel: Kernel) -> None:
    path = Path(spec.checkpoint_dir)
    try:
        make_passage(path.parent, kernel)
        make(path, 0o700, kernel)
        _give(spec, path, kernel)
    except OSError as error:
        if error.errno in HOST_FAULTS:
            raise  # the run waits; it would fail for what the machine lacks
        # Of anything else the training says what is wrong when it wants to save.
