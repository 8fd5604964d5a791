"""The program is there at once: what it does not need, it does not load."""

from __future__ import annotations

import subprocess
import sys

import pytest
from live_cli import environment

HEAVY = {"polars", "matplotlib", "numpy", "scipy", "fastapi", "uvicorn", "sqlite3", "yaml"}
OURS = ("tiresias.live", "tiresias.sim", "tiresias.core", "tiresias.store")
WORDS = {"tiresias.core", "tiresias.core.defaults"}  # an empty package, and names of policies
PARSERS = {"typer", "rich", "pydantic", "click"}  # for help, errors and simulations
HELP = (["--help"], ["submit", "--help"])
COMMANDS = (["ls"], ["submit", "--", "true"], ["why", "1"], ["show", "1"], ["logs", "1"], ["cancel", "1"])


@pytest.mark.parametrize("words", HELP + COMMANDS, ids=" ".join)
def test_looking_and_submitting_load_nothing_heavy(shared_home, words):
    code = (
        "import sys\n"
        "from tiresias.cli.main import run\n"
        f"sys.argv = ['tir', *{words!r}]\n"
        "try:\n    run()\n"
        "finally:\n    print('|', *sys.modules, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment(shared_home), capture_output=True, text=True)
    loaded = set(done.stderr.rpartition("|")[2].split())
    assert "tiresias.cli.main" in loaded
    assert not loaded & (HEAVY if words in HELP else HEAVY | PARSERS)
    assert not {name for name in loaded if name.startswith(OURS)} - WORDS
