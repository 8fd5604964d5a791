"""What routes answer, for the OpenAPI document only.

Endpoints write their answers themselves (answers.py), so nothing needs the shape of an answer but the
document, which is seldom asked for. To work out the shapes of all answers took a tenth of a start.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.routing import BaseRoute

SCHEMAS = "#/components/schemas/{model}"


class Described(APIRoute):
    """A route that states what it answers; `response_model` has no other effect."""

    def __init__(self, path: str, endpoint: Any, *, response_model: Any = None, **given: Any):
        super().__init__(path, endpoint, response_model=None, **given)
        self.answers_with = response_model


class DescribedApi(FastAPI):
    """The application. Its document has what the routes in `described` answer, and that errors look like
    `error`."""

    def __init__(self, error: type, **given: Any):
        super().__init__(**given)
        self.described: list[BaseRoute] = []
        self._error = error
        self._document: dict[str, Any] = {}

    def openapi(self) -> dict[str, Any]:
        if not self._document:
            document = super().openapi()
            _describe(document, [each for each in self.described if isinstance(each, Described)], self._error)
            self._document = document
        return self._document


def _describe(document: dict[str, Any], routes: Sequence[Described], error: type) -> None:
    shapes = {repr(shape): shape for shape in (error, *(route.answers_with for route in routes)) if shape}
    adapters = [(name, "serialization", TypeAdapter(shape)) for name, shape in shapes.items()]
    schemas, definitions = TypeAdapter.json_schemas(adapters, ref_template=SCHEMAS)  # type: ignore[arg-type]
    known = document.setdefault("components", {}).setdefault("schemas", {})
    for name, schema in definitions["$defs"].items():
        assert known.setdefault(name, schema) == schema, ("two shapes of one name", name)

    def json(shape: Any) -> dict[str, Any]:
        return {"application/json": {"schema": schemas[repr(shape), "serialization"]}}

    for route in routes:
        for method in route.methods or ():
            for code, answer in document["paths"][route.path][method.lower()]["responses"].items():
                if int(code) >= 400 and "content" not in answer:
                    answer["content"] = json(error)
                elif route.answers_with and code == str(route.status_code or 200):
                    answer["content"] = json(route.answers_with)
