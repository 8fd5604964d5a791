"""Our scripts are served without what only readers of the files need, and do the same."""

from __future__ import annotations

import pytest

from tiresias.api import shortened
from tiresias.api.pages import WEB


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("// what it is for\nconst a = 1; // rows\n", "const a=1;\n"),
        ("const a = 1\n/* more */ const b = 2\n", "const a=1\nconst b=2\n"),
        ("return a\n  + b\n", "return a\n+b\n"),
        ("f(\n  a,\n  b,\n);\n", "f(a,b,);\n"),
        ("a + +b; a - -b; a + b\n", "a+ +b;a- -b;a+b\n"),
        ("if (a) { b(); }\n", "if(a){b()}\n"),
        ('const a = "two  // spaces"; x\n', 'const a="two  // spaces";x\n'),
        ("const a = 'it\\'s  // one'\n", "const a='it\\'s  // one'\n"),
        ('a.replace(/[/ \\]]  "/g, b)\n', 'a.replace(/[/ \\]]  "/g,b)\n'),
        ("return / a /.test(b)\n", "return/ a /.test(b)\n"),
        ("a / b / c\n", "a/b/c\n"),
        ("`a  ${ b +  `c  ${ d }` }  e`\n", "`a  ${b+`c  ${d}`}  e`\n"),
        ("`a\n    b`\n", "`a\n    b`\n"),
        ("html`<p>\n    ${ { a: 1 }.a }  b\n  </p>`\n", "html`<p>\n${{a:1}.a}  b\n<//>`\n"),
        (
            'html`<a title="it\'s">// ${`</b>${x}\n  y`}</a>`\n',
            'html`<a title="it\'s">// ${`</b>${x}\n  y`}<//>`\n',
        ),
    ],
)
def test_spaces_and_comments_go_and_everything_else_stays(text: str, expected: str) -> None:
    assert shortened.script(text) == expected


def test_a_shortened_script_is_not_shortened_any_further() -> None:
    for path in WEB.glob("*.js"):
        once = shortened.script(path.read_text("utf-8"))
        assert shortened.script(once) == once, path.name


def test_style_loses_comments_and_spaces() -> None:
    assert (
        shortened.style("/* calm */\n.a > b { color: red;\n  margin: 0 2px; }\n")
        == ".a > b{color:red;margin:0 2px}\n"
    )
