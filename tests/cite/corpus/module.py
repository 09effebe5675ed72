"""Attention, after `examples/attn/fwd.py:7` of tiny.

The causal mask follows examples/attn/fwd.py:29-32, the loop end lines 20-24 of examples/attn/fwd.py.
"""

# mypy: ignore-errors
import os  # not a citation: 12:30

PATH = "examples/attn/fwd.py:8"  # the normalisation is examples/attn/fwd.py:42-43


def run(x):
    """Reduce as ``tiny/ops/reduce.py:4-10`` (``reduce_max``) does."""
    # As in tiny/ops/gemm.py:1-2, `gemm`;
    # the second one, `gemm_v2`, is in :6-7 (same file :6-7).
    y = x[1:2]
    return os.path.join(
        "tiny/ops/gemm.py:1", y
    )  # 归约见 tiny/ops/reduce.py 第 13 行的 `reduce_sum`


class Table:
    '''合并见 examples/decode/split.py:11-17（combine kernel）。'''

    text = """not a docstring: examples/attn/fwd.py:7"""
