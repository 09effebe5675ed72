"""What read_markdown finds in documents: tiny ones written here, then the real pins."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srcmap.anatomy.markdown import read_markdown
from srcmap.model import FileAnatomy, Lines, Site

MOVES = """\
# Copies

Allowed:

| from | to | note |
| ---- | -- | ---- |
| GM | L1 | in |
| L1 | L0A / L0B | operands |
| L0C | GM | out |
| `GM` | **UB** | in |

After.
"""

WORKSPACE = """\
# Guide

## 4.1 Copies between cores

### 4.1.5 Workspace elimination

The compiler finds copies such as `copy_l0c_to_ub` by itself.

#### How

They go by way of GM: `copy_l0c_to_gm`, then `copy_gm_to_ub`.

```python
# not a heading
T.copy(a, b)
```


### 4.1.6 Next
"""

NESTING = """\
# Pipelines

## Limits

**Important**: `T.Pipelined` does not support nesting.

```python
# never nest T.Pipelined
```
"""

PERFORMANCE = """\
# FlashAttention

Best:
| S | AscendC | TileLang | ratio |
|---|---|---|---|
| 1K | 10us | 12us | 83% |
| 2K | 20us | 24us | 83% |

## Gains

What we did:

1. Resident tiles
2. Vector code: 30%
3. Two buffers: 50 %
4. Fewer flags: 1.2x

## Ticks

| kernel | a | b | c | performance |
|---|:-:|:-:|:-:|---|
| one.py | √ | √ | × | 80% |
| two.py | √ | × | × | 60% |
"""

SOURCES = {
    "moves": MOVES,
    "workspace": WORKSPACE,
    "nesting": NESTING,
    "performance": PERFORMANCE,
}


def anatomy(source: str) -> FileAnatomy:
    return read_markdown(source.encode(), "docs/a.md")


def sites(source: str) -> tuple[Site, ...]:
    return anatomy(source).kernels[0].sites


def found(source: str) -> list[tuple[str, str, Lines]]:
    return [(site.concept, site.label, site.lines) for site in sites(source)]


def concepts(source: str) -> list[str]:
    return [concept for concept, _, _ in found(source)]


# data-movement-table


def test_a_table_of_moves_between_memories() -> None:
    (site,) = sites(MOVES)
    assert (site.concept, site.label, site.lines) == ("data-movement-table", "", Lines(5, 10))
    assert site.context == Lines(3, 10)
    assert site.qualname == "Copies"
    assert site.detail == "GM -> L1, L1 -> L0A / L0B, L0C -> GM, GM -> UB"
    assert site.proof[0].note.key == "trees.rows-are-moves"


@pytest.mark.parametrize(
    "rows",
    [
        ["| GM → L1 | 搬入 |", "| L1 -> L0A | a |", "| UB -> GM | b |"],
        ["| 1 | Global Memory | L1 Buffer |", "| 2 | L1 | L0B |", "| 3 | UB | GM |"],
        ["| 说明 | 全局内存 | UB |", "| x | UB | 全局内存 |", "| y | L0C（累加）| GM |"],
    ],
    ids=["arrows", "numbered", "chinese"],
)
def test_other_ways_to_write_moves(rows: list[str]) -> None:
    width = max(row.count("|") for row in rows) - 1
    head = "|" + " x |" * width + "\n|" + "---|" * width + "\n"
    assert concepts(head + "\n".join(rows) + "\n") == ["data-movement-table"]


@pytest.mark.parametrize(
    "rows",
    [
        ["| A_L1 | (64, 64) | L1 |", "| C_L0 | (64, 64) | L0C |", "| s | (64,) | UB |"],
        ["| GM → L1 | MTE2 |", "| L1 → L0 | MTE1 |", "| MMA | M |", "| L0C → GM | FIX |"],
        ["| GM | L1 |", "| UB | GM |"],
        ["| GM | L1 |", "| GM | L1 |", "| GM | L1 |"],
        ["| src | dst |", "| a | b |", "| c | d |"],
    ],
    ids=["buffers", "stages", "two", "one-move", "names"],
)
def test_tables_that_are_not_of_moves(rows: list[str]) -> None:
    width = max(row.count("|") for row in rows) - 1
    head = "|" + " x |" * width + "\n|" + "---|" * width + "\n"
    assert concepts(head + "\n".join(rows) + "\n") == []


def test_a_table_in_a_code_fence_is_not_a_table() -> None:
    assert concepts("```\n" + MOVES + "```\n") == []


# workspace-section


def test_a_section_on_workspaces_ends_before_the_blank_lines() -> None:
    (site,) = sites(WORKSPACE)
    assert (site.concept, site.lines) == ("workspace-section", Lines(5, 16))
    assert site.qualname == "Guide > 4.1 Copies between cores > 4.1.5 Workspace elimination"
    assert site.proof[0].note.args["cross-core-move"] == "l0c_to_ub"


def test_the_chinese_section_with_an_underlined_heading() -> None:
    source = (
        "Workspace 消除\n---\n\n编译器自动改写 L0C → UB，经全局内存中转。\n\n别的\n---\n\n无。\n"
    )
    assert found(source) == [("workspace-section", "", Lines(1, 4))]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Workspace elimination", "Elimination"),
        ("copy_l0c_to_ub", "copy_gm_to_ub"),
        ("The compiler finds", "You write"),
    ],
    ids=["other-title", "no-move-between-cores", "by-hand"],
)
def test_sections_on_something_else(old: str, new: str) -> None:
    assert concepts(WORKSPACE.replace(old, new)) == []


# no-nesting-note


def test_a_note_right_under_its_heading_takes_the_heading_in() -> None:
    (site,) = sites(NESTING)
    assert (site.concept, site.lines) == ("no-nesting-note", Lines(3, 5))
    assert site.detail == "Important: T.Pipelined does not support nesting."


@pytest.mark.parametrize(
    "sentence",
    [
        "`T.pipelined` 不支持嵌套使用。",
        "使用约束：pipeline不能嵌套使用。",
        "不要嵌套多个 `T.Pipelined`；核内手写。",
        "流水循环嵌套不被支持。",
        "Pipelined loops cannot be nested.",
        "Nested pipelines are not supported yet.",
        "You cannot place a `T.Pipelined` loop inside another `T.Pipelined` loop.",
        "Do not nest T.Pipelined.",
        "Nesting of `T.Pipelined` is forbidden.",
        "Never use nested pipelines.",
    ],
)
def test_sentences_that_forbid_nesting(sentence: str) -> None:
    source = f"# T\n\nText.\n\n- one\n- {sentence}\n- three\n"
    assert found(source) == [("no-nesting-note", "", Lines(6, 6))]


@pytest.mark.parametrize(
    "sentence",
    [
        "Do not treat nested pipelines as invalid.",
        "Nested pipelines are supported on this backend.",
        "Not supported: 3D and more in nested `T.Parallel`.",
        "不支持3D及以上Parallel嵌套：最多两层。",
        "If unsupported, say: `Backend does not support nested software pipelines`.",
        "Some say “nested `T.Pipelined` is not supported” but that is a choice of the backend.",
        "T.Parallel builds nested loops. Pipelines do not change that.",
        "Nested pipeline requests on supporting and unsupported backends.",
        "The pipeline does not support dynamic shapes. Blocks are nested.",
    ],
)
def test_sentences_that_do_not(sentence: str) -> None:
    assert concepts(f"# T\n\n{sentence}\n") == []


def test_a_heading_that_forbids_gives_its_section() -> None:
    source = "# Pipelining\n\n## Nested pattern (not supported)\n\nLike this:\n\n## Flat\n"
    assert found(source) == [("no-nesting-note", "", Lines(3, 5))]


def test_several_notes_are_told_apart() -> None:
    source = NESTING + "\n## Rules\n\nOne.\n\n- Pipelines cannot be nested.\n"
    assert [label for _, label, _ in found(source)] == ["", "nth=2"]


# vendor-performance


def test_the_comparison_takes_its_lead_and_the_gains_in() -> None:
    assert found(PERFORMANCE) == [
        ("vendor-performance", "", Lines(3, 16)),
        ("vendor-performance", "part=ablation", Lines(20, 23)),
    ]
    assert sites(PERFORMANCE)[0].proof[0].note.args["rivals"] == "AscendC"


@pytest.mark.parametrize(
    "table",
    [
        "| kernel | TileLang | Torch SDPA |\n|-|-|-|\n| MHA | 26.8 us · 320 TFLOPS | 28 us |\n",
        "| N | Triton Time | TileLang Time | Speedup |\n|-|-|-|-|\n| 1 | 0.1 | 0.2 | 1.2x |\n",
        "| | s0 | 平均耗时(us) |\n|-|-|-|\n| AscendC | 9 | 99.0 |\n| TileLang | 10 | 109.0 |\n",
    ],
    ids=["units", "title", "rows"],
)
def test_other_comparisons(table: str) -> None:
    last = 4 + table.count("\n")
    source = f"# Attention\n\nText.\n\n{table}"
    assert found(source) == [("vendor-performance", "", Lines(5, last))]
    assert found(f"# Attention\n\n{table}") == [("vendor-performance", "", Lines(1, last - 2))]


@pytest.mark.parametrize(
    ("old", "new"),
    [("FlashAttention", "Product"), ("AscendC", "Tile"), ("TileLang", "Ours")],
    ids=["no-attention", "no-rival", "not-ours"],
)
def test_tables_that_compare_something_else(old: str, new: str) -> None:
    source = PERFORMANCE[: PERFORMANCE.index("## Ticks")].replace(old, new)
    assert concepts(source) == []


def test_a_table_of_parameters_is_no_comparison() -> None:
    source = "# Attention\n\n| Torch | TileLang |\n|-|-|\n| torch.half | T.float16 |\n"
    assert concepts(source) == []


def test_a_row_without_text_does_not_end_the_table() -> None:
    blank = PERFORMANCE.replace("| 2K |", "|    |   |   |   |\n| 2K |")
    assert found(blank)[0] == ("vendor-performance", "", Lines(3, 17))


# all of them


@pytest.mark.parametrize("source", SOURCES.values(), ids=list(SOURCES))
class TestMetamorphic:
    """The same document in another shape says the same, on the lines that it moved to."""

    def test_shifted(self, source: str) -> None:
        moved = [(c, lab, Lines(at.first + 3, at.last + 3)) for c, lab, at in found(source)]
        assert found("Preface.\n\n\n" + source) == moved

    def test_renumbered(self, source: str) -> None:
        assert found(re.sub(r"4\.1\.", "9.3.", source)) == found(source)

    def test_emphasis_and_wide_cells(self, source: str) -> None:
        wide = re.sub(r" \| ", "   |   ", source).replace("GM", "**GM**")
        assert found(wide) == found(source)

    def test_crlf_bom_and_no_final_newline(self, source: str) -> None:
        data = b"\xef\xbb\xbf" + source.rstrip().replace("\n", "\r\n").encode()
        again = read_markdown(data, "a.md").kernels[0].sites
        assert [(s.concept, s.label, s.lines) for s in again] == found(source)

    def test_odd_separators_are_not_lines(self, source: str) -> None:
        moved = [(c, lab, Lines(at.first + 2, at.last + 2)) for c, lab, at in found(source)]
        assert found("a\u2028b\x0cc\u0085\n\n" + source) == moved


def test_a_document_about_nothing() -> None:
    kernel = anatomy("# Title\n\nText.\n").kernels[0]
    assert kernel.sites == ()
    assert {absence.concept for absence in kernel.absences} == {
        "data-movement-table",
        "workspace-section",
        "no-nesting-note",
        "vendor-performance",
    }


def test_an_empty_file_has_one_empty_entry() -> None:
    assert read_markdown(b"", "a.md").kernels[0].lines == Lines(1, 1)


def test_many_headings_take_no_longer_than_their_number() -> None:
    assert len(sites("Pipelines cannot be nested.\n\n# h\n\n" * 5000)) == 5000


@given(st.binary(max_size=300), st.sampled_from(list(SOURCES.values())), st.integers(0, 400))
def test_no_bytes_crash_it(noise: bytes, source: str, at: int) -> None:
    data = source.encode()
    again = read_markdown(data[:at] + noise + data[at:], "a.md").kernels[0].sites
    last = (data + noise).count(b"\n") + 1
    assert all(1 <= s.lines.first <= s.lines.last <= last for s in again)
    assert all(s.context.first <= s.lines.first for s in again)


@given(st.text(alphabet="|-# \n>*`GMUBL10\t=~_[](nest不流水", max_size=200))
def test_no_markup_crashes_it(text: str) -> None:
    read_markdown(text.encode(), "a.md")
