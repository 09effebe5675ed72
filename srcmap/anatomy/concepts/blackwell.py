"""Blackwell (and Hopper's barriers): tensor memory, and waiting for the asynchronous product."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from srcmap.anatomy import ops
from srcmap.anatomy.context import base_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from srcmap.anatomy.concepts.base import Found, Kernel
    from srcmap.anatomy.tree import Stmt


def tensor_memory(kernel: Kernel) -> Iterator[Found]:
    """The runs of `T.alloc_tmem`."""
    statements = [one for one in kernel.context.statements if _allocates(kernel, one)]
    yield from (kernel.at("tmem-alloc", place) for place in kernel.spans.places(statements))


def _allocates(kernel: Kernel, statement: Stmt) -> bool:
    match statement.node:
        case ast.Assign(value=ast.Call() as call):
            return kernel.context.name(call) == "alloc_tmem"
    return False


def barrier_waits(kernel: Kernel) -> Iterator[Found]:
    """Waits for a barrier that an asynchronous product signals."""
    products = kernel.reading.products.values()
    signalled = {base_name(ops.keyword(product.call, "mbar")) for product in products} - {None}
    for statement in kernel.context.statements:
        call = statement.call
        if call is None or kernel.context.name(call) not in ops.BARRIER_WAITS:
            continue
        if base_name(ops.argument(call, 0, ("mbarrier",))) in signalled:
            yield kernel.at("barrier-wait", kernel.spans.place(statement))
