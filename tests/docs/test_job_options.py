"""The tables of the options of a job are those of the specification. TIRESIAS_DOCS=write writes them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import MISSING, fields

import pytest
from docs_pages import ROOT, sections
from docs_runner import is_writing

from tiresias.cli.live import control, job_files, scripts
from tiresias.spec.job import ALL_OPTIONS, ARRAY, BY_NAME, CHANGEABLE, JobSpec
from tiresias.spec.options import Option

CLI = ROOT / "docs/reference/cli.md"
HTTP = ROOT / "docs/reference/http-api.md"
CLIENT = ROOT / "docs/reference/python-client.md"
CLI_HEAD = "| option | in job.yaml | default | meaning |"
HTTP_HEAD = "| key | default | meaning |"


def cli_table() -> Iterator[str]:
    yield CLI_HEAD
    yield "|---|---|---|---|"
    for option in ALL_OPTIONS:
        if option.flag:
            flags = ", ".join(f"`{each}`" for each in (option.flag, option.short) if each)
            keys = ", ".join(f"`{each}`" for each in file_keys(option))
            yield row(flags, keys, option.default, f"{option.help} {option.more}")


def file_keys(option: Option) -> list[str]:
    return [] if option.key == "set" else [each for each in (option.file_key, option.in_group) if each]


def http_table() -> Iterator[str]:
    yield HTTP_HEAD
    yield "|---|---|---|"
    for each in fields(JobSpec):
        default = "{}" if each.default_factory is not MISSING else each.default
        shown = "" if default is MISSING else f"`{default if default == '{}' else json.dumps(default)}`"
        option = BY_NAME[each.name]
        yield row(f"`{each.name}`", shown, option.api_help or option.help)
    yield row("`array`", "`null`", ARRAY.api_help)


def row(*cells: str) -> str:
    return "|" + "|".join(f" {cell.strip()} " if cell.strip() else " " for cell in cells) + "|"


@pytest.mark.parametrize(
    ("page", "head", "lines"),
    [(CLI, CLI_HEAD, cli_table), (HTTP, HTTP_HEAD, http_table)],
    ids=["cli", "http"],
)
def test_the_table_of_options_is_that_of_the_specification(page, head, lines):
    text = page.read_text(encoding="utf-8")
    written = re.search(rf"^{re.escape(head)}\n(\|.*\n)+", text, flags=re.MULTILINE)
    assert written is not None, f"{page} has no table that begins with {head!r}"
    wanted = "".join(f"{line}\n" for line in lines())
    if is_writing():
        page.write_text(text[: written.start()] + wanted + text[written.end() :], encoding="utf-8")
    else:
        assert written[0] == wanted


def test_what_may_be_changed_is_named_wherever_changing_is_explained():
    route = next(line for line in HTTP.read_text().splitlines() if line.startswith("| `PATCH`"))
    method = next(line for line in CLIENT.read_text().splitlines() if line.startswith("| `change("))
    for line in (route, method):
        assert set(CHANGEABLE) <= set(re.findall(r"`(\w+)`", line)), line
    keys = re.findall(r"`(\w+)`", sections(CLI, 2)["tiresias set"].strip().splitlines()[0])
    assert set(control.CHANGES) <= set(keys)


def test_every_option_of_slurm_that_is_understood_is_named():
    section = sections(CLI, 3)["Scripts"]
    for name in scripts.UNDERSTOOD:
        assert f"`--{name}" in section, name


def test_every_key_of_a_job_file_is_an_option():
    options = [option for option in ALL_OPTIONS if option.flag]
    assert set(job_files.KEYS) >= {key for option in options for key in file_keys(option)[:1]}
