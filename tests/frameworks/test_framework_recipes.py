"""The recipes of the how-to, each with a preemption in the middle."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

STEPS = 12
TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
SAME = (
    "import sys, torch; a, b = map(torch.load, sys.argv[1:]); print(all(torch.equal(a[k], b[k]) for k in a))"
)


def are_same(python: str, one, other) -> bool:
    if (one.directory / "final").exists():
        paths = [each.directory / "final/model.safetensors" for each in (one, other)]
        return paths[0].read_bytes() == paths[1].read_bytes()
    paths = [each.directory / "final.pt" for each in (one, other)]
    return subprocess.check_output([python, "-c", SAME, *paths], text=True) == "True\n"


@pytest.mark.parametrize(
    ("script", "options", "launcher"),
    [
        ("hf_callback.py", (str(STEPS),), ()),
        ("lightning_train.py", ("0", "1", "plain", "callback"), ()),
        ("accelerate_train.py", (str(STEPS),), ()),
        ("dcp_train.py", ("30",), TORCHRUN),
    ],
)
def test_a_recipe_is_preempted_in_the_middle_and_trains_the_same_weights(
    bench, training, script, options, launcher
):
    whole = training(script, *options, launcher=launcher, name="whole")
    bench.succeeded(bench.submit(whole))
    mine = training(script, *options, launcher=launcher)
    mine.allow(5)
    id = bench.submit(mine)
    bench.preempted_often(id, mine, times=1, every=5)
    assert mine.trained() == whole.trained() >= 10  # each step once
    assert are_same(bench.python, whole, mine)


CURVE = """
import json, mlflow, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from pathlib import Path
client = mlflow.MlflowClient()
runs = client.search_runs([each.experiment_id for each in client.search_experiments()])
steps = [sorted(each.step for each in client.get_metric_history(run.info.run_id, "loss")) for run in runs]
directories = sorted({str(each.parent) for each in Path(sys.argv[1]).rglob("events.out.*")})
boards = []
for each in directories:
    events = EventAccumulator(each); events.Reload()
    tag = [name for name in events.Tags()["scalars"] if name in ("loss", "train/loss")][0]
    boards.append([event.step for event in events.Scalars(tag)])
print(json.dumps([steps, [run.info.status for run in runs], boards]))
"""


def store_of(training) -> dict[str, str]:
    return {"MLFLOW_TRACKING_URI": f"file://{training.directory}/mlruns", "MLFLOW_ALLOW_FILE_STORE": "true"}


def curves(bench, training, board: Path) -> tuple[list, list, list]:
    """The steps of each run in MLflow, how these runs ended, and the steps of each board of TensorBoard."""
    command = [bench.python, "-c", CURVE, board]
    found = subprocess.check_output(command, text=True, env=store_of(training), stderr=subprocess.DEVNULL)
    steps, statuses, boards = json.loads(found.splitlines()[-1])
    return steps, statuses, boards


@pytest.mark.parametrize(
    ("script", "options", "board", "logged"),
    [
        ("mlflow_train.py", (str(STEPS),), "runs", list(range(STEPS))),
        ("hf_train.py", ("0", str(STEPS), "mlflow", "tensorboard"), "out/runs", [5, 10]),
    ],
)
def test_trackers_keep_one_curve_for_all_runs(bench, training, script, options, board, logged):
    mine = training(script, *options)
    mine.allow(4)
    id = bench.submit(mine, "--auto", **store_of(mine))
    bench.preempted_often(id, mine, times=2, every=4)
    assert curves(bench, mine, mine.directory / board) == ([logged], ["FINISHED"], [logged])


@pytest.mark.parametrize(("script", "options"), [("wandb_train.py", ("--auto",)), ("trackers_train.py", ())])
def test_weights_and_biases_is_told_one_run_for_all_runs(bench, training, script, options):
    """Without a server each run of the job leaves a file; `wandb sync` sends it to the run of that id."""
    mine = training(script, str(STEPS))
    mine.allow(4)
    id = bench.submit(mine, *options)
    bench.preempted_often(id, mine, times=2, every=4)
    begun = [line for line in bench.log(id).splitlines() if line.startswith("wandb run ")]
    assert len(begun) == 3
    assert len(set(begun)) == 1, "one id for all runs"
    run_id = begun[0].removeprefix("wandb run ")
    left = sorted(mine.directory.glob(f"wandb/offline-run-*/run-{run_id}.wandb"))
    assert len(left) == 3
    assert mine.trained() == STEPS  # each step once
    if not options:  # the script names one directory of TensorBoard for all runs, and one run of W&B
        assert curves(bench, mine, bench.home / f"jobs/{id}/checkpoint") == ([], [], [[*range(STEPS)]])


def test_the_example_runs_as_it_is(bench, tmp_path):
    script = Path(__file__).parents[2] / "examples/train_hugging_face.py"
    words = (bench.python, str(script), "--steps", "3", "--loader-workers", "0")
    id = int(bench.tir("submit", "-q", "--auto", "--", *words, cwd=tmp_path))
    bench.succeeded(id)
    assert (tmp_path / "language-model/final/model.safetensors").exists()
