"""Outside Tiresias the same training code works, and tiresias.job does nothing."""

from __future__ import annotations

import signal


def test_nothing_happens_outside_tiresias(trainings):
    code = """
        import os, signal
        from tiresias import job
        assert job.should_stop() is False
        job.request_stop()
        assert job.should_stop() is False
        assert job.resuming is False
        job.report(step=1, total_steps=2, loss=0.5)
        job.shield()
        job.finished()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        assert os.listdir() == ["run"], os.listdir()
        """
    training = trainings.start(code, inside=False, TIRESIAS_RESUME="1")
    out, err = training.communicate(timeout=30)
    assert (training.returncode, out, err) == (0, "", "")
    assert list(trainings.run_dir.iterdir()) == []


def test_sigterm_ends_it_as_usual(trainings):
    code = """
        import pathlib, signal
        from tiresias import job
        job.should_stop()
        pathlib.Path("ready").touch()
        while not job.should_stop():
            signal.pause()
        """
    training = trainings.start(code, inside=False)
    trainings.wait_for("ready")
    training.send_signal(signal.SIGTERM)
    assert training.wait(30) == -signal.SIGTERM


def test_checkpoints_go_below_the_working_directory(trainings):
    code = "from tiresias import job; print(job.checkpoint_dir, job.checkpoint_dir.is_dir())"
    training = trainings.start(code, inside=False)
    assert training.communicate(timeout=30)[0].split() == [str(trainings.path / "checkpoints"), "True"]


def test_a_checkpoint_directory_may_be_set_in_the_environment(trainings):
    code = "from tiresias import job; print(job.checkpoint_dir)"
    training = trainings.start(code, inside=False, TIRESIAS_CHECKPOINT_DIR="mine/here")
    assert training.communicate(timeout=30)[0].strip() == str(trainings.path / "mine/here")


def test_an_unknown_name_is_an_attribute_error(trainings):
    training = trainings.start("from tiresias import job; job.chekpoint_dir")
    _, err = training.communicate(timeout=30)
    assert "AttributeError: module 'tiresias.job' has no attribute 'chekpoint_dir'" in err
