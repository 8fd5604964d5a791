"""Breaks one line of the source at a time and counts which of the changes the tests detect.

A mutant is the source with one small change: a negated condition, `<` in place of `<=`, a call left out,
another return value, and so on. A mutant is caught if a test fails or does not end in time. A mutant that
survives shows either that a test is missing or that the change has no effect (an equivalent mutant); a person
has to decide which.

    python -m benchmarks.mutants --sample 40                      40 mutants, 10 from each of four packages
    python -m benchmarks.mutants --paths store                    every mutant of one package
    python -m benchmarks.mutants --paths core/ledger.py:80-120    every mutant of these lines
    python -m benchmarks.mutants --paths core/ledger.py --list    prints the mutants and runs nothing

The same options give the same mutants in the same order. The work tree is only read: each mutant is made in a
private copy of it, in the directory for temporary files. The tests that are most likely to fail run first
(`TESTS`), and pytest stops at the first failure. So a mutant that is caught takes a few seconds, and one that
survives takes as long as all tests of its package.

A broken executor may send signals to processes that are not its own, and some tests start processes that
outlive them. So the tests run in a PID namespace of their own (`unshare`, part of util-linux): they cannot
reach any other process, and all processes of the namespace end with it.
"""

from __future__ import annotations

import argparse
import ast
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from random import Random
from tempfile import TemporaryDirectory

from tiresias.executors.interrupts import exiting_on_signals

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = "src/tiresias"
TESTS = {  # by package: the tests that run, the quickest and closest first
    "core": ["tests/core", "tests/policies", "tests/golden", "tests/sim/test_engine.py", "tests/placers"],
    "store": ["tests/store", "tests/faults/test_fault_simulation.py", "tests/live"],
    "executors": ["tests/executors", "tests/observe/test_observe_interrupts.py", "tests/live"],
    "live": ["tests/faults/test_fault_simulation.py", "tests/live", "tests/api"],
}
FEWER = {"TIRESIAS_FAULT_SEEDS": "50", "TIRESIAS_KILLS": "4"}  # campaigns of seeds and kills, cut short
PATIENCE = 4  # a mutant may take this many times as long as the unbroken source
LEAST_S = 60.0
MOST_BYTES = 8 << 30  # of address space per process: a loop that gathers objects for ever must end
COPIED = (
    "src",
    "tests",
    "benchmarks",
    "examples",
    "docs",
    "packages",
    "pyproject.toml",
    "README.md",
    "ARCHITECTURE.md",
)

COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
NEGATED = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)  # by their entry in COMPARISONS
SAME = {"min": "max", "max": "min", "any": "all", "all": "any"}  # functions that take the same arguments
IGNORED_FUNCTIONS = ("__repr__", "__str__")
IGNORED_FILES = ("src/tiresias/core/invariants.py",)  # a check of the tests' own


@dataclass(frozen=True, order=True, slots=True)
class Mutant:
    """Replace the bytes from `start` to `end` of the file `path` by `after`."""

    path: str
    line: int
    start: int
    end: int
    after: bytes
    kind: str
    before: bytes
    code: str  # the line of the source

    @property
    def package(self) -> str:
        return Path(self.path).relative_to(PACKAGE).parts[0]

    def __str__(self) -> str:
        change = f"{_short(self.before)}  →  {_short(self.after)}"
        return f"{self.path}:{self.line}  {self.kind}: {change}   in: {self.code}"


def _short(text: bytes) -> str:
    one_line = " ".join(text.decode().split())
    return one_line if len(one_line) <= 70 else one_line[:69] + "…"


# --- which mutants there are -------------------------------------------------------------------------


class Finder(ast.NodeVisitor):
    """Collects the mutants of one file.

    Changes that no test can or should notice are left out: annotations, decorators, assertions, texts,
    imports and code for the type checker only.
    """

    def __init__(self, path: str, source: bytes):
        self.path = path
        self.source = source
        self.found: list[Mutant] = []
        self._starts = [0]  # by line: its first byte
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._returns_bool = [False]

    def mutants(self) -> list[Mutant]:
        self.visit(ast.parse(self.source))
        return sorted({mutant for mutant in self.found if self._compiles(mutant)})

    def _compiles(self, mutant: Mutant) -> bool:
        try:
            ast.parse(broken(self.source, mutant))
        except SyntaxError:
            return False
        return True

    def _span(self, node: ast.AST) -> tuple[int, int]:
        return (
            self._starts[node.lineno - 1] + node.col_offset,  # type: ignore[attr-defined]
            self._starts[node.end_lineno - 1] + node.end_col_offset,  # type: ignore[attr-defined]
        )

    def _text(self, node: ast.AST) -> bytes:
        start, end = self._span(node)
        return self.source[start:end]

    def _change(self, kind: str, node: ast.AST, after: bytes, until: ast.AST | None = None) -> None:
        start, end = self._span(node)[0], self._span(until or node)[1]
        self._replace(kind, start, end, after)

    def _replace(self, kind: str, start: int, end: int, after: bytes) -> None:
        line = self.source.count(b"\n", 0, start) + 1
        code = self.source[self._starts[line - 1] : self._starts[line]].decode().strip()
        self.found.append(Mutant(self.path, line, start, end, after, kind, self.source[start:end], code))

    # statements

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        if node.name in IGNORED_FUNCTIONS:
            return
        self._returns_bool.append(isinstance(node.returns, ast.Name) and node.returns.id == "bool")
        for default in (*node.args.defaults, *node.args.kw_defaults):
            if default is not None:
                self.visit(default)
        for statement in node.body:
            self.visit(statement)
        self._returns_bool.pop()

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        for statement in node.body:
            self.visit(statement)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assert(self, node: ast.Assert) -> None:
        pass

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        pass  # texts; and Python 3.11 does not say where the expressions in them are

    def visit_Assign(self, node: ast.Assign) -> None:
        names = [target.id for target in node.targets if isinstance(target, ast.Name)]
        if not {"TYPE_CHECKING", "__slots__", "__all__"} & set(names):
            self.visit(node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._change("statement left out", node, b"pass")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call | ast.Await):
            self._change("statement left out", node, b"pass")
        if not isinstance(node.value, ast.Constant):
            self.visit(node.value)

    def visit_Return(self, node: ast.Return) -> None:
        value = node.value
        if value is None or (isinstance(value, ast.Constant) and value.value is None):
            return
        if self._returns_bool[-1] and not isinstance(value, ast.Constant):
            self._change("return value", value, b"not (" + self._text(value) + b")")
        elif not isinstance(value, ast.Constant) or not isinstance(value.value, bool):
            self._change("return value", value, b"None")
        self.visit(value)

    def visit_If(self, node: ast.If) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        if self.source[self._span(node)[0] :].startswith(b"elif"):
            self._change("branch left out", node.body[0], b"pass", until=node.body[-1])
        self._negate(node.test)
        self.generic_visit(node)

    def visit_While(self, node: ast.While) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self._negate(node.test)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._negate(test)
        self.generic_visit(node)

    def _negate(self, test: ast.expr) -> None:
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], NEGATED):
            return  # the comparison itself is negated
        if not isinstance(test, ast.Constant):
            self._change("condition negated", test, b"not (" + self._text(test) + b")")

    # expressions

    def visit_Compare(self, node: ast.Compare) -> None:
        sides = [node.left, *node.comparators]
        for left, operator, right in zip(sides, node.ops, sides[1:], strict=False):
            before, after = COMPARISONS[type(operator)]
            start, end = self._span(left)[1], self._span(right)[0]
            pattern = rb"\s+".join(re.escape(word) for word in before.encode().split())
            found = re.search(pattern, self.source[start:end])
            if found:
                self._replace("comparison", start + found.start(), start + found.end(), after.encode())
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        word, other = (b"and", b"or") if isinstance(node.op, ast.And) else (b"or", b"and")
        parts = [self._text(node.values[0])]
        for left, right in zip(node.values, node.values[1:], strict=False):
            between = self.source[self._span(left)[1] : self._span(right)[0]]
            parts += [re.sub(rb"\b" + word + rb"\b", other, between), self._text(right)]
        self._change(f"{other.decode()} for {word.decode()}", node, b"(" + b"".join(parts) + b")")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._change("not left out", node, b"(" + self._text(node.operand) + b")")
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = (ast.JoinedStr, ast.Constant)
        is_text = any(isinstance(side, texts) and not _is_number(side) for side in (node.left, node.right))
        if isinstance(node.op, ast.Add | ast.Sub) and not is_text:
            before, after = (b"+", b"-") if isinstance(node.op, ast.Add) else (b"-", b"+")
            start, end = self._span(node.left)[1], self._span(node.right)[0]
            place = self.source[start:end].find(before)
            self._replace("arithmetic", start + place, start + place + 1, after)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Name) and node.func.id in SAME:
            self._change("function", node.func, SAME[node.func.id].encode())
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._change("constant", node, str(not node.value).encode())
        elif isinstance(node.value, int):
            self._change("constant", node, str(node.value + 1).encode())


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def broken(source: bytes, mutant: Mutant) -> bytes:
    return source[: mutant.start] + mutant.after + source[mutant.end :]


def all_mutants(root: Path, wanted: list[str]) -> dict[str, list[Mutant]]:
    """By package, in the order of files and lines."""
    found: dict[str, list[Mutant]] = {}
    for each in wanted:
        name, _, lines = each.removeprefix(PACKAGE + "/").partition(":")
        first, _, last = lines.partition("-")
        top = root / PACKAGE / name
        if not top.exists():
            sys.exit(f"{top} does not exist; --paths takes packages or files below {PACKAGE}")
        for path in sorted(top.rglob("*.py")) if top.is_dir() else [top]:
            relative = str(path.relative_to(root))
            if relative in IGNORED_FILES:
                continue
            mutants = Finder(relative, path.read_bytes()).mutants()
            if lines:
                mutants = [one for one in mutants if int(first) <= one.line <= int(last or first)]
            if mutants:
                found.setdefault(mutants[0].package, []).extend(mutants)
    unknown = sorted(set(found) - set(TESTS))
    if unknown:
        sys.exit(f"there are no tests named for {unknown[0]}; TESTS has {', '.join(TESTS)}")
    return found


def drawn(found: dict[str, list[Mutant]], sample: int, seed: int) -> list[Mutant]:
    """`sample` mutants, as many from each package as from the others; 0 for all of them."""
    chosen: list[Mutant] = []
    for nth, (package, mutants) in enumerate(sorted(found.items())):
        share = sample // len(found) + (nth < sample % len(found))
        if sample and share < len(mutants):
            mutants = sorted(Random(f"{seed} {package}").sample(mutants, share))
        chosen += mutants
    return chosen


# --- whether the tests detect them -------------------------------------------------------------------


class Copy:
    """A private copy of the tree, in which one mutant at a time is made and tested."""

    def __init__(self, root: Path, folder: Path, deselect: list[str]):
        self.folder = folder
        self._process: subprocess.Popen[bytes] | None = None  # pytest, while it runs
        self._deselect = [f"--deselect={test}" for test in deselect]
        self.temporary = folder / "t"  # a short name: paths of Unix sockets have at most 107 characters
        for name in COPIED:
            if (root / name).is_dir():
                shutil.copytree(root / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            elif (root / name).exists():
                shutil.copy(root / name, folder / name)
        # Python must notice every change of a source, also one of the same length within the same second.
        compiling = [sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "checked-hash"]
        subprocess.run([*compiling, str(folder / "src")], check=True)

    def result(self, mutant: Mutant, limit_s: float) -> str:
        """Why the mutant counts as caught; an empty text if it survives."""
        path = self.folder / mutant.path
        source = path.read_bytes()
        path.write_bytes(broken(source, mutant))
        try:
            return self.failure(TESTS[mutant.package], limit_s)
        finally:
            path.write_bytes(source)

    def failure(self, tests: list[str], limit_s: float | None = None) -> str:
        """What is wrong with the copy according to the tests; an empty text if all of them pass."""
        self.temporary.mkdir()
        there = [name for name in tests if (self.folder / name).exists()]
        options = ["-x", "-p", "no:cacheprovider", "-p", "no:xdist", f"--basetemp={self.temporary}/p"]
        options += self._deselect
        with (self.folder / "output.txt").open("w+") as output:
            process = self._process = subprocess.Popen(
                [*alone(), sys.executable, "-m", "pytest", *options, *there],
                cwd=self.folder,
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES)),
            )
            try:
                code = process.wait(limit_s)
            except subprocess.TimeoutExpired:
                return f"no end within {limit_s:.0f} s"
            finally:
                self.stop()
                process.wait()
                shutil.rmtree(self.temporary, ignore_errors=True)
            output.seek(0)
            return "" if code == 0 else _cause(output.read()) or f"pytest ended with code {code}"

    def stop(self) -> None:
        """End the tests that run now."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)

    def _environment(self) -> dict[str, str]:
        # What is installed comes from the interpreter that runs us, the package itself from the copy.
        return {
            **os.environ,
            **FEWER,
            "PYTHONPATH": str(self.folder / "src"),
            "TMPDIR": str(self.temporary),
            "PYTHONUNBUFFERED": "1",
        }


def _cause(output: str) -> str:
    found = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
    return found.group(1) if found else ""


def alone() -> list[str]:
    """How a command line begins whose processes see no others and end with it."""
    namespace = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if os.geteuid() != 0:
        namespace[1:1] = ["--user", "--map-current-user"]
    # The shell is the first process of the namespace, and as such the parent of all orphans.
    return [*namespace, "sh", "-c", '"$@"; exit $?', "sh"]


def check_alone() -> None:
    try:
        subprocess.run([*alone(), "true"], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        why = (getattr(error, "stderr", None) or str(error)).strip()
        sys.exit(f"cannot make a PID namespace: {why}. Without one, a broken executor could end any process.")


def limits_of(copy: Copy, packages: list[str]) -> dict[str, float]:
    """By package: the seconds that a mutant may take.

    The unbroken source must pass its tests, because otherwise every mutant would count as caught.
    """
    limits = {}
    for package in packages:
        begun = time.monotonic()
        failure = copy.failure(TESTS[package])
        if failure:
            sys.exit(f"the tests of {package} fail without any mutant: {failure}")
        taken_s = time.monotonic() - begun
        limits[package] = max(LEAST_S, PATIENCE * taken_s)
        print(f"{package}: the tests take {taken_s:.0f} s; a mutant has {limits[package]:.0f} s", flush=True)
    return limits


def tested(root: Path, mutants: list[Mutant], jobs: int, deselect: list[str]) -> Iterator[tuple[Mutant, str]]:
    """Every mutant with the reason for which it is caught, in the given order."""
    with TemporaryDirectory(prefix="mutants-") as folder:
        os.chmod(folder, 0o711)  # some tests start processes as another user
        all_copies = [Copy(root, Path(folder) / str(nth), deselect) for nth in range(jobs)]
        copies: SimpleQueue[Copy] = SimpleQueue()
        for each in all_copies:
            copies.put(each)
        limits = limits_of(all_copies[0], sorted({mutant.package for mutant in mutants}))

        def one(mutant: Mutant) -> str:
            copy = copies.get()
            try:
                return copy.result(mutant, limits[mutant.package])
            finally:
                copies.put(copy)

        with ThreadPoolExecutor(jobs) as pool:
            results = [pool.submit(one, mutant) for mutant in mutants]
            try:
                for mutant, result in zip(mutants, results, strict=True):
                    yield mutant, result.result()
            finally:  # Ctrl-C ends the tests that run; otherwise there are none any more
                pool.shutdown(wait=False, cancel_futures=True)
                for each in all_copies:
                    each.stop()


# --- the command line --------------------------------------------------------------------------------


def options() -> argparse.Namespace:
    description, _, details = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        "python -m benchmarks.mutants",
        description=description,
        epilog=details,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--paths",
        nargs="+",
        default=list(TESTS),
        metavar="PATH",
        help=f"packages or files below {PACKAGE}, FILE:LINE, FILE:FIRST-LAST (default: {' '.join(TESTS)})",
    )
    add = parser.add_argument
    add("--sample", type=int, default=0, metavar="N", help="draw N mutants, evenly from the packages")
    add("--seed", type=int, default=1, metavar="S", help="seed of the sample (default: 1)")
    add("--jobs", type=int, default=2, choices=(1, 2), help="mutants tested at once (default: 2)")
    add("--deselect", action="append", default=[], metavar="TEST", help="a test that is left out")
    add("--list", action="store_true", help="print the mutants and run nothing")
    add("--tree", type=Path, default=ROOT, help="the source tree to break (default: this one)")
    return parser.parse_args()


def main() -> int:
    given = options()
    mutants = drawn(all_mutants(given.tree.resolve(), given.paths), given.sample, given.seed)
    if given.list:
        print(*mutants, sep="\n")
        print(f"{len(mutants)} mutants")
        return 0
    check_alone()
    survived: list[Mutant] = []
    count = {package: [0, 0] for package in sorted({mutant.package for mutant in mutants})}  # caught, of all
    for mutant, cause in tested(given.tree.resolve(), mutants, given.jobs, given.deselect):
        count[mutant.package][0] += bool(cause)
        count[mutant.package][1] += 1
        if not cause:
            survived.append(mutant)
        print(f"caught    {mutant}  by {cause}" if cause else f"SURVIVED  {mutant}", flush=True)
    print()
    for package, (caught, of) in count.items():
        print(f"{package}: caught {caught} of {of}")
    print(f"caught {len(mutants) - len(survived)} of {len(mutants)}; survived: {len(survived)}")
    for mutant in survived:
        print(f"  {mutant}")
    return 1 if survived else 0


if __name__ == "__main__":
    try:
        with exiting_on_signals():
            sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
