"""Our copy of the sink kernel.

The original is examples/attention_sink/example_mha_sink_fwd_bhsd.py (tilelang v0.1.14), and the
reference `ref_program` starts at line 136 there.
"""

from __future__ import annotations

BLOCK = {"a": 1, "b": 2}
TABLE = "ratio 1:2"
ADDRESS = ("127.0.0.1:9000", "fill_op.py:11")


def forward(q: int, k: int) -> int:
    """Return what tilelang/language/reduce_op.py:232-261 (`reduce_sum`) returns."""
    # same as examples/flash_decoding/example_mha_inference.py:108: acc_o over logsum
    total = q[1:2]  # 12:30
    # 与 src/op/gemm.h:29-43 的 GemmWarpPolicyTypeToString 一致
    # line 36 is the column policy
    return total
