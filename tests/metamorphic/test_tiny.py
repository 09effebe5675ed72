"""Our own small kernels: what they are read as, and that no chain of rewrites changes it."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srcmap.anatomy import read_source
from srcmap.parse import rewrite
from srcmap.parse.rewrite import CannotRewriteError
from tests.metamorphic.compare import differences
from tests.metamorphic.kernels import ATTENTION, EVERY, MATMUL, marked, unmarked
from tests.metamorphic.moves import MOVES, RENAMING

if TYPE_CHECKING:
    from srcmap.model import FileAnatomy


def _read(source: str) -> FileAnatomy:
    return read_source(source.encode(), "kernel.py")


@pytest.mark.parametrize("name", ATTENTION)
def test_marked_lines_are_found(name: str) -> None:
    source = ATTENTION[name]
    expected = marked(source)
    concepts = {concept for concept, _, _ in expected}
    found = {
        (site.concept, site.lines.first, site.lines.last)
        for kernel in _read(unmarked(source)).kernels
        for site in kernel.sites
        if site.concept in concepts
    }
    assert found == expected


def test_a_product_is_not_attention() -> None:
    kernels = _read(unmarked(MATMUL)).kernels
    assert [kernel.kind for kernel in kernels] == ["other"]
    assert [kernel.sites for kernel in kernels] == [()]


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("name", EVERY)
def test_one_rewrite(name: str, move: str) -> None:
    source = unmarked(EVERY[name])
    reading = _read(source)
    done = MOVES[move](source, reading, 1)
    after = _read(done.source)
    assert differences(reading, after, done, comments=move not in RENAMING) == []


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    name=st.sampled_from(sorted(EVERY)),
    steps=st.lists(st.tuples(st.sampled_from(sorted(MOVES)), st.integers(0, 99)), max_size=4),
)
def test_chains_of_rewrites(name: str, steps: list[tuple[str, int]]) -> None:
    source = unmarked(EVERY[name])
    reading = _read(source)
    done = rewrite.unchanged(source)
    for move, seed in steps:
        with contextlib.suppress(CannotRewriteError):
            done = done.then(lambda text: MOVES[move](text, _read(text), seed))  # noqa: B023
    comments = not RENAMING & {move for move, _ in steps}
    assert differences(reading, _read(done.source), done, comments=comments) == []
