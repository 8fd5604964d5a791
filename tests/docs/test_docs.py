"""Every example of the documentation runs, and every page can be found."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from docs_pages import ROOT, Block, anchors, blocks, links, name_of, pages
from docs_runner import call_tiresias, correct, is_writing, matches, run_page, told

import tiresias.placers
import tiresias.policies  # noqa: F401  (both for what they register)
from tiresias.core import plugins
from tiresias.sim import experiment
from tiresias.testing.cells import run_cells_here
from tiresias.testing.executors import processes_of

RUN = ("python", "console")
NOT_RUN = ("text", "yaml", "csv", "sh", "mermaid", "json")
EXAMPLES = [page for page in pages() if any(block.language in RUN for block in blocks(page))]


@pytest.fixture
def module(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ModuleType]:
    """Where a page's python blocks live. After the page what they register is forgotten, a manager ended."""
    for name in ("COLUMNS", "FORCE_COLOR", "NO_COLOR", "TTY_COMPATIBLE", "TIRESIAS_URL", "TIRESIAS_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("TIRESIAS_HOME", str(home))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    monkeypatch.setattr(experiment, "run_cells", run_cells_here)
    for registry in (plugins.policies, plugins.placers):
        monkeypatch.setattr(registry, "_classes", dict(registry._classes))
    made = ModuleType("page")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    yield made
    code, said = 0, ""
    if (home / "manager.json").exists():
        code, said = call_tiresias(["tir", "down", "--stop-jobs"])
    left = processes_of(home)  # where the manager has died, or the page stops it without its jobs
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not code, said
    assert not left


@pytest.mark.parametrize("page", EXAMPLES, ids=name_of)
def test_the_examples_of_a_page_run_and_print_what_is_shown(page, module):
    corrections = run_page(list(blocks(page)), module)
    if corrections and is_writing():
        page.write_text(correct(page.read_text(encoding="utf-8"), corrections), encoding="utf-8")
        pytest.skip("the page has been corrected")
    assert not corrections, "\n\n".join(told(each, name_of(page)) for each in corrections)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_block_says_what_it_is(page):
    for block in blocks(page):
        assert block.language in RUN + NOT_RUN, f"{block.place}: {block.info!r}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_no_relative_link_is_dead(page):
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.is_relative_to(ROOT), f"{name_of(page)}: {link} leads out of the repository"
        assert target.exists(), f"{name_of(page)}: {link} leads nowhere"
        if anchor:
            assert anchor in anchors(target), f"{name_of(page)}: no heading for {link}"


def test_every_page_can_be_reached_from_the_index_or_the_readme():
    """A link to a directory reaches all pages in it, as a code host lists them."""
    todo = [page for page in (ROOT / "README.md", ROOT / "docs/index.md") if page.exists()]
    reached = set(todo)
    while todo:
        page = todo.pop()
        for link in links(page):
            target = (page.parent / link.partition("#")[0]).resolve()
            found = sorted(target.glob("*.md")) if target.is_dir() else [target]
            fresh = [each for each in found if each.suffix == ".md" and each.exists() and each not in reached]
            reached.update(fresh)
            todo += fresh
    assert [name_of(page) for page in pages() if page not in reached] == []


@pytest.mark.parametrize(
    ("shown", "printed", "agrees"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "…"], ["a"], True),
        (["…", "c"], ["a", "b", "c"], True),
        (["…", "c"], ["a", "b"], False),
        (["took … s"], ["took 0.17 s"], True),
        (["took … s"], ["took 0.17 min"], False),
        (["a…", "b"], ["a", "x", "b"], False),
        (["a.c"], ["abc"], False),
    ],
)
def test_an_ellipsis_stands_for_anything_and_nothing_else_does(shown, printed, agrees):
    assert matches(shown, printed) is agrees


@pytest.mark.parametrize(
    ("info", "text", "complaint"),
    [
        ("console", "$ tiresias simulate nothing.csv --cluster 1x1", "exit code 2"),
        ("console fails", "$ tiresias --version", "exit code 0"),
        ("console", "$ make install", "'make' is not among"),
        ("console", "tiresias 0.1.0\n$ tiresias --version", "output before any command"),
        ("console later", "$ tiresias --version", "means nothing"),
        ("python", "assert False, 'a claim that is not true'", "a claim that is not true"),
    ],
)
def test_an_example_that_does_not_do_what_it_says_is_an_error(info, text, complaint, module):
    with pytest.raises(AssertionError, match=complaint):
        run_page([Block(ROOT / "docs/page.md", 1, info, text)], module)


def test_output_that_is_not_what_is_shown_is_found_and_can_be_corrected(module, tmp_path):
    path = tmp_path / "page.md"
    path.write_text(OUT_OF_DATE)
    corrections = run_page(list(blocks(path)), module)
    assert [each.shown.line for each in corrections] == [3, 11]
    path.write_text(correct(OUT_OF_DATE, corrections))
    assert run_page(list(blocks(path)), module) == []


OUT_OF_DATE = """\
```console
$ tiresias --version
tiresias 0.0
```
```python
print(1)
print(2)
```

```text output
1
3
```
"""
