"""Concepts: each a small function over events and roles that yields places.

Themes: softmax, loops, masks, addresses of keys and values (heads, lengths, tables, splits), what
splits hand on, Ascend, Blackwell, choosing.
To add a concept, write a function that reads like its definition and put it in the table below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.anatomy.concepts import (
    ascend,
    blackwell,
    choosing,
    kv_heads,
    lengths,
    loops,
    masking,
    scale,
    softmax,
    split,
    split_range,
    stores,
    tables,
)

if TYPE_CHECKING:
    from srcmap.anatomy.concepts.base import Finder

SOFTMAX: tuple[Finder, ...] = (
    scale.softmax_scale,
    softmax.state_init,
    softmax.row_max,
    softmax.rescaling,
    softmax.normalising,
    softmax.sink,
    stores.epilogue,
    split.partials,
    split.combine,
)
SHARED: tuple[Finder, ...] = (
    loops.kernel_grid,
    loops.kv_loop,
    loops.loop_range,
    loops.window_start,
    softmax.products,
    masking.masks,
    kv_heads.kv_heads,
    lengths.prefix_sums,
    lengths.query_offset,
    lengths.varlen_guard,
    tables.tables,
    tables.block_masks,
    split_range.split_range,
    ascend.workspaces,
    ascend.scopes,
    ascend.flags,
    blackwell.tensor_memory,
    blackwell.barrier_waits,
    choosing.top_k,
)

BY_CLASS: dict[str, tuple[Finder, ...]] = {
    "attention": SOFTMAX + SHARED,
    "indexer": SHARED,
    "combine": (loops.kernel_grid, split.combine),
    "cleaner": (loops.kernel_grid, masking.masks),
    "backward": (),
    "selection": (loops.kernel_grid, choosing.selection),
    "other": (),
}
"""Which concepts a class of kernel can have."""
