"""The definition of block-sparse attention: a table over blocks, widened to a mask over elements.

Implements what tilelang `examples/blocksparse_attention/example_tilelang_block_sparse_attn.py`
computes, and that file's two ways to choose blocks from scores of blocks.
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
    causal: bool,
    block: int = 64,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return attention to the blocks that are on; a row that sees no key is 0.

    q, k, v [B, H, S, D], block_mask [B, H, n, n] with n = ceil(S / block), rows for queries
    -> [B, H, S, D], computed in `dtype`.
    """
    q, k, v = (x.astype(dtype) for x in (q, k, v))
    seq_len = q.shape[2]
    seen = np.repeat(np.repeat(block_mask != 0, block, axis=2), block, axis=3)
    seen = seen[:, :, :seq_len, :seq_len]
    if causal:
        seen = seen & (np.tri(seq_len) > 0)
    scores = q @ np.swapaxes(k, 2, 3) / np.sqrt(dtype(q.shape[3]))  # [B, H, S, S]
    out: NDArray[Any] = softmax(np.where(seen, scores, -np.inf)) @ v
    return out


def topk_mask(scores: NDArray[Any], topk: int) -> NDArray[Any]:
    """Return a causal block table: the `topk` best key blocks of each row of scores [..., n, n].

    The choice is made among all blocks and cut to the past afterwards, as upstream does: early rows
    can be left with fewer, or with none. Of equal scores the first wins.
    """
    best = np.argsort(-scores, axis=-1, kind="stable")[..., :topk]
    chosen = np.zeros(scores.shape, bool)
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
    return (attention(*run.inputs, causal=run.args[5]),)
