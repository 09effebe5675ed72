"""The rewrites on the real upstream files: the same concepts at the corresponding lines."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING

import pytest

from srcmap.anatomy import read_source
from srcmap.parse.rewrite import CannotRewriteError, rename_definitions, rename_locals
from tests.corpus.pins import Example, attention_examples, read_example
from tests.metamorphic.compare import differences
from tests.metamorphic.instructions import comparable, difference
from tests.metamorphic.moves import MOVES, RENAMING

if TYPE_CHECKING:
    from collections.abc import Callable

    from srcmap.model import FileAnatomy
    from srcmap.parse.rewrite import Rewritten

pytestmark = pytest.mark.pins

# One file per way of writing attention; SRCMAP_ALL_FILES=1 takes every file with an attention
# kernel (some minutes).
_USUAL = {
    "tilelang@v0.1.14": [
        "examples/attention_sink/example_mha_sink_fwd_bhsd.py",
        "examples/attention_sink/example_gqa_sink_fwd_varlen.py",
        "examples/blocksparse_attention/block_sparse_attn_tilelang.py",
        "examples/deepseek_mla/example_mla_decode_paged.py",
        "examples/deepseek_mla/example_mla_decode_ws.py",
        "examples/deepseek_nsa/example_tilelang_nsa_fwd.py",
        "examples/deepseek_v32/sparse_mla_fwd_pipelined.py",
        "examples/flash_attention/example_gqa_fwd_bshd.py",
        "examples/flash_attention/example_gqa_fwd_varlen.py",
        "examples/flash_attention/example_mha_fwd_bhsd.py",
        "examples/flash_attention/example_mha_fwd_varlen.py",
        "examples/flash_decoding/example_mha_inference.py",
    ],
    "tilelang-ascend@95acbd7": [
        "examples/flash_attention/flash_attn_bhsd.py",
        "examples/flash_attention/paged_flash_attn_bhsd.py",
    ],
}


def _examples() -> list[Example]:
    every = attention_examples()
    if os.environ.get("SRCMAP_ALL_FILES"):
        return every
    return [e for e in every if e.path in _USUAL[e.pin]]


@functools.cache
def _reading(example: Example) -> tuple[str, FileAnatomy]:
    source = read_example(example).decode()
    return source, read_source(source.encode(), example.path)


@comparable
@pytest.mark.parametrize("rename", [rename_locals, rename_definitions])
@pytest.mark.parametrize("example", _examples(), ids=str)
def test_renaming_changes_no_instruction(
    example: Example, rename: Callable[[str], Rewritten]
) -> None:
    source, _ = _reading(example)
    assert difference(source, rename(source).source) == ""


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("example", _examples(), ids=str)
def test_the_same_concepts_at_the_corresponding_lines(example: Example, move: str) -> None:
    source, reading = _reading(example)
    try:
        done = MOVES[move](source, reading, 1)
    except CannotRewriteError as refusal:
        pytest.skip(f"{move} cannot be done here: {refusal}")
    after = read_source(done.source.encode(), example.path)
    assert differences(reading, after, done, comments=move not in RENAMING) == []
