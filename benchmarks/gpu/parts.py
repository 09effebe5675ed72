"""What the modules of several variants share: inputs, PyTorch's attention, tilings to try."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 8
TILINGS = {
    (64, False): (
        (192, 128, 8, True),
        (192, 128, 1, True),
        (192, 128, 32, True),
        (192, 112, 8, True),
        (128, 160, 8, False),
        (128, 128, 8, False),
    ),
    (64, True): (
        (192, 128, 8, True),
        (192, 64, 8, True),
        (128, 128, 8, True),
        (128, 128, 8, False),
        (128, 64, 8, False),
    ),
    (128, False): (
        (128, 128, 8, False),
        (128, 128, 1, False),
        (128, 128, 8, True),
        (128, 160, 8, False),
        (128, 176, 8, False),
    ),
    (128, True): (
        (128, 128, 8, False),
        (128, 128, 8, True),
        (128, 128, 1, False),
        (128, 96, 8, False),
    ),
}
"""block_m, block_n, head_group and turns to try, for a head size and whether there is a window:
those that led the first sweeps of all combinations, and what has not been tried."""
UPSTREAM_BLOCKS = (
    (128, 128, 1, 256),
    (128, 128, 2, 256),
    (192, 128, 2, 384),
    (128, 176, 1, 256),
)
"""block_M, block_N, num_stages, threads: upstream's own files with other numbers."""


def normal(*sizes: tuple[int, ...], dtype: str = "float16") -> tuple[Any, ...]:
    """Return a CUDA tensor of standard normal numbers for each of the sizes, always the same."""
    import torch

    torch.manual_seed(SEED)
    return tuple(torch.randn(*s, device="cuda", dtype=getattr(torch, dtype)) for s in sizes)


def dense_sweep(dim: int, windowed: bool = False) -> Iterator[dict[str, Any]]:
    """Yield tilings of a kernel that reads all keys of a tile of queries, or those of a window."""
    for m, n, group, turns in TILINGS[dim, windowed]:
        yield {"block_m": m, "block_n": n, "stages": 2, "head_group": group, "turns": turns}


def pairs(seq: int, causal: bool, window: int | None = None) -> float:
    """Return how many keys all queries of a square see together; on the diagonal, half of it."""
    if window is not None:
        window = min(window, seq)
        return seq * window - window * (window - 1) / 2
    return seq * seq * (0.5 if causal else 1.0)


def pytorch_attention(
    *, causal: bool, bhsd: bool = True, grouped: bool = False
) -> Iterator[tuple[str, Callable[[], Callable[..., Any]]]]:
    """Yield cuDNN's and the flash backend of PyTorch's attention, for q, k, v of a layout."""
    for backend in ("cudnn", "flash"):
        yield f"pytorch {backend}", partial(_backend, backend, causal, bhsd, grouped)


def _backend(backend: str, causal: bool, bhsd: bool, grouped: bool) -> Callable[..., Any]:
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import scaled_dot_product_attention

    one = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[backend]

    def call(*qkv: Any) -> Any:
        q, k, v = qkv if bhsd else (x.transpose(1, 2) for x in qkv)
        with sdpa_kernel(one):
            out = scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=grouped)
        return out if bhsd else out.transpose(1, 2)

    return call
