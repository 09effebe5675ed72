"""The definition of attention over a paged KV cache: put the pages in order, then attend.

Implements what tilelang-ascend `examples/flash_attention/paged_flash_attn_bhsd.py` and tilelang
`examples/blocksparse_attention/example_tilelang_sparse_gqa_decode_paged.py` compute; the paper is
"PagedAttention" (Kwon et al., 2023), section 4.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def attention(
    q: NDArray[Any],
    k_pages: NDArray[Any],
    v_pages: NDArray[Any],
    block_table: NDArray[Any],
    cache_seqlens: NDArray[Any],
    *,
    block_indices: NDArray[Any] | None = None,
    block_n: int = 64,
    dtype: Any = np.float64,
) -> NDArray[Any]:
    """Return attention of each query to its sample's keys, in `dtype`.

    q [B, H, Sq, D], k_pages and v_pages [P, page, G, D] -> [B, H, Sq, D]. Keys of sample b lie in
    pages block_table[b, 0], block_table[b, 1], ... and are the first cache_seqlens[b] in there.
    block_indices [B, G, n], when given, names the blocks of `block_n` keys that are attended to, in
    any order; -1 names none. Query head h reads KV head h // (H // G). No key seen: 0.
    """
    out = np.empty((*q.shape[:3], v_pages.shape[3]), dtype)
    for b, h in np.ndindex(q.shape[:2]):
        g = h // (q.shape[1] // k_pages.shape[2])
        k, v = (in_order(x[:, :, g], block_table[b]).astype(dtype) for x in (k_pages, v_pages))
        position = np.arange(len(k))
        seen = position < cache_seqlens[b]
        if block_indices is not None:
            seen &= np.isin(position // block_n, block_indices[b, g])
        scores = q[b, h].astype(dtype) @ k.T / np.sqrt(dtype(q.shape[3]))  # [Sq, keys]
        out[b, h] = softmax(np.where(seen, scores, -np.inf)) @ v
    return out


def in_order(pages: NDArray[Any], table: NDArray[Any]) -> NDArray[Any]:
    """Return the keys of one sample in a row: pages [P, page, D], table [n] -> [n * page, D]."""
    keys: NDArray[Any] = pages[table].reshape(-1, pages.shape[2])
    return keys


def softmax(scores: NDArray[Any]) -> NDArray[Any]:
    """Return exp(s) / sum of exp(s) over the last dimension; 0 where every score is -inf."""
    top = scores.max(axis=-1, keepdims=True, initial=-np.inf)
    raised: NDArray[Any] = np.exp(scores - np.where(np.isinf(top), 0, top))
    total = raised.sum(axis=-1, keepdims=True)
    weights: NDArray[Any] = np.divide(raised, total, out=np.zeros_like(raised), where=total > 0)
    return weights


def like_upstream(run: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run.args` are its sizes, `run.inputs` its tensors.

    Ascend's kernel attends to all keys, NVIDIA's to chosen blocks, with one query for each sample.
    """
    if len(run.inputs) == 4:
        q, k, v, table = run.inputs
        return (attention(q, k, v, table, np.full(len(q), q.shape[2])),)
    q, k, v, indices, lengths, table = run.inputs[:6]
    size = run.args[5]
    out = attention(q[:, :, None], k, v, table, lengths, block_indices=indices, block_n=size)
    return (out[:, :, 0],)
