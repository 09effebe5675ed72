"""Online softmax in NumPy, next to the kernels it mirrors.

All line numbers are those of tilelang v0.1.14.

The loop body follows ``examples/flash_attention/example_mha_fwd_bhsd.py:77-88``, where ``T.reduce_max``
and ``T.reduce_sum`` are called.  The rescale factor is ``T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)``
(same file :83) and the final division ``acc_o[i, j] /= logsum[i]`` is at line 98.

See also ``examples/online_softmax/``.
"""

import numpy as np

LOG2E = 1.44269504  # 同 example_mha_fwd_bhsd.py:24 的 scale


def check_inf(m):
    """Replace a minus-infinity maximum by zero.

    Upstream: ``scores_max[i] = T.if_then_else(scores_max[i] == -T.infinity(accum_dtype), 0, scores_max[i])``,
    ``examples/attention_sink/example_mha_sink_fwd_bhsd.py:107``.  The decode kernel has it only as a
    comment, ``examples/flash_decoding/example_mha_inference.py:81-85``
    ("This process is called Check_inf in FlashAttention3 code").
    """
    return np.where(np.isneginf(m), 0.0, m)


def step(scores, state, v):
    m_prev, l_prev, o_prev = state
    m = np.maximum(m_prev, scores.max(axis=1))
    c = np.exp2(m_prev - m)
    p = np.exp2(scores - m[:, None])  # 概率，见 example_mha_fwd_bhsd.py:84-85
    l_new = c * l_prev + p.sum(axis=1)  # 分母递推，example_mha_fwd_bhsd.py:86
    o = c[:, None] * o_prev + p @ v[0:64, :]
    return m, l_new, o


def combine(lse, parts):
    """Second kernel of a split.

    ``lse_logsum_local = T.log2(lse_logsum_local) + lse_max_local`` is examples/deepseek_mla/example_mla_decode.py:109,
    the weights ``scale_local = T.exp2(lse_local_split - lse_logsum_local)`` are example_mla_decode.py:104.
    Its test is ``examples/deepseek_mla/test_example_mla_decode.py``.
    """
    # 最大值先减掉一次：example_mla_decode.py:104-105 的 lse_max_local
    m = lse.max(axis=0)
    joint = np.log2(np.exp2(lse - m).sum(axis=0)) + m
    # 循环写反了的那一处引用：example_mla_decode.py:116-110
    return (np.exp2(lse - joint)[..., None] * parts).sum(axis=0)


def serve(addr="localhost:8080", ratio="1:2"):
    """Listen on ``host:8080``; the trace is written at 12:30 to ``code/01-traffic/main.py``'s folder."""
    return addr, ratio
