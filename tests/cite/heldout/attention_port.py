"""Attention on Ascend, ported by hand.

Buffers follow tilelang-ascend 95acbd7, examples/flash_attention/flash_attn_bhsd.py:41-60 (``q_l1`` to
``acc_o_half``).  ``acc_o_l0c`` is line 48, ``acc_s_half`` line 57.
Timeout 12:30 min, port 127.0.0.1:29500.
"""

PORT = "host:8080"  # no citation


def run(x):
    """Run it.

    Same order as `T.Pipelined` of tilelang (tilelang/language/loop.py L112-L196); the checks of
    ``_gemm_impl`` are tilelang/language/gemm_op.py:23 and :41-42 (``k_pack``), see also
    src/transform/pipeline_planning.cc.
    """
    # fill_op.py:48: clear() is fill with 0
    # cf. src/transform/legalize_negative_index.cc:168 (TryRewriteMixedRamp)
    y = x[1:4]
    # NegativeIndexAnalyzer: legalize_negative_index.cc lines 34-150 and line 129
    return y  # line 279: LegalizeNegativeIndexPass


# 见 tilelang/language/scan_op.py 第 11-12 行的 _CUMSUM_OP_KEY 与 _CUMMAX_OP_KEY
# 以及 https://github.com/tile-ai/tilelang/blob/v0.1.14/examples/flash_decoding/example_mha_inference.py#L400
# 与 examples/attention_sink/example_mha_sink_fwd_bhsd.py:105-107 (check_inf)
# 和 examples/attention_sink/example_mha_sink_fwd_bhsd.py:73-80 的 sinks
