"""Digests of lines: exact ones, and those that reformatting does not change."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srcmap.digest import CodeText, lines_digest
from srcmap.model import Lines


def code(text: str, language: str = "python") -> str:
    lines = text.split("\n")
    return CodeText(lines, language).digest(Lines(1, len(lines)))  # type: ignore[arg-type]


def test_lines_are_joined_with_lf_and_have_no_last_one() -> None:
    expected = hashlib.sha256("b\ncé".encode()).hexdigest()
    assert lines_digest(["a", "b", "cé", "d"], Lines(2, 3)) == expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("f(a, b)", "f(\n    a,\n    b,\n)", id="black"),
        pytest.param("x = 1", "x = 1  # why", id="comment"),
        pytest.param("x = 1", "# why\n\nx  =  1", id="layout"),
        pytest.param("x = 'a'", 'x = "a"', id="quotes"),
        pytest.param("x = F'a'", 'x = f"a"', id="prefix"),
        pytest.param("a = b + \\\n  c", "a = b + c", id="continuation"),
    ],
)
def test_layout_does_not_count(one: str, other: str) -> None:
    assert code(one) == code(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("x = 1", "x = 2", id="literal"),
        pytest.param("x >= y", "x > y", id="operator"),
        pytest.param("x = '# a'", "x = '# b'", id="hash in a string"),
        pytest.param("f(ab)", "f(a, b)", id="words"),
        pytest.param("(a,)", "(a, b)", id="tuple"),
        pytest.param("# old rule", "# new rule", id="comments alone"),
    ],
)
def test_meaning_counts(one: str, other: str) -> None:
    assert code(one) != code(other)


def test_lines_inside_a_docstring_are_its_words() -> None:
    one = CodeText(['"""Head.', "", "  Note:  one   two", '"""'], "python")
    other = CodeText(['"""Other.', "Note: one two", "more", '"""'], "python")
    assert one.digest(Lines(3, 3)) == other.digest(Lines(2, 2))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("int a = b; // c", "/* d\n e */ int  a=b;"),
        ('f("//");', 'f( "//" ) ;'),
    ],
)
def test_cpp_comments_do_not_count(one: str, other: str) -> None:
    assert code(one, "cpp") == code(other, "cpp")


def test_markdown_is_its_words() -> None:
    assert code("a  b\nc", "markdown") == code("a b c", "markdown")
    assert code("# a", "markdown") != code("## a", "markdown")


@given(st.text(max_size=200), st.sampled_from(["python", "cpp", "markdown"]))
def test_no_text_is_refused(text: str, language: str) -> None:
    lines = text.split("\n")
    source = CodeText(lines, language)  # type: ignore[arg-type]
    for number in range(1, len(lines) + 1):
        source.digest(Lines(number, len(lines)))


def form(text: str) -> str:
    lines = text.split("\n")
    return CodeText(lines, "python").form(Lines(1, len(lines)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("m[i] = T.max(m[i], p[i])", "top[r] = T.max(top[r], old[r])"),
        ("for i in T.Parallel(a):\n    x[i] = 0", "for j in TL.Parallel(b):  # why\n    y[j] = 0"),
    ],
)
def test_names_do_not_count_in_a_form(one: str, other: str) -> None:
    assert form(one) == form(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param("m[i] = T.max(m[i], p[i])", "m[i] = T.min(m[i], p[i])", id="call"),
        pytest.param("m[i] = p[i]", "m[i] = m[i]", id="same twice"),
        pytest.param("f(a, clear=True)", "f(a, init=True)", id="keyword"),
        pytest.param("x = a.start", "x = a.stop", id="attribute"),
        pytest.param("x = 1", "x = 2", id="number"),
    ],
)
def test_everything_else_counts_in_a_form(one: str, other: str) -> None:
    assert form(one) != form(other)
