"""The hook of --auto patches what it knows, once it is imported, and leaves everything else alone."""

from __future__ import annotations

import signal

from tiresias.job._agreement import Agreement
from tiresias.job._versions import is_known

LOADER = """
import os, sys
sys.path.insert(0, os.getcwd())
from tiresias.job import _auto
_auto.install()
_auto.install()
import torch.utils.data._utils.worker as worker
import torch.other
print(worker._worker_loop(1), worker._worker_loop.__name__, os.getpgrp() == os.getpid())
"""
TRAINER = """
import os, sys
sys.path.insert(0, os.getcwd())
from tiresias.job import _auto
_auto.install()
from transformers import trainer
print(trainer.Trainer.train)
"""


def package(top, name: str, files: dict[str, str]) -> None:
    for path, text in files.items():
        target = top / name / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def test_the_loop_of_a_loader_worker_leaves_the_process_group_first(trainings):
    inits = [f"{each}__init__.py" for each in ("", "utils/", "utils/data/", "utils/data/_utils/")]
    loop = "def _worker_loop(number):\n    return number + 1\n"
    files = {**dict.fromkeys(inits, ""), "utils/data/_utils/worker.py": loop, "other.py": ""}
    package(trainings.path, "torch", files)
    code = f"import os\nif os.fork() == 0:\n    exec({LOADER!r})\n    os._exit(0)\nos.wait()\n"
    training = trainings.start(code, PYTHONUNBUFFERED="1")
    out, err = training.communicate(timeout=60)
    assert (out, err) == ("2 _worker_loop True\n", "")


def test_an_unknown_version_is_named_and_not_patched(trainings):
    trainer = "class Trainer:\n    train = 'untouched'\n"
    package(trainings.path, "transformers", {"__init__.py": "__version__ = '99.1'", "trainer.py": trainer})
    out, err = trainings.start(TRAINER).communicate(timeout=60)
    assert out == "untouched\n"
    assert err.startswith("tiresias: transformers 99.1 is not patched: --auto was tried with ")


def test_what_cannot_be_patched_is_named_and_no_error(trainings):
    package(
        trainings.path, "torch", {"__init__.py": "", "utils/__init__.py": "", "utils/data/__init__.py": ""}
    )
    package(trainings.path, "torch", {"utils/data/_utils/__init__.py": "", "utils/data/_utils/worker.py": ""})
    code = LOADER.partition("import torch")[0] + "import torch.utils.data._utils.worker; print('trained')"
    out, err = trainings.start(code).communicate(timeout=60)
    assert out == "trained\n"
    assert err.startswith("tiresias: torch.utils.data._utils.worker is not patched: AttributeError")


def test_versions_are_known_by_their_first_two_numbers(capsys):
    assert is_known("transformers", "5.23.0.dev0")
    assert not is_known("transformers", "5.99.0")
    assert not is_known("lightning", "next")
    assert capsys.readouterr().err.count("is not patched") == 2


def test_a_training_of_one_process_agrees_with_itself():
    wanted = []
    agreement = Agreement(lambda: bool(wanted))
    assert not agreement.to_stop(1)
    wanted.append(signal.SIGTERM)
    assert agreement.to_stop(2)
