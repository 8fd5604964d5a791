"""Answers with long lists, made and written in slices: between two of them all else has its turn.

A list of ten thousand jobs or nodes takes a tenth of a second, in which the manager would decide nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

from fastapi import Response

from tiresias.api.answers import as_json

T = TypeVar("T")


async def answer_in_slices(
    slices: Iterable[Sequence[T]],
    whole: Callable[[list[T]], Any],
    until: Callable[[], Awaitable[object]] | None = None,
) -> Response:
    """The answer `whole([...])` with the elements of all slices. The list is its first field.

    `until` is waited for before each further slice.
    """
    texts: list[bytes] = []
    for some in slices:
        text = as_json(whole(list(some)))
        if inner := text[text.index(b"[") + 1 : text.rindex(b"]")]:
            texts.append(inner)
        await asyncio.sleep(0)
        if until is not None:
            await until()
    before, after = as_json(whole([])).split(b"[]", 1)
    return Response(before + b"[" + b",".join(texts) + b"]" + after, media_type="application/json")
