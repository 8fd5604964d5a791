"""The pages about the API and its client say what is there, and nothing that is not."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator

import pytest
from docs_pages import ROOT, sections, tables
from fastapi import APIRouter
from fastapi.routing import APIRoute

from tiresias.api import app, errors, metrics, system
from tiresias.api.callers import get_admin, get_caller
from tiresias.api.client import Client

HTTP = ROOT / "docs/reference/http-api.md"
CLIENT = ROOT / "docs/reference/python-client.md"


def routers() -> Iterator[APIRouter]:
    yield system.probes
    for module in app.MODULES:
        yield module.router


def routes() -> list[APIRoute]:
    return [route for router in routers() for route in router.routes if isinstance(route, APIRoute)]


def who_may(route: APIRoute) -> str:
    """As far as the route itself says; whose job it is, the manager knows."""

    def asked(dependant) -> set:
        return {dependant.call} | {call for each in dependant.dependencies for call in asked(each)}

    calls = asked(route.dependant)
    return "admin" if get_admin in calls else "user" if get_caller in calls else "anybody"


def test_every_route_is_in_the_table_and_no_other():
    rows = [cells for cells in tables(sections(HTTP, 2)["Routes"]) if len(cells) == 4]
    told = [(cells[0].strip("`"), cells[1].strip("`")) for cells in rows]
    there = [(method, route.path) for route in routes() for method in route.methods]
    assert sorted(told) == sorted([*there, ("GET", "/openapi.json")])


def test_the_table_says_who_may_ask():
    rows = {(cells[0], cells[1]): cells[2] for cells in tables(sections(HTTP, 2)["Routes"])}
    for route in routes():
        [method] = route.methods
        told = rows[f"`{method}`", f"`{route.path}`"].replace("owner", "user")
        assert told == who_may(route), route.path


def test_every_code_of_an_error_is_explained():
    rows = [cells for cells in tables(sections(HTTP, 2)["Errors"]) if len(cells) == 3]
    told = {(int(status), cells[1].strip("`")) for cells in rows for status in cells[0].split(",")}
    raised = {(status, kind.code) for kind, status in errors.STATUSES.items()}
    assert raised <= told
    assert told - raised == {
        (400, "invalid"),
        (405, "invalid"),
        (413, "invalid"),
        (421, "invalid"),
        (500, "internal"),
    }


def test_every_figure_is_explained():
    told = {cells[0].strip("`") for cells in tables(sections(HTTP, 2)["Figures"])}
    source = inspect.getsource(metrics)
    named = set(re.findall(r'"(tiresias_\w+)"', source))
    assert {name.removesuffix("_total") for name in told} == named


def test_every_method_of_the_client_is_explained_with_its_parameters():
    text = sections(CLIENT, 2)["Methods"]
    told = dict(re.findall(r"`(\w+)\(([^`]*)\)`", text))
    public = {
        name: inspect.signature(member)
        for name, member in vars(Client).items()
        if not name.startswith("_") and callable(member)
    }
    assert set(told) == set(public)
    for name, signature in public.items():
        shown = [
            str(each.replace(annotation=inspect.Parameter.empty)).replace("'", '"')
            for each in list(signature.parameters.values())[1:]
        ]
        assert told[name] == ", ".join(shown), name


@pytest.mark.parametrize("parameter", list(inspect.signature(Client).parameters.values()), ids=str)
def test_the_parameters_of_a_client_are_explained(parameter):
    line = next(line for line in CLIENT.read_text().splitlines() if line.startswith("`Client("))
    assert f"{parameter.name}={parameter.default}" in line
