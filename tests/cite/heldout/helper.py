# Ported from tilelang v0.1.14, examples/flash_decoding/example_mha_inference.py:168 (reduce_ref).
"""Split-KV helpers.

See also:
    examples/flash_decoding/example_mha_inference.py:183-236: flash_split_ref
    examples/flash_decoding/example_gqa_decode.py:260: ref_program
"""

PORT = {"http": 80, "a:1": 2}


def combine(x):
    """Combine.

    Args:
        x: partial sums, shape ``[b:1, h:2]``; lines up with ``y``.

    Note:
        examples/flash_decoding/example_mha_inference.py, lines 140-143 (``lse_logsum_local``).
    """
    return x[0:1]  # 见 examples/flash_decoding/example_mha_inference.py:151 的 o_accum_local
