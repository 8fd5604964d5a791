"""The environment of one worker: that of the submitter, and variables that name its GPUs and its peers.

The names are those that torchrun and CUDA use, and `TIRESIAS_*`. `SLURM_*` variables of the submitter are
left out, because training frameworks that find one call `scontrol`.
"""

from __future__ import annotations

from tiresias.executors import sdk
from tiresias.executors.base import RunPart, RunSpec, Slot

# Variables that a submitter who is inside another job or under torchrun would pass on by accident.
RANKS = frozenset({"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK"})
AUTO = "TIRESIAS_AUTO"  # a user who has set it to 0 does not want the hook, whatever the lab's setting is
STALE = RANKS | {"TIRESIAS_ARRAY_INDEX", "TIRESIAS_PREFLIGHT", AUTO}
SHUTDOWN_MARGIN_S = 5  # torchrun kills its workers so many seconds before the supervisor would


def part_of(spec: RunSpec, worker: int) -> RunPart:
    """The part of the run to which a worker belongs; one without slots for a run that has none."""
    parts = spec.parts or (RunPart("", 0, (), 0, spec.workers),)
    return next(part for part in reversed(parts) if part.first_worker <= worker)


def worker_slots(spec: RunSpec, worker: int) -> tuple[Slot, ...]:
    """The slots of one worker, all of one node."""
    return part_of(spec, worker).slots_of(worker)


def visible_devices(slots: tuple[Slot, ...]) -> str:
    """The value of CUDA_VISIBLE_DEVICES; empty (no GPU) for slots without GPUs."""
    return ",".join(slot.uuid for slot in slots if slot.uuid)


WANDB = ("WANDB_RUN_ID", "WANDB_RESUME")


def tracker(spec: RunSpec, worker: int) -> dict[str, str]:
    """Weights & Biases continues the curve of the job's earlier runs."""
    run_id = f"tiresias-{spec.job_key or spec.job_id}" + (f"-{worker}" if worker else "")
    return {"WANDB_RUN_ID": run_id, "WANDB_RESUME": "allow"}


def environment(spec: RunSpec, worker: int, master_addr: str, master_port: int) -> dict[str, str]:
    """The complete environment of a worker's program."""
    env = {k: v for k, v in spec.env.items() if not k.startswith("SLURM_") and k not in STALE}
    parts, part = spec.parts, part_of(spec, worker)
    slots = part.slots_of(worker)
    devices = visible_devices(slots)
    env |= {
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": devices,
        "NVIDIA_VISIBLE_DEVICES": devices or "void",  # in a container an empty value means all GPUs
        "TIRESIAS_JOB_ID": str(spec.job_id),
        "TIRESIAS_JOB_KEY": spec.job_key or str(spec.job_id),
        "TIRESIAS_JOB_NAME": spec.job_name,
        "TIRESIAS_RUN": str(spec.number),
        "TIRESIAS_RUN_ID": str(spec.run_id),
        "TIRESIAS_RUN_DIR": str(spec.job_dir),
        "TIRESIAS_RESUME": str(int(spec.resumes)),
        "TIRESIAS_CHECKPOINT_DIR": spec.checkpoint_dir,
        "TIRESIAS_GRACE_SECONDS": f"{spec.grace_s:g}",
        "TIRESIAS_SLOTS": ",".join(map(str, slots)),
        "TIRESIAS_NUM_NODES": str(max(1, len(parts))),
        "TIRESIAS_NODE_RANK": str(part.rank),
        "TIRESIAS_NODE_LIST": ",".join(each.node for each in parts),
        "TIRESIAS_GPUS_PER_NODE": str(len(part.slots)),
        "TIRESIAS_GPUS": str(len(spec.slots)),
        "TIRESIAS_WORKER": str(worker),
        "TIRESIAS_WORKERS": str(spec.workers),
        "MASTER_ADDR": master_addr,
        "MASTER_PORT": str(master_port),
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": str(max(1, int(spec.grace_s) - SHUTDOWN_MARGIN_S)),
    }
    env.setdefault("PYTHONUNBUFFERED", "1")  # so that output is seen while the training runs
    if spec.sdk is not None:
        is_auto = spec.auto and spec.env.get(AUTO) != "0"
        env["PYTHONPATH"] = sdk.python_path(env.get("PYTHONPATH", ""), spec.sdk, with_hook=is_auto)
        if is_auto:
            env |= {AUTO: "1"} | tracker(spec, worker) | {k: v for k, v in spec.env.items() if k in WANDB}
    if spec.array_index is not None:
        env["TIRESIAS_ARRAY_INDEX"] = str(spec.array_index)
    if spec.preflight:
        env["TIRESIAS_PREFLIGHT"] = "1"
    if spec.identity is not None:
        user, home = spec.identity.user, spec.identity.home
        env |= {"USER": user, "LOGNAME": user, "HOME": home}
    return env
