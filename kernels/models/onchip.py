"""On-chip memory of one flash-attention program: what `num_stages` costs.

K and V have one buffer for each stage, Q has one. The output tile that the epilogue stores through
is counted apart: a compiler that reuses dead buffers can lay it over Q, K or V. Accumulators live
in registers and are counted there.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.models.devices import device
from kernels.models.errors import item_bytes, positive
from kernels.models.tables import Cell, Chart, Series, Table

KIB = 1024


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Bytes of each kind of buffer."""

    q: int
    kv: int
    """K and V together, all stages."""
    output: int
    """The tile of the epilogue, when it has memory of its own."""
    registers: int
    """Scores and output in float32, probabilities in the narrow type: fragments of all threads."""

    @property
    def shared(self) -> int:
        """Shared memory while the loop runs: Q, and K and V of all stages."""
        return self.q + self.kv

    @property
    def with_output(self) -> int:
        """Shared memory when the output tile is not laid over another buffer."""
        return self.shared + self.output


def budget(block_m: int, block_n: int, dim: int, stages: int, dtype: str = "float16") -> Budget:
    """Return the bytes of one program. ModelError for sizes below 1 and unknown types."""
    positive(block_m=block_m, block_n=block_n, dim=dim, stages=stages)
    size = item_bytes(dtype)
    return Budget(
        q=block_m * dim * size,
        kv=2 * stages * block_n * dim * size,
        output=block_m * dim * size,
        registers=block_m * (4 * block_n + 4 * dim + size * block_n),
    )


def table(block_m: int, block_n: int, dim: int, stages: int, dtype: str, name: str) -> Table:
    """Return the budget for one to `stages` stages, against a device's limit."""
    limit = device(name).shared
    positive(stages=stages)
    held = budget(block_m, block_n, dim, 1, dtype).registers
    rows: list[tuple[Cell, ...]] = []
    for count in range(1, stages + 1):
        b = budget(block_m, block_n, dim, count, dtype)
        fits = "yes" if b.with_output <= limit.value * KIB else "with the tile over another buffer"
        fits = fits if b.shared <= limit.value * KIB else "no"
        sizes = (b.q, b.kv, b.shared, b.output, b.with_output)
        rows.append((count, *(s / KIB for s in sizes), fits))
    return Table(
        model="onchip",
        title=f"Shared memory of one program in KiB: {block_m}x{block_n}, d = {dim}, {dtype}",
        columns=("stages", "Q", "K and V", "Q, K, V", "output tile", "with output", "fits"),
        rows=tuple(rows),
        notes=(
            f"Limit {limit.value:g} KiB ({limit.source}).",
            f"Scores, output, probabilities take {held / KIB:g} KiB of registers.",
        ),
    )


def chart(block_m: int, block_n: int, dim: int, stages: int, dtype: str, name: str) -> Chart:
    """Return the budget over the number of stages, and the device's limit."""
    positive(stages=stages)
    counts = tuple(str(count) for count in range(1, stages + 1))
    budgets = [budget(block_m, block_n, dim, int(count), dtype) for count in counts]
    limit = device(name)
    shared = tuple(b.shared / KIB for b in budgets)
    whole = tuple(b.with_output / KIB for b in budgets)
    most = tuple(limit.shared.value for _ in counts)
    return Chart(
        title=f"Shared memory of one program, {block_m}x{block_n}, d = {dim}, {dtype}",
        x_label="stages",
        y_label="KiB",
        series=(
            Series(label="Q, K, V", x=counts, y=shared, style="bars"),
            Series(label="with output tile", x=counts, y=whole, style="points"),
            Series(label=f"limit of {limit.title}", x=counts, y=most),
        ),
    )
