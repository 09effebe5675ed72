"""Strings first: what became of lines, for every verdict."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from srcmap.model import Lines
from tests.drift.world import KERNEL, judge

PATH = "kernels/attention.py"
ROWS = KERNEL.split("\n")


def edited(**lines: str | None) -> str:
    """Replace line `L<n>` of the kernel; None takes it out; text may hold several lines."""
    rows: list[str | None] = list(ROWS)
    for name, text in lines.items():
        rows[int(name[1:]) - 1] = text
    return "\n".join(row for row in rows if row is not None)


CASES = {
    "nothing changed": (KERNEL, (19, 20), "same", (19, 20)),
    "another line": (edited(L33='    print("ready")'), (19, 20), "same", (19, 20)),
    "lines above": ("# one\n# two\n" + KERNEL, (19, 20), "moved", (21, 22)),
    "a comment on the line": (
        edited(L19=ROWS[18] + "  # scores of this block"), (19, 19), "cosmetic", (19, 19),
    ),
    "a comment between": (
        edited(L20="        # for the rescaling\n" + ROWS[19]), (19, 20), "cosmetic", (19, 21),
    ),
    "indented into a condition": (
        "\n".join(["if True:" if n == 9 else row if n < 10 else "    " + row if row else row
                   for n, row in enumerate(ROWS, 1)]),
        (19, 20), "cosmetic", (19, 20),
    ),
    "a call over several lines": (
        edited(L19="        gemm(\n            shared_q,\n            shared_k,\n"
               "            scores,\n            transpose_B=True,\n        )"),
        (19, 19), "cosmetic", (19, 24),
    ),
    "a loop bound": (
        edited(L16=ROWS[15].replace("num_stages=2", "num_stages=3")), (16, 16), "changed", (16, 16),
    ),
    "a literal": (edited(L22=ROWS[21].replace("0.125", "0.25")), (22, 22), "changed", (22, 22)),
    "an operation": (edited(L24=ROWS[23].replace("exp2", "exp")), (23, 24), "changed", (23, 24)),
    "a local name, everywhere": (
        KERNEL.replace("rescale", "factor"), (22, 22), "cosmetic", (22, 22),
    ),
    "taken out": (edited(L25=None), (25, 25), "removed", None),
    "the function renamed": (
        KERNEL.replace("def kernel", "def attention_kernel"), (19, 21), "same", (19, 21),
    ),
    "the function moved below": (
        "\n".join([*ROWS[:9], *ROWS[29:33], "", "", *ROWS[9:28], ""]), (19, 21), "moved", (25, 27),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_verdict(name: str) -> None:
    new, (first, last), verdict, place = CASES[name]
    answer = judge({PATH: KERNEL}, {PATH: new}, PATH, first, last)
    assert answer.verdict == verdict, answer
    assert (answer.new and answer.new.lines) == (Lines(*place) if place else None)


def test_what_changed_is_shown() -> None:
    new = edited(L16=ROWS[15].replace("1024", "2048"))
    answer = judge({PATH: KERNEL}, {PATH: new}, PATH, 16, 16)
    assert answer.what == ("bound: 1024 -> 2048",)


def test_a_file_with_another_name() -> None:
    answer = judge({PATH: KERNEL}, {"kernels/other.py": KERNEL}, PATH, 19, 20)
    assert (answer.verdict, answer.grade) == ("moved-file", "proven")
    assert str(answer.new) == "kernels/other.py:19-20"


def test_a_function_in_another_file() -> None:
    old = {PATH: KERNEL, "kernels/parts.py": "import helper\n"}
    new = {
        PATH: "\n".join([*ROWS[:9], *ROWS[29:]]),
        "kernels/parts.py": "import helper\n\n\n" + "\n".join(ROWS[9:28]) + "\n",
    }
    answer = judge(old, new, PATH, 19, 21)
    assert answer.verdict == "moved-file"
    assert str(answer.new) == "kernels/parts.py:13-15"
    assert answer.grade == "proposed", "one method, and no history to ask"


def test_a_copy_is_not_a_move() -> None:
    """An example goes, and in the same release a sibling comes that begins and ends like it."""
    body = "\n".join(f"    step_{n}(Q, {n})" for n in range(40))
    sibling = "\n".join([*ROWS[:9], "def other(Q):", body, "", "", *ROWS[29:]])
    keeps = {"kernels/third.py": KERNEL + "# third\n"}
    answer = judge({PATH: KERNEL, **keeps}, {"kernels/sibling.py": sibling, **keeps}, PATH, 31, 32)
    assert answer.grade == "proposed", "without history it may be shown, and never written"


def test_the_last_of_two_twins_is_not_taken_for_the_first() -> None:
    twice = KERNEL + "\n" + KERNEL.replace("def kernel", "def second").replace("def main", "def go")
    new = twice.replace("transpose_B=True", "transpose_B=False", 1)
    answer = judge({PATH: twice}, {PATH: new}, PATH, 19, 19)
    assert (answer.verdict, str(answer.new)) == ("changed", f"{PATH}:19")


def test_a_tie_is_refused_and_ranked() -> None:
    block = "    load(tile)\n    step(tile)\n"
    old = {"a.py": f"def one():\n{block}\n\ndef two():\n    pass\n"}
    new = {"b.py": f"def red():\n{block}\n\ndef blue():\n{block}"}
    answer = judge(old, new, "a.py", 2, 3)
    assert answer.verdict in ("ambiguous", "removed", "moved-file")
    assert answer.grade == "proposed"


@pytest.mark.parametrize("ending", [b"\r\n", b"\n"])
def test_line_ends_do_not_count(ending: bytes) -> None:
    data = KERNEL.encode().replace(b"\n", ending)
    answer = judge({PATH: KERNEL}, {PATH: data + b"# more" + ending}, PATH, 19, 20)
    assert (answer.verdict, str(answer.new)) == ("same", f"{PATH}:19-20")


@pytest.mark.parametrize(
    "data", [b"", b"\xff\xfe\x00", b"no newline", "\x0c\u2028x\n".encode(), b"\xef\xbb\xbfa = 1\n"]
)
def test_odd_files_are_judged(data: bytes) -> None:
    lines = max(1, len(data.rstrip(b"\n").split(b"\n")))
    answer = judge({"x.py": data + b"\n"}, {"x.py": b"# new\n" + data + b"\n"}, "x.py", 1, lines)
    assert answer.verdict in (
        "same",
        "moved",
        "removed",
        "changed",
        "cosmetic",
        "ambiguous",
        "unjudged",
    )


def test_lines_that_do_not_exist() -> None:
    answer = judge({PATH: KERNEL}, {PATH: KERNEL}, PATH, 400, 401)
    assert (answer.verdict, answer.reason[0].key) == ("unjudged", "drift.no-lines")
    answer = judge({PATH: KERNEL}, {PATH: KERNEL}, "nowhere.py", 1, 1)
    assert (answer.verdict, answer.reason[0].key) == ("unjudged", "drift.no-file")


def test_a_range_of_comments_that_changed_is_flagged() -> None:
    old = KERNEL.replace("        clear(scores)", "        # the old reason\n        clear(scores)")
    answer = judge({PATH: old}, {PATH: old.replace("old reason", "new reason")}, PATH, 18, 18)
    assert answer.verdict == "cosmetic"
    assert [note.key for note in answer.reason] == ["drift.comments-only"]


def test_a_preprocessor_line_is_no_comment() -> None:
    old = "#if ARCH >= 900\nint a = one();\n#endif\nint b = two();\n"
    answer = judge({"x.h": old}, {"x.h": old.replace("900", "1200")}, "x.h", 1, 1)
    assert (answer.verdict, answer.what) == ("changed", ("literal: 900 -> 1200",))


@settings(max_examples=40, deadline=None)
@given(above=st.integers(1, 60), first=st.integers(1, 30), size=st.integers(0, 6))
def test_shifting_is_moving(above: int, first: int, size: int) -> None:
    last = min(first + size, len(ROWS) - 1)
    if not any(len(row.strip()) > 3 for row in ROWS[first - 1 : last]):
        return
    shifted = "".join(f"import part_{n}\n" for n in range(above)) + KERNEL
    answer = judge({PATH: KERNEL}, {PATH: shifted}, PATH, first, last)
    assert answer.verdict == "moved", answer
    assert answer.new is not None
    assert answer.new.lines == Lines(first + above, last + above)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 33), st.integers(0, 8))
def test_against_itself_all_is_the_same(first: int, size: int) -> None:
    answer = judge({PATH: KERNEL}, {PATH: KERNEL}, PATH, first, min(first + size, 33))
    assert (answer.verdict, answer.grade) == ("same", "proven")
