"""How split-KV fills a device: programs against splits, and what the combination costs.

Splitting reads no key less. It multiplies the programs, and pays with partial results that are
written once and read once by a second kernel.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernels.models.devices import device
from kernels.models.errors import ModelError, blocks, positive
from kernels.models.tables import Chart, Series, Table


@dataclass(frozen=True, kw_only=True)
class Split:
    """One number of splits on one device."""

    programs: int
    """Query blocks x heads x samples x splits."""
    waves: int
    """How often the device is filled until all have run, one program to a processor."""
    busy: float
    """Share of processors at work, averaged over the waves."""
    keys: int
    """The most keys that one program reads."""
    partial: int
    """Elements of partial outputs and lse, written and read back; 0 without a split."""


def split(
    splits: int,
    *,
    batch: int,
    heads: int,
    queries: int,
    keys: int,
    dim: int,
    block_m: int,
    processors: int,
) -> Split:
    """Return what `splits` splits make of a launch. ModelError for sizes below 1.

    `heads` are those of the grid: in decoding with groups, the K/V heads.
    """
    positive(batch=batch, heads=heads, queries=queries, keys=keys, dim=dim, block_m=block_m)
    positive(splits=splits, processors=processors)
    if splits > keys:
        raise ModelError(f"{splits} splits of {keys} keys leave some without any")
    programs = blocks(queries, block_m) * heads * batch * splits
    waves = blocks(programs, processors)
    return Split(
        programs=programs,
        waves=waves,
        busy=programs / (waves * processors),
        keys=blocks(keys, splits),
        partial=2 * splits * batch * heads * queries * (dim + 1) if splits > 1 else 0,
    )


def steps(most: int) -> tuple[int, ...]:
    """Return 1, 2, 4, ... up to `most`, and `most` itself."""
    positive(splits=most)
    doubled = [1 << power for power in range(most.bit_length())]
    return tuple(dict.fromkeys([*doubled, most]))


def table(most: int, name: str, **sizes: int) -> Table:
    """Return the launch for 1 to `most` splits on a named device."""
    where = device(name)
    count = int(where.processors.value)
    rows = []
    for splits in steps(most):
        s = split(splits, processors=count, **sizes)
        rows.append((splits, s.programs, s.waves, s.busy * 100, s.keys, s.partial))
    return Table(
        model="splits",
        title=f"Split-KV on {where.title}: {_said(sizes)}",
        columns=("splits", "programs", "waves", "busy %", "keys each", "partial elements"),
        rows=tuple(rows),
        notes=(
            f"{count} processors ({where.processors.source}), one program on each.",
            "K and V are read once however they are split; only the partial results are extra.",
        ),
    )


def _said(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sizes.items())


def chart(most: int, name: str, **sizes: int) -> Chart:
    """Return programs over splits, and how many a device runs at once."""
    count = int(device(name).processors.value)
    asked = steps(most)
    programs = tuple(float(split(s, processors=count, **sizes).programs) for s in asked)
    return Chart(
        title=f"Programs of split-KV: {sizes['batch']} x {sizes['heads']} heads",
        x_label="splits",
        y_label="programs",
        series=(
            Series(label="programs", x=asked, y=programs),
            Series(label=f"processors of {name}", x=asked, y=tuple(float(count) for _ in asked)),
        ),
        log_x=True,
        log_y=True,
    )
