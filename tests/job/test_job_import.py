"""tiresias.job loads nothing that a bare interpreter has not loaded, and needs the standard library only.

`python -m benchmarks job` measures the time that the import takes.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import tiresias

SRC = str(Path(tiresias.__file__).parents[1])
SMALL = {"__future__", "tiresias", "tiresias.job", "tiresias.job._files", "tiresias.job._job"}
SMALL |= {"tiresias.job._reporter", "tiresias.job._stop"}


def python(code: str) -> subprocess.CompletedProcess[str]:
    line = f"import sys; sys.path.insert(0, {SRC!r}); {code}"
    return subprocess.run([sys.executable, "-I", "-c", line], capture_output=True, text=True, check=True)


def test_it_loads_nothing_beyond_what_a_bare_interpreter_has():
    code = "before = set(sys.modules); import tiresias.job; print(*set(sys.modules) - before)"
    assert set(python(code).stdout.split()) <= SMALL | {"_thread", "time"}


ADAPTERS = {
    "hf": {"transformers", "torch"},
    "lightning": {"torch"},
    "dcp": {"torch"},
    "_rng": {"torch"},
    "_agreement": {"torch"},
    "_auto": {"transformers"},
    "_trackers": {"mlflow"},
}


def test_every_module_needs_the_standard_library_and_the_framework_for_which_it_is_only():
    for path in Path(tiresias.__file__).with_name("job").glob("*.py"):
        allowed = set(sys.stdlib_module_names) | ADAPTERS.get(path.stem, set())
        assert imported_by(path) <= allowed, path


def imported_by(path: Path) -> set[str]:
    """The top-level packages of all absolute imports, also of those inside functions."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    given = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.partition(".")[0] for name in plain | given}
