"""The map of the code (ARCHITECTURE.md) is complete and true."""

from __future__ import annotations

import re

import pytest
from docs_pages import ROOT, blocks

from tiresias.core.lifecycle import TRANSITIONS

MAP = ROOT / "ARCHITECTURE.md"
SOURCE = ROOT / "src/tiresias"
PACKAGES = sorted(path.parent.name for path in SOURCE.glob("*/__init__.py"))


def test_the_diagram_of_a_jobs_life_has_every_legal_transition_and_no_other():
    [diagram] = [block.text for block in blocks(MAP) if block.language == "mermaid"]
    drawn = re.findall(r"^ +([A-Z]+) --> ([A-Z]+): (.+)$", diagram, flags=re.MULTILINE)
    legal = [(str(a), str(b), str(cause)) for cause, steps in TRANSITIONS.items() for a, b in steps.items()]
    assert sorted(drawn) == sorted(legal)


def test_every_file_that_the_map_names_exists():
    named = re.findall(rf"`((?:{'|'.join(PACKAGES)})/[\w/.]+)`", MAP.read_text(encoding="utf-8"))
    assert named
    assert [path for path in named if not (SOURCE / path).exists()] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_the_map_names_every_file_of_the_package(package: str):
    text = MAP.read_text(encoding="utf-8")
    found = [path for path in (SOURCE / package).rglob("*.*") if path.suffix in (".py", ".c", ".sql")]
    files = [path.relative_to(SOURCE).as_posix() for path in found if path.name != "__init__.py"]
    assert [path for path in sorted(files) if f"`{path}`" not in text] == []
