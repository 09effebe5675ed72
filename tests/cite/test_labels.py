"""What a line is about decides: its label, its subject, what a kernel is handed, a quotation.

Each sentence stands here with a place that agrees and with one that does not.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cite.test_heldout import auditor

if TYPE_CHECKING:
    from srcmap.cite.audit import Auditor

__all__ = ["auditor"]
pytestmark = pytest.mark.pins

FILES = {
    "mha": "examples/flash_attention/example_mha_fwd_bhsd.py",
    "sink": "examples/attention_sink/example_mha_sink_fwd_bhsd.py",
    "mla": "examples/deepseek_mla/example_mla_decode_paged.py",
    "utils": "examples/flash_attention/varlen_utils.py",
    "varlen": "examples/flash_attention/example_gqa_fwd_varlen.py",
    "nsa": "examples/deepseek_nsa/example_tilelang_nsa_fwd.py",
    "sparse": "examples/blocksparse_attention/example_tilelang_block_sparse_attn.py",
    "topk": "examples/deepseek_v32/topk_selector.py",
    "decode": "examples/flash_decoding/example_mha_inference.py",
}
LABELS = (
    ("- row sum: the probabilities are added up, `{mha}:{}`", "86", "84-85"),
    ("- Denominator: old one times the rescale factor plus the row sum, `{mha}:{}`", "87-88", "86"),
    ("Denominator: old one times rescale factor plus row sum, `{mha}:{}`.", "87-88", "86"),
    ("- 分母：旧分母乘重缩放因子，再加行和，`{mha}:{}`；", "87-88", "86"),
    ("* 因果掩码：只看 q 不小于 k 的位置，见 `{mha}:{}`。", "67-71", "77-81"),
    ("- **概率**：分数减去行最大值，再取指数，`{mha}:{}`", "84-85", "77-81"),
    ("- `past_len`: the shift of the causal mask, `{mha}:{}`", "30", "28"),
    ("- `loop_range`：因果掩码打开时截断，`{mha}:{}`", "59-63", "97-98"),
)
OBJECTS = (
    ("- Rescale factor — exp of the old maximum minus the new one, `{mha}:{}`", "82-83", "77-81"),
    ("- The rescale factor is exp of old minus new row maximum, see `{mha}:{}`.", "82-83", "86"),
    ("- 行和 —— 概率按行相加，`{mha}:{}`", "86", "87-88"),
    ("The denominator takes the row sum: `{mha}:{}`.", "87-88", "91-92"),
    ("循环上界考虑因果掩码，`{mha}:{}`。", "59-63", "91-92"),
    ("The loop bound for the causal mask: `{mha}:{}`.", "59-63", "91-92"),
    ("The accumulator is multiplied by the rescale factor at `{mha}:{}`.", "91-92", "86"),
    ("累加器乘以重缩放因子（`{mha}:{}`）。", "91-92", "86"),
    ("The row sum in the KV loop (`{mha}:{}`).", "86", "91-92"),
    ("- KV 循环：每一块先算行和，`{mha}:{}`", "86", "91-92"),
    ("After the probability, the row sum is at `{mha}:{}`.", "86", "84-85"),
    ("概率算完之后，行和在 `{mha}:{}`。", "86", "84-85"),
)
ASKED = (
    ("Q: Where is the row sum?\nA: `{mha}:{}`.", "86", "84-85"),
    ("**问：行和在哪里？**\n答：见 `{mha}:{}`。", "86", "84-85"),
    ("### Row sum\n\nSee `{mha}:{}`.", "86", "67-71"),
    ("### 行和\n\n见 `{mha}:{}`。", "86", "67-71"),
)
CASES = (
    ("| where the loop starts under a sliding window | `{sink}:{}` |", "84", "91-92"),
    ("滑动窗口下循环从哪里开始：`{sink}:{}`。", "84", "91-92"),
    ("where the loop stops under a causal mask: `{sink}:{}`", "82", "93-94"),
    ("因果掩码下循环到哪里为止：`{sink}:{}`", "82", "93-94"),
)
SUBJECTS = (
    ("tl_topk_impl is {topk}:28, RADIX is\nset at {topk}:{}.", "32", "31"),
    ("`tl_topk_impl` 在 {topk}:28，RADIX 定义在 {topk}:{}。", "32", "31"),
    ("`generate_qkv` is `{utils}:{}`.", "19-40", "24-40"),
    ("`generate_qkv` 见 `{utils}:{}`。", "19-40", "24-40"),
    ("`cur_kv_head` is not what you think; compare\n`{mla}:{}` with your line.", "56", "57"),
    ("`cur_kv_head` 和你想的不一样，请对照 `{mla}:{}` 和你那一行。", "56", "57"),
    ("Compare the combine kernel of the MLA example:\n`{mla}:{}`.", "106-131", "60-90"),
    ("| `lse` | `lse_local`, `{decode}:{}` |\n| sum | 2 |", "120", "126"),
    ("只写存在的行（varlen 写回保护），对照 `{varlen}:{}`。", "122-124", "128-131"),
    ("Only some rows are written (the varlen guard), compare `{varlen}:{}`.", "122-124", "128-131"),
)
HANDED = (
    ("块掩码以参数形式传入（`{sparse}:{}`）。", "54", "55"),
    ("把块掩码作为参数传给 kernel（`{sparse}:{}`）。", "54", "52"),
    ("The block mask is passed in as a parameter (`{sparse}:{}`).", "54", "55"),
    ("NSA 以块索引为输入（`{nsa}:{}`）。", "50", "51"),
    ("The block indices are an input of the kernel (`{nsa}:{}`).", "50", "51"),
    ("签名里还有块索引（`{nsa}:{}`）。", "50", "51"),
)
PARTS = (
    "in `generate_qkv` (`{utils}:32-40`)", "`generate_qkv` 里的判断见 `{utils}:32-40`。",
    "The body of `generate_qkv` (`{utils}:28-40`).",
    "Inside `convert_to_uint32`, lines 20-23 of `{topk}` pick the sign.",
    "`convert_to_uint32` 的返回值：`{topk}:20-24`。",
    "`generate_qkv` 在 `{utils}:32-40` 处理 padding。",
)  # fmt: skip


def verdict(auditor: Auditor, text: str, lines: str = "") -> str:
    text = "tilelang v0.1.14\n\n" + text.format(lines, **FILES) + "\n"
    judged = auditor.judged(text.encode(), "x.md", Path("/nowhere/x.md"))
    return [one.verdict for one in judged if one.citation.target.lines][-1]


@pytest.mark.parametrize(
    ("text", "right", "wrong"), [*LABELS, *OBJECTS, *ASKED, *CASES, *SUBJECTS, *HANDED]
)
def test_what_a_line_is_about_decides(auditor: Auditor, text: str, right: str, wrong: str) -> None:
    assert (verdict(auditor, text, right), verdict(auditor, text, wrong)) == ("ok", "off")


@pytest.mark.parametrize("text", PARTS)
def test_a_part_of_a_definition_may_be_cited(auditor: Auditor, text: str) -> None:
    assert verdict(auditor, text) == "ok"


@pytest.mark.parametrize("text", [
    "- Row sum: buffer allocated, `{mha}:51`", "- 行和：缓冲区分配，`{mha}:51`",
    "- 因果掩码：否则走边界掩码，`{mha}:72-74`", "- 分母：初始化为零，`{mha}:56`",
    "传入的块掩码在 `{sparse}:77` 读取。", "The block mask passed in is read at `{sparse}:77`.",
    "`generate_qkv`: padding is removed at `{utils}:36-45`.",
])  # fmt: skip
def test_what_else_is_said_of_something_is_not_held_to_its_place(
    auditor: Auditor, text: str
) -> None:
    assert verdict(auditor, text) != "off"


def test_what_is_done_before_something_is_not_held_to_its_place(auditor: Auditor) -> None:
    assert verdict(auditor, "The scores are masked before the max (`{mha}:67-71`).") != "off"


def test_a_quotation_in_brackets_must_stand_in_the_section(auditor: Auditor) -> None:
    guide = "docs/tutorials/workspace_reduction_tutorial.md"
    said = "Workspace shapes must be\nstatically determinable at compile time"
    for text in (
        f'Listed in section {{}} of `{guide}` ("{said}").',
        f"参见 `{guide}` 第 {{}} 节（“{said}”）。",
    ):
        for number, right in ("3", "ok"), ("2", "off"):
            whole = f"tilelang-ascend 95acbd7\n\n{text.format(number)}\n"
            judged = list(auditor.judged(whole.encode(), "x.md", Path("/nowhere/x.md")))
            assert [one.verdict for one in judged if one.citation.target.section] == [right]


def test_a_bare_name_of_several_files_is_ambiguous(auditor: Auditor) -> None:
    text = (
        "See `tilelang/tileop/base.py:11` of tilelang v0.1.14.\n\nOnly `base.py:10` is unclear.\n"
    )
    judged = list(auditor.judged(text.encode(), "x.md", Path("/nowhere/x.md")))
    assert judged[-1].verdict == "ambiguous"
    near = list(auditor.judged(text.replace("\n\n", " ").encode(), "x.md", Path("/nowhere/x.md")))
    assert near[-1].citation.target.path == "tilelang/tileop/base.py"
