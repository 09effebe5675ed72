"""Concepts: each a small function over events and roles that yields places.

Themes: softmax, loops, masking, addressing, split, ascend, blackwell, choosing.
To add a concept, write a function that reads like its definition and put it in the table below.
"""

from __future__ import annotations

from srcmap.anatomy.concepts import (
    addressing,
    ascend,
    blackwell,
    choosing,
    loops,
    masking,
    softmax,
    split,
)
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.anatomy.concepts.base import Finder

SOFTMAX: tuple[Finder, ...] = (
    softmax.softmax_scale,
    softmax.state_init,
    softmax.row_max,
    softmax.rescaling,
    softmax.normalising,
    softmax.sink,
    softmax.epilogue,
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
    addressing.kv_heads,
    addressing.prefix_sums,
    addressing.query_offset,
    addressing.varlen_guard,
    addressing.tables,
    addressing.block_masks,
    addressing.split_range,
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
