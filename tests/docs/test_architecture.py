"""The map shows what is there."""

from __future__ import annotations

import re

import pytest
from docs_pages import ROOT, blocks

from tiresias.core.lifecycle import TRANSITIONS

MAP = ROOT / "ARCHITECTURE.md"


def test_the_diagram_of_a_jobs_life_has_every_legal_transition_and_no_other():
    [diagram] = [block.text for block in blocks(MAP) if block.language == "mermaid"]
    drawn = re.findall(r"^ +([A-Z]+) --> ([A-Z]+): (.+)$", diagram, flags=re.MULTILINE)
    legal = [(str(a), str(b), str(cause)) for cause, steps in TRANSITIONS.items() for a, b in steps.items()]
    assert sorted(drawn) == sorted(legal)


def test_every_file_that_the_map_names_is_there():
    text = MAP.read_text(encoding="utf-8")
    named = re.findall(r"`((?:core|spec|policies|placers|sim|live|api|cli|testing)/[\w/.]+)`", text)
    assert named
    assert [path for path in named if not (ROOT / "src/tiresias" / path).exists()] == []


@pytest.mark.parametrize("layer", ["core", "spec", "live", "api"])
def test_the_map_names_every_file_of_the_layer(layer: str):
    text = MAP.read_text(encoding="utf-8")
    files = {f"{layer}/{path.name}" for path in (ROOT / "src/tiresias" / layer).glob("[a-z]*.py")}
    assert [path for path in sorted(files) if f"`{path}`" not in text] == []
