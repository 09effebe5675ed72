"""Which upstream files the diff test can run, for which variants; and why others cannot be run.

A table of names, so that planning imports no NumPy; a test holds it against `engines.cases`.
"""

from __future__ import annotations

from typing import NamedTuple


class Listed(NamedTuple):
    """One file with a case."""

    repo: str
    path: str
    variants: tuple[str, ...]

    @property
    def case(self) -> str:
        """The id of the case."""
        return f"{self.repo}:{self.path.removeprefix('examples/').removesuffix('.py')}"


LISTED = (
    Listed("tilelang", "examples/flash_attention/example_mha_fwd_bhsd.py", ("mha-bhsd", "causal")),
    Listed("tilelang", "examples/flash_attention/example_mha_fwd_bshd.py", ("mha-bshd",)),
    Listed("tilelang", "examples/flash_attention/example_gqa_fwd_bshd.py", ("gqa-bshd",)),
    Listed("tilelang", "examples/flash_attention/example_mha_fwd_varlen.py", ("mha-varlen",)),
    Listed("tilelang", "examples/flash_attention/example_gqa_fwd_varlen.py", ("gqa-varlen",)),
    Listed(
        "tilelang",
        "examples/attention_sink/example_mha_sink_fwd_bhsd.py",
        ("sink", "sliding-window"),
    ),
    Listed(
        "tilelang", "examples/attention_sink/example_gqa_sink_fwd_varlen.py", ("sink-gqa-varlen",)
    ),
    Listed(
        "tilelang", "examples/block_causal_attention/block_causal_attention.py", ("block-causal",)
    ),
    Listed(
        "tilelang",
        "examples/block_causal_attention/block_causal_attention_varlen.py",
        ("block-causal",),
    ),
    Listed(
        "tilelang",
        "examples/blocksparse_attention/example_tilelang_block_sparse_attn.py",
        ("block-sparse",),
    ),
    Listed("tilelang", "examples/seer_attention/block_sparse_attn_tilelang.py", ("seer",)),
    Listed(
        "tilelang",
        "examples/blocksparse_attention/example_tilelang_sparse_gqa_decode_varlen_indice.py",
        ("sparse-decode",),
    ),
    Listed(
        "tilelang",
        "examples/blocksparse_attention/example_tilelang_sparse_gqa_decode_varlen_mask.py",
        ("sparse-decode",),
    ),
    Listed(
        "tilelang",
        "examples/blocksparse_attention/example_tilelang_sparse_gqa_decode_paged.py",
        ("paged-gqa",),
    ),
    Listed("tilelang", "examples/deepseek_mla/example_mla_decode.py", ("mla-decode",)),
    Listed("tilelang", "examples/deepseek_mla/example_mla_decode_ws.py", ()),
    Listed("tilelang", "examples/deepseek_mla/example_mla_decode_paged.py", ("paged-mla",)),
    Listed("tilelang", "examples/deepseek_nsa/example_tilelang_nsa_fwd.py", ("nsa",)),
    Listed("tilelang", "examples/dsa_hisa/pool_mqa_fp8.py", ("hisa",)),
    Listed("tilelang", "examples/dsa_hisa/block_sparse_mqa_fp8.py", ("hisa",)),
    Listed("tilelang", "examples/dsa_hisa/clean_and_maintain_logits.py", ("hisa",)),
    Listed("tilelang", "examples/dsa_hisa/fp8_block_mean_pooling.py", ()),
    Listed("tilelang", "examples/flash_decoding/example_mha_inference.py", ("decode-mha",)),
    Listed("tilelang", "examples/flash_decoding/example_gqa_decode.py", ("decode-gqa",)),
    Listed(
        "tilelang",
        "examples/flash_decoding/example_gqa_decode_varlen_logits.py",
        ("decode-gqa-varlen",),
    ),
    Listed(
        "tilelang", "examples/minference/example_vertical_slash_sparse_attn.py", ("minference",)
    ),
    Listed("tilelang", "examples/flash_attention_sm100/mha_fwd_bshd.py", ("sm100-mha",)),
    Listed("tilelang", "examples/flash_attention_sm100/gqa_fwd_bshd.py", ("sm100-gqa",)),
    Listed("tilelang-ascend", "examples/flash_attention/flash_attn_bhsd.py", ("asc-mha",)),
    Listed("tilelang-ascend", "examples/flash_attention/flash_attn_bhsd_cc_sync.py", ()),
    Listed("tilelang-ascend", "examples/flash_attention/paged_flash_attn_bhsd.py", ("asc-paged",)),
    Listed(
        "tilelang-ascend",
        "examples/lightning_indexer/example_lightning_indexer.py",
        ("asc-indexer",),
    ),
    Listed(
        "tilelang-ascend",
        "examples/sparse_flash_attention/example_sparse_flash_attn_mask.py",
        ("asc-sfa",),
    ),
    Listed(
        "tilelang-ascend",
        "examples/sparse_flash_attention/example_sparse_flash_attn.py",
        ("asc-sfa",),
    ),
    Listed(
        "tilelang-ascend", "examples/flash_attention/fa_opt/flash_attn_bhsd_expert_h16_d128.py", ()
    ),
    Listed(
        "tilelang-ascend",
        "examples/flash_attention/fa_opt/flash_attn_bhsd_auto_pipeline_h16_d128.py",
        (),
    ),
    Listed("tilelang-ascend", "examples/developer_mode/flash_attn_bshd_developer.py", ()),
    Listed("tilelang-ascend", "examples/seer_attention/block_sparse_attn.py", ("asc-seer",)),
    Listed("tilelang", "examples/deepseek_nsa/example_tilelang_nsa_decode.py", ("nsa",)),
    Listed("tilelang", "examples/deepseek_nsa/example_tilelang_nsa_fwd_varlen.py", ("nsa",)),
    Listed("tilelang", "examples/deepseek_v32/fp8_lighting_indexer.py", ("dsa-indexer",)),
    Listed("tilelang", "examples/deepseek_v32/topk_selector.py", ("dsa-indexer",)),
    Listed("tilelang", "examples/deepseek_v32/sparse_mla_fwd.py", ("dsa-mla",)),
    Listed("tilelang", "examples/deepseek_v32/sparse_mla_fwd_pipelined.py", ("dsa-mla",)),
    Listed("tilelang", "examples/attention_sink/example_gqa_sink_bwd_bhsd.py", ()),
    Listed("tilelang-ascend", "examples/HISA/block_sparse_mqa_attn_expert_test.py", ("asc-hisa",)),
    Listed("tilelang-ascend", "examples/HISA/paged_block_sparse_mqa_attn_expert.py", ("asc-hisa",)),
    Listed(
        "tilelang-ascend",
        "examples/lightning_indexer/example_lightning_indexer_dynamic_shape.py",
        ("asc-indexer",),
    ),
    Listed(
        "tilelang-ascend",
        "examples/sparse_flash_attention/example_sparse_flash_attn_gqa.py",
        ("asc-sfa",),
    ),
)

SHOWN_BY = {"causal": "causal", "sliding-window": "window 64"}
"""Variants that only some checks of their file show: a part of those checks' names."""

UNTESTED: dict[tuple[str, str], str] = {
    ("tilelang", "examples/dsa_hisa/hisa.py"): "run.host-only",
}
"""Files of the catalogue that have no case: the key of the sentence that says why."""


def listed(repo: str, path: str) -> Listed | None:
    """Return the row of a file."""
    return next((row for row in LISTED if (row.repo, row.path) == (repo, path)), None)
