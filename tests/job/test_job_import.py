"""tiresias.job costs a training nothing to import and needs nothing that is not in the standard library."""

from __future__ import annotations

import ast
import subprocess
import sys
import time
from pathlib import Path

import tiresias

SRC = str(Path(tiresias.__file__).parents[1])
SMALL = {"__future__", "tiresias", "tiresias.job", "tiresias.job._files", "tiresias.job._job"}
SMALL |= {"tiresias.job._reporter", "tiresias.job._stop"}


def python(*arguments: str) -> subprocess.CompletedProcess[str]:
    code = ["-I", *arguments[:-1], "-c", f"import sys; sys.path.insert(0, {SRC!r}); {arguments[-1]}"]
    return subprocess.run([sys.executable, *code], capture_output=True, text=True, check=True)


def import_ms() -> float:
    """Of tiresias.job with all that it imports, as the interpreter measures it."""
    lines = python("-X", "importtime", "import tiresias.job").stderr.splitlines()
    took = {line.split("|")[-1].strip(): line.split("|")[1] for line in lines if line.count("|") == 2}
    return (int(took["tiresias"]) + int(took["tiresias.job"])) / 1000


def start_ms(code: str) -> float:
    began = time.perf_counter()
    python(code)
    return (time.perf_counter() - began) * 1000


def test_it_is_imported_within_20_ms():
    best = min(import_ms() for _ in range(7))
    bare, with_job = (min(start_ms(code) for _ in range(5)) for code in ("pass", "import tiresias.job"))
    ratio = with_job / bare
    print(f"import {best:.1f} ms; start {bare:.1f} ms, with tiresias.job {with_job:.1f} ms: {ratio:.2f} x")
    assert best < 20, best


def test_it_loads_nothing_beyond_what_a_bare_interpreter_has():
    code = "before = set(sys.modules); import tiresias.job; print(*set(sys.modules) - before)"
    assert set(python(code).stdout.split()) <= SMALL | {"_thread", "time"}


def test_all_of_it_needs_the_standard_library_only():
    for path in Path(tiresias.__file__).with_name("job").glob("*.py"):
        assert imported_by(path) <= set(sys.stdlib_module_names), path


def imported_by(path: Path) -> set[str]:
    """Top-level packages named by absolute imports, also those inside functions."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    plain = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    given = {node.module or "" for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}
    return {name.partition(".")[0] for name in plain | given}
