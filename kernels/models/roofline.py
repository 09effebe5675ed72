"""Arithmetic intensity of attention, and what a device can reach at it.

Intensity is floating-point operations for each byte moved to or from HBM. Counted are the two
matrix products (a multiplication and an addition each); the softmax is not. A device reaches
min(peak, intensity x bandwidth): below its ridge HBM is the limit.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.models.devices import Device, device
from kernels.models.errors import item_bytes, positive
from kernels.models.tables import Chart, Series, Table
from kernels.models.traffic import kinds


@dataclass(frozen=True, kw_only=True)
class Point:
    """One kernel under the roof of one device."""

    intensity: float
    """Operations for each byte."""
    reachable: float
    """TFLOP/s that the roof allows."""
    seconds: float
    """The least time for one head, by that roof."""
    limit: str
    """`memory` or `compute`."""


def operations(queries: int, keys: int, dim: int) -> int:
    """Return the operations of Q K^T and P V: 4 for each query, key and component."""
    positive(queries=queries, keys=keys, dim=dim)
    return 4 * queries * keys * dim


def point(work: int, moved: int, where: Device) -> Point:
    """Place `work` operations that move `moved` bytes under a device's roof."""
    intensity = work / moved
    slope = intensity * where.bandwidth.value / 1e3
    reachable = min(where.tflops.value, slope)
    return Point(
        intensity=intensity,
        reachable=reachable,
        seconds=work / (reachable * 1e12),
        limit="memory" if slope < where.tflops.value else "compute",
    )


def points(
    queries: int, keys: int, dim: int, block_m: int, dtype: str, where: Device
) -> dict[str, Point]:
    """Return the three ways of `traffic` under one roof. ModelError for sizes and types."""
    work, size = operations(queries, keys, dim), item_bytes(dtype)
    return {
        name: point(work, found.total * size, where)
        for name, found in kinds(queries, keys, dim, block_m).items()
    }


def table(queries: int, keys: int, dim: int, block_m: int, dtype: str, name: str) -> Table:
    """Return intensity, reachable rate and least time of each kernel on a named device."""
    where = device(name)
    rows = tuple(
        (kind, p.intensity, p.reachable, p.seconds * 1e6, p.limit)
        for kind, p in points(queries, keys, dim, block_m, dtype, where).items()
    )
    return Table(
        model="roofline",
        title=f"{where.title}: {queries} queries, {keys} keys, d = {dim}, {dtype}, one head",
        columns=("kernel", "FLOP/byte", "TFLOP/s at most", "us at least", "limit"),
        rows=rows,
        notes=(
            f"Peak {where.tflops.value:g} TFLOP/s ({where.tflops.source}).",
            f"Bandwidth {where.bandwidth.value:g} GB/s ({where.bandwidth.source}).",
            f"Ridge at {where.ridge:.0f} FLOP/byte. The vendor's numbers, not measured here.",
        ),
    )


def chart(queries: int, keys: int, dim: int, block_m: int, dtype: str, name: str) -> Chart:
    """Return the roof and the kernels under it."""
    where = device(name)
    found = points(queries, keys, dim, block_m, dtype, where)
    ends = (0.25, where.ridge, max(4 * where.ridge, *(p.intensity for p in found.values())))
    roof = tuple(min(where.tflops.value, x * where.bandwidth.value / 1e3) for x in ends)
    placed = tuple(
        Series(label=kind, x=(p.intensity,), y=(p.reachable,), style="points")
        for kind, p in found.items()
    )
    return Chart(
        title=f"Roofline of {where.title} (vendor's numbers)",
        x_label="FLOP for each byte of HBM",
        y_label="TFLOP/s",
        series=(Series(label="roof", x=ends, y=roof), *placed),
        log_x=True,
        log_y=True,
    )
