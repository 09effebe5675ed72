"""Little kernels of every family say the same under other names, layouts and comments."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srcmap.parse.rewrite import CannotRewriteError
from tests.anatomy.little import read
from tests.anatomy.test_concepts import FAMILIES, OTHERS
from tests.metamorphic.compare import differences
from tests.metamorphic.kernels import unmarked
from tests.metamorphic.moves import MOVES, RENAMING

SOURCES = {**FAMILIES, **{name: source for name, (source, _) in OTHERS.items()}}

# What stands right beside a statement is part of some answers, so exchanging two may change them;
# dead code has tests of its own in tests/metamorphic.
STEADY = sorted(set(MOVES) - {"swap", "dead-code"})


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(name=st.sampled_from(sorted(SOURCES)), move=st.sampled_from(STEADY), seed=st.integers(0, 99))
def test_rewrites_change_no_answer(name: str, move: str, seed: int) -> None:
    source = unmarked(SOURCES[name])
    reading = read(source)
    try:
        done = MOVES[move](source, reading, seed)
    except CannotRewriteError:
        return
    assert differences(reading, read(done.source), done, comments=move not in RENAMING) == []


@pytest.mark.parametrize("name", SOURCES)
def test_lines_above_only_move_lines(name: str) -> None:
    plain = unmarked(SOURCES[name])
    shifted = "# first\n\n" + plain
    before, after = read(plain), read(shifted)
    for one, other in zip(before.kernels, after.kernels, strict=True):
        assert [(s.concept, s.label, s.lines.first + 2, s.lines.last + 2) for s in one.sites] == [
            (s.concept, s.label, s.lines.first, s.lines.last) for s in other.sites
        ]
