"""A training finds out that it must stop, saves between two steps, and exits with code 75."""

from __future__ import annotations

import os
import pickle
import signal
from pathlib import Path

import pytest

from tiresias import job
from tiresias.job import _stop

LOOP = """
while not job.should_stop():
    pathlib.Path("ready").touch()
    time.sleep(0.005)
job.save(job.checkpoint_dir / "model", lambda file: file.write(b"saved"))
job.preempted()
"""
IMPORTS = "import os, pathlib, signal, sys, threading, time\nfrom tiresias import job\n"


def test_after_sigterm_it_saves_between_two_steps_and_exits_with_75(trainings):
    training = trainings.start(IMPORTS + LOOP)
    trainings.wait_for("ready")
    training.send_signal(signal.SIGTERM)
    assert training.wait(30) == 75
    assert (trainings.path / "ckpt/model").read_bytes() == b"saved"


def test_a_second_sigterm_does_not_interrupt_saving(trainings):
    slow = LOOP.replace('file.write(b"saved")', "[wait(), file.write(b'saved')]")
    waiting = """
def wait():
    pathlib.Path("saving").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.005)
"""
    training = trainings.start(IMPORTS + waiting + slow)
    trainings.wait_for("ready")
    training.send_signal(signal.SIGTERM)
    trainings.wait_for("saving")
    training.send_signal(signal.SIGTERM)
    (trainings.path / "go").touch()
    assert training.wait(30) == 75
    assert (trainings.path / "ckpt/model").read_bytes() == b"saved"


def test_a_file_in_the_run_directory_stops_it(trainings):
    training = trainings.start(IMPORTS + LOOP)
    trainings.wait_for("ready")
    (trainings.run_dir / "stop").touch()
    assert training.wait(30) == 75


def test_the_handler_that_was_installed_before_is_called_as_well(trainings):
    mine = 'signal.signal(signal.SIGTERM, lambda *_: pathlib.Path("mine").touch())\n'
    training = trainings.start(IMPORTS + mine + LOOP)
    trainings.wait_for("ready")
    training.send_signal(signal.SIGTERM)
    assert training.wait(30) == 75
    assert (trainings.path / "mine").exists()


def test_a_handler_that_is_installed_later_can_request_the_stop(trainings):
    later = "job.should_stop()\nsignal.signal(signal.SIGTERM, lambda *_: job.request_stop())\n"
    training = trainings.start(IMPORTS + later + LOOP)
    trainings.wait_for("ready")
    training.send_signal(signal.SIGTERM)
    assert training.wait(30) == 75


def test_a_handler_that_is_installed_later_may_call_the_one_it_replaced(trainings):
    later = """
job.should_stop()
before = signal.signal(signal.SIGTERM, lambda *a: before(*a))
"""
    training = trainings.start(IMPORTS + later + LOOP)
    trainings.wait_for("ready")
    training.send_signal(signal.SIGTERM)
    assert training.wait(30) == 75


def test_another_thread_that_asks_first_sets_no_handler_and_does_not_fail(trainings):
    asked = """
answers = []
thread = threading.Thread(target=lambda: answers.append(job.should_stop()))
thread.start(); thread.join()
assert answers == [False]
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""
    training = trainings.start(IMPORTS + asked + LOOP)
    trainings.wait_for("ready")
    training.send_signal(signal.SIGTERM)
    assert training.wait(30) == 75


def test_a_thread_sees_the_signal_that_the_main_thread_received(trainings):
    code = """
job.should_stop()
def work():
    while not job.should_stop():
        pathlib.Path("ready").touch()
        time.sleep(0.005)
    pathlib.Path("seen").touch()
thread = threading.Thread(target=work)
thread.start(); thread.join()
"""
    training = trainings.start(IMPORTS + code)
    trainings.wait_for("ready")
    training.send_signal(signal.SIGTERM)
    assert training.wait(30) == 0
    assert (trainings.path / "seen").exists()


def test_a_forked_helper_dies_when_it_is_terminated(trainings):
    code = """
job.should_stop()
child = os.fork()
if child == 0:
    pathlib.Path("ready").touch()
    time.sleep(60)
    os._exit(0)
while not pathlib.Path("ready").exists():
    time.sleep(0.005)
os.kill(child, signal.SIGTERM)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGTERM
assert not job.should_stop()
"""
    training = trainings.start(IMPORTS + code)
    _, err = training.communicate(timeout=30)
    assert training.returncode == 0, err


def test_a_forked_trainer_has_a_handler_of_its_own(trainings):
    code = "job.should_stop()\nchild = os.fork()\nif child:\n    sys.exit(os.waitpid(child, 0)[1] >> 8)\n"
    training = trainings.start(IMPORTS + code + 'pathlib.Path("pid").write_text(str(os.getpid()))\n' + LOOP)
    trainings.wait_for("ready")
    os.kill(int((trainings.path / "pid").read_text()), signal.SIGTERM)
    assert training.wait(30) == 75


@pytest.mark.parametrize("is_shielded", [True, False])
def test_a_shielded_helper_does_not_get_the_signal_to_the_group(trainings, is_shielded):
    code = f"""
import multiprocessing
def help(connection):
    if {is_shielded}:
        job.shield()
    connection.send("ready")
    connection.send(connection.recv() + 1)
if __name__ == "__main__":
    mine, theirs = multiprocessing.get_context("fork").Pipe()
    helper = multiprocessing.get_context("fork").Process(target=help, args=(theirs,))
    job.should_stop()
    helper.start()
    theirs.close()
    assert mine.recv() == "ready"
    while not job.should_stop():
        pathlib.Path("ready").touch()
        time.sleep(0.005)
    try:
        mine.send(1)
        print(mine.recv())
    except (EOFError, OSError):
        print("helper lost")
    helper.join()
"""
    training = trainings.start(IMPORTS + code)
    trainings.wait_for("ready")
    os.killpg(training.pid, signal.SIGTERM)
    out, err = training.communicate(timeout=30)
    assert (out.strip(), err) == ("2" if is_shielded else "helper lost", "")


def test_the_shield_can_be_pickled_for_a_process_that_is_not_forked():
    assert pickle.loads(pickle.dumps(job.shield)) is job.shield


def test_finished_leaves_a_durable_marker_even_if_the_process_is_killed(trainings):
    code = "job.should_stop(); job.finished(); job.finished(); os.kill(os.getpid(), signal.SIGKILL)"
    assert trainings.start(IMPORTS + code).wait(30) == -signal.SIGKILL
    assert [path.name for path in trainings.run_dir.iterdir()] == ["finished"]


def test_a_marker_that_cannot_be_written_causes_a_warning_and_no_failure(trainings):
    training = trainings.start(IMPORTS + "job.finished()", TIRESIAS_RUN_DIR="/dev/null/run")
    _, err = training.communicate(timeout=30)
    assert training.returncode == 0
    assert err == "tiresias.job: cannot write /dev/null/run/finished: Not a directory\n"


@pytest.mark.parametrize(("given", "resuming"), [("1", True), ("0", False), ("", False)])
def test_resuming_is_read_from_the_environment(trainings, given, resuming):
    training = trainings.start("from tiresias import job; print(job.resuming)", TIRESIAS_RESUME=given)
    assert training.communicate(timeout=30)[0].strip() == str(resuming)


def test_the_checkpoint_directory_is_read_from_the_environment_and_made(trainings):
    training = trainings.start("from tiresias import job; print(job.checkpoint_dir)")
    directory = Path(training.communicate(timeout=30)[0].strip())
    assert directory == trainings.path / "ckpt"
    assert directory.is_dir()


def test_the_file_is_looked_for_at_most_five_times_per_second(tmp_path, monkeypatch):
    """`python -m benchmarks job` measures what a call costs."""
    now, looks = 100.0, []
    monkeypatch.setattr(_stop.time, "monotonic", lambda: now)
    monkeypatch.setattr(_stop.os.path, "exists", lambda path: looks.append(path) or False)
    stop = _stop.Stop(str(tmp_path / "stop"))
    monkeypatch.setattr(stop, "_arm", lambda: None)
    for _ in range(1000):
        now += 0.001
        assert not stop.is_wanted()
    assert len(looks) == 5


EARLY = """
job.report(step=118, total_steps=400)
os.kill(os.getpid(), signal.SIGTERM)
{ending}
pathlib.Path("went on").touch()
"""


def finished_after(trainings, code: str) -> tuple[int, bool, str]:
    """The exit code, whether the job counts as finished, and what was said."""
    training = trainings.start(IMPORTS + code)
    err = training.communicate(timeout=30)[1]
    return training.returncode, (trainings.run_dir / "finished").exists(), err


def test_a_training_that_was_asked_to_stop_before_its_last_step_is_not_finished(trainings):
    """Frameworks return from training as if it were complete when they are asked to stop."""
    code, is_finished, err = finished_after(
        trainings, "job.should_stop()" + EARLY.format(ending="job.finished()")
    )
    assert (code, is_finished) == (75, False)
    assert (
        err == "tiresias.job: the run was asked to stop at step 118 of 400: it is preempted, not finished\n"
    )
    assert not (trainings.path / "went on").exists()


def test_the_steps_that_finished_is_given_count_more_than_those_reported(trainings):
    ending = "job.finished(step=400, total_steps=400)"
    code, is_finished, err = finished_after(trainings, "job.should_stop()" + EARLY.format(ending=ending))
    assert (code, is_finished, err) == (0, True, "")


def test_the_file_says_so_too_where_another_handler_hides_the_signal(trainings):
    hidden = "signal.signal(signal.SIGTERM, lambda *_: open(os.environ['TIRESIAS_RUN_DIR'] + '/stop', 'w'))"
    ending = "job.finished(step=118, total_steps=400)"
    code, is_finished, _ = finished_after(trainings, hidden + EARLY.format(ending=ending))
    assert (code, is_finished) == (75, False)


def test_a_training_that_ends_early_of_its_own_accord_is_finished(trainings):
    code = "job.should_stop(); job.report(step=118, total_steps=400); job.finished()"
    assert finished_after(trainings, code) == (0, True, "")


def test_without_any_step_a_training_is_believed(trainings):
    code = "job.should_stop(); os.kill(os.getpid(), signal.SIGTERM); job.finished()"
    assert finished_after(trainings, code) == (0, True, "")


def test_finished_does_not_take_sigterm_over(trainings):
    code = "job.finished(step=1, total_steps=1); os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)"
    assert finished_after(trainings, code)[0] == -signal.SIGTERM


def test_under_torchrun_the_other_ranks_refuse_an_early_end_too(trainings):
    code = "job.should_stop()" + EARLY.format(ending="job.finished()")
    training = trainings.start(IMPORTS + code, TORCHELASTIC_RUN_ID="x", LOCAL_RANK="1")
    training.communicate(timeout=30)
    assert training.returncode == 75
    assert list(trainings.run_dir.iterdir()) == []
