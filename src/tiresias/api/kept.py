"""Answers that are given again for a moment, so that many pages which ask the same cost as much as one."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

FRESH_S = 2.0  # for so long an answer is given again
KEPT = 16  # answers


class Kept:
    """The last answers, by what was asked."""

    def __init__(self, now: Callable[[], float] = time.monotonic):
        self._now = now
        self._found: dict[tuple[Any, ...], tuple[float, bytes]] = {}

    def find(self, key: tuple[Any, ...]) -> bytes | None:
        at, body = self._found.get(key, (-1e9, b""))
        return body if self._now() - at < FRESH_S else None

    def keep(self, key: tuple[Any, ...], body: bytes) -> None:
        self._found.pop(key, None)
        self._found[key] = self._now(), body
        while len(self._found) > KEPT:
            del self._found[next(iter(self._found))]
