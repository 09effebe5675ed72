"""The definition of SeerAttention's sparse attention; the table is an input, the gate is not here.

Implements what tilelang `examples/seer_attention/block_sparse_attn_tilelang.py` computes; the paper
is "SeerAttention" (Gao et al., 2024). Against `block_sparse`: more keys than queries are allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    block_mask: NDArray[Any],
    *,
    causal: bool = True,
    block: int = 64,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return attention to the blocks that are on; a row that sees no key is 0.

    q [B, H, Sq, D], k and v [B, H, Skv, D] -> [B, H, Sq, D], computed in `dtype`. block_mask
    [B, H, n, n] with n = ceil(Skv / block); its row i belongs to the i-th block of the queries that
    are there, not of the sequence. Causal: the last query stands at the last key.
    """
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    seq_q, seq_kv = q.shape[2], k.shape[2]
    seen = np.repeat(np.repeat(block_mask != 0, block, axis=2), block, axis=3)
    seen = seen[:, :, :seq_q, :seq_kv]
    if causal:
        seen = seen & (np.tri(seq_q, seq_kv, seq_kv - seq_q) > 0)
    scores = q @ np.swapaxes(k, 2, 3) / np.sqrt(dtype(q.shape[3]))  # [B, H, Sq, Skv]
    out: NDArray[Any] = softmax(np.where(seen, scores, -np.inf)) @ v
    return out


def threshold_mask(gate: NDArray[Any], threshold: float) -> NDArray[Any]:
    """Return a causal block table: blocks whose gate [..., n, n] is above the threshold."""
    return np.tril(gate > threshold)


def topk_mask(gate: NDArray[Any], topk: int) -> NDArray[Any]:
    """Return a causal block table: the `topk` largest of each row of the gate [..., n, n]."""
    best = np.argsort(-gate, axis=-1, kind="stable")[..., :topk]
    chosen = np.zeros(gate.shape, bool)
    np.put_along_axis(chosen, best, True, axis=-1)
    return np.tril(chosen)


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Return exp(s) / sum of exp(s) over the last dimension; 0 where all scores are -inf."""
    top = scores.max(axis=-1, keepdims=True)
    raised: NDArray[Any] = np.exp(scores - np.where(np.isneginf(top), 0, top))
    total = raised.sum(axis=-1, keepdims=True)
    weights: NDArray[Any] = raised / np.where(total > 0, total, 1)
    return weights


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors."""
    return (attention(*run.inputs, causal=run.args[6]),)
