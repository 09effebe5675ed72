"""Our decoding from paged caches on a GPU beside upstream's compiled kernel and float64."""

from __future__ import annotations

import zlib
from functools import cache
from typing import Any

import numpy as np
import pytest

from benchmarks.gpu.upstream import repaired
from benchmarks.gpu.variants._latent import einops_or_none
from kernels.paged.reference import attention as reference
from tests.kernels.gpu.world import UNIT, compare, run_poisoned, used, why_not, wide
from tests.kernels.tilelang.paging import CASES, Case, made

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(bool(why_not()), reason=why_not() or "a GPU is here"),
    pytest.mark.filterwarnings("ignore"),  # what tilelang and torch say of themselves
]

THEIRS = "blocksparse_attention/example_tilelang_sparse_gqa_decode_paged.py"


def on_gpu(name: str, case: Case) -> tuple[Any, ...]:
    """Return q, k_pages, v_pages, block_indices, cache_seqlens, block_table as CUDA tensors."""
    import torch

    q, k, v, *rest = made(zlib.crc32(name.encode()), case)
    kind = getattr(torch, case.dtype)
    floats = (torch.from_numpy(x).to("cuda", kind) for x in (q, k, v))
    return (*floats, *(torch.from_numpy(x).cuda() for x in rest))


def exact(case: Case, given: tuple[Any, ...]) -> Any:
    """Return the definition's output; it multiplies by what it has hidden, not NaN there."""
    q, k, v = (np.nan_to_num(wide(x)) for x in given[:3])
    indices, lengths, table = (x.cpu().numpy() for x in given[3:])
    listed = indices if case.chosen else None
    one = q[:, :, None]
    size = case.block_n
    return reference(one, k, v, table, lengths, block_indices=listed, block_n=size)[:, :, 0]


@pytest.mark.parametrize("name", CASES)
def test_paged(name: str) -> None:
    from kernels.paged.tilelang_kernel import Tiling, attention

    case = CASES[name]
    given = on_gpu(name, case)
    wanted = exact(case, given)
    tiles = len(case.lengths) * case.kv_heads * -(-case.heads // case.kv_heads // 64)
    tiling = Tiling(stages=case.stages, programs=tiles * case.splits)
    q, k, v, indices, lengths, table = given
    options: dict[str, Any] = {"block_n": case.block_n, "tiling": tiling}
    options["block_indices"] = indices if case.chosen else None
    got = run_poisoned(lambda *qkv: attention(*[*qkv, table, lengths], **options), q, k, v)
    error, size = error_of_upstream(case.dim, case.size)
    larger = max(1.0, float(np.abs(wanted).max(initial=0)) / size)
    in_type = UNIT[case.dtype] / UNIT["float16"]
    compare(f"paged {name} {case}", got, wanted, error * larger * in_type, case.dtype)


@cache
def error_of_upstream(dim: int, size: float) -> tuple[float, float]:
    """Return the largest error of upstream's compiled kernel in float16, and the largest output.

    It masks the first block of each split alone, so lists begin with the last block and descend.
    """
    import torch

    case = Case((1024, 900), 16, 2, dim, 128, chosen=16, size=size)
    q, k, v, _, lengths, table = on_gpu(f"upstream {dim} {size}", case)
    down = torch.arange(15, -1, -1, dtype=torch.int32, device="cuda")
    indices = torch.stack([down, torch.where(down > 0, down - 1, -1)])
    indices = indices[:, None].expand(2, 2, 16).contiguous()
    with einops_or_none():
        used.add(THEIRS)
        file = repaired(THEIRS)  # as it is, tilelang 0.1.15 does not compile it
    kernel = file.flashattn(2, 16, 2, dim, dim, 64, 64, 128, 2, 128, k.shape[0])
    parts = [torch.empty(2, 16, 1, *more, device="cuda") for more in [(), (dim,)]]
    given = (q, k, v, indices, lengths, table)
    wanted = exact(case, given)
    got = run_poisoned(lambda *x: kernel(*x, *parts), *given)
    error = float(np.abs(wide(got) - wanted).max())
    assert np.isfinite(error)
    return error, float(np.abs(wanted).max())
