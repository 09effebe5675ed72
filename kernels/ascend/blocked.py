"""Attention on the data path of an Ascend AI core: who computes what, and where the data goes.

Implements tilelang-ascend `examples/flash_attention/flash_attn_bhsd.py`. A core consists of a Cube,
which multiplies matrices, and two Vectors, which do the softmax of half the rows each. They share
no memory on chip: the Cube's results leave it through L0C, L0C leads only to global memory (GM),
and the Vectors read GM into their unified buffer (UB). So scores, probabilities and each block's
output take the way through three workspaces in GM, and flags say when they are there:

    Cube     q k^T -> L0C -> workspace_1, set 0                wait 1, workspace_2 -> L1, p v -> ...
    Vectors  wait 0, workspace_1 -> UB, softmax -> workspace_2, set 1

    Cube     ... L0C -> workspace_3, set 2                        wait 3, next block
    Vectors  wait 2, workspace_3 -> UB, added to the output, set 3

Every move is checked against `MOVES`, every wait must come to an end, and no flag may be left over.
Exponentials are natural here, and the scores are scaled themselves: nothing is folded into exp2.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

MOVES = {
    ("GM", "L1"), ("GM", "UB"), ("L1", "L0A"), ("L1", "L0B"),
    ("L0C", "GM"), ("UB", "GM"), ("UB", "UB"), ("UB", "L1"),
}  # fmt: skip
"""From where data can go where: the table of data movement in Ascend's programming guide. What is
missing decides the shape of the kernel: L0C -> UB."""

LEAST = -(2.0**30)
"""What the running maximum starts at: finite, so that no inf - inf can come up."""


class IllegalMoveError(Exception):
    """Data was to go where no path leads."""


class DeadlockError(Exception):
    """All that still run wait for flags that nobody will set, or a flag was set for nobody."""


class Tile(NamedTuple):
    """Some numbers and the memory that they lie in: GM, L1, L0A, L0B, L0C or UB."""

    memory: str
    data: NDArray[Any]

    def part(self, start: int, stop: int) -> Tile:
        """Return these rows: a view, not a copy."""
        return Tile(self.memory, self.data[start:stop])


def tile(memory: str, shape: tuple[int, ...], dtype: Any) -> Tile:
    """Return a tile that nothing has been written to: NaN everywhere."""
    return Tile(memory, np.full(shape, np.nan, dtype))


def move(source: Tile, target: Tile) -> None:
    """Copy rows, rounding to the type of the target; rows past the source's end become zero.

    IllegalMoveError when no path leads from the one memory to the other.
    """
    if (source.memory, target.memory) not in MOVES:
        raise IllegalMoveError(f"{source.memory} -> {target.memory}")
    rows = min(len(source.data), len(target.data))
    target.data[:rows] = source.data[:rows]
    target.data[rows:] = 0


def multiply(a_l1: Tile, b_l1: Tile, out_l0c: Tile, *, transpose_b: bool = False) -> None:
    """Multiply two tiles of L1 into L0C, by way of L0A and L0B; what was in L0C is gone."""
    b = b_l1.data.T if transpose_b else b_l1.data
    a_l0 = tile("L0A", a_l1.data.shape, a_l1.data.dtype)
    b_l0 = tile("L0B", b.shape, b.dtype)
    move(a_l1, a_l0)
    move(Tile(b_l1.memory, b), b_l0)
    wide = out_l0c.data.dtype
    out_l0c.data[:] = a_l0.data.astype(wide) @ b_l0.data.astype(wide)


class Flags:
    """Flags across cores. What the Cube sets each Vector sees; the Cube waits for both Vectors."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[int, str, str]] = Counter()

    def set(self, flag: int, sender: str) -> None:
        """Set a flag for every receiver once more."""
        for receiver in _peers(sender):
            self.counts[flag, sender, receiver] += 1

    def take(self, flag: int, receiver: str) -> bool:
        """Take one setting from every sender, if all are there."""
        wanted = [(flag, sender, receiver) for sender in _peers(receiver)]
        if not all(self.counts[key] for key in wanted):
            return False
        self.counts.subtract(wanted)
        return True


def _peers(core: str) -> tuple[str, ...]:
    return ("V0", "V1") if core == "C" else ("C",)


def run(cores: dict[str, Iterator[int]], flags: Flags) -> None:
    """Run all to their ends; what one yields is the flag that it waits for. DeadlockError."""
    waits = {name: next(core, None) for name, core in cores.items()}
    while any(flag is not None for flag in waits.values()):
        ready = [n for n, flag in waits.items() if flag is not None and flags.take(flag, n)]
        if not ready:
            stuck = (f"{n} waits for {flag}" for n, flag in waits.items() if flag is not None)
            raise DeadlockError(", ".join(stuck))
        for name in ready:
            waits[name] = next(cores[name], None)
    left = {key: count for key, count in flags.counts.items() if count}
    if left:
        raise DeadlockError(f"flags left set: {left}")


class Sizes(NamedTuple):
    """What every part of a kernel must know."""

    seq_len: int
    dim: int
    block_m: int
    block_n: int
    first: int
    """The first query row of this program, 0-based."""

    @property
    def blocks(self) -> int:
        return -(-self.seq_len // self.block_n)


def attention(
    q: NDArray[Any],
    k: NDArray[Any],
    v: NDArray[Any],
    *,
    block_m: int = 64,
    block_n: int = 64,
) -> NDArray[Any]:
    """Return softmax(q k^T / sqrt(d)) v in the type of q: all [B, H, S, D].

    Upstream wants S to be a multiple of both blocks. Here it need not be: see `vector`.
    """
    out = np.full(q.shape, np.nan, q.dtype)
    batch, heads, seq_len, dim = q.shape
    for b, h, bx in np.ndindex(batch, heads, -(-seq_len // block_m)):  # concept: kernel-grid
        one_head = [Tile("GM", x[b, h]) for x in (q, k, v, out)]
        _program(one_head, Sizes(seq_len, dim, block_m, block_n, bx * block_m))
    return out


def _program(head: list[Tile], sizes: Sizes) -> None:
    """Compute one tile of queries: q, k, v, out in GM are [S, D]; out is written."""
    q, k, v, out = head
    kind = q.data.dtype
    wide = np.promote_types(kind, np.float32)
    # concept: workspace-param
    workspace_1 = tile("GM", (sizes.block_m, sizes.block_n), wide)  # scores
    workspace_2 = tile("GM", (sizes.block_m, sizes.block_n), kind)  # probabilities
    workspace_3 = tile("GM", (sizes.block_m, sizes.dim), wide)  # one block's output

    spaces = (workspace_1, workspace_2, workspace_3)
    flags = Flags()
    cores = {
        "C": cube(q, k, v, spaces, flags, sizes),  # concept: cube-scope
        # concept: vector-scope
        "V0": vector(0, out, spaces, flags, sizes),
        "V1": vector(1, out, spaces, flags, sizes),
    }
    run(cores, flags)


def cube(
    q: Tile, k: Tile, v: Tile, spaces: tuple[Tile, Tile, Tile], flags: Flags, sizes: Sizes
) -> Iterator[int]:
    """Do both matrix products of every block of keys; yield what is waited for."""
    workspace_1, workspace_2, workspace_3 = spaces
    kind, wide = q.data.dtype, workspace_1.data.dtype
    q_l1 = tile("L1", (sizes.block_m, sizes.dim), kind)
    k_l1, v_l1 = (tile("L1", (sizes.block_n, sizes.dim), kind) for _ in range(2))
    p_l1 = tile("L1", (sizes.block_m, sizes.block_n), kind)
    s_l0c = tile("L0C", (sizes.block_m, sizes.block_n), wide)
    o_l0c = tile("L0C", (sizes.block_m, sizes.dim), wide)
    move(q.part(sizes.first, sizes.first + sizes.block_m), q_l1)
    for t in range(sizes.blocks):  # concept: kv-loop
        keys = (t * sizes.block_n, (t + 1) * sizes.block_n)
        move(k.part(*keys), k_l1)
        multiply(q_l1, k_l1, s_l0c, transpose_b=True)  # concept: qk-gemm
        move(s_l0c, workspace_1)  # concept: workspace-write
        flags.set(0, "C")  # concept: cross-flag-set
        yield 1  # concept: cross-flag-wait
        move(workspace_2, p_l1)  # concept: workspace-read
        # concept: pv-gemm
        move(v.part(*keys), v_l1)
        multiply(p_l1, v_l1, o_l0c)
        # concept: workspace-write
        move(o_l0c, workspace_3)
        flags.set(2, "C")  # concept: cross-flag-set
        yield 3  # concept: cross-flag-wait


def vector(
    vid: int, out: Tile, spaces: tuple[Tile, Tile, Tile], flags: Flags, sizes: Sizes
) -> Iterator[int]:
    """Do the softmax of half the rows, and sum up their output; yield what is waited for.

    Keys past the end come as zeros, with the score 0. They are hidden here; upstream has no such
    mask, as its lengths are multiples of a block.
    """
    half = -(-sizes.block_m // 2)
    rows = (vid * half, min((vid + 1) * half, sizes.block_m))
    workspace_1, workspace_2, workspace_3 = (space.part(*rows) for space in spaces)
    wide = workspace_1.data.dtype
    count = rows[1] - rows[0]
    # concept: state-init
    acc = Tile("UB", np.zeros((count, sizes.dim), wide))
    l = np.zeros(count, wide)
    m = np.full(count, LEAST, wide)

    scale = wide.type(sizes.dim**-0.5)  # concept: softmax-scale
    s_ub = tile("UB", (count, sizes.block_n), wide)
    o_ub = tile("UB", (count, sizes.dim), wide)
    for t in range(sizes.blocks):  # concept: kv-loop
        yield 0  # concept: cross-flag-wait
        move(workspace_1, s_ub)  # concept: workspace-read
        past_end = np.arange(t * sizes.block_n, (t + 1) * sizes.block_n) >= sizes.seq_len
        scores = np.where(past_end, LEAST, s_ub.data * scale).astype(wide)  # [half, N]
        p, rescale, m, l = softmax_step(scores, m, l)
        # concept: acc-rescale
        acc.data[:] *= rescale[:, None]
        # concept: workspace-write
        p_half = Tile("UB", p.astype(workspace_2.data.dtype))
        move(p_half, workspace_2)
        flags.set(1, f"V{vid}")  # concept: cross-flag-set
        yield 2  # concept: cross-flag-wait
        move(workspace_3, o_ub)  # concept: workspace-read
        acc.data[:] += o_ub.data
        flags.set(3, f"V{vid}")  # concept: cross-flag-set
    acc.data[:] /= l[:, None]  # concept: normalise
    # concept: epilogue-store
    start = sizes.first + rows[0]
    stop = min(start + count, sizes.seq_len)
    if start < stop:
        move(
            Tile("UB", acc.data.astype(out.data.dtype)).part(0, stop - start), out.part(start, stop)
        )


def softmax_step(
    scores: NDArray[Any], m: NDArray[Any], l: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return p [half, N] of a block, the factor [half] for the blocks before, the new m and l."""
    # concept: row-max
    m_prev, m = m, np.maximum(m, scores.max(axis=1, initial=LEAST))
    # concept: rescale-factor
    rescale = np.exp(m_prev - m)
    # concept: probability
    p = np.exp(scores - m[:, None])
    # concept: row-sum, denominator
    l = l * rescale + p.sum(axis=1)

    return p, rescale, m, l


def like_upstream(run_: Any) -> tuple[NDArray[Any], ...]:
    """Return what upstream's kernel returns: `run_.inputs` are its tensors."""
    return (attention(*run_.inputs),)
