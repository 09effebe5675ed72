"""Elements that one (sample, head) moves to and from HBM: naive, fused, and the least possible.

Naive attention is three kernels that hand S and P on through HBM; fused attention keeps both on
chip and reads K and V once for each block of queries. Caches are not modelled: a re-read that L2
serves is counted as if it came from HBM, so fused traffic is an upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.models.errors import blocks, positive
from kernels.models.tables import Chart, Series, Table


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """Elements read and written, by what they belong to."""

    tensors: int
    """Q, K, V and O; re-reads of K and V count each time."""
    scores: int
    """S and P, written and read back."""

    @property
    def total(self) -> int:
        """All elements moved."""
        return self.tensors + self.scores


def naive(queries: int, keys: int, dim: int) -> Traffic:
    """Three passes: S written and read, P written and read, everything else once.

    `queries` and `keys` are rows, `dim` the head size. ModelError when one is not at least 1.
    """
    positive(queries=queries, keys=keys, dim=dim)
    return Traffic(tensors=2 * (queries + keys) * dim, scores=4 * queries * keys)


def fused(queries: int, keys: int, dim: int, block_m: int) -> Traffic:
    """One pass: Q and O once, K and V once for each of the ceil(queries / block_m) blocks."""
    positive(queries=queries, keys=keys, dim=dim, block_m=block_m)
    reads = blocks(queries, block_m) * 2 * keys * dim
    return Traffic(tensors=2 * queries * dim + reads, scores=0)


def least(queries: int, keys: int, dim: int) -> Traffic:
    """Every tensor once: no kernel can move less, and one with a perfect cache moves this."""
    positive(queries=queries, keys=keys, dim=dim)
    return Traffic(tensors=2 * (queries + keys) * dim, scores=0)


def ratio(queries: int, keys: int, dim: int, block_m: int) -> float:
    """How many times the fused traffic the naive one is: 2.00 at 8192 rows, 1 for decoding."""
    return naive(queries, keys, dim).total / fused(queries, keys, dim, block_m).total


def kinds(queries: int, keys: int, dim: int, block_m: int) -> dict[str, Traffic]:
    """Return the three counts by name."""
    return {
        "naive": naive(queries, keys, dim),
        "fused": fused(queries, keys, dim, block_m),
        "each tensor once": least(queries, keys, dim),
    }


def table(queries: int, keys: int, dim: int, block_m: int) -> Table:
    """Return the three counts side by side, and their ratio in a note."""
    rows = tuple(
        (name, found.scores, found.tensors, found.total)
        for name, found in kinds(queries, keys, dim, block_m).items()
    )
    times, reads = ratio(queries, keys, dim, block_m), blocks(queries, block_m)
    return Table(
        model="traffic",
        title=f"HBM traffic of one head in elements: {queries} queries, {keys} keys, d = {dim}",
        columns=("kernel", "S and P", "Q, K, V, O", "total"),
        rows=rows,
        notes=(
            f"Naive moves {times:.2f} times what fused does.",
            f"Fused reads K and V {reads}x: once a block of {block_m} queries, L2 not modelled.",
        ),
    )


def chart(queries: int, keys: int, dim: int, block_m: int) -> Chart:
    """Return traffic over the length of the sequence, doubling from a block to what was asked."""
    lengths = [block_m]
    while lengths[-1] * 2 <= max(queries, keys):
        lengths.append(lengths[-1] * 2)
    found = [kinds(min(n, queries), n, dim, block_m) for n in lengths]
    return Chart(
        title=f"HBM traffic of one head, d = {dim}, block_m = {block_m}",
        x_label="keys",
        y_label="elements moved",
        series=tuple(
            Series(label=name, x=tuple(lengths), y=tuple(float(f[name].total) for f in found))
            for name in found[0]
        ),
        log_x=True,
        log_y=True,
    )
