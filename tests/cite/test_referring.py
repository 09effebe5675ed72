"""Clauses that point back: what "it", "the same line" or a line of a list of variants stands for.

Each pattern is tried with a place that agrees and with one that does not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cite.test_following import GPU, MHA, NPU, PAGED, VARLEN, read
from tests.cite.test_heldout import auditor

if TYPE_CHECKING:
    from srcmap.cite.audit import Auditor

__all__ = ["auditor"]
pytestmark = pytest.mark.pins

GQA = "examples/flash_attention/example_gqa_fwd_bshd.py"
GEMM = "tilelang/language/gemm_op.py"
POINTING = (
    (GPU + f"Your `past_len` is a constant; upstream computes it, `{MHA}:{{}}`.", "30", "28"),
    (GPU + f"You lost past_len. Upstream has it in\n{MHA}:{{}}, your fork not.", "30", "28"),
    (GPU + f"你的 `past_len` 是常数；上游计算它，见 `{MHA}:{{}}`。", "30", "28"),
    (GPU + f"You lost the row sum. Upstream: the row sum is computed, `{MHA}:{{}}`.", "86", "75"),
    (GPU + f"`head_kv = heads // groups` 写在 `{GQA}:70`；\n变长版同样的一句在 `{VARLEN}:{{}}`。",
     "19", "21"),
    (GPU + f"`head_kv = heads // groups` is in `{GQA}:70`, the same line in `{VARLEN}:{{}}`.",
     "19", "21"),
    (NPU + f"K 的分页加载在 `{PAGED}:96`，V 的在第 {{}} 行。", "124", "54"),
    (GPU + f"It is in `{GEMM}:{{}}` now,\nat the words \"def gemm(\".", "154", "12"),
    (GPU + f"见 `{GEMM}:{{}}`，就在“def gemm(”。", "154", "12"),
    (GPU + f"The value `1.44269504` appears at `{MHA}:{{}}`, and `T.copy(acc_s, acc_s_cast)` at"
     f" `{MHA}:89`.", "24", "28"),
)  # fmt: skip
GOOD = "101-102"
LISTED = (
    '"""{h}重缩放因子，三处写法相同：\n    上游 ``{a}:82-83``；\n    varlen ``{b}:{}``。\n"""',
    ('"""{h}The rescale factor, the same everywhere:\n    upstream ``{a}:82-83``;\n'
     '    varlen: ``{b}:{}``.\n"""'),
    '"""{h}重缩放因子：\n\n    * 固定形状：{a}:82-83\n    * 变长版：{b}:{}\n"""',
)  # fmt: skip


@pytest.mark.parametrize(("pattern", "right", "wrong"), POINTING)
def test_a_clause_is_about_what_it_points_back_to(
    auditor: Auditor, pattern: str, right: str, wrong: str
) -> None:
    def verdict(lines: str) -> str:
        found = read(auditor, pattern.format(lines))
        return next(one for one in found if one.startswith(lines))

    assert verdict(right) == f"{right} ok"
    assert verdict(wrong) == f"{wrong} off"


@pytest.mark.parametrize("pattern", LISTED)
def test_lines_of_variants_have_the_name_of_the_line_above(auditor: Auditor, pattern: str) -> None:
    for lines, verdict in ((GOOD, "ok"), ("103-104", "off")):
        text = pattern.replace("{}", lines).format(h=GPU, a=MHA, b=VARLEN)
        assert read(auditor, text, "x.py") == ["82-83 ok", f"{lines} {verdict}"]


@pytest.mark.parametrize(
    "words", ["That snippet is", "The code above comes from", "上面这段代码在"]
)
def test_the_code_shown_last_is_spoken_of_over_a_paragraph(auditor: Auditor, words: str) -> None:
    code = "```python\nT.copy(acc_s, acc_s_cast)\n```\n\n"
    for between in ("", "The picture is not ours.\n\n"):
        for line, verdict in ((89, "ok"), (54, "off")):
            text = f"{GPU}{code}{between}{words} `{MHA}:{line}`."
            assert read(auditor, text) == [f"{line} {verdict}"]
    other = f"{GPU}{code}`{VARLEN}:52` is next.\n\n{words} `{MHA}:54`."
    assert read(auditor, other)[-1] == "54 plausible"


def test_what_is_shared_by_two_places_is_held_to_both(auditor: Auditor) -> None:
    place = "examples/flash_decoding/example_gqa_decode.py"
    for line, verdict in ((195, "ok"), (193, "off")):
        text = (
            GPU + 'It takes a `mask: T.Tensor([batch, seqlen_kv, groups], "uint8")`, in'
            f" `{place}:69` for the\nsplit version and in `{place}:{line}` for the other."
        )
        assert read(auditor, text) == ["69 ok", f"{line} {verdict}"]
