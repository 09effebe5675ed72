"""The table of operations: name in `tilelang.language` -> function, by dialect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class Entry(NamedTuple):
    """One operation."""

    function: Callable[..., Any]
    defined_in: str
    """The upstream file that defines it."""


COMMON: dict[str, Entry] = {}
"""tilelang, and what tilelang-ascend has in common with it."""
ASCEND: dict[str, Entry] = {}
"""What tilelang-ascend has besides, or does in another way."""


def operation(
    *names: str,
    defined_in: str,
    ascend: bool = False,
    regions: bool = True,
    collective: bool = True,
    **marks: bool,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register an operation.

    `regions`: a subscript among its arguments is a box of a buffer, not a load. `collective`: the
    threads of a block do it together, so it cannot stand under a condition that differs between
    them. `marks` tell the rewriter what else it is (`is_parallel`, `launches`, ...).
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        given = {"takes_regions": regions, "collective": collective, **marks}
        for mark, value in given.items():
            setattr(function, mark, value)
        table = ASCEND if ascend else COMMON
        for name in names:
            table[name] = Entry(function, defined_in)
        return function

    return register


def expression(
    *names: str, defined_in: str, ascend: bool = False, **marks: bool
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register something that stands in expressions: its arguments are values."""
    return operation(
        *names, defined_in=defined_in, ascend=ascend, regions=False, collective=False, **marks
    )
