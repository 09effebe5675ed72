"""What must hold for any bytes: nothing crashes, spans are of the document, fixes touch digits."""

from __future__ import annotations  # noqa: I001

from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srcmap.cite.fix import apply, changes, patch, proven
from srcmap.cite.inject import Marker, injected
from srcmap.errors import UsageError
from tests.cite.test_corpus import CORPUS, auditor
from tests.cite.world import build

if TYPE_CHECKING:
    from srcmap.cite.audit import Auditor

NAMES = ("a.md", "a.rst", "a.tex", "a.txt", "a.ipynb", "a.py")
MANY = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True
)


@cache
def project() -> Path:
    return build(Path(mkdtemp(prefix="srcmap-cite-")))


@cache
def judge() -> Auditor:
    return auditor(project())


PARTS = st.sampled_from(
    [
        "examples/attn/fwd.py", ":7", ":20-24", "-", "–", "#L7", "#L29-L32", " 第 7 行", " lines 7, 9",  # noqa: E501
        "`", "```", "\n", "\r\n", "\n\n", " ", "（", "）", "同文件 ", "same file ", "|", "> ", "    ", "# ",  # noqa: E501
        "see also ", "_vendor/tiny-v2/", "tiny@v1:", "https://github.com/example/tiny/blob/v2/",
        "docs/Tiny Guide.md", " section 2.1", "编程手册 2.1 节", "](", "[x", ")", "<!--", "-->",
        ".. literalinclude:: ", "   :lines: 3-5,7", "::\n\n", "\\texttt{", "}", "\\_", "%", "\\begin{verbatim}",  # noqa: E501
        "\\end{verbatim}", '"', "'''", '"""', "{", "}", "[", "]", '"cells": [', '"source": [', ",",
        "\ufeff", "−", "…", "因果 mask", "the causal mask ", "99999999999999999999", "0", ":0", ":9-3", "\x00",  # noqa: E501
    ]
)  # fmt: skip
TEXT = st.lists(st.one_of(PARTS, st.text(max_size=6)), max_size=30).map("".join)
DATA = st.one_of(
    TEXT.map(lambda t: t.encode("utf-8", "replace")),
    TEXT.map(lambda t: t.encode("gb18030", "replace")),
    TEXT.map(lambda t: b"\xff\xfe" + t.encode("utf-16-le", "replace")),
    st.tuples(TEXT, st.binary(max_size=12), TEXT).map(
        lambda t: t[0].encode("utf-8", "replace") + t[1] + t[2].encode("utf-8", "replace")
    ),
    st.binary(max_size=80),
)


def holds(data: bytes, name: str) -> None:
    """Judge a document and look at all that must be true of the outcome."""
    judged = list(judge().judged(data, name, project() / name))
    found = []
    for one in judged:
        first, last = one.citation.span
        assert 0 <= first < last <= len(data)
        for start, end in one.citation.digits:
            assert 0 <= start < end <= len(data)
        right = proven(one)
        if right is not None:
            found += changes(one, right.lines, None, data)
    after = apply(data, found)
    assert outside(data, found) == outside_after(data, after, found)
    patch(name, data, after)


def outside(data: bytes, found: list) -> bytes:  # type: ignore[type-arg]
    """Return all bytes but those of the digits that change."""
    parts, at = [], 0
    for change in sorted(set(found)):
        if change.first >= at:
            parts.append(data[at : change.first])
            at = change.last
    return b"\1".join([*parts, data[at:]])


def outside_after(data: bytes, after: bytes, found: list) -> bytes:  # type: ignore[type-arg]
    parts, at, shift = [], 0, 0
    taken = 0
    for change in sorted(set(found)):
        if change.first < taken:
            continue
        start = change.first + shift
        parts.append(after[at:start])
        at = start + len(change.new)
        shift += len(change.new) - (change.last - change.first)
        taken = change.last
    return b"\1".join([*parts, after[at:]])


@pytest.mark.parametrize("name", NAMES)
@MANY
@given(data=DATA)
def test_no_bytes_crash_it(name: str, data: bytes) -> None:
    holds(data, name)


@MANY
@given(
    document=st.sampled_from(sorted(p for p in CORPUS.iterdir() if p.suffix != ".tsv")),
    at=st.integers(0, 4000),
    cut=st.integers(0, 40),
    new=st.binary(max_size=8),
)
def test_damaged_documents_are_read_all_the_same(
    document: Path, at: int, cut: int, new: bytes
) -> None:
    data = document.read_bytes()
    holds(data[:at] + new + data[at + cut :], document.name)


@pytest.mark.parametrize("name", ["a.md", "a.rst", "a.tex", "a.html"])
@MANY
@given(before=DATA, after=DATA, old=TEXT)
def test_inject_changes_nothing_outside_its_markers(
    name: str, before: bytes, after: bytes, old: str
) -> None:
    opening, closing = {
        "a.rst": (b"\n.. srcmap:table variant=x\n", b"\n.. /srcmap\n"),
        "a.tex": (b"\n% srcmap:table variant=x\n", b"\n% /srcmap\n"),
    }.get(name, (b"\n<!-- srcmap:table variant=x -->\n", b"\n<!-- /srcmap -->\n"))
    data = before + opening + old.encode("utf-8", "replace") + closing + after

    def fill(marker: Marker, format_: str) -> str:
        return "new text"

    try:
        once, count = injected(data, name, fill)
    except UsageError:  # a marker of the noise has no end
        return
    assert injected(once, name, fill) == (once, count)
    assert once.startswith(before)
    assert once.endswith(after)


@pytest.mark.parametrize("name", NAMES)
def test_large_and_odd_documents_take_no_time(name: str) -> None:
    for text in ("a" * 100_000, "(" * 20_000, "examples/" * 5_000, "1:" * 20_000, "`" * 20_000,
                 "第 " * 20_000, "同文件 " * 5_000, "[](" * 8_000, "|" * 20_000, "/" * 50_000,
                 "a.py " * 5_000, "a.py:1 " * 3_000, "line 1 " * 5_000):  # fmt: skip
        holds(text.encode(), name)
