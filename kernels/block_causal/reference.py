"""The definition of block-causal attention: a noisy and a clean copy, seen by block.

Implements what tilelang `examples/block_causal_attention/block_causal_attention.py` and
`block_causal_attention_varlen.py` compute; the paper is "Block Diffusion" (Arriola et al., 2025).
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    *,
    dllm_block: int,
    scale: float | None = None,
    dtype: Any = np.float64,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the output [B, S, H, D] and the log2-sum-exp of the scaled scores [B, H, S].

    q, k, v [B, S, H, D]: rows up to S / 2 are the noisy copy, the rest the clean one. `dllm_block`
    tokens make a block; `scale` is 1/sqrt(D) when None. ValueError when S is odd.
    """
    scale = q.shape[3] ** -0.5 if scale is None else scale
    q, k, v = (np.swapaxes(x.astype(dtype), 1, 2) for x in (q, k, v))
    scores = q @ np.swapaxes(k, 2, 3) * dtype(scale)  # [B, H, S, S]
    scores = np.where(visible(q.shape[2], dllm_block), scores, -np.inf)
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)  # a sample may be empty
    raised = np.exp(scores - top)
    total = raised.sum(axis=-1, keepdims=True)
    lse = (np.log(total) + top)[..., 0] / np.log(dtype(2))
    return np.swapaxes(raised / total @ v, 1, 2), lse


def visible(length: int, dllm_block: int) -> NDArray[Any]:
    """Return [length, length]: which key (column) a query (row) sees.

    Noisy tokens see their own noisy block and the clean blocks before it; clean tokens see the
    clean blocks up to and with their own. No clean token sees a noisy one.
    """
    if length % 2:
        raise ValueError(f"{length} tokens are no two halves")
    place = np.arange(length)
    clean, block = place >= length // 2, place % (length // 2) // dllm_block
    (q_clean, q), (k_clean, k) = (clean[:, None], block[:, None]), (clean, block)
    noisy_to_noisy = ~q_clean & ~k_clean & (q == k)
    noisy_to_clean = ~q_clean & k_clean & (q > k)
    clean_to_clean = q_clean & k_clean & (q >= k)
    seen: NDArray[Any] = noisy_to_noisy | noisy_to_clean | clean_to_clean
    return seen


def attention_varlen(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    cu_seqlens: NDArray[Any],
    *,
    dllm_block: int,
    scale: float | None = None,
    dtype: Any = np.float64,
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return output [T, H, D] and lse [H, T] of packed samples, each noisy before clean.

    q, k, v [T, H, D]; sample b is rows cu_seqlens[b] to cu_seqlens[b + 1].
    """
    outs, lses = [], []
    for start, end in pairwise(cu_seqlens):
        sample = (x[None, start:end] for x in (q, k, v))
        out, lse = attention(*sample, dllm_block=dllm_block, scale=scale, dtype=dtype)
        outs.append(out[0])
        lses.append(lse[0])
    return np.concatenate(outs), np.concatenate(lses, axis=1)


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors."""
    if run.build == "_fwd_varlen_template":
        dllm_block, scale = run.args[3:5]
        return attention_varlen(*run.inputs[:4], dllm_block=dllm_block, scale=scale)
    dllm_block, scale = run.args[4:6]
    return attention(*run.inputs, dllm_block=dllm_block, scale=scale)
