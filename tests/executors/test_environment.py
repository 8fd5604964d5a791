"""The environment variables of a worker."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tiresias.core.model import JobId, RunId
from tiresias.core.plugins import OptionError
from tiresias.executors.base import Identity, RunSpec, Slot
from tiresias.executors.environment import environment, worker_slots
from tiresias.executors.launchers import launchers
from tiresias.executors.ports import HIGH, LOW, free_port


def a_spec(**changes) -> RunSpec:
    given = {
        "run_id": RunId(7),
        "job_id": JobId(3),
        "number": 2,
        "command": ("python", "train.py"),
        "cwd": "/project",
        "env": {"PATH": "/bin", "LR": "0.1"},
        "slots": tuple(Slot("a", i, f"GPU-{i}") for i in range(4)),
        "run_dir": Path("/home/runs/7"),
        "checkpoint_dir": "/ckpt/3",
        "job_name": "bert",
        "job_key": "3-18c",
    }
    return RunSpec(**(given | changes))


def env_of(worker: int = 0, **changes) -> dict[str, str]:
    return environment(a_spec(**changes), worker, "127.0.0.1", 20001)


def test_all_names_and_values():
    assert env_of() == {
        "PATH": "/bin",
        "LR": "0.1",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_VISIBLE_DEVICES": "GPU-0,GPU-1,GPU-2,GPU-3",
        "NVIDIA_VISIBLE_DEVICES": "GPU-0,GPU-1,GPU-2,GPU-3",
        "TIRESIAS_JOB_ID": "3",
        "TIRESIAS_JOB_KEY": "3-18c",
        "TIRESIAS_JOB_NAME": "bert",
        "TIRESIAS_RUN": "2",
        "TIRESIAS_RUN_ID": "7",
        "TIRESIAS_RUN_DIR": "/home/runs/7/job",
        "TIRESIAS_RESUME": "0",
        "TIRESIAS_CHECKPOINT_DIR": "/ckpt/3",
        "TIRESIAS_GRACE_SECONDS": "60",
        "TIRESIAS_SLOTS": "a:0,a:1,a:2,a:3",
        "TIRESIAS_NUM_NODES": "1",
        "TIRESIAS_NODE_RANK": "0",
        "TIRESIAS_NODE_LIST": "a",
        "TIRESIAS_GPUS_PER_NODE": "4",
        "TIRESIAS_GPUS": "4",
        "TIRESIAS_WORKER": "0",
        "TIRESIAS_WORKERS": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "20001",
        "TORCH_ELASTIC_SHUTDOWN_TIMEOUT": "55",
        "PYTHONUNBUFFERED": "1",
    }


@pytest.mark.parametrize("given", ["", "0", "1"])
def test_output_is_not_buffered_unless_the_user_has_decided(given):
    assert env_of(env={"PYTHONUNBUFFERED": given})["PYTHONUNBUFFERED"] == given


SDK, PACKAGE, HOOK = Path("/home/sdk/d"), "/home/sdk/d/package", "/home/sdk/d/hook"


def test_the_sdk_is_on_the_path_of_every_run_and_the_hook_on_that_of_some():
    assert env_of(sdk=SDK, env={"PYTHONPATH": "/mine"})["PYTHONPATH"] == f"/mine:{PACKAGE}"
    auto = env_of(sdk=SDK, auto=True, env={"PYTHONPATH": "/mine"})
    assert (auto["PYTHONPATH"], auto["TIRESIAS_AUTO"]) == (f"{HOOK}:/mine:{PACKAGE}", "1")


def test_a_user_who_has_said_no_gets_no_hook():
    env = env_of(sdk=SDK, auto=True, env={"TIRESIAS_AUTO": "0"})
    assert env["PYTHONPATH"] == PACKAGE
    assert "TIRESIAS_AUTO" not in env


def test_the_hook_of_an_outer_job_is_not_passed_on():
    assert "TIRESIAS_AUTO" not in env_of(sdk=SDK, env={"TIRESIAS_AUTO": "1"})


def test_fake_gpus_show_no_device():
    env = env_of(slots=(Slot("a", 0), Slot("a", 1)))
    assert (env["CUDA_VISIBLE_DEVICES"], env["NVIDIA_VISIBLE_DEVICES"]) == ("", "void")
    assert env["TIRESIAS_SLOTS"] == "a:0,a:1"


def test_each_slot_belongs_to_exactly_one_worker():
    spec = a_spec(workers=3, slots=tuple(Slot("a", i) for i in range(8)))
    parts = [worker_slots(spec, worker) for worker in range(3)]
    assert [len(part) for part in parts] == [3, 3, 2]
    assert [slot.index for part in parts for slot in part] == list(range(8))


def test_more_workers_than_slots_leave_some_workers_without():
    assert [len(worker_slots(a_spec(workers=5), worker)) for worker in range(5)] == [1, 1, 1, 1, 0]
    assert env_of(4, workers=5)["TIRESIAS_SLOTS"] == ""


def test_a_worker_on_the_second_node_gets_the_rank_of_its_node():
    env = env_of(1, workers=2, slots=(Slot("a", 3), Slot("b", 0)))
    assert (env["TIRESIAS_NUM_NODES"], env["TIRESIAS_NODE_RANK"], env["TIRESIAS_NODE_LIST"]) == (
        "2",
        "1",
        "a,b",
    )
    assert (env["TIRESIAS_SLOTS"], env["TIRESIAS_GPUS_PER_NODE"]) == ("b:0", "1")


def test_a_resumed_run_an_array_and_a_preflight_set_their_variables():
    env = env_of(resumes=True, array_index=0, preflight=True)
    assert (env["TIRESIAS_RESUME"], env["TIRESIAS_ARRAY_INDEX"], env["TIRESIAS_PREFLIGHT"]) == ("1", "0", "1")


def test_no_slurm_variable_and_none_of_another_job_is_passed_on():
    outer = {
        "SLURM_JOB_ID": "1",
        "RANK": "3",
        "TIRESIAS_ARRAY_INDEX": "9",
        "TIRESIAS_HOME": "/h",
        "TIRESIAS_RUN": "9",
    }
    env = env_of(env=outer)
    assert not {"SLURM_JOB_ID", "RANK", "TIRESIAS_ARRAY_INDEX"} & env.keys()
    assert (env["TIRESIAS_HOME"], env["TIRESIAS_RUN"]) == ("/h", "2")


@pytest.mark.parametrize(("grace_s", "timeout"), [(60, "55"), (5, "1"), (0, "1"), (300.5, "295")])
def test_torchrun_kills_its_workers_before_the_grace_ends(grace_s, timeout):
    assert env_of(grace_s=grace_s)["TORCH_ELASTIC_SHUTDOWN_TIMEOUT"] == timeout


def test_home_and_user_are_those_of_the_submitter():
    who = Identity(1000, 1000, (1000,), "ada", "/home/ada")
    env = env_of(identity=who, env={"HOME": "/root", "USER": "root", "LOGNAME": "root"})
    assert (env["HOME"], env["USER"], env["LOGNAME"]) == ("/home/ada", "ada", "ada")


def test_only_the_launcher_per_gpu_sets_ranks():
    assert "RANK" not in launchers.get("plain")().environment(a_spec(), 0, "h", 1)
    launcher = launchers.get("per-gpu")()
    spec = a_spec(
        workers=4, slots=(Slot("a", 2, "G2"), Slot("a", 3, "G3"), Slot("b", 0, "H0"), Slot("b", 1, "H1"))
    )
    assert launcher.workers(spec) == 4
    env = launcher.environment(spec, 3, "h", 1)
    names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "TIRESIAS_SLOTS")
    assert [env[name] for name in names] == ["3", "1", "4", "2", "H0,H1", "b:1"]


def test_an_unknown_launcher_is_named_with_a_suggestion():
    with pytest.raises(OptionError, match="no launcher 'plian'; did you mean 'plain'"):
        launchers.get("plian")


def test_a_port_in_use_or_taken_is_not_chosen():
    first = free_port(set(), seed=5)
    assert LOW <= first < HIGH
    with socket.socket() as server:
        server.bind(("", first))
        server.listen()
        second = free_port(set(), seed=5)
        assert second != first
        assert free_port({second}, seed=5) not in (first, second)


def test_weights_and_biases_continues_one_curve_with_the_hook_unless_the_user_has_decided():
    assert "WANDB_RUN_ID" not in env_of(sdk=SDK)
    auto = env_of(sdk=SDK, auto=True)
    assert (auto["WANDB_RUN_ID"], auto["WANDB_RESUME"]) == ("tiresias-3-18c", "allow")
    assert env_of(1, sdk=SDK, auto=True, workers=2)["WANDB_RUN_ID"] == "tiresias-3-18c-1"
    mine = env_of(sdk=SDK, auto=True, env={"WANDB_RUN_ID": "", "WANDB_RESUME": "never"})
    assert (mine["WANDB_RUN_ID"], mine["WANDB_RESUME"]) == ("", "never")
