"""A command line means the same whether the quick parser reads it or Typer."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from tiresias.cli import program, quick
from tiresias.cli.declare import Group
from tiresias.cli.verbs import VERBS

RIGHT = (
    "ls",
    "ls -a -u me --limit 5 -o wide",
    "ls --phase=pending,running --interval 0.5 -w",
    "ls -ojson",
    "why 12",
    "ls train-* 7 -a",
    "again 7 priority=low",
    "wait --all",
    "show some-name -o json",
    "logs 3 --tail 20 -f",
    "cancel 1 2 3 --now",
    "cancel --all -y",
    "wait 1 train-2 --timeout 1h -q",
    "set 4 priority=low time=8h",
    "submit -g2 -n sweep --env A=1 --env B=2 --hold -- python train.py -g 3 --name=x",
    "submit --gpus=4 --after 1,2 --no-preempt job.yaml",
    "submit",
    "run -g 1 --retries 2 -- true",
    "top --once",
    "nodes -o wide",
    "drain box:1 --reason hot",
    "limits set ann --gpus 4",
    "policy set las --set a=1 --set b=2",
    "history export -",
)
UNCLEAR = (
    "ls --help",
    "ls -aw",  # two switches in one word
    "ls --limit many",
    "ls --limit 0",
    "ls --limit 1e3",
    "ls --limit",
    "ls --all=yes",
    "ls -o yaml",
    "ls --nope",
    "why",
    "why 1 2",
    "set 4",
    "logs 3 --tail -1",
    "wait --",
    "submit --nope -- true",
    "history",
    "history nope",
)


def found(line: str) -> tuple[Any, list[str], bool]:
    """The command, the words after its verbs, and whether it carries another command."""
    verb, *words = line.split()
    command = VERBS[verb].load()
    if isinstance(command, Group):
        command, words = command.commands[words[0]], words[1:]
    return command, words, VERBS[verb].carries


def as_typer_reads(command: Any, words: list[str], carries: bool) -> dict[str, Any]:
    seen: dict[str, Any] = {}

    def note(**given: Any) -> None:
        seen.update(given)

    note.__signature__ = inspect.signature(command, eval_str=True)  # type: ignore[attr-defined]
    program.call_with_typer(note, words, "tir", carries=carries)
    return seen


@pytest.mark.parametrize("line", RIGHT)
def test_what_the_quick_parser_reads_is_what_typer_reads(line):
    command, words, carries = found(line)
    quickly = quick.parsed(command, words, "tir", carries=carries)
    assert quickly == as_typer_reads(command, words, carries)


@pytest.mark.parametrize("line", UNCLEAR)
def test_what_is_wrong_or_unusual_is_left_to_typer(line):
    verb, *words = line.split()
    command = VERBS[verb].load()
    if isinstance(command, Group):
        assert quick.in_group(command, words, verb) is None
    else:
        assert quick.call(command, words, carries=VERBS[verb].carries) is None
