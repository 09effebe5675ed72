"""Code behind a citation is compared with its lines, unless the words say that it is other code.

Each sentence is tried with a place that agrees and with one that does not.
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

FILE = "examples/flash_attention/example_mha_fwd_bhsd.py"
CODE = "T.copy(acc_s, acc_s_cast)"
RIGHT, WRONG = "89", "54"

OWN = (
    "In `{c}` it reads `{x}`.", "`{c}` reads `{x}`.", "At `{c}`, there stands `{x}`.",
    "The twin does it in `{c}` with the very same words, `{x}`.", "`{c}` says the same: `{x}`.",
    "`{c}`, `{x}`.",
    "- {c} - {x}", "- `{c}` - `{x}`", "- `{c}` → `{x}`", "* {c} - the cast: {x}", "{c} – `{x}`",
    "`{c}` 的 `{x}`。", "`{c}` 里的 `{x}`。", "`{c}` 这一行是 `{x}`。", "在 `{c}`，代码是 `{x}`。",
    "`{c}` 同样写着 `{x}`。", "`{c}` 原样写着：`{x}`。", "见{c}这一行里的\n{x}。",
    "| what | where | code |\n|---|---|---|\n| per-token bounds | `{c}` | `{x}` |",
    "| where | what | code |\n|---|---|---|\n| `{c}` | casting | `{x}` |",
    "| code | what | where |\n|---|---|---|\n| `{x}` | casting | `{c}` |",
    ("| 步骤 | 位置 | 代码 |\n|---|---|---|\n转换 | {c} |\n{x} |\n行和 | {p}:86 |\n"
    "T.reduce_sum(acc_s, scores_sum, dim=1) |"),
    "`{p}`:\n\n```python\n# line {n}\n{x}\n```",
    "`{p}`：\n\n```python\n# 第 {n} 行\n{x}\n\ny = f(x)\n```",
    "```python\n{x}  # line {n}\n```\n",
)  # fmt: skip
OTHER = (
    "Change `{c}` to `{x}`.", "把 `{c}` 改成 `{x}`。", "`{c}`: replace it with `{x}`.",
    "`{c}` (formerly `{x}`).", "`{c}` 对应我们的 `{x}`。", "`{c}` is followed by `{x}`.",
    "`{c}` 的下一步是 `{x}`。", "- `{c}` - suggestion: `{x}`", "- `{c}` — 建议：`{x}`",
    "After `{c}` we have `{x}`.", "Right below `{c}` stands `{x}`.", "在 `{c}` 之后是 `{x}`。",
    "Unlike `{c}`, here it reads `{x}`.", "与 `{c}` 不同，这里写的是 `{x}`。",
    "In `{c}` it should read `{x}`.", "`{c}` used to be `{x}`.", "`{c}` 没有写 `{x}`。",
    "`{c}`（见下文 `{x}`）", "`{c}` is what `{x}` reads.", "`{c}` has what `{x}` casts.",
    "`{c}` (cf. `{x}`).", "`{c}` shows that `{x}` is needed.", "`{c}` 写入它，再由 `{x}` 转换。",
    "| place | note |\n|---|---|\n| `{c}` | feeds `{x}` |",
    "See `{c}` and `{x}` (`{p}:89`).", "`{c}` feeds `{x}`.",
    "| upstream | ours |\n|---|---|\n| `{c}` | `{x}` |",
    "| 上游 | 我们的写法 |\n|---|---|\n| `{c}` | `{x}` |",
)  # fmt: skip
DEFINED = (
    ("`flashattn` is defined in `{p}:23`.", "ok"), ("`flashattn` is defined in `{p}:40`.", "off"),
    ("`{p}:30` defines `past_len`.", "ok"), ("`{p}:31` 定义了 `past_len`。", "off"),
    ("`flashattn` 定义在 `{p}:40`。", "off"), ("`flashattn` (`{p}:40`) has one kernel.", "ok"),
    ("The definition of `flashattn` begins at `{p}:40`.", "off"),
    ("`scores_scale` is defined in `{p}:83`.", "ok"),
    ("In `flashattn`, the kernel begins at `{p}:40`.", "ok"),
    ("- `past_len`（int）：`{p}:40`", "off"), ("- `past_len` (the shift): `{p}:30`", "ok"),
    ("早先的草稿把行和记成 `{p}:91`。", "off"), ("The notes list the row sum as `{p}:86`.", "ok"),
)  # fmt: skip


def verdicts(auditor: Auditor, pattern: str, lines: str) -> list[str]:
    said = pattern.replace("{c}", "{p}:{n}").replace("{p}", FILE).replace("{n}", lines)
    head = f"tilelang v0.1.14\n\n{'' if FILE in said else f'`{FILE}`' + chr(10) * 2}"
    text = head + said.replace("{x}", CODE) + "\n"
    judged = auditor.judged(text.encode(), "a.md", Path("/nowhere/a.md"))
    return [one.verdict for one in judged if str(one.citation.target.lines) == lines]


@pytest.mark.parametrize("pattern", OWN)
def test_code_behind_a_citation_is_compared(auditor: Auditor, pattern: str) -> None:
    found = verdicts(auditor, pattern, RIGHT), verdicts(auditor, pattern, WRONG)
    assert found == (["ok"], ["off"])


@pytest.mark.parametrize("pattern", OTHER)
def test_other_code_is_not_held_against_a_citation(auditor: Auditor, pattern: str) -> None:
    assert "off" not in verdicts(auditor, pattern, WRONG)


@pytest.mark.parametrize("pattern", ["`{c}` casts with `{x}`.", "`{c}` 用 `{x}` 转换精度。"])
def test_another_call_of_the_same_function_is_no_evidence(auditor: Auditor, pattern: str) -> None:
    assert verdicts(auditor, pattern, WRONG) == ["plausible"]


@pytest.mark.parametrize(("pattern", "verdict"), DEFINED)
def test_what_is_defined_there_is_there(auditor: Auditor, pattern: str, verdict: str) -> None:
    text = "tilelang v0.1.14\n\n" + pattern.replace("{p}", FILE) + "\n"
    judged = list(auditor.judged(text.encode(), "a.md", Path("/nowhere/a.md")))
    assert [one.verdict for one in judged] == [verdict]
