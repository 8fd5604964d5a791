"""Tables of figures are written by a command: they are what was measured; quick ones are measured again."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks import cells, tables  # noqa: E402
from benchmarks.written import TABLES  # noqa: E402

TIMED = re.compile(r"<!-- timed by: ([\w. ]+) -->")
PAGES = [page for page in tables.pages() if "decisions" not in page.parts]  # these are of their time
FIGURES = re.compile(r"\d s\b|\d,\d{3}|\d\.\d\d|\d ms\b|\d %|\d\.\d%")
AGAIN = ("contended", "cpus")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_table_in_a_page_is_what_was_measured(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    wrong = "write it with: python -m benchmarks tables --missing"
    assert tables.rewritten(text, TABLES, cells.load()) == text, wrong


def test_every_table_is_in_a_page() -> None:
    written = {name for page in PAGES for name, _ in tables.blocks(page.read_text(encoding="utf-8"))}
    assert written == set(TABLES)


@pytest.mark.parametrize("name", AGAIN)
def test_quick_tables_still_hold(name: str) -> None:
    measured = cells.load()
    for cell in TABLES[name].cells:
        assert cell.is_quick
        assert cells.differences(measured[cell.key], cell.measure()) == [], cell.key


@pytest.mark.parametrize("placer", ["profile", "consolidated"])
def test_one_seed_of_the_testbed_still_holds(placer: str) -> None:
    [cell] = [c for c in TABLES["placers-testbed"].cells if c.placer == placer and c.trace.endswith(":1")]
    assert cells.differences(cells.load()[cell.key], cell.measure()) == []


def test_no_table_of_figures_is_written_by_hand() -> None:
    """In README and explanations they are written from what was measured, or name the benchmark."""
    from benchmarks.__main__ import ALL

    by_hand = []
    for page in PAGES:
        if page.name != "README.md" and page.parent.name != "explanation":
            continue
        text = tables.BLOCK.sub("", page.read_text(encoding="utf-8"))
        for found in re.finditer(r"(?:^\|.*\n)+", text, re.MULTILINE):
            rows = found[0].splitlines()[2:]
            if sum(bool(FIGURES.search(row)) for row in rows) < 2:
                continue
            marks = TIMED.findall(text[: found.start()].rstrip().rpartition("\n\n")[2])
            if not marks or not set(marks[-1].split()) <= ALL.keys() | {"demo"}:
                by_hand.append(f"{page.name}: {rows[0]}")
    assert by_hand == []


def test_a_changed_figure_is_named() -> None:
    before = {"avg_jct_s": 10.0, "preemptions": 3}
    assert cells.differences(before, dict(before)) == []
    assert cells.differences(before, {"avg_jct_s": 11.0, "preemptions": 3}) == ["avg_jct_s is 11.0, was 10.0"]


def test_a_page_with_an_unknown_table_or_one_that_was_never_measured_is_refused() -> None:
    page = "<!-- table {} -->\nold\n<!-- end of table -->\n"
    with pytest.raises(LookupError, match="no table 'nothing'"):
        tables.rewritten(page.format("nothing"), TABLES, {})
    with pytest.raises(LookupError, match="was never measured"):
        tables.rewritten(page.format("cpus"), TABLES, {})
