"""What a model refuses, said in a sentence that names the argument and the value found."""

from __future__ import annotations

ITEM_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "float8": 1}
"""Bytes of one element, by the name of its type."""


class ModelError(Exception):
    """Sizes for which a model has no answer."""


def positive(**sizes: int) -> None:
    """Pass sizes that are whole numbers of at least 1. ModelError names the first that is not."""
    for name, value in sizes.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ModelError(f"{name} must be a whole number of at least 1, not {value!r}")


def item_bytes(dtype: str) -> int:
    """Return the bytes of one element. ModelError when the type is not known."""
    if dtype not in ITEM_BYTES:
        raise ModelError(f"no type is called {dtype!r}; known are {', '.join(ITEM_BYTES)}")
    return ITEM_BYTES[dtype]


def blocks(length: int, block: int) -> int:
    """Return how many blocks cover a length; the last one may be partial."""
    return -(-length // block)
