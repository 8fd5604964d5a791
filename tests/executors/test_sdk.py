"""`from tiresias import job` in every run, whatever Python and whatever environment the run uses."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import tiresias.job
from tiresias.executors import sdk

REPOSITORY = Path(__file__).parents[2]
MINORS = range(8, 15)  # Python 3.8 to 3.14
TRAINING = """
import sys
from tiresias import job

job.report(step=1, total_steps=2, loss=0.5)
job.save(job.checkpoint_dir / "model", lambda file: file.write(b"saved"))
job.should_stop()
job.finished(step=2, total_steps=2)
print(job.__file__, "%d.%d" % sys.version_info[:2])
"""
WHERE = "import tiresias, tiresias.job; print(tiresias.__file__); print(tiresias.job.__file__)"
FULL = {
    "tiresias/__init__.py": '__version__ = "9.9"',
    "tiresias/job/__init__.py": "from ._of_nine import word",
    "tiresias/job/_of_nine.py": 'word = "nine"',
    "tiresias/sim.py": "from tiresias.job import word",
}


@pytest.fixture
def published(tmp_path):
    return sdk.publish(tmp_path / "sdk")


def write(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def python(code: str, path: str, *, program: str = sys.executable, cwd: Path, **more: str) -> str:
    """What it prints, in an interpreter that has nothing of ours but what is on this path."""
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **more}
    command = [program, "-s", "-c", code]
    done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="session")
def bare(tmp_path_factory):
    """An environment of a user's own with nothing of ours: its interpreter, and where it has its packages."""
    top = tmp_path_factory.mktemp("users")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", top / "venv"], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return str(top / "venv/bin/python"), top / "venv/lib" / version / "site-packages"


def interpreter(version: str) -> str | None:
    """An interpreter of this version on this machine.

    A program of that name may be pyenv's, which starts another one or none: then that one is looked for.
    """
    roots = [Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")]
    named = shutil.which(f"python{version}")
    if named is not None:
        if subprocess.run([named, "-c", "pass"], capture_output=True, check=False).returncode == 0:
            return named
        roots.append(Path(named).parent.parent)
    found = [each for root in roots for each in sorted((root / "versions").glob(f"{version}.*/bin/python"))]
    return str(found[-1]) if found else None


@pytest.mark.parametrize("minor", MINORS)
def test_the_sdk_works_under_every_version_of_python(minor, published, tmp_path):
    program = interpreter(f"3.{minor}")
    if program is None:
        pytest.skip(f"Python 3.{minor} is not installed: its grammar was checked, and nothing was run")
    path = sdk.python_path("", published, with_hook=True)
    (tmp_path / "run").mkdir()
    given = {"TIRESIAS_RUN_DIR": str(tmp_path / "run"), "TIRESIAS_CHECKPOINT_DIR": str(tmp_path / "ckpt")}
    printed = python(TRAINING, path, program=program, cwd=tmp_path, TIRESIAS_AUTO="1", **given)
    assert printed == f"{sdk.package(published)}/tiresias/job/__init__.py 3.{minor}\n"
    assert (tmp_path / "ckpt/model").read_bytes() == b"saved"
    assert (tmp_path / "run/finished").exists()


@pytest.mark.parametrize("minor", MINORS)
def test_every_file_has_the_grammar_of_every_version(minor):
    for name, content in sdk.contents().items():
        ast.parse(content, name, feature_version=(3, minor))


@pytest.mark.parametrize("version", ["2.7", "3.6", "3.7"])
def test_the_hook_leaves_an_older_python_alone(version, published, tmp_path):
    program = interpreter(version)
    if program is None:
        pytest.skip(f"Python {version} is not installed")
    path = sdk.python_path("", published, with_hook=True)
    given = {"TIRESIAS_RUN_DIR": str(tmp_path), "TIRESIAS_AUTO": "1"}
    assert python("print('works')", path, program=program, cwd=tmp_path, **given) == "works\n"


def test_an_environment_without_anything_of_ours_gets_the_sdk_alone(published, bare, tmp_path):
    path = sdk.python_path("", published, with_hook=False)
    where = python(WHERE, path, program=bare[0], cwd=tmp_path).splitlines()
    assert where == [
        f"{sdk.package(published)}/tiresias/{name}" for name in ("__init__.py", "job/__init__.py")
    ]
    missing = "\ntry: import tiresias.core\nexcept ModuleNotFoundError as error: print(error.name)"
    assert python(f"import tiresias{missing}", path, program=bare[0], cwd=tmp_path) == "tiresias.core\n"


def test_a_full_installation_of_the_users_own_takes_its_place(published, bare, tmp_path):
    program, packages = bare
    write(packages, FULL)
    path = sdk.python_path("", published, with_hook=False)
    code = (
        "import tiresias.sim, tiresias.job; print(tiresias.__version__, tiresias.sim.word, tiresias.job.word)"
    )
    try:
        assert python(code, path, program=program, cwd=tmp_path) == "9.9 nine nine\n"
        code = "from tiresias import job, sim; print(job.word, sim.word)"
        assert python(code, path, program=program, cwd=tmp_path) == "nine nine\n"
    finally:
        shutil.rmtree(packages / "tiresias")


def test_an_installation_that_a_finder_knows_takes_its_place(published, tmp_path):
    """As after an editable installation by setuptools."""
    write(tmp_path / "source", FULL)
    finder = f"""
import sys
from importlib.machinery import PathFinder
class Editable:
    @staticmethod
    def find_spec(name, path=None, target=None):
        return PathFinder.find_spec(name, [{str(tmp_path / "source")!r}]) if name == "tiresias" else None
sys.meta_path.append(Editable)
"""
    path = sdk.python_path("", published, with_hook=False)
    code = finder + "from tiresias import job; print(job.word)"
    program = [sys.executable, "-S", "-s", "-c", code]
    done = subprocess.run(program, env={"PYTHONPATH": path}, capture_output=True, text=True, check=True)
    assert done.stdout == "nine\n"


def test_this_installation_stays_whole(published, tmp_path):
    path = os.pathsep.join([str(sdk.package(published)), str(Path(tiresias.__file__).parents[1])])
    code = (
        "from tiresias import job; from tiresias.core.model import Job; import tiresias; print(job.__file__)"
    )
    assert python(code, path, cwd=tmp_path) == f"{tiresias.job.__file__}\n"


def test_a_directory_of_that_name_is_no_installation(published, bare, tmp_path):
    write(tmp_path, {"tiresias/notes.txt": "my notes"})
    path = sdk.python_path(str(tmp_path), published, with_hook=False)
    assert str(published) in python(WHERE, path, program=bare[0], cwd=tmp_path)


def test_a_broken_installation_of_the_users_own_is_their_error(published, tmp_path):
    broken = write(tmp_path / "broken", {"tiresias/__init__.py": "import no_such_module"})
    path = sdk.python_path("", published, with_hook=False) + os.pathsep + str(broken)
    program = [
        sys.executable,
        "-I",
        "-c",
        f"import sys; sys.path[:0] = {path.split(os.pathsep)}; import tiresias",
    ]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'no_such_module'\n")


def test_a_job_that_another_job_submits_does_not_see_the_sdk_twice(tmp_path, published, bare):
    other = sdk.publish(tmp_path / "other manager")
    outer = sdk.python_path("/mine", other, with_hook=True)
    inner = sdk.python_path(outer, published, with_hook=True).split(os.pathsep)
    assert inner == [str(sdk.hook(published)), "/mine", str(sdk.package(published))]
    both = os.pathsep.join([str(sdk.package(other)), str(sdk.package(published))])
    assert str(other) in python(WHERE, both, program=bare[0], cwd=tmp_path)


def test_what_the_user_has_on_the_path_comes_first(published):
    assert sdk.python_path("", published, with_hook=False) == str(sdk.package(published))
    mine = sdk.python_path("/mine::/yours", published, with_hook=False)
    assert mine.split(os.pathsep) == ["/mine", "", "/yours", str(sdk.package(published))]


@pytest.mark.parametrize("with_hook", [True, False])
def test_a_sitecustomize_of_the_users_own_runs_as_before(published, bare, tmp_path, with_hook):
    write(tmp_path / "mine", {"sitecustomize.py": "import sys; sys.mine = __file__"})
    path = sdk.python_path(str(tmp_path / "mine"), published, with_hook=with_hook)
    given = {"TIRESIAS_RUN_DIR": str(tmp_path), "TIRESIAS_AUTO": "1"}
    code = (
        "import sys, sitecustomize; print(sys.mine == sitecustomize.__file__, 'tiresias.job' in sys.modules)"
    )
    assert python(code, path, program=bare[0], cwd=tmp_path, **given) == f"True {with_hook}\n"


def test_an_old_installation_of_the_users_own_is_named_by_the_hook(published, bare, tmp_path):
    write(tmp_path / "old", FULL)
    path = sdk.python_path(str(tmp_path / "old"), published, with_hook=True)
    given = {"TIRESIAS_RUN_DIR": str(tmp_path), "TIRESIAS_AUTO": "1"}
    printed = python("print('trained')", path, program=bare[0], cwd=tmp_path, **given)
    assert printed.splitlines()[0] == "trained"
    assert (
        f"--auto does nothing: the tiresias of this environment ({tmp_path}/old/tiresias/__init__.py)"
        in printed
    )


def test_what_is_published_can_be_read_by_all_and_is_put_right(tmp_path):
    before = os.umask(0o077)
    try:
        published = sdk.publish(tmp_path / "sdk")
    finally:
        os.umask(before)
    files = [path for path in published.rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o644}
    assert {path.stat().st_mode & 0o777 for path in published.rglob("*") if path.is_dir()} == {0o755}
    files[0].write_text("something else")
    assert sdk.publish(tmp_path / "sdk") == published
    assert files[0].read_text() != "something else"
    names = {path.relative_to(published).as_posix() for path in files}
    assert names == set(sdk.contents())
    assert not [name for name in names if re.search("reports|progress", name)]


def test_the_small_distribution_has_the_same_files_and_version(tmp_path):
    settings = tomllib.loads((REPOSITORY / "packages/tiresias-job/pyproject.toml").read_text())
    assert settings["project"]["version"] == tiresias.__version__
    assert settings["project"]["dependencies"] == []
    sources = (REPOSITORY / "packages/tiresias-job/sources.py").read_text()
    assert f"MANAGER_ONLY = {sdk.MANAGER_ONLY!s}".replace("'", '"') in sources
