"""Matrix products, with the type in which they accumulate."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from srcmap.engines.interpreter.machine import KernelError, here
from srcmap.engines.interpreter.memory import Region, region, value_of
from srcmap.engines.interpreter.ops.registry import operation
from srcmap.engines.interpreter.traffic import flying, line_of, pipe, waited

if TYPE_CHECKING:
    from srcmap.engines.interpreter.dtypes import DType

_FILE = "tilelang/language/gemm_op.py"


def matrix(box: Region, transposed: bool) -> Any:
    """Return a box as a matrix: leading dimensions of a part must be 1."""
    values = box.read()
    if any(size != 1 for size in values.shape[:-2]):
        raise KernelError(f"{box.name} is no matrix: {list(values.shape)}")
    values = values.reshape(values.shape[-2:])
    return values.T if transposed else values


def product(a: Any, b: Any, kind: DType) -> Any:
    """Multiply; floats in float32 as tensor cores do, whole numbers exactly."""
    if kind.floating:
        wide = np.float64 if kind == "float64" else np.float32
        return np.matmul(a.astype(wide, copy=False), b.astype(wide, copy=False))
    return np.matmul(a.astype(np.float64), b.astype(np.float64)).astype(np.int64)


def multiply(left: Any, right: Any, target: Any, flips: tuple[bool, bool], clear: Any) -> None:
    """C = A B, or C += A B; NaN is told where it is born."""
    a_box, b_box, c_box = region(left), region(right), region(target)
    a, b = matrix(a_box, flips[0]), matrix(b_box, flips[1])
    kind = c_box.dtype
    shape = c_box.shape
    if a.shape[1] != b.shape[0] or shape[-2:] != (a.shape[0], b.shape[1]):
        raise KernelError(f"a product of {a.shape} and {b.shape} does not give {list(shape[-2:])}")
    result = product(a, b, kind)
    fresh = bool(value_of(clear))
    old = None
    if not fresh:
        old = c_box.read().reshape(result.shape)
        result += old.astype(result.dtype, copy=False)
    if kind.floating and np.isnan(result).any():
        inputs = [a, b] if old is None else [a, b, old]
        if not any(np.isnan(x).any() for x in inputs):
            where = tuple(int(i) for i in np.argwhere(np.isnan(result))[0])
            here.run.note("nan-born", c_box.name, where=where)
    here.run.role.loads.clear()
    c_box.write(result.reshape(shape))


@operation("gemm", "gemm_v1", "gemm_v2", defined_in=_FILE)
def gemm(
    A: Any,  # noqa: N803 - upstream's names, which callers use
    B: Any,  # noqa: N803
    C: Any,  # noqa: N803
    transpose_A: bool = False,  # noqa: N803
    transpose_B: bool = False,  # noqa: N803
    policy: Any = None,  # noqa: ARG001
    clear_accum: Any = False,
    k_pack: int = 1,  # noqa: ARG001
    wg_wait: int = 0,
    *_args: Any,
    mbar: Any = None,
    **_options: Any,
) -> None:
    """C += op(A) op(B), or = with `clear_accum`; a barrier that is given hears of the end.

    It is over when the next statement runs, and so are products that were started before, unless
    `wg_wait` is negative.
    """
    flips = (transpose_A, transpose_B)
    if wg_wait < 0:
        _started("wgmma", "gemm", A, B, C, flips, clear_accum)
        pipe("wgmma").close()
    else:
        waited("wgmma")
        multiply(A, B, C, flips, clear_accum)
    if mbar is not None:
        mbar.arrive(1)


@operation("wgmma_gemm", defined_in=_FILE)
def wgmma_gemm(
    A: Any,  # noqa: N803
    B: Any,  # noqa: N803
    C: Any,  # noqa: N803
    transpose_A: bool = False,  # noqa: N803
    transpose_B: bool = False,  # noqa: N803
    policy: Any = None,  # noqa: ARG001
    clear_accum: Any = False,
    *_args: Any,
    **_options: Any,
) -> None:
    """The product of Hopper's warp groups, which runs on until `wait_wgmma`."""
    _started("wgmma", "wgmma_gemm", A, B, C, (transpose_A, transpose_B), clear_accum)
    pipe("wgmma").close()


@operation("tcgen05_gemm", defined_in=_FILE)
def tcgen05_gemm(
    A: Any,  # noqa: N803
    B: Any,  # noqa: N803
    C: Any,  # noqa: N803
    transpose_A: bool = False,  # noqa: N803
    transpose_B: bool = False,  # noqa: N803
    policy: Any = None,  # noqa: ARG001
    clear_accum: Any = False,
    *,
    mbar: Any = None,
    **_options: Any,
) -> None:
    """The product of Blackwell into tensor memory; `mbar` gets one arrival when it is done."""
    _started("tcgen05", "tcgen05_gemm", A, B, C, (transpose_A, transpose_B), clear_accum)
    if mbar is not None:
        committed(mbar)


def _started(
    kind: str, name: str, a: Any, b: Any, c: Any, flips: tuple[bool, bool], clear: Any
) -> None:
    """Compute at once, and note that the hardware may not be done yet."""
    with flying(pipe(kind).start(line_of(name))):
        multiply(a, b, c, flips, clear)


def committed(mbar: Any) -> None:
    """One arrival when the products into tensor memory that were started so far are done."""
    products = pipe("tcgen05")
    products.close()
    mbar.arrive(1, {products.actor: products.over()})
