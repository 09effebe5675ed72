"""Lines without a file of their own go with what their sentence has named; items part sentences.

Each case is a text and what must be found in it: lines, the name of the file, the verdict.
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

MHA = "examples/flash_attention/example_mha_fwd_bhsd.py"
VARLEN = "examples/flash_attention/example_gqa_fwd_varlen.py"
DECODE = "examples/flash_decoding/example_mha_inference.py"
REDUCE = "tilelang/language/reduce_op.py"
PAGED = "examples/flash_attention/paged_flash_attn_bhsd.py"
GPU, NPU = "tilelang v0.1.14\n\n", "tilelang-ascend 95acbd7\n\n"

FOLLOWING = (
    (GPU + f"`{VARLEN}:52` has the heads.\n\n`lse_max_local` (`{DECODE}:137`).\n\n"
     "The weights are `scale_local[i] = T.exp2(lse_local_split[i] - lse_logsum_local[i])`, lines"
     " 148-149\nof the same file, and `o_accum_local[i, j] += po_local[i, j] * scale_local[i]`,"
     " line 147.", ["137 ok", "148-149 ok", "147 off"]),
    (GPU + f"`{VARLEN}` 与 `{MHA}`。`past_len` 在第 30 行（同文件）。", ["30 ok"]),
    (NPU + f"代码：`{PAGED}`。\n另一份是 `examples/flash_attention/flash_attn_bhsd.py`。\n"
     "K 的分页加载是第 96 行，V 的在第 124 行。", ["96 ok", "124"]),
    (NPU + f"见编程指南 4.1.5.2 节。`{PAGED}` 是代码。\n"
     "“Cube核心和Vector核心之间不能直接进行数据交换”出自同一节，第 1243 行。", ["1243 off"]),
    (NPU + f"“数据”见编程指南 4.1.5.2 节; `{PAGED}` is the code. More in the same section,"
     " line 1243.", ["1243 plausible"]),
    (GPU + f"`past_len` (`{MHA}:30`); what follows in :82 is\n"
     "`T.reduce_sum(acc_s, scores_sum, dim=1)`.", ["30 ok", "82 off"]),
    (NPU + "另见编程指南 4.1.4.2 节。TileLang 的文档。", ["§4.1.4.2 plausible"]),
)  # fmt: skip
BESIDE = (
    (GPU + f"`past_len` is the third assignment upstream (`{MHA}:{{}}`).", "30", "28"),
    (GPU + f"`past_len` 是上游的第 3 个变量（`{MHA}:{{}}`）。", "30", "28"),
    (GPU + f"`past_len = seq_kv - seq_q` 我记得是 {MHA}:{{}}", "30", "28"),
    (GPU + f"`past_len = seq_kv - seq_q`, I think, is {MHA}:{{}}.", "30", "28"),
    (GPU + f"长度由 `past_len` 手工指定（`{MHA}:{{}}`）。", "30", "28"),
    (GPU + f"`scores_sum` 的保存在 `{MHA}:{{}}`。", "86", "28"),
    (GPU + f"能，`past_len` 参数就是干这个的：`{MHA}:{{}}`。", "30", "28"),
    (GPU + f"Yes, `past_len` does just that: `{MHA}:{{}}`.", "30", "28"),
    (GPU + f"It is cleared ({REDUCE}:31), and nan_propagate right below it (:{{}}).", "32", "190"),
    (GPU + f"The right-aligned `past_len` sits at [the top](https://github.com/tile-ai/tilelang/"
     f"blob/v0.1.14/{MHA}#L{{}}) of the body.", "30", "28"),
)  # fmt: skip


def read(auditor: Auditor, text: str, name: str = "x.md") -> list[str]:
    judged = auditor.judged((text + "\n").encode(), name, Path("/nowhere", name))
    targets = [(one.citation.target, one.verdict) for one in judged]
    return [f"{t.lines or '§' + str(t.section)} {v}" for t, v in targets if t.lines or t.section]


@pytest.mark.parametrize(("text", "expected"), FOLLOWING)
def test_lines_go_with_what_their_sentence_names(
    auditor: Auditor, text: str, expected: list[str]
) -> None:
    found = read(auditor, text)
    for one in expected:
        assert any(shown.startswith(one) and "ambiguous" not in shown for shown in found), found


@pytest.mark.parametrize(("pattern", "right", "wrong"), BESIDE)
def test_a_remark_between_name_and_place_parts_nothing(
    auditor: Auditor, pattern: str, right: str, wrong: str
) -> None:
    assert read(auditor, pattern.format(right))[-1] == f"{right} ok"
    assert read(auditor, pattern.format(wrong))[-1] == f"{wrong} off"


@pytest.mark.parametrize("mark", ["*", "-", "1."])
def test_items_of_a_docstring_are_judged_each_by_its_own(auditor: Auditor, mark: str) -> None:
    text = (
        f'"""tilelang v0.1.14\n\n{mark} `lse_max_local`：{DECODE}:137\n'
        f'{mark} `scale_local`：同文件 :149\n{mark} 加权求和：同文件 :140-141\n"""'
    )
    assert read(auditor, text, "x.py") == ["137 ok", "149 ok", "140-141 off"]
