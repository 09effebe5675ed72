"""Rendering: golden pages at two widths, in a pipe and as Markdown, in both languages."""

from __future__ import annotations

import difflib
import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srcmap.model import Lines
from srcmap.render import as_markdown, as_text
from srcmap.render.console import Console, console_for, emit
from srcmap.render.layout import cells, columns, visible, wrap
from srcmap.render.links import permalink
from tests import pages
from tests.pages import PAGES

GOLDEN = Path(__file__).parent / "golden"
LANGUAGES = ("en", "zh")


def compare(name: str, actual: str) -> None:
    """Compare with the golden file; on a difference, leave what came out beside it."""
    path = GOLDEN / name
    expected = path.read_text(encoding="utf-8") if path.is_file() else ""
    rejected = path.with_name(f"{name}.actual")
    if actual + "\n" == expected:
        rejected.unlink(missing_ok=True)
        return
    rejected.write_text(actual + "\n", encoding="utf-8")
    lines = difflib.unified_diff(expected.splitlines(), actual.splitlines(), name, "actual", "")
    pytest.fail("\n".join([*lines, f"accept: mv {rejected} {path}"]), pytrace=False)


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("width", [80, 140, None])
@pytest.mark.parametrize("page", PAGES)
def test_text_is_as_agreed(page: str, width: int | None, lang: str) -> None:
    console = Console(lang=lang, width=width)
    name = f"{page}.{lang}.{width or 'pipe'}.txt"
    compare(name, getattr(as_text, page)(PAGES[page](lang), console))


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("page", PAGES)
def test_markdown_is_as_agreed(page: str, lang: str) -> None:
    console = Console(lang=lang)
    compare(f"{page}.{lang}.md", getattr(as_markdown, page)(PAGES[page](lang), console))


@pytest.mark.parametrize("lang", LANGUAGES)
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [50, 80, 100, 140])
def test_only_locations_and_code_are_wider_than_the_terminal(
    page: str, lang: str, width: int
) -> None:
    text = getattr(as_text, page)(PAGES[page](lang), Console(lang=lang, width=width))
    for line in text.splitlines():
        code = re.match(r" +\d+ .*[|(]", line)
        whole = "examples/" in line or "kernels/" in line or code
        assert cells(line) <= width or whole, line


@pytest.mark.parametrize("page", PAGES)
def test_no_line_ends_in_a_space(page: str) -> None:
    for width in (50, 80, 140, None):
        text = getattr(as_text, page)(PAGES[page]("en"), Console(width=width))
        assert not re.search(r" $", text, re.MULTILINE)


def test_in_a_pipe_a_location_is_on_the_line_of_its_concept() -> None:
    text = as_text.variant(pages.variant("en"), Console())
    line = next(line for line in text.splitlines() if ":125-126" in line)
    assert "sink-epilogue" in line
    assert line.endswith("gives none.")


def test_source_text_cannot_write_to_the_terminal() -> None:
    text = as_text.show(pages.show("en"), Console(width=80))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "[bold]not markup[/bold] ␛[31mnot red" in text


def test_colours_and_links_take_no_room() -> None:
    plain = as_text.variant(pages.variant("en"), Console(width=80))
    rich = as_text.variant(pages.variant("en"), Console(width=80, colour=True, links=True))
    assert "\x1b]8;;https://github.com/" in rich
    bare = re.sub(r"\x1b\[[0-9;]*m|\x1b\]8;[^\x1b]*\x1b\\", "", rich)
    assert bare == plain


def test_markdown_links_only_where_a_commit_is_known() -> None:
    text = as_markdown.show(pages.show("en"), Console())
    assert text.count("](https://github.com/") == 1


# -- layout ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("注意力", 6), ("é", 1), ("e\u0301", 1), ("\x1b[1mab\x1b[0m", 2), ("ｆ", 2)],
)
def test_cells(text: str, width: int) -> None:
    assert cells(text) == width


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("one two three", 7, ["one two", "three"]),
        ("注意力汇，只进分母", 8, ["注意力", "汇，只进", "分母"]),
        ("a path/that/is/long b", 6, ["a", "path/that/is/long", "b"]),
        ("", 5, [""]),
        ("用用（括号）", 6, ["用用", "（括", "号）"]),
    ],
)
def test_wrap(text: str, width: int, lines: list[str]) -> None:
    assert wrap(text, width) == lines


@given(st.text(alphabet="ab 注意，。（）", max_size=60), st.integers(4, 30))
def test_wrapping_loses_nothing_but_spaces(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert all(line == line.strip() or line == lines[0] for line in lines)


def test_columns_align_wide_characters() -> None:
    lines = columns([("汇", "x"), ("ab", "y"), ("abc", "z")], 40)
    assert lines == ["  汇   x", "  ab   y", "  abc  z"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb", "a   b"),
        ("\x1b[31m", "␛[31m"),
        ("a\r\n", "a"),
        ("x\x00\x7f", "x␀␡"),
        ("a\u2028b\u202e", "a\ufffdb\ufffd"),
    ],
)
def test_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


# -- links -----------------------------------------------------------------------------------

COMMIT = "a" * 40


@pytest.mark.parametrize(
    ("url", "path", "lines", "link"),
    [
        ("https://github.com/o/r", "a.py", Lines(3, 3), f"blob/{COMMIT}/a.py#L3"),
        ("https://github.com/o/r.git", "a.py", Lines(3, 9), f"blob/{COMMIT}/a.py#L3-L9"),
        ("https://github.com/o/r", "a b.md", Lines(1, 2), f"blob/{COMMIT}/a%20b.md?plain=1#L1-L2"),
        ("https://github.com/o/r", "文.md", None, f"blob/{COMMIT}/%E6%96%87.md"),
        ("https://gitlab.com/o/r/", "a.py", Lines(3, 9), f"-/blob/{COMMIT}/a.py#L3-9"),
    ],
)
def test_permalinks(url: str, path: str, lines: Lines | None, link: str) -> None:
    root = url.removesuffix("/").removesuffix(".git")
    assert permalink(url, COMMIT, path, lines) == f"{root}/{link}"


@pytest.mark.parametrize(
    ("url", "commit"),
    [("https://github.com/o/r", None), ("https://example.org/o/r", COMMIT), ("/srv/r", COMMIT)],
)
def test_without_a_commit_or_a_known_host_there_is_no_link(url: str, commit: str | None) -> None:
    assert permalink(url, commit, "a.py", Lines(1, 1)) is None


# -- console ---------------------------------------------------------------------------------


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("terminal", "environ", "colour", "links"),
    [
        (True, {"TERM": "xterm"}, True, False),
        (True, {"TERM": "xterm-kitty"}, True, True),
        (True, {"TERM": "xterm", "VTE_VERSION": "7200"}, True, True),
        (True, {"TERM": "xterm", "VTE_VERSION": "4000"}, True, False),
        (True, {"TERM": "xterm-kitty", "NO_COLOR": "1"}, False, True),
        (True, {"TERM": "dumb", "TERM_PROGRAM": "vscode"}, False, False),
        (False, {"TERM": "xterm-kitty"}, False, False),
        (False, {"FORCE_COLOR": "1", "FORCE_HYPERLINK": "1"}, True, True),
        (False, {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
)
def test_what_a_console_can_do(
    terminal: bool, environ: dict[str, str], colour: bool, links: bool
) -> None:
    stream = Terminal() if terminal else io.StringIO()
    console = console_for(stream, "en", environ)
    assert (console.colour, console.links) == (colour, links)


@pytest.mark.parametrize(
    ("terminal", "columns_value", "width"),
    [(False, "", None), (False, "100", 100), (True, "60", 60), (True, "x", 80), (True, "0", 80)],
)
def test_width(terminal: bool, columns_value: str, width: int | None) -> None:
    stream = Terminal() if terminal else io.StringIO()
    assert console_for(stream, "en", {"COLUMNS": columns_value}).width == width


def test_emit_ends_the_last_line() -> None:
    stream = io.StringIO()
    emit("a", stream)
    emit("b\n", stream)
    assert stream.getvalue() == "a\nb\n"
