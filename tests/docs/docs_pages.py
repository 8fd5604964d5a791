"""Markdown pages as the tests see them: fenced blocks, headings, links."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^```(.*)$")
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
IMAGE = re.compile(r"!\[[^\]]*\]\(([^)\s]+)\)")


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block; `line` is that of its first line of text, counted from 1."""

    page: Path
    line: int
    info: str
    text: str

    @property
    def language(self) -> str:
        return self.info.split(" ")[0]

    @property
    def file(self) -> str | None:
        """The name of the file whose text this is, as in `python file train.py`."""
        words = self.info.split(" ")
        return words[2] if words[1:2] == ["file"] else None

    @property
    def place(self) -> str:
        return f"{name_of(self.page)}:{self.line}"


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix() if page.is_relative_to(ROOT) else page.name


def pages() -> list[Path]:
    """README.md (if there is one), the other pages at the top, and everything below docs/."""
    top = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")]
    return [page for page in top if page.exists()] + sorted((ROOT / "docs").rglob("*.md"))


def blocks(page: Path) -> Iterator[Block]:
    info, begin, lines = None, 0, []
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), start=1):
        fence = FENCE.match(line)
        if fence is None:
            lines.append(line)
        elif info is None:
            info, begin, lines = fence[1].strip(), number + 1, []
        else:
            yield Block(page, begin, info, "\n".join(lines))
            info = None
    assert info is None, f"{name_of(page)}:{begin}: a block without an end"


def prose(page: Path) -> str:
    """The page without its fenced blocks and inline code."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", lambda code: code[0].replace("[", "").replace("]", ""), text)


def links(page: Path) -> list[str]:
    """The targets of links and images that are not elsewhere on the web."""
    text = prose(page)
    found = LINK.findall(text) + IMAGE.findall(text)
    return [target for target in found if not re.match(r"[a-z]+:", target)]


def anchors(page: Path) -> set[str]:
    """The names that a heading can be linked by, as code hosts make them."""
    headings = re.findall(r"^#+ (.+)$", prose(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def tables(text: str) -> Iterator[list[str]]:
    """The rows of every table in a text, cell by cell, without heads and rules."""
    rows = text.splitlines()
    for number, line in enumerate(rows):
        is_head = number + 1 < len(rows) and re.match(r"\|\s*:?-", rows[number + 1])
        if line.startswith("|") and not is_head and not re.match(r"\|\s*:?-", line):
            yield [cell.strip() for cell in line.strip().strip("|").split("|")]


def sections(page: Path, level: int) -> dict[str, str]:
    """The text under each heading of that level, up to the next of the same or a higher one."""
    text = page.read_text(encoding="utf-8")
    parts = re.split(rf"^(#{{1,{level}}}) (.+)$", text, flags=re.MULTILINE)
    found = zip(parts[1::3], parts[2::3], parts[3::3], strict=True)
    return {heading: body for marks, heading, body in found if len(marks) == level}
