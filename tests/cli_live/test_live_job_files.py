"""job.yaml, and shell scripts with #TIR and #SBATCH lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tiresias.cli.errors import Stop
from tiresias.cli.live import job_files, scripts
from tiresias.cli.live.job_options import JobOptions

EVERYTHING = """\
name: bert
command: torchrun --nproc-per-node=2 train.py --lr {lr}
workdir: /data
env: {A: 1, B: yes}
resources: {gpus: 8, nodes: 1}
checkpoint: {dir: runs/bert, grace: 90s}
placement: {profile: bert-base}
limits: {time: 24h, retries: 0}
priority: low
preemptible: false
array: 0-3%2
params: {lr: 1e-3}
sweep: {seed: [1, 2]}
"""


def job(tmp_path: Path, text: str, *settings: str) -> job_files.JobFile:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return job_files.read(path, settings)


def test_a_file_says_everything_that_the_command_line_can(tmp_path):
    found = job(tmp_path, EVERYTHING)
    assert found.command == ["torchrun", "--nproc-per-node=2", "train.py", "--lr", "{lr}"]
    assert found.parameters == {"lr": "1e-3"}
    assert found.options == JobOptions.of(
        name="bert",
        workdir="/data",
        env=["A=1", "B=true"],
        gpus="8",
        nodes="1",
        ckpt_dir="runs/bert",
        grace="90s",
        profile="bert-base",
        time="24h",
        retries="0",
        priority="low",
        no_preempt=True,
        array="0-3%2",
        sweep=["seed=1,2"],
    )


def test_set_changes_keys_variables_and_parameters(tmp_path):
    changes = ("gpus=4", "limits.time=1h", "env.A=2", "lr=3e-4", "snapshot=true")
    found = job(tmp_path, EVERYTHING, *changes)
    assert (found.options.text("gpus"), found.options.text("time")) == ("4", "1h")
    assert found.options.is_set("snapshot")
    assert found.options.texts("env") == ["A=2", "B=true"]
    assert found.parameters == {"lr": "3e-4"}


def test_a_parameter_need_not_have_a_default(tmp_path):
    assert job(tmp_path, "command: python t.py {lr}", "lr=1").parameters == {"lr": "1"}


def test_what_stands_on_the_command_line_goes_over_the_file():
    below = JobOptions.of(gpus="8", retries="3", env=["A=1", "B=1"], no_preempt=True)
    above = JobOptions.of(retries="0", env=["A=2"], snapshot=True)
    merged = above.over(below)
    assert (merged.text("gpus"), merged.text("retries")) == ("8", "0")
    assert merged.texts("env") == ["A=2", "B=1"]
    assert merged.is_set("no_preempt")
    assert merged.is_set("snapshot")


@pytest.mark.parametrize(
    ("written", "command"),
    [
        ("python t.py 'a b'", ["python", "t.py", "a b"]),
        ("cd x && python t.py", ["bash", "-c", "cd x && python t.py"]),
        ("python t.py > log", ["bash", "-c", "python t.py > log"]),
        ("[python, t.py, 3]", ["python", "t.py", "3"]),
    ],
)
def test_a_command_is_words_or_a_line_for_the_shell(tmp_path, written, command):
    assert job(tmp_path, f"command: {written}").command == command


@pytest.mark.parametrize(
    ("text", "settings", "complaint"),
    [
        ("command: t\ngpu: 2", (), "there is no key 'gpu'; did you mean 'gpus'?"),
        ("command: t\nresources: {disk: 2G}", (), "there is no key 'resources.disk'"),
        ("command: t\nresources: {mem: 16}", (), "mem '16': give a size of 1 MiB or more"),
        ("command: t\nmem: lots", (), "mem 'lots': not a size; write for example 500M or 2G"),
        ("command: t\nresources: 8", (), "resources: this is a group of keys"),
        ("command: t\ngpus: 2\nresources: {gpus: 4}", (), "gpus is given twice"),
        ("command: t\ngpus: two", (), "gpus 'two': give a whole number from 0 up"),
        ("command: t\ngpus: -1", (), "gpus '-1': give a whole number from 0 up"),
        ("command: t\nresources: {nodes: 0}", (), "nodes '0': give a whole number from 1 up"),
        ("command: t\nlimits: {time: 8}", (), "time '8': not a duration; write 8s or 8m"),
        ("command: t\npreemptible: maybe", (), "give true or false"),
        ("command: t\nenv: [A]", (), "env: give names and values"),
        ("gpus: 1", (), "`command:` is missing"),
        ("command: t\nname: [a, b]", (), "name: give one value"),
        ("- a list", (), "this is not a job; write keys"),
        ("command: 't", (), "line 1"),
        ("command: t", ("lr=1",), "there is no key or parameter 'lr'"),
        ("command: t", ("lr",), "write key=value"),
    ],
)
def test_a_mistake_in_a_file_is_named(tmp_path, text, settings, complaint):
    with pytest.raises(Stop) as stopped:
        job(tmp_path, text, *settings)
    assert complaint in str(stopped.value)


SBATCH = """\
#!/bin/bash -l
#SBATCH --job-name=resnet
#SBATCH -N 2
#SBATCH --gres=gpu:a100:4,tmp:1 --time=1-12
#SBATCH --array 0-7%2   # eight of them
#SBATCH -o out.txt
#SBATCH --dependency=afterok:12:13
#SBATCH --export=ALL,SEED=3
#SBATCH --account=vision --mem 64G

#TIR --retries 1 -n mine
python train.py
#SBATCH --time=1
"""


def script(tmp_path: Path, text: str, *arguments: str) -> scripts.Script:
    path = tmp_path / "job.sh"
    path.write_text(text)
    return scripts.read(path, list(arguments))


def test_the_common_lines_of_slurm_are_understood_and_ours_go_over_them(tmp_path):
    found = script(tmp_path, SBATCH, "a", "--b")
    assert found.command == ["/bin/bash", "-l", str(tmp_path / "job.sh"), "a", "--b"]
    assert found.options == JobOptions.of(
        name="mine",
        gpus="8",
        nodes="2",
        time="129600s",
        array="0-7%2",
        after="12,13",
        env=["SEED=3"],
        tenant="vision",
        retries="1",
    )
    assert [note for note in found.notes if "--output, --mem" in note and "--gres=tmp:1" in note]


@pytest.mark.parametrize(
    ("line", "gpus"),
    [
        ("--gpus=4", "4"),
        ("-G h100:2", "2"),
        ("--gpus-per-node=2 --nodes=3", "6"),
        ("--gpus-per-task=2 --ntasks=4", "8"),
        ("--gres=gpu", "1"),
        ("--nodes=2", None),
    ],
)
def test_gpus_of_slurm_are_added_up(tmp_path, line, gpus):
    assert script(tmp_path, f"#!/bin/sh\n#SBATCH {line}\n").options.text("gpus") == gpus


def test_an_environment_of_its_own_and_a_later_begin(tmp_path):
    found = script(tmp_path, "#!/bin/sh\n#SBATCH --export=NONE --begin=now+2hours\n").options
    assert (found.is_set("clean_env"), found.text("begin")) == (True, "+2h")


def test_a_script_may_ask_to_be_submitted_on_hold(tmp_path):
    for line in ("#SBATCH --hold --time=1", "#SBATCH -H -t 1", "#TIR --hold --time 60s"):
        found = script(tmp_path, f"#!/bin/sh\n{line}\n").options
        assert (found.is_set("hold"), found.text("time")) == (True, "60s")


def test_a_script_without_a_first_line_runs_in_bash(tmp_path):
    assert script(tmp_path, "echo hi\n").command[0] == "bash"


def test_what_belongs_to_slurm_alone_is_pointed_out(tmp_path):
    notes = script(tmp_path, "#!/bin/sh\nsrun python t.py $SLURM_ARRAY_TASK_ID\n").notes
    assert any("TIRESIAS_ARRAY_INDEX" in note and "SLURM_ARRAY_TASK_ID" in note for note in notes)
    assert any("calls srun" in note for note in notes)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("#SBATCH --het-group=1", "line 2: --het-group is not understood"),
        ("#SBATCH hello", "'hello' is not an option of Slurm"),
        ("#SBATCH --gpus=many", "--gpus 'many': give a whole number"),
        ("#SBATCH --dependency=singleton", "afterok, afterany, afternotok"),
        ("#SBATCH --job-name='x", "No closing quotation"),
        ("#TIR --gpu 3", "#TIR: No such option"),
    ],
)
def test_a_line_that_is_not_understood_is_named(tmp_path, line, complaint):
    with pytest.raises(Stop) as stopped:
        script(tmp_path, f"#!/bin/sh\n{line}\n")
    assert complaint in str(stopped.value)


def test_a_program_is_no_script(tmp_path):
    path = tmp_path / "program.sh"
    path.write_bytes(b"\x7fELF\xff\xfe")
    with pytest.raises(Stop, match="is not a script"):
        scripts.read(path, [])
