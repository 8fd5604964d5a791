"""Runs the blocks of a page as a reader would: from the top, in one empty directory.

```python           runs in one namespace with the page's other python blocks
```text output      what the python block just above it prints
```LANGUAGE file F   the text of a file F in that directory
```console          `$ tiresias …`, `$ tir …`, `$ cat …`, `$ head …`, `$ ls …`; then what they print, if shown
```console fails    the same, but every command must fail

In shown output `…` matches anything; a line with nothing else matches any number of lines. Other blocks are
not run. With TIRESIAS_DOCS=write, output that no longer matches is written into the page instead.
Commands are carried out in this process, and so are the simulations that they would give to workers: to start
processes takes longer than the examples do, and tests/cli is about them.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from docs_pages import Block

from tiresias.cli.main import run

OURS = ("tiresias", "tir")
TOOLS = ("cat", "head", "ls")
ANY = "…"


@dataclass(frozen=True, slots=True)
class Shown:
    """Output that a page shows: its first line in the page, and its lines."""

    line: int
    lines: list[str]


@dataclass(frozen=True, slots=True)
class Correction:
    """Lines of a page that are no longer what is printed."""

    shown: Shown
    printed: list[str]


def run_page(blocks: list[Block], module: ModuleType) -> list[Correction]:
    """Run them all; what to correct in the page."""
    corrections = []
    printed = ""
    for block in blocks:
        if (name := block.file) is not None:
            Path(name).write_text(block.text + "\n", encoding="utf-8")
        elif block.language == "python":
            printed = run_python(block, module)
        elif block.info == "text output":
            corrections += compared(Shown(block.line, block.text.splitlines()), printed)
        elif block.language == "console":
            corrections += run_console(block)
    return corrections


def run_python(block: Block, module: ModuleType) -> str:
    """What it prints; line numbers in tracebacks are those of the page."""
    code = compile("\n" * (block.line - 1) + block.text, str(block.page), "exec")
    return captured(lambda: exec(code, module.__dict__))


def run_console(block: Block) -> list[Correction]:
    wanted_to_fail = block.info == "console fails"
    assert wanted_to_fail or block.info == "console", f"{block.place}: {block.info!r} means nothing"
    corrections = []
    for command, shown in commands(block):
        code, printed = call(command, block.place)
        assert bool(code) == wanted_to_fail, f"{block.place}: {command}: exit code {code}\n{printed}"
        if shown.lines:
            corrections += compared(shown, printed)
    return corrections


def commands(block: Block) -> list[tuple[str, Shown]]:
    """Each command of a block and the output shown below it; a command may go on after a backslash."""
    found: list[tuple[str, Shown]] = []
    lines = block.text.splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if line.startswith("$ "):
            while line.endswith("\\"):
                line = line[:-1] + lines[number].strip()
                number += 1
            found.append((line[2:], Shown(block.line + number, [])))
        else:
            assert found, f"{block.place}: output before any command"
            found[-1][1].lines.append(line)
    return found


def call(command: str, place: str) -> tuple[int, str]:
    """Exit code and output, errors included."""
    words = shlex.split(command)
    if words[0] in OURS:
        return call_tiresias(words)
    assert words[0] in TOOLS, f"{place}: {words[0]!r} is not among {', '.join(OURS + TOOLS)}"
    done = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def call_tiresias(words: list[str]) -> tuple[int, str]:
    before, sys.argv = sys.argv, words
    codes: list[int] = []

    def body() -> None:
        try:
            run()
        except SystemExit as ended:
            codes.append(int(ended.code or 0))

    try:
        printed = captured(body)
    finally:
        sys.argv = before
    return codes[0], printed


def captured(body: Callable[[], None]) -> str:
    """What it writes on stdout and stderr, in the order written."""
    written = io.BytesIO()
    stream = io.TextIOWrapper(written, encoding="utf-8", write_through=True)
    with redirect_stdout(stream), redirect_stderr(stream):
        body()
    stream.flush()
    return written.getvalue().decode()


def compared(shown: Shown, printed: str) -> list[Correction]:
    lines = [line.rstrip() for line in printed.rstrip().splitlines()]
    return [] if matches(shown.lines, lines) else [Correction(shown, lines)]


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether the lines are those shown, but for what `…` leaves open."""
    pattern = ""
    for line in "\n".join(shown).rstrip().split("\n"):
        if line.strip() == ANY:
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += r"[^\n]*".join(re.escape(part) for part in line.rstrip().split(ANY)) + r"\n"
    return re.fullmatch(pattern, "\n".join([*printed, ""])) is not None


def correct(text: str, corrections: list[Correction]) -> str:
    """The page with what is printed now; where lines correspond, those that still match stay as they are."""
    lines = text.splitlines()
    for correction in reversed(corrections):
        shown, printed = correction.shown.lines, correction.printed
        if len(shown) == len(printed):
            pairs = zip(shown, printed, strict=True)
            printed = [old if matches([old], [new]) else new for old, new in pairs]
        begin = correction.shown.line - 1
        lines[begin : begin + len(shown)] = printed
    return "\n".join(lines) + "\n"


def told(correction: Correction, page: str) -> str:
    shown = "\n".join(correction.shown.lines)
    printed = "\n".join(correction.printed)
    return f"{page}:{correction.shown.line} shows\n{shown}\nbut printed is\n{printed}"


def is_writing() -> bool:
    return os.environ.get("TIRESIAS_DOCS") == "write"
