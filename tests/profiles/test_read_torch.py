"""PyTorch checkpoints: read without PyTorch, and without running anything that is in them."""

from __future__ import annotations

import io
import os
import pickle
import zipfile
from pathlib import Path

import pytest

from tiresias.profiles import readers
from tiresias.profiles.errors import ProfileError

DATA = Path(__file__).parent / "data"
"""Written by PyTorch 2: a training with its optimizer, tied weights, a whole module, the old format."""


def sizes(name: str) -> dict[str, int]:
    return {each.name: each.bytes for each in readers.load(str(DATA / name)).tensors}


MODEL = {
    "0.weight": 432,
    "0.bias": 16,
    "1.weight": 16,
    "1.bias": 16,
    "1.running_mean": 16,
    "1.running_var": 16,
    "1.num_batches_tracked": 8,
    "2.weight": 160,
    "2.bias": 40,
}


def test_of_a_training_checkpoint_the_model_is_read_and_not_the_optimizer():
    assert sizes("training.pt") == MODEL
    assert readers.load(str(DATA / "training.pt")).sent_bytes == 680  # without what batch norms keep


def test_tied_weights_are_one_tensor():
    assert sizes("tied.pt") == {"words.weight": 80}


def test_a_whole_module_is_read_without_its_classes():
    assert sorted(sizes("whole.pt").values()) == sorted(MODEL.values())


def test_the_old_format_is_an_error_that_says_what_to_do():
    with pytest.raises(ProfileError, match=r"before_1_6.pt: saved by PyTorch before 1.6; load it and"):
        readers.load(str(DATA / "before_1_6.pt"))


class Trap:
    """Runs a command when a usual unpickler meets it."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return os.system, (f"touch {self.path}",)


def archive(path: Path, text: bytes, member: str = "archive/data.pkl") -> str:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(member, text)
    return str(path)


def with_extra(extra: bytes) -> bytes:
    """The checkpoint of tied weights beside something else, whose pickle is given."""
    with zipfile.ZipFile(DATA / "tied.pt") as file:
        name = next(each for each in file.namelist() if each.endswith("data.pkl"))
        inner = file.read(name)
    return b"\x80\x02(" + extra + inner[2:-1] + b"t."  # a tuple of both


def pickled(value: object) -> bytes:
    """Without the marks of begin and end."""
    return pickle.dumps(value, protocol=2)[2:-1]


def test_nothing_in_a_checkpoint_is_ever_run(tmp_path):
    trap = tmp_path / "sprung"
    profile = readers.load(archive(tmp_path / "trap.pt", with_extra(pickled([Trap(trap)]))))
    assert profile.total_bytes == 80
    assert not trap.exists()
    pickle.loads(pickle.dumps(Trap(trap)))  # the trap works where it is let
    assert trap.exists()


def endless() -> list:
    nested: list = []
    nested += [nested, nested]
    return nested


SHADOWED = b"ccollections\nOrderedDict\n)R(S'a'\nI1\nu}(S'items'\nI1\nub"
"""A dictionary whose `items` is the number 1."""


@pytest.mark.parametrize(
    "extra",
    [pickled(endless()), SHADOWED, pickled({1, 2}), pickled(ValueError("x")), pickled(10**40)],
    ids=["endless", "shadowed", "set", "exception", "number"],
)
def test_whatever_else_is_in_a_checkpoint_does_no_harm(extra, tmp_path, within):
    with within(30):
        assert readers.load(archive(tmp_path / "odd.pt", with_extra(extra))).total_bytes == 80


@pytest.mark.parametrize("step", range(0, 1812, 97))
def test_a_truncated_checkpoint_is_an_error(step, tmp_path):
    path = tmp_path / "part.pt"
    path.write_bytes((DATA / "tied.pt").read_bytes()[:step])
    with pytest.raises(ProfileError, match=r"part\.pt: truncated, or no PyTorch checkpoint"):
        readers.load(str(path))


def bad_tensor(storage: object, shape: object) -> bytes:
    """A pickle that rebuilds a tensor from nonsense."""
    out = io.BytesIO()
    out.write(b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(")
    out.write(pickled(storage) + pickled(0) + pickled(shape))
    out.write(b"tR.")
    return out.getvalue()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "data.pkl cannot be read"),
        (b"\x80\x02]q\x00.", "no tensors in it"),
        (b"\x80\x02garbage", "data.pkl cannot be read"),
        (b"cos\nsystem\n(S'true'\ntR.", "no tensors in it"),
        (bad_tensor("no storage", (3,)), "data.pkl cannot be read: a tensor without storage or shape"),
        (pickle.dumps({"epoch": 3}), "no tensors in it"),
    ],
)
def test_a_pickle_without_tensors_is_an_error(text, message, tmp_path):
    with pytest.raises(ProfileError, match=f"x.pt: {message}"):
        readers.load(archive(tmp_path / "x.pt", text))


def test_another_zip_file_is_an_error(tmp_path):
    with pytest.raises(ProfileError, match=r"a zip file, but no PyTorch checkpoint: it has no data\.pkl"):
        readers.load(archive(tmp_path / "x.pt", b"", member="word/document.xml"))
