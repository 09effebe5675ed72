"""What the modules of variants with packed samples share: lengths, inputs, PyTorch's kernel."""

from __future__ import annotations

import itertools
import random
import sys
from functools import partial
from importlib.util import find_spec
from types import ModuleType
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import parts
from benchmarks.gpu.upstream import module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def lengths(samples: int, longest: int, spread: int, what: str) -> list[int]:
    """Return the samples' lengths: at most `spread` below the longest, always the same.

    Upstream draws the last 20 as its examples do, with queries and keys apart from each other.
    """
    rng = random.Random(f"{what} {samples} {longest} {spread}")  # noqa: S311 - no secret
    return [longest, *(rng.randint(longest - spread, longest) for _ in range(samples - 1))]


def starts(many: list[int]) -> Any:
    """Return where samples start, and where the last ends, as a CUDA tensor."""
    import torch

    return torch.tensor([0, *itertools.accumulate(many)], dtype=torch.int32, device="cuda")


def inputs(
    queries: list[int], keys: list[int], heads: int, kv_heads: int, dim: int
) -> tuple[Any, ...]:
    """Return q [Tq, H, D], k and v [Tk, Hkv, D], cu_seqlens_q and cu_seqlens_k."""
    one = (sum(keys), kv_heads, dim)
    return (*parts.normal((sum(queries), heads, dim), one, one), starts(queries), starts(keys))


def pairs(queries: list[int], keys: list[int], causal: bool, window: int | None = None) -> float:
    """Return how many keys all queries see together; the last query stands at the last key."""
    return float(sum(_pairs(*one, causal, window) for one in zip(queries, keys, strict=True)))


def _pairs(queries: int, keys: int, causal: bool, window: int | None) -> int:
    places = range(keys - queries, keys)
    ends = (max(0, place + 1) if causal else keys for place in places)
    return sum(
        max(0, end - max(0, place + 1 - (window or keys + queries)))
        for place, end in zip(places, ends, strict=True)
    )


def their_module(path: str) -> Any:
    """Return a module of upstream's with kernels for packed samples.

    The file imports helpers that make its own test data, and those need einops: a kernel does not.
    """
    if find_spec("einops") is None and "varlen_utils" not in sys.modules:
        absent = ModuleType("varlen_utils")
        absent.generate_random_padding_mask = absent.generate_qkv = None  # type: ignore[attr-defined]
        sys.modules["varlen_utils"] = absent
    return module(path)


def truth(inputs: tuple[Any, ...], causal: bool) -> tuple[Any, Any]:
    """Return an index, and attention there in float64: two heads of the first and last sample."""
    import torch

    q, k, v, q_starts, k_starts = inputs
    rows, heads, values = [], [], []
    for sample, head in itertools.product((0, len(q_starts) - 2), (0, q.shape[1] - 1)):
        queries = slice(*q_starts[sample : sample + 2].tolist())
        keys = slice(*k_starts[sample : sample + 2].tolist())
        kv_head = head // (q.shape[1] // k.shape[1])
        rows.append(torch.arange(queries.start, queries.stop, device=q.device))
        heads.append(torch.full_like(rows[-1], head))
        one = (q[queries, head].double(), k[keys, kv_head].double(), v[keys, kv_head].double())
        values.append(_one_head(*one, causal))
    return (torch.cat(rows), torch.cat(heads)), torch.cat(values)


def _one_head(q: Any, k: Any, v: Any, causal: bool) -> Any:
    """Return attention of one head of one sample in float64; 0 where nothing is seen."""
    import torch

    scores = q @ k.T / q.shape[1] ** 0.5
    if causal:
        hidden = torch.ones_like(scores, dtype=torch.bool).triu(len(k) - len(q) + 1)
        scores = scores.masked_fill(hidden, float("-inf"))
    return scores.softmax(-1).nan_to_num(0.0) @ v


def pytorch(
    max_q: int, max_k: int, causal: bool, grouped: bool
) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """Yield PyTorch's kernel for packed samples, which is FlashAttention 2."""
    yield "pytorch flash", partial(_varlen_attn, max_q, max_k, causal, grouped)


def _varlen_attn(max_q: int, max_k: int, causal: bool, grouped: bool) -> Callable[..., Any]:
    from inspect import signature

    from torch.nn.attention.varlen import varlen_attn

    known = signature(varlen_attn).parameters  # it is young: its arguments still change
    named: dict[str, Any] = {}
    if causal:
        named |= {"is_causal": True} if "is_causal" in known else {"window_size": (-1, 0)}
    if grouped and "enable_gqa" in known:
        named["enable_gqa"] = True
    return lambda q, k, v, q_starts, k_starts: varlen_attn(
        q, k, v, q_starts, k_starts, max_q, max_k, **named
    )
