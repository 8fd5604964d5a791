"""A manager on a real Ray: gangs over several nodes train, are preempted, and resume."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator

import pytest
from training_digest import digest_of
from training_lab import TrainingLab

from tiresias.testing.executors import is_alive, until


@pytest.fixture(scope="module")
def lab(bed, tmp_path_factory) -> Iterator[TrainingLab]:
    made = TrainingLab(bed, tmp_path_factory.mktemp("lab"))
    made.up(backoff_s=1.0, lease_s=8.0)
    until(lambda: len(made.nodes()) == len(bed.boxes), "every node has joined", within_s=120)
    yield made
    made.end()


def test_the_nodes_of_ray_have_their_names_racks_and_addresses(lab, bed):
    nodes = lab.nodes()
    assert sorted(nodes) == [box.name for box in bed.boxes]
    assert [nodes[box.name]["address"] for box in bed.boxes] == [box.address for box in bed.boxes]
    assert nodes["n3"]["rack"] == "r1"
    assert all(len(node["slots"]) == 4 for node in nodes.values())


def test_a_gang_over_all_nodes_trains_is_preempted_and_resumes(lab):
    gang = lab.train(120, 0.05, "-g", "16", "--workers", "4")
    lab.until_trains(gang)
    urgent = lab.train(10, 0.02, "-g", "4", "--priority", "high")
    lab.until_ended([urgent, gang])
    assert lab.phase(urgent) == "SUCCEEDED"
    assert lab.phase(gang) == "SUCCEEDED"
    assert [run["cause"] for run in lab.job(gang)["runs"]] == ["preempted", "finished"]
    assert lab.nodes_of(gang) == ["n0", "n1", "n2", "n3"]
    assert lab.steps(gang) == (120, digest_of(120))


def test_ray_shows_the_gpus_of_a_run_as_taken_and_then_as_free(lab, bed):
    job = lab.submit("-g", "6", "--", "sleep", "600")
    lab.until_phase(job, "RUNNING")
    assert taken(bed) == 6
    lab.tir("cancel", str(job))
    until(lambda: taken(bed) == 0, "the GPUs are free", within_s=60)


def test_a_job_without_gpus_runs_on_some_node(lab):
    job = lab.submit("-g", "0", "--", "hostname")
    lab.until_ended([job])
    assert lab.logs(job).strip() in lab.nodes()


def test_a_manager_that_is_killed_costs_no_run(lab):
    gang = lab.train(100, 0.05, "-g", "8", "--workers", "2")
    lab.until_trains(gang)
    os.kill(lab.pid(), signal.SIGKILL)
    lab.up()
    lab.until_ended([gang])
    assert [run["cause"] for run in lab.job(gang)["runs"]] == ["finished"]
    assert lab.steps(gang) == (100, digest_of(100))


def test_runs_outlive_the_raylet_of_the_managers_own_machine(lab, bed):
    """Ray ends the process that speaks with it; the manager and the run go on."""
    job = lab.train(60, 0.05, "-g", "16", "--workers", "4")
    lab.until_trains(job)
    before = lab.nodes()["n0"]["slots"]
    bed.boxes[0].kill_raylet()
    until(lambda: lab.nodes()["n0"]["is_silent"], "the node is silent", within_s=60)
    bed.boxes[0].start_node(labels="rack=r0")
    until(lambda: not lab.nodes()["n0"]["is_silent"], "the node answers again", within_s=120)
    lab.until_ended([job])
    assert lab.steps(job) == (60, digest_of(60))
    assert len(lab.job(job)["runs"]) == 1
    # Ray has given the node another id; its name and its slots are the same.
    assert sorted(lab.nodes()) == [box.name for box in bed.boxes]
    after = lab.nodes()["n0"]["slots"]
    assert [slot["name"] for slot in after] == [slot["name"] for slot in before]


def test_a_run_outlives_a_link_that_is_cut_for_a_while(lab, bed):
    """The workers of the run need no network of their own: it has one worker. Nothing new starts there."""
    job = trained_elsewhere(lab, 250, "-g", "3", "--workers", "1")
    box = box_of(lab, bed, job)
    box.cut()
    try:
        until(lambda: lab.nodes()[box.name]["is_silent"], "the node is silent", within_s=60)
        assert lab.phase(job) == "RUNNING"
        everywhere = lab.submit("--nodes", "4", "--gpus-per-node", "1", "--", "true")
        assert lab.phase(everywhere) == "PENDING"
        others = lab.submit("--nodes", "3", "--gpus-per-node", "1", "--", "true")
        lab.until_ended([others])
        assert box.name not in lab.nodes_of(others)
        assert lab.phase(everywhere) == "PENDING"
    finally:
        box.mend()
    until(lambda: not lab.nodes()[box.name]["is_silent"], "the node answers again", within_s=120)
    lab.until_ended([job, everywhere])
    assert len(lab.job(job)["runs"]) == 1
    assert lab.steps(job) == (250, digest_of(250))
    assert lab.phase(everywhere) == "SUCCEEDED"


def test_a_gang_on_a_node_that_is_paused_is_given_up_and_goes_on_elsewhere(lab, bed):
    """The silent node is not used again before its old run is known to be over."""
    gang = lab.train(200, 0.05, "-g", "8", "--workers", "2", "--grace", "2s")
    lab.until_trains(gang, 25)
    box = box_of(lab, bed, gang)
    stopped = box.pause()
    try:
        until(lambda: len(lab.job(gang)["runs"]) == 2, "the run was given up and goes on", within_s=60)
        lab.until_ended([gang])
        assert box.name not in lab.nodes_of(gang)
        assert lab.nodes()[box.name]["is_silent"]
    finally:
        box.resume(stopped)
    until(lambda: not lab.nodes()[box.name]["is_silent"], "the node is used again", within_s=120)
    assert lab.steps(gang) == (200, digest_of(200))
    assert f"node {box.name} was silent" in lab.job(gang)["runs"][0]["sentence"]
    assert not lab.processes()


def test_what_runs_on_a_drained_node_goes_on_elsewhere_after_the_deadline(lab):
    gang = lab.train(150, 0.05, "-g", "2", "--nodes", "2", "--workers", "2", "--grace", "5s")
    lab.until_trains(gang)
    node = lab.nodes_of(gang)[-1]
    lab.tir("drain", node, "--deadline", "1s", "--reason", "new fans")
    lab.until_ended([gang])
    assert [run["cause"] for run in lab.job(gang)["runs"]] == ["preempted", "finished"]
    assert node not in lab.nodes_of(gang)
    assert lab.steps(gang) == (150, digest_of(150))
    assert "new fans" in lab.why_not(node)
    lab.tir("undrain", node)
    assert not lab.why_not(node)


def test_a_node_on_which_different_jobs_fail_is_taken_out_until_it_is_pardoned(lab):
    """What is missing on one node fails there only; the gangs are on all nodes."""
    for number in range(3):
        script = f"import os, time; os.uname().nodename == 'n2' and __import__('lab{number}'); time.sleep(99)"
        options = ("--nodes", "4", "--gpus-per-node", "1", "--retries", "0")
        job = lab.submit(*options, "--", "python3", "-c", script)
        lab.until_phase(job, "FAILED")
    jobs = f"{job - 2}, {job - 1}, {job}"
    until(lambda: f"jobs {jobs} failed there" in lab.why_not("n2"), lab.why_not("n2"), within_s=60)
    assert not any(lab.why_not(name) for name in ("n0", "n1", "n3"))
    lab.tir("undrain", "n2")
    job = lab.submit("--nodes", "4", "--gpus-per-node", "1", "--", "true")
    lab.until_ended([job])
    assert lab.nodes_of(job) == ["n0", "n1", "n2", "n3"]


def test_a_run_that_cannot_write_its_heartbeat_is_ended_by_its_own_node(lab, bed):
    """Another folder comes over the shared one, in the box alone, as when a mount is lost."""
    gang = lab.train(400, 0.05, "-g", "2", "--nodes", "2", "--workers", "2", "--grace", "2s")
    lab.until_trains(gang)
    box = box_of(lab, bed, gang)
    before = [pid for pid in box.pids() if pid in lab.processes()]
    assert before
    box.lose(lab.shared)
    try:
        until(lambda: not any(map(is_alive, before)), "the workers there were ended", within_s=60)
    finally:
        box.find(lab.shared)
    lab.until_ended([gang])
    assert lab.phase(gang) == "SUCCEEDED"
    assert lab.steps(gang) == (400, digest_of(400))


def trained_elsewhere(lab, steps: int, *options: str) -> int:
    """A training that runs, and not on the node of the manager, which cannot be cut off from itself."""
    job = lab.train(steps, 0.05, *options)
    lab.until_trains(job)
    if lab.nodes_of(job) == ["n0"]:
        job = lab.train(steps, 0.05, *options)
        lab.until_trains(job)
    return job


def box_of(lab, bed, job):
    """A box of the last run of a job; not that of the manager."""
    node = lab.nodes_of(job)[-1]
    assert node != "n0"
    return next(box for box in bed.boxes if box.name == node)


def test_a_gang_is_on_as_many_nodes_as_it_asks_for(lab):
    job = lab.submit("--nodes", "3", "--gpus-per-node", "1", "--", "sh", "-c", "echo $TIRESIAS_NODE_LIST")
    lab.until_ended([job])
    assert len(lab.logs(job).strip().split(",")) == 3
    refused = lab.tir("submit", "-g", "5", "--nodes", "5", "--", "true", code=6)
    assert "asks for 5 nodes, and there are 4" in refused.stderr
    refused = lab.tir("submit", "-g", "5", "--gpus-per-node", "2", "--", "true", code=2)
    assert "5 GPUs cannot be shared out in parts of 2" in refused.stderr


# --- what is refused -----------------------------------------------------------------------------------


def test_a_second_manager_is_refused_and_told_of_the_first(lab, bed, tmp_path):
    second = TrainingLab(bed, tmp_path, box=bed.boxes[1])
    refused = second.up(code=6)
    assert f"the manager of {lab.home} on n0 (pid {lab.pid()}) uses node" in refused.stderr
    second.shared = lab.shared
    refused = second.up(code=6)
    assert f"the manager of {lab.home} on n0 (pid {lab.pid()}) uses the folder {lab.shared}" in refused.stderr


def test_an_address_without_ray_is_refused(bed, tmp_path):
    lab = TrainingLab(bed, tmp_path)
    nowhere = f"{bed.boxes[0].address}:1"
    refused = lab.tir("up", "--on", "ray", "--address", nowhere, "--shared", str(lab.shared), code=5)
    assert f"no Ray answers at {nowhere}" in refused.stderr
    assert "ray start --head" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_a_folder_that_is_missing_is_refused(bed, tmp_path):
    lab = TrainingLab(bed, tmp_path)
    lab.shared = tmp_path / "nowhere"
    assert f"--shared {lab.shared}: there is no such folder on n0" in lab.up(code=2).stderr


def taken(bed) -> float:
    """GPUs that Ray shows as not available."""
    asked = bed.boxes[1].run(bed.python, "-c", AVAILABLE.format(address=bed.address))
    assert asked.returncode == 0, asked.stderr
    total, available = json.loads(asked.stdout.splitlines()[-1])
    return total - available


AVAILABLE = """
import json, ray
ray.init(address={address!r}, log_to_driver=False, logging_level="ERROR")
gpus = [found.get("GPU", 0) for found in (ray.cluster_resources(), ray.available_resources())]
print(json.dumps(gpus))
"""
