"""What a sentence puts in a place is held to it; what it only mentions never is.

The sentences are made of patterns: whatever stands in one of them must have the same verdict in
all of them. Places are those of one file of a pin, by the map and by where names are set.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.cite.test_heldout import auditor

if TYPE_CHECKING:
    from srcmap.cite.audit import Auditor

__all__ = ["auditor"]
pytestmark = pytest.mark.pins

FILE = "examples/flash_attention/example_mha_fwd_bhsd.py"
HEAD = "tilelang v0.1.14\n\n"


class Thing(NamedTuple):
    """Something that has a place: its names, its lines, and lines of something else."""

    english: str
    chinese: str
    right: str
    wrong: str


CONCEPTS = (
    Thing("causal mask", "因果掩码", "67-71", "77-81"),
    Thing("boundary mask", "边界掩码", "72-74", "55-57"),
    Thing("running maximum", "行最大值", "77-81", "97-98"),
    Thing("rescale factor", "重缩放因子", "82-83", "97-98"),
    Thing("probability", "概率", "84-85", "55-57"),
    Thing("row sum", "行和", "86", "75"),
    Thing("denominator", "分母", "87-88", "55-57"),
    Thing("accumulator rescale", "累加器重缩放", "91-92", "87-88"),
    Thing("normalisation", "归一化", "97-98", "91-92"),
    Thing("loop range", "循环上界", "59-63", "67-71"),
    Thing("output store", "写回输出", "99-100", "91-92"),
)
NAMES = (
    Thing("`past_len`", "`past_len`", "30", "28"),
    Thing("`loop_range`", "`loop_range`", "59-63", "55-57"),
    Thing("`scores_sum`", "`scores_sum`", "51", "53-54"),
    Thing("`rtol=0.01`", "`rtol=0.01`", "139", "141"),
    Thing("`dtype = T.float16`", "`dtype = T.float16`", "27", "30"),
)
PLACED = (
    "The {x} is at `{c}`.", "{x}: `{c}`", "- {x} — {c}", "The {x} ({c}) comes next.", "{x} (`{c}`)",
    "| what | where |\n|---|---|\n| {x} | `{c}` |", "`{c}`: {x}", "`{c}` ({x})", "`{c}` is {x}.",
    "The {x} can be found in `{c}`.", "The {x} stands in lines {n} of `{p}`.",
)  # fmt: skip
PLACED_ZH = (
    "{x}在 `{c}`。", "{x}见 {c}。", "{x}（{c}）。", "{x}：{c}", "{c} 是{x}。", "`{c}`（{x}）",
    "{x}位于 `{c}`。", "| 步骤 | 位置 |\n|---|---|\n| {x} | `{c}` |", "`{p}` 第 {n} 行是{x}。",
    "{x}在 `{p}` 的第 {n} 行。",
)  # fmt: skip
MENTIONED = (
    "Before the {x} is touched, `{c}` loads the next tile.", "Unlike the {x}, {c} is plain.",
    "`{c}` has nothing to do with the {x}.", "After the {x}, we reach `{c}`.",
    "Without the {x}, `{c}` would be wrong.", "The {x} comes later; `{c}` comes first.",
    "`{c}` runs once per {x}.", "The {x} is not used at `{c}`.", "{c} feeds the {x}.",
    "How the {x} is reached from `{c}` is another matter.",
)  # fmt: skip
MENTIONED_ZH = (
    "在{x}之前，`{c}` 先把数据搬进来。", "{x}算完之后才轮到 `{c}`。", "{x}不在 `{c}`。",
    "没有{x}的话，`{c}` 就错了。", "`{c}` 与{x}无关。", "与{x}不同，`{c}` 很简单。",
    "每个{x}都会执行一次 `{c}`。",
    "`{c}` 把结果交给{x}。", "除了{x}，还有 `{c}`。", "读完{x}再看 `{c}`。",
)  # fmt: skip
PAIRS = (
    "The {x} is at `{c}` and the {y} at `{d}`.", "{x} (`{c}`), {y} (`:{m}`).",
    "`{p}` has the {x} (line {n}), and the {y} (line {m}).", "The {x} and the {y}: `{p}:{n},{m}`.",
    "The {x} and the {y} are at `{c}` and `{d}`, respectively.", "| {x} | `{c}` |\n| {y} | `{d}` |",
)  # fmt: skip
PAIRS_ZH = (
    "{x}在 `{c}`，{y}在 `{d}`。", "{x}（`{c}`）与{y}（同文件 :{m}）。", "{x}、{y}：`{p}:{n},{m}`。",
    "`{p}` 的第 {n} 行是{x}，第 {m} 行是{y}。", "{x}与{y}分别在 `{c}` 和 `{d}`。",
    "`{c}` 是{x}，`:{m}` 是{y}。",
)  # fmt: skip


def verdicts(auditor: Auditor, text: str) -> list[str]:
    judged = auditor.judged((HEAD + text + "\n").encode(), "x.md", Path("/nowhere/x.md"))
    return [one.verdict for one in judged if one.citation.target.lines]


def filled(pattern: str, x: str, lines: str, y: str = "", others: str = "") -> str:
    if x.startswith("`"):
        pattern = pattern.replace("The {x}", "{x}").replace("the {x}", "{x}")
    return pattern.format(x=x, y=y, c=f"{FILE}:{lines}", d=f"{FILE}:{others}", p=FILE, n=lines,
                          m=others)  # fmt: skip


@pytest.mark.parametrize("pattern", [*PLACED, *PLACED_ZH])
def test_a_place_is_right_or_wrong(auditor: Auditor, pattern: str) -> None:
    wrong = []
    for thing in (*CONCEPTS, *NAMES):
        name = thing.chinese if pattern in PLACED_ZH else thing.english
        for lines, verdict in ((thing.right, "ok"), (thing.wrong, "off")):
            text = filled(pattern, name, lines)
            if verdicts(auditor, text) != [verdict]:
                wrong.append((text, verdicts(auditor, text)))
    assert wrong == []


@pytest.mark.parametrize("pattern", [*MENTIONED, *MENTIONED_ZH])
def test_what_is_only_mentioned_is_never_in_the_wrong_place(auditor: Auditor, pattern: str) -> None:
    wrong = []
    for thing in (*CONCEPTS, *NAMES):
        name = thing.chinese if pattern in MENTIONED_ZH else thing.english
        text = filled(pattern, name, thing.wrong)
        if "off" in verdicts(auditor, text):
            wrong.append(text)
    assert wrong == []


@pytest.mark.parametrize("pattern", [*PAIRS, *PAIRS_ZH])
def test_two_places_are_judged_each_by_its_own(auditor: Auditor, pattern: str) -> None:
    wrong = []
    for one in CONCEPTS:
        for other in CONCEPTS[::3]:
            if one is other:
                continue
            names = (one.chinese, other.chinese) if pattern in PAIRS_ZH else (one[0], other[0])
            text = filled(pattern, names[0], one.right, names[1], other.wrong)
            if verdicts(auditor, text) != ["ok", "off"]:
                wrong.append((text, verdicts(auditor, text)))
    assert wrong == []
