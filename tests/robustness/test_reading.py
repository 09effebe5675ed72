"""Files as they are found in the wild: read what can be read, say what could not, never fall over.

Each hostile file holds one good kernel, so that "the rest goes on" can be seen.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from srcmap.anatomy import read_source
from srcmap.errors import ParseError
from srcmap.parse import rewrite
from srcmap.parse.rewrite import Rewritten
from tests.metamorphic.compare import differences
from tests.metamorphic.kernels import PREFILL, unmarked

if TYPE_CHECKING:
    from srcmap.model import FileAnatomy

GOOD = unmarked(PREFILL)
DEEP = 3000


def _good() -> FileAnatomy:
    return read_source(GOOD.encode(), "good.py")


def _below(head: str) -> Rewritten:
    """The good kernel under a head of other text; the map counts `\\n` only, as git does."""
    return rewrite.insert_lines(GOOD, {1: head.split("\n")})


def _above(tail: str) -> Rewritten:
    done = rewrite.unchanged(GOOD)
    return Rewritten(done.source + tail, done.lines)


SAME = {
    "crlf": GOOD.replace("\n", "\r\n").encode(),
    "byte order mark": b"\xef\xbb\xbf" + GOOD.encode(),
    "no last newline": GOOD.rstrip("\n").encode(),
    "latin-1 in a comment": GOOD.replace("keys that", "cl\xe9s that").encode("latin-1"),
    "gbk with a coding line": GOOD.replace("import math", "# -*- coding: gbk -*-", 1)
    .replace("keys that", "键 that")
    .encode("gbk"),
    "nul in a comment": GOOD.replace("keys that", "keys\0that").encode(),
    "form feed in a comment": GOOD.replace("keys that", "keys\fthat").encode(),
    "line separator in a comment": GOOD.replace("keys that", "keys\u2028\u2029\x85that").encode(),
    "carriage return alone in a string": GOOD.replace("not a kernel", "not\ra kernel").encode(),
    "trailing control-z": GOOD.encode() + b"\x1a",
}


@pytest.mark.parametrize("name", SAME)
def test_odd_bytes_change_nothing(name: str) -> None:
    after = read_source(SAME[name], "odd.py")
    assert differences(_good(), after, rewrite.unchanged(GOOD)) == []


HEADS = {
    "form feeds": "\f\nx = 1\n\f",
    "line separators in strings": 'x = "a\u2028b\u2029c\x85d\x0b\x1c"\ny = """\u2028\n\u2028"""',
    "carriage returns alone in a comment": "# one\rx = 1\r\ny = 2",
}
TAILS = {
    "python 2": '\ndef old():\n    print "hello"\n    exec "x" in {}\n',
    "python 2 at the top level": '\nprint "hello"\nraise ValueError, "x"\n',
    "unclosed bracket": "\ndef later():\n    return f(1,\n",
    "unclosed string": '\ndef later():\n    return """x\n',
    "wrong indentation": "\ndef later():\n    x = 1\n  y = 2\n",
    "merge conflict": "\n<<<<<<< ours\nx = 1\n=======\nx = 2\n>>>>>>> theirs\n",
    "syntax of the future": "\ndef later(d):\n    whenever d: yield from with\n",
    "deep brackets": f"\nx = {'(' * DEEP}1{')' * DEEP}\n",
    "deep signs": f"\nx = {'-' * DEEP}1\n",
    "deep attributes": f"\nx = a{'.b' * DEEP}\n",
    "deep calls": f"\nx = {'f(' * 90}1{')' * 90}\n",
    "long sum": f"\nx = {' + '.join(['1'] * DEEP)}\n",
    "long comparison": f"\nx = {' and '.join(['a < b'] * DEEP)}\n",
    "deep blocks": "\n" + "".join(f"{' ' * n}if x:\n" for n in range(95)) + " " * 95 + "y\n",
    "long elif chain": "\nif x: y\n" + "".join(f"elif x == {n}: y\n" for n in range(2000)),
    "huge list": f"\nx = [{', '.join(['1'] * 100_000)}]\n",
    "huge integer": f"\nx = {'9' * 10_000}\n",
    "nul bytes": "\nx = 1\0\0\0\ny = 2\n",
}


@pytest.mark.parametrize("name", HEADS)
def test_odd_lines_above_are_counted_as_git_counts(name: str) -> None:
    done = _below(HEADS[name])
    after = read_source(done.source.encode(), "odd.py")
    assert differences(_good(), after, done) == []


@pytest.mark.parametrize("name", TAILS)
def test_what_is_broken_costs_itself_only(name: str) -> None:
    done = _above(TAILS[name])
    after = read_source(done.source.encode(), "odd.py")
    assert differences(_good(), after, done) == []
    assert all(len(str(note.args)) < 300 for note in after.problems)


@pytest.mark.parametrize(
    "name",
    [
        *["python 2", "python 2 at the top level", "unclosed bracket", "unclosed string"],
        *["wrong indentation", "merge conflict", "syntax of the future", "deep brackets"],
    ],
)
def test_what_is_broken_is_said_with_its_line(name: str) -> None:
    after = read_source(_above(TAILS[name]).source.encode(), "odd.py")
    lines = [int(note.args["line"]) for note in after.problems]
    assert lines
    assert min(lines) > GOOD.count("\n")


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("broken.py", b"def f(:\n"),
        ("broken.py", b"\x00\x01\x02\xff" * 100),
        ("broken.py", b"\x7fELF" + bytes(range(256)) * 50),
        ("broken.py", b"(" * 100_000),
        ("broken.py", b"x = " + b"-" * 200_000 + b"1\n"),
        ("broken.py", ("if x:\n" + " " * 4).encode() * 300),
        ("utf16.py", GOOD.encode("utf-16")),
        ("broken.cc", b"\x00\xff" * 1000),
        ("broken.h", b"{" * 50_000),
        ("broken.md", b"\xff\xfe" * 1000),
        ("broken.md", b"> " * 20_000),
    ],
    ids=lambda value: value[:12].hex() if isinstance(value, bytes) else value,
)
def test_what_cannot_be_read_is_told_shortly(path: str, data: bytes) -> None:
    said, kernels = _outcome(data, path)
    assert all(len(text) < 300 and "\n" not in text for text in said)
    assert kernels == []


def _outcome(data: bytes, path: str) -> tuple[list[str], list[str]]:
    """What is said about a file, and which attention kernels are seen in it."""
    try:
        reading = read_source(data, path)
    except ParseError as error:
        named = path in error.message
        return [error.message if named else f"{path} is not named\n"], []
    kernels = [k.qualname for k in reading.kernels if k.kind == "attention"]
    return [" ".join(note.args.values()) for note in reading.problems], kernels


@pytest.mark.parametrize(
    "data", [b"", b"\n", b"# only a comment\n", b"\xef\xbb\xbf", b'"""Doc."""']
)
def test_nothing_to_read_is_no_error(data: bytes) -> None:
    reading = read_source(data, "empty.py")
    assert reading.kernels == ()
    assert reading.problems == ()


def _header() -> bytes:
    rows = "".join(f'  {{0x{n:08x}, {n}, "name_{n}"}},\n' for n in range(30_000))
    text = f"#pragma once\nstatic const struct row rows[] = {{\n{rows}}};\n"
    assert len(text) > 1_000_000
    return text.encode()


def _script() -> bytes:
    rows = "".join(f"    'name_{n}': [{n}, 0x{n:x}, None],\n" for n in range(30_000))
    return f"{GOOD}\ntable = {{\n{rows}}}\n".encode()


@pytest.mark.parametrize(("path", "data"), [("big.h", _header()), ("big.py", _script())])
def test_a_megabyte_takes_seconds_at_most(path: str, data: bytes) -> None:
    begun = time.monotonic()
    reading = read_source(data, path)
    assert time.monotonic() - begun < 10
    assert reading.problems == ()
