"""What the modules of several variants share: inputs, PyTorch's attention, tilings to try."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SEED = 8
BLOCKS = {
    128: ((128, 128), (128, 160), (128, 176)),
    64: ((128, 96), (128, 128), (128, 160), (192, 64), (192, 96), (192, 112), (192, 128)),
}
"""block_m and block_n for a head size; three warp groups have too few registers for 128."""
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


def dense_sweep(dim: int) -> Iterator[dict[str, Any]]:
    """Yield tilings of a kernel that reads all keys of a tile of queries."""
    for m, n in BLOCKS[dim]:
        for group in (1, 8):
            for turns in (False, True):
                yield {
                    "block_m": m,
                    "block_n": n,
                    "stages": 2,
                    "head_group": group,
                    "turns": turns,
                }


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
