"""The tables of README and docs, written from what was measured.

    python -m benchmarks tables                 measure every cell and write all tables
    python -m benchmarks tables --missing       measure only the cells that were never measured, then write
    python -m benchmarks tables NAME…           measure and write these tables only
    python -m benchmarks tables --check         measure, write nothing, and name the tables that do not hold

In a page a table is between `<!-- table NAME -->` and `<!-- end of table -->`, and what is between them is
replaced. `make bench` runs `--check`. Tests compare all pages with `measured.json`, and measure again what
takes little time.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks import cells
from benchmarks.cells import Cell, Figures, NoData

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- table (\S+) -->\n)(.*?)(<!-- end of table -->)", re.DOTALL)
MEASURE = "measure with: python -m benchmarks tables"

Measured = dict[str, Figures]


@dataclass(frozen=True, slots=True)
class Table:
    """Text for a page: the cells that it needs, and how their figures become Markdown."""

    name: str
    cells: tuple[Cell, ...]
    write: Callable[[Callable[[Cell], Figures]], str]

    def text(self, measured: Measured) -> str:
        def figures(cell: Cell) -> Figures:
            if cell.key not in measured:
                raise LookupError(f"{self.name}: {cell.key} was never measured; {MEASURE} {self.name}")
            return measured[cell.key]

        return self.write(figures)


def rows(head: str, lines: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    columns = head.count("|") + 1
    body = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return f"\n| {head} |\n|{'---|' * columns}\n{body}\n"


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(text: str) -> Iterator[tuple[str, str]]:
    """(name, what is written) of every table of a page."""
    for found in BLOCK.finditer(text):
        yield found[2], found[3]


def rewritten(text: str, every: dict[str, Table], measured: Measured, only: set[str] | None = None) -> str:
    """The page with its tables as they were measured; LookupError names what is missing."""

    def new(found: re.Match[str]) -> str:
        name = found[2]
        if name not in every:
            raise LookupError(f"no table {name!r}; there are {', '.join(every)}")
        if only is not None and name not in only:
            return found[0]
        return f"{found[1]}{every[name].text(measured)}{found[4]}"

    return BLOCK.sub(new, text)


def _measure(cell: Cell) -> tuple[str, Figures | None]:
    try:
        return cell.key, cell.measure()
    except NoData:
        return cell.key, None


def measure(wanted: Iterable[Cell], workers: int = 2) -> Iterator[tuple[str, Figures | None]]:
    """(key, figures) of each cell; None if its trace is not on this machine."""
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(_measure, wanted)


def main(arguments: list[str]) -> int:
    """0, or 1 if a table does not hold."""
    from benchmarks.written import TABLES

    parser = argparse.ArgumentParser(prog="python -m benchmarks tables")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--check", action="store_true", help="write nothing; name what does not hold")
    parser.add_argument("--missing", action="store_true", help="measure only what was never measured")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.names if name not in TABLES]
    if unknown:
        parser.error(f"no table {unknown[0]!r}; there are {', '.join(TABLES)}")
    names = set(asked.names or TABLES)
    stored = cells.load()
    wanted = {cell.key: cell for name in TABLES if name in names for cell in TABLES[name].cells}
    todo = [cell for key, cell in wanted.items() if not (asked.missing and key in stored)]
    broken: set[str] = set()
    for key, now in measure(todo):
        if now is None:
            print(f"left out, TIRESIAS_DATA names no folder with its trace: {key}", flush=True)
            continue
        print(f"{key}: average JCT {now['avg_jct_s']:,.0f} s", flush=True)
        if asked.check:
            for difference in cells.differences(stored.get(key, {}), now):
                print(f"  no longer holds: {difference}", flush=True)
                broken |= {name for name, table in TABLES.items() if key in {c.key for c in table.cells}}
        else:
            stored[key] = now
            cells.store(stored)
    if asked.check:
        for name in sorted(broken & names):
            print(f"the table {name} no longer holds; write it with: python -m benchmarks tables {name}")
        return 1 if broken else 0
    try:
        for page in pages():
            before = page.read_text(encoding="utf-8")
            after = rewritten(before, TABLES, stored, names)
            if after != before:
                page.write_text(after, encoding="utf-8")
                print(f"wrote {page.relative_to(ROOT)}")
    except LookupError as error:
        print(error.args[0], file=sys.stderr)
        return 1
    return 0


def check() -> None:
    """For `make bench`: exits if a table does not hold."""
    if main(["--check"]):
        sys.exit("tables in README or docs no longer hold")
