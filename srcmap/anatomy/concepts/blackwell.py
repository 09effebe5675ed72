"""Blackwell (and Hopper's barriers): tensor memory, and waiting for the asynchronous product."""

from __future__ import annotations

import ast

from srcmap.anatomy import ops
from srcmap.anatomy.context import base_name
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.anatomy.tree import Stmt
    from srcmap.anatomy.concepts.base import Found, Kernel
    from collections.abc import Iterator


def tensor_memory(kernel: Kernel) -> Iterator[Found]:
    """The runs of `T.alloc_tmem`."""
    statements = [
        statement for statement in kernel.context.statements if _allocates(kernel, statement)
    ]
    yield from (kernel.at("tmem-alloc", place) for place in kernel.spans.places(statements))


def _allocates(kernel: Kernel, statement: Stmt) -> bool:
    node = statement.node
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and kernel.context.name(node.value) == "alloc_tmem"
    )


def barrier_waits(kernel: Kernel) -> Iterator[Found]:
    """Waits for a barrier that an asynchronous product signals."""
    signalled = {
        base
        for product in kernel.reading.products.values()
        if (barrier := ops.keyword(product.call, "mbar")) is not None
        and (base := base_name(barrier))
    }
    for statement in kernel.context.statements:
        call = statement.call
        if call is not None and kernel.context.name(call) in ops.BARRIER_WAITS:
            waited = ops.argument(call, 0, ("mbarrier",))
            if base_name(waited) in signalled:
                yield kernel.at("barrier-wait", kernel.spans.place(statement))
