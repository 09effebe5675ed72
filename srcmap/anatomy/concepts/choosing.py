"""Top-k on chip: the statement that chooses blocks or tokens."""

from __future__ import annotations

from collections.abc import Iterator

from srcmap.anatomy.concepts.base import Found, Kernel

CHOOSING_CLASSES = {"attention", "indexer", "backward"}


def top_k(kernel: Kernel) -> Iterator[Found]:
    """`T.tile.topk` and its like, in a kernel that scores or attends."""
    if kernel.facts.kernel_class not in CHOOSING_CLASSES:
        return
    statements = [
        statement for statement in kernel.context.statements if kernel.context.call_name(statement) in ("tile.topk", "topk")
    ]
    yield from (kernel.at("top-k", place) for place in kernel.spans.places(statements, grow=False))
