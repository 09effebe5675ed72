"""What every launcher does before a kernel runs: check the tensors, choose a tiling.

`tuning.json` is the table of tilings: one row for each variant, device and key (head size, mask:
what the variant's tiling depends on), with the shape and the sweep (a file under
`kernels/results/`) that chose it. `python -m benchmarks.gpu --sweep` writes it.
"""

from __future__ import annotations

import itertools
import json
import math
import warnings
from dataclasses import dataclass, is_dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection

TYPES = ("float16", "bfloat16")
DIMS = (64, 128)
CAPABILITY = (9, 0)
"""What the kernels are written for: wgmma and bulk tensor copies."""


Cut = TypeVar("Cut")
"""A record of numbers that change a kernel's speed and nothing it computes."""
_ABSENT = object()


@dataclass(frozen=True)
class Tiling:
    """How a kernel is cut: numbers that change its speed and nothing it computes.

    ValueError names the one that no kernel can be cut by.
    """

    block_m: int = 128
    block_n: int = 128
    stages: int = 2
    head_group: int = 1
    turns: bool = False

    def __post_init__(self) -> None:
        check_cut(self, Tiling, block_m=BLOCKS_M, block_n=BLOCKS_N)


BLOCKS_M = (128, 192)
"""Queries of a tile: two or three warp groups that compute, with 64 each. One, or four, would wait
for ever for registers that there are not."""
BLOCKS_N = range(16, 257, 16)
"""Keys of a tile: what a product of warp groups can have."""


def check_cut(cut: Any, kind: type, **allowed: Collection[int]) -> None:
    """Raise, naming it, when a tiling is none of its kind, or a number none to cut a kernel by.

    `allowed` has what some of the numbers may be; the others have to be 1 or more. A tiling changes
    nothing that is computed, but a kernel with a wrong one can wait for ever.
    """
    if not isinstance(cut, kind):
        raise TypeError(f"tiling is a {type(cut).__name__}: {kind.__module__}.{kind.__name__} is")
    record: Any = cut
    numbers = vars(cut) if is_dataclass(cut) else record._asdict()
    defaults = getattr(kind, "_field_defaults", vars(kind))
    for name, value in numbers.items():
        some = allowed.get(name)
        if some is not None and value not in some:
            said = str(some) if isinstance(some, tuple) else _steps(some)
            raise ValueError(f"tiling.{name} is {value}, and may be {said}")
        counts = some is None and not isinstance(defaults[name], bool)
        if counts and (value < 1 or value != int(value)):
            raise ValueError(f"tiling.{name} is {value}, and has to be a whole number, 1 or more")


def _steps(some: Collection[int]) -> str:
    first, second, *_, last = some
    return f"{first}, {second} and so on to {last}"


HIGH = Tiling(192, 128, 2, 8, turns=True)
"""Three warp groups that compute, by turns: for heads of 64, where exponentials take as long as
products, and a warp group has registers for it."""


class Sizes(NamedTuple):
    """The sizes of checked tensors."""

    batch: int
    heads: int
    kv_heads: int
    seq_q: int
    seq_kv: int
    dim: int
    dtype: str


def check(
    q: Any, k: Any, v: Any, *, causal: bool, layout: str, dims: tuple[int, ...] = DIMS
) -> Sizes:
    """Return the sizes of q [B, H, Sq, D] and k, v [B, Hkv, Skv, D] (BSHD: swapped in the middle).

    ValueError or TypeError names the first argument that does not fit and says what would.
    """
    if layout not in ("BHSD", "BSHD"):
        raise ValueError(f'layout is {layout!r}, and may be "BHSD" or "BSHD"')
    for name, tensor in (("q", q), ("k", k), ("v", v)):
        _check_tensor(name, tensor, q, dims)
    if tuple(k.shape) != tuple(v.shape):
        raise ValueError(f"v is {list(v.shape)}, and k {list(k.shape)}: they have to be alike")
    s, h = (2, 1) if layout == "BHSD" else (1, 2)
    for place, what in ((0, "samples"), (3, "components")):
        if k.shape[place] != q.shape[place]:
            raise ValueError(f"k has {k.shape[place]} {what}, and q {q.shape[place]}")
    if q.shape[h] % k.shape[h]:
        raise ValueError(f"q has {q.shape[h]} heads, no multiple of the {k.shape[h]} of k")
    if causal and q.shape[s] > k.shape[s]:
        raise ValueError(f"q has {q.shape[s]} causal queries, and k only {k.shape[s]} keys")
    return Sizes(
        q.shape[0], q.shape[h], k.shape[h], q.shape[s], k.shape[s], q.shape[3], _type_of(q)
    )


def _check_tensor(name: str, tensor: Any, q: Any, dims: tuple[int, ...]) -> None:
    if not hasattr(tensor, "is_contiguous"):
        raise TypeError(f"{name} is a {type(tensor).__name__}, and has to be a tensor of PyTorch")
    if len(tensor.shape) != 4 or 0 in tensor.shape:
        raise ValueError(f"{name} is {list(tensor.shape)}: four dimensions that are not empty")
    if _type_of(tensor) not in TYPES:
        raise TypeError(f"{name} is of {_type_of(tensor)}, and may be of {' or '.join(TYPES)}")
    if tensor.dtype != q.dtype:
        raise TypeError(f"{name} is of {_type_of(tensor)}, and q of {_type_of(q)}")
    if tensor.shape[3] not in dims:
        raise ValueError(f"{name} has head size {tensor.shape[3]}, and may have {dims}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} is not contiguous: {name}.contiguous() is")
    if not tensor.is_cuda or tensor.device != q.device:
        raise ValueError(f"{name} is on {tensor.device}: all have to be on one CUDA device")


def _type_of(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


@cache
def device_name(index: int) -> str:
    """Return the name of a GPU; ValueError when it is not one of Hopper's."""
    import torch

    found = torch.cuda.get_device_capability(index)
    if found != CAPABILITY:
        raise ValueError(f"q is on a GPU of capability {found}; the kernels need {CAPABILITY}")
    return str(torch.cuda.get_device_name(index))


@cache
def table() -> tuple[dict[str, Any], ...]:
    """Return the rows of the table of tilings."""
    text = Path(__file__).with_name("tuning.json").read_text(encoding="utf-8")
    return tuple(json.loads(text)["rows"])


def tuned(variant: str, device: str, default: Cut, **key: Any) -> Cut:
    """Return the tiling that a sweep chose, of the type of `default`; else that, with a warning.

    The row is the one of this variant and device that has every item of `key`. Asked again for the
    same, it answers from memory, and does not warn again.
    """
    cut: Cut = _tuned(variant, device, default, tuple(sorted(key.items())))
    return cut


@cache
def _tuned(variant: str, device: str, default: Any, key: tuple[tuple[str, Any], ...]) -> Any:
    wanted = {"variant": variant, "device": device, **dict(key)}
    for row in table():
        if all(row.get(name, _ABSENT) == value for name, value in wanted.items()):
            return type(default)(**row["tiling"])
    known = sorted({row["device"] for row in table() if row["variant"] == variant})
    asked = ", ".join(f"{name} {value}" for name, value in key)
    warnings.warn(
        f"no tiling of {variant} was measured on {device} for {asked or 'any shape'} "
        f"(there are some for {', '.join(known) or 'no device'}): using {default}; "
        "`python -m benchmarks.gpu --sweep` finds a better one",
        stacklevel=3,
    )
    return default


def tiling_for(variant: str, device: str, dim: int, causal: bool, windowed: bool = False) -> Tiling:
    """Return the tiling of a kernel that reads all keys of a tile of queries."""
    default = HIGH if dim == 64 and not windowed else Tiling(head_group=8)
    return tuned(variant, device, default, dim=dim, causal=causal, windowed=windowed)


def registers(groups: int, residents: int = 1, copying: int = 24) -> int:
    """Return how many registers a computing thread can have: what the copying ones leave over.

    For `residents` programs on a multiprocessor, each of `groups` warp groups that compute and one
    that copies. A multiprocessor has 65536, a program gets as many for each thread to begin with, a
    multiple of 8, and a thread at most 255. ValueError when there are no programs.
    """
    if residents < 1:
        raise ValueError(f"tiling.residents is {residents}, and has to be 1 or more")
    each = min(65536 // (residents * 128 * (groups + 1)), 255) // 8 * 8
    return min(240, (each * (groups + 1) - copying) // groups // 8 * 8)


def divisor(wanted: int, total: int) -> int:
    """Return the largest common divisor: how many heads run side by side."""
    return math.gcd(wanted, total)


def check_vector(name: str, vector: Any, q: Any, length: int) -> None:
    """Raise, naming it, when `vector` is not [length] in the type and on the device of q."""
    if not hasattr(vector, "is_contiguous"):
        raise TypeError(f"{name} is a {type(vector).__name__}, and has to be a tensor of PyTorch")
    if tuple(vector.shape) != (length,):
        raise ValueError(f"{name} is {list(vector.shape)}, and has to be [{length}]")
    if vector.dtype != q.dtype or vector.device != q.device:
        raise TypeError(
            f"{name} is of {_type_of(vector)} on {vector.device}, q of {_type_of(q)} on {q.device}"
        )
    if not vector.is_contiguous():
        raise ValueError(f"{name} is not contiguous: {name}.contiguous() is")


@dataclass(frozen=True)
class Splitting:
    """How a decoding kernel is cut. `programs`: how many there are to be, to fill the GPU.

    ValueError names the number that the kernel cannot be cut by.
    """

    block_n: int = 64
    stages: int = 2
    programs: int = 264

    def __post_init__(self) -> None:
        check_cut(self, Splitting, block_n=BLOCKS_N)

    def splits(self, sizes: Sizes) -> int:
        """Return into how many splits the keys go: none is without a block, if it can be."""
        wanted = self.programs // (sizes.batch * sizes.kv_heads)
        return max(1, min(wanted, -(-sizes.seq_kv // self.block_n)))


def splitting_for(variant: str, device: str, dim: int) -> Splitting:
    """Return the splitting of a decoding kernel."""
    return tuned(variant, device, Splitting(), dim=dim)


def check_mask(mask: Any, k: Any) -> None:
    """Raise, naming it, when `mask` is not [B, Skv, G] of uint8 beside k [B, Skv, G, D]."""
    if not hasattr(mask, "is_contiguous"):
        raise TypeError(f"mask is a {type(mask).__name__}, and has to be a tensor of PyTorch")
    if tuple(mask.shape) != tuple(k.shape[:3]):
        raise ValueError(f"mask is {list(mask.shape)}, and has to be {list(k.shape[:3])}")
    if _type_of(mask) != "uint8" or mask.device != k.device:
        raise TypeError(f"mask is of {_type_of(mask)} on {mask.device}: uint8 on {k.device}")
    if not mask.is_contiguous():
        raise ValueError("mask is not contiguous: mask.contiguous() is")


def check_starts(name: str, starts: Any, q: Any) -> None:
    """Raise, naming it, when `starts` is not [samples + 1] of int32 on the device of q.

    What stands in it is not looked at: that would wait for the GPU. `lengths` does.
    """
    if not hasattr(starts, "is_contiguous"):
        raise TypeError(f"{name} is a {type(starts).__name__}, and has to be a tensor of PyTorch")
    if len(starts.shape) != 1 or starts.shape[0] < 2:
        raise ValueError(f"{name} is {list(starts.shape)}, and has to be [samples + 1]")
    if _type_of(starts) != "int32" or starts.device != q.device:
        raise TypeError(f"{name} is of {_type_of(starts)} on {starts.device}: int32 on {q.device}")
    if not starts.is_contiguous():
        raise ValueError(f"{name} is not contiguous: {name}.contiguous() is")


def lengths(name: str, starts: Any, total: int) -> list[int]:
    """Return each sample's length; ValueError when `starts` does not rise from 0 to `total`.

    Waits for the GPU.
    """
    found: list[int] = starts.tolist()
    many = [end - first for first, end in itertools.pairwise(found)]
    if found[0] != 0 or found[-1] != total or min(many) < 0:
        raise ValueError(f"{name} is {found[:8]}..., and has to rise from 0 to {total}")
    return many


def check_table(name: str, tensor: Any, shape: tuple[int, ...], kind: str, q: Any) -> None:
    """Raise, naming it, when `tensor` is not of this shape and type on the device of q."""
    if not hasattr(tensor, "is_contiguous"):
        raise TypeError(f"{name} is a {type(tensor).__name__}, and has to be a tensor of PyTorch")
    if tuple(tensor.shape) != shape:
        raise ValueError(f"{name} is {list(tensor.shape)}, and has to be {list(shape)}")
    if _type_of(tensor) != kind or tensor.device != q.device:
        raise TypeError(f"{name} is of {_type_of(tensor)} on {tensor.device}: {kind} on {q.device}")
    if not tensor.is_contiguous():
        raise ValueError(f"{name} is not contiguous: {name}.contiguous() is")
