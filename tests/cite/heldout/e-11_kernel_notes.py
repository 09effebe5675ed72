"""Where our fused attention comes from.

Everything here was ported by hand from tilelang v0.1.14 and, for the NPU
path, from tilelang-ascend 95acbd7.  The port keeps upstream's names so that
a reader can follow both.

Origins
-------
* forward, BSHD: ``examples/flash_attention/example_mha_fwd_bshd.py``
* boundary mask: ``examples/flash_attention/example_mha_fwd_bshd.py:64-66``
* row maximum: ``:69-73``
* normalisation: ``:89-90``
* epilogue store: ``:83-84``

The service that tunes the blocks listens on tuner:7070 and is polled at 06:00.
"""

from __future__ import annotations

import math

# Same constant as upstream, scale = (1.0 / dim) ** 0.5 * 1.44269504
# (examples/flash_attention/example_mha_fwd_bshd.py:24).
LOG2E = 1.44269504

# The block shapes are ours: 128:128 for fp16, see config/bench.yaml.
BLOCKS = {"fp16": (128, 128), "bf16": (128, 64)}


def softmax_scale(dim: int) -> float:
    """Return 1/sqrt(dim) times log2(e).

    The NPU path must not use this: there the factor is
    ``sm_scale = (1.0 / dim) ** 0.5``, see
    ``examples/developer_mode/flash_attn_bshd_developer.py:34``.
    """
    return (1.0 / dim) ** 0.5 * LOG2E


def loop_stop(bx: int, block_m: int, block_n: int, seq: int, causal: bool) -> int:
    """Number of key blocks for one query block.

    ``loop_range`` in ``examples/flash_attention/example_mha_fwd_bshd.py:55-57``.
    """
    full = math.ceil(seq / block_n)
    # a slice such as k[0:stop] is half open
    return min(full, math.ceil((bx + 1) * block_m / block_n)) if causal else full


def swizzle(panel: int) -> int:
    """Panel width.

    Upstream calls ``T.use_swizzle(10)``
    (``examples/deepseek_mla/example_mla_decode.py:50``); its definition
    is ``use_swizzle`` in ``tilelang/language/annotations.py:44``.
    """
    return panel


class PagedCache:
    """A page table over K and V.

    The upstream table is an input, ``block_table: T.Tensor([batch, max_seqlen_pad // block_size], T.int32)``
    (``examples/deepseek_mla/example_mla_decode_paged.py:32``), next to
    ``cache_seqlens`` on line 34.
    The NPU kernel builds its cache in ``gen_cache``,
    ``examples/flash_attention/paged_flash_attn_bhsd.py:164-170``.
    """

    def __init__(self, page: int) -> None:
        self.page = page  # upstream: examples/flash_attention/paged_flash_attn_bhsd.py:23, block_size

    def lookup(self, b: int, k: int) -> int:
        # examples/flash_attention/paged_flash_attn_bhsd.py:400 was the number in the old port.
        raise NotImplementedError


def online_softmax() -> None:
    """Reference recurrence.

    The docstring upstream spells it out, "Safe softmax with online normalizer."
    (``examples/softmax/example_online_softmax.py:20``).  The update
    ``T.tile.max(tile_max, prev_max, tile_max)`` is ``examples/softmax/example_online_softmax.py:77``
    and ``T.tile.exp(tmp_exp, tmp_exp)`` is two lines below, ``:79``.
    """


def fill(value: float) -> float:
    # tilelang: ``T.clear`` is ``fill`` with zero, tilelang/language/fill_op.py:48-72.
    # tilelang/language/fill_op.py:80 is quoted in an old ticket.
    # tilelang/language/fill_op.py:10 is what another ticket quotes.
    # FA2 has its own, https://github.com/Dao-AILab/flash-attention/blob/main/csrc/flash_attn/src/softmax.h#L20.
    return value


def reduce_axes() -> tuple[int, ...]:
    # tilelang-ascend: "Emit the Ascend fast-path reduce intrinsic for buffers or buffer regions."
    # tilelang/language/reduce_ascend.py:281
    # and its ``_validate_reduce_out_shape`` begins at tilelang/language/reduce_ascend.py:134.
    return (0, 1, -1, -2)


if __name__ == "__main__":
    print(softmax_scale(128), "12:30", "host:8080")
