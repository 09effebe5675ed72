"""Mutants: located statements that are left out or altered, in programs of as many lines."""

from __future__ import annotations

import ast

from srcmap.model import Lines
from srcmap.verify.mutation import mutants

SOURCE = """\
def kernel():
    for k in T.Pipelined(end):
        for i in T.Parallel(M):
            if window is not None:
                s[i] = T.if_then_else(q >= k and q < k + w, 0, -inf)
        T.fill(scores_max, -T.infinity(f32))
        T.reduce_max(s, scores_max, dim=1, clear=False)
        m[i] = T.max(m[i], p[i])
    end = T.min(a, b)
    x = 1
"""


def changes(first: int, last: int, concept: str = "") -> list[str]:
    return [m.change for m in mutants(SOURCE, Lines(first, last), concept)]


def test_every_mutant_is_a_program_of_as_many_lines() -> None:
    made = [m for n in range(2, 11) for m in mutants(SOURCE, Lines(n, n), "loop-range")]
    assert len(made) > 10
    for mutant in made:
        ast.parse(mutant.source)
        assert mutant.source.count("\n") == SOURCE.count("\n")
        assert mutant.source != SOURCE


def test_a_choice_is_dropped_swapped_and_its_comparisons_moved() -> None:
    assert changes(5, 5) == [
        "drop",
        "sides of the choice swapped",
        "q >= k and q < k + w -> q >= k or q < k + w",
        "q >= k -> q > k",
        "q < k + w -> q <= k + w",
    ]


def test_whether_something_was_given_is_not_altered() -> None:
    assert not any("None" in change for change in changes(4, 5))


def test_a_maximum_loses_a_side() -> None:
    assert changes(8, 8) == ["drop", "T.max(m[i], p[i]) -> m[i]"]


def test_a_name_that_later_code_needs_is_not_dropped() -> None:
    assert "drop" not in changes(9, 10)


def test_a_range_is_cut_short() -> None:
    assert changes(9, 9, "loop-range") == ["T.min(a, b) -> a", "one block less"]
    assert "one block later" in changes(9, 9, "window-start")


def test_a_statement_is_replaced_where_it_stands() -> None:
    dropped = next(mutants(SOURCE, Lines(3, 5)))
    assert dropped.source.split("\n")[2:5] == ["        pass", "", ""]
    assert dropped.lines == Lines(3, 5)
