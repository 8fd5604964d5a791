"""Our scripts and our style as they are served: without what only people who read the files need.

Rules: what a file does stays the same. Comments and spaces go, names stay, and so do strings, regular
expressions and the text of templates, but for the indentation of markup and the names of closed elements,
which mean nothing. A line break stays wherever it might end a statement.
"""

from __future__ import annotations

import re

SPACE = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
WORD = re.compile(r"[\w$]+")
STRING = re.compile(r""""(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""")
REGEX = re.compile(r"/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/\w*")
TEXT = re.compile(r"(?:[^`\\$]|\\.|\$(?!\{))+", re.DOTALL)
INDENTATION = re.compile(r"\s*\n\s*")
CLOSING = re.compile(r"</\w+>")  # htm does not read the name: `<//>` closes the latest element
CANNOT_END = "{([,;=&|?:<!"  # no statement ends here
CANNOT_BEGIN = ")]},;:?&|=."  # and none begins here
BEFORE_REGEX = re.compile(r"(?:^|[(,=>:\[!&|?{};\n]|\breturn)$")
MARKUP = "html"


def script(text: str) -> str:
    """A script of ours; its templates may have others inside."""
    found: list[str] = ["\n"]
    open_templates: list[tuple[int, bool]] = []  # braces that were open outside of it; whether it is markup
    braces, at = 0, 0
    while at < len(text):
        char, last = text[at], found[-1][-1:]
        if space := SPACE.match(text, at):
            at = space.end()
            found.append(_between(last, text[at : at + 1], is_line="\n" in space[0]))
        elif (string := STRING.match(text, at)) or (word := WORD.match(text, at)):
            match = string or word
            assert match is not None
            found.append(match[0])
            at = match.end()
        elif char == "/" and BEFORE_REGEX.search(found[-1]) and (regex := REGEX.match(text, at)):
            found.append(regex[0])
            at = regex.end()
        elif char == "`" or (char == "}" and open_templates and open_templates[-1][0] == braces):
            if char == "`":
                open_templates.append((braces, found[-1] == MARKUP))
            found.append(char)
            at = _template(text, at + 1, found, is_markup=open_templates[-1][1])
            if found[-1] == "`":
                open_templates.pop()
        else:
            braces += (char == "{") - (char == "}")
            if char == "}" and last == ";":
                found[-1] = found[-1][:-1]
            found.append(char)
            at += 1
        if found[-1] == "":
            found.pop()
    return "".join(found).strip() + "\n"


def _template(text: str, at: int, found: list[str], *, is_markup: bool) -> int:
    """Copy the text of a template up to its end or to a `${`; returns where the script goes on."""
    if copied := TEXT.match(text, at):
        found.append(CLOSING.sub("<//>", INDENTATION.sub("\n", copied[0])) if is_markup else copied[0])
        at = copied.end()
    end = "`" if text[at] == "`" else "${"
    found.append(end)
    return at + len(end)


def _between(last: str, following: str, *, is_line: bool) -> str:
    """What is left of the space between these characters."""
    if is_line:
        needless = not last or last in CANNOT_END or following in CANNOT_BEGIN
        return "" if needless else "\n"
    both_words = WORD.fullmatch(last) and WORD.fullmatch(following)
    return " " if both_words or (last in "+-" and last == following) else ""


def style(text: str) -> str:
    """Our style without comments and without spaces that mean nothing."""
    bare = re.sub(r"\s+", " ", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL))
    return re.sub(r";}", "}", re.sub(r"\s*([{};,])\s*", r"\1", re.sub(r":\s+", ":", bare))).strip() + "\n"
