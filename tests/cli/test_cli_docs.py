"""The reference names every command and option, and none that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from tiresias.cli.program import program
from tiresias.sim.report import JOB_COLUMNS, SUMMARY_KEYS, SWEEP_KEYS, TIMELINE_COLUMNS
from tiresias.spec.job import ALL_OPTIONS

REFERENCE = Path(__file__).parents[2] / "docs/reference/cli.md"


def commands(command: Any, name: str) -> Iterator[tuple[str, Any]]:
    """The program and all its commands, by their full names; groups that only hold others are left out."""
    inner = getattr(command, "commands", {})
    if not inner or name == "tiresias":
        yield name, command
    for word, each in inner.items():
        yield from commands(each, f"{name} {word}")


COMMANDS = dict(commands(typer.main.get_command(program([])), "tiresias"))


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.+)$", REFERENCE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def documented_options(section: str) -> set[str]:
    """What stands in the first column of the section's tables and looks like an option."""
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    return {option for cell in cells for option in re.findall(r"`(--?[a-z0-9-]+)`", cell)}


def test_the_commands_of_the_reference_are_those_of_the_program():
    assert {name for name in sections() if name.startswith("tiresias")} == set(COMMANDS)
    for name in COMMANDS:
        if name != "tiresias":
            assert f"[`{name}`](#{name.replace(' ', '-')})" in REFERENCE.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_of_the_reference_are_those_of_the_command(name):
    options = {option for each in COMMANDS[name].params for option in each.opts if option.startswith("-")}
    if name in ("tiresias run", "tiresias shell", "tiresias jupyter"):  # their pages refer to that of submit
        options -= {flag for option in ALL_OPTIONS for flag in (option.flag, option.short)}
    assert documented_options(sections()[name]) == options - {"-h", "--help"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help_and_every_command_a_summary(name):
    assert COMMANDS[name].help
    for each in COMMANDS[name].params:
        assert each.help, f"{name} {each.name}"


def test_every_figure_and_column_is_explained():
    text = REFERENCE.read_text(encoding="utf-8")
    for name in (*SUMMARY_KEYS, *JOB_COLUMNS, *TIMELINE_COLUMNS, *SWEEP_KEYS):
        assert f"`{name}`" in text
