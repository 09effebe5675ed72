"""What runs beside its role must be waited for; what two roles touch needs a barrier between."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from tests.engines.test_language import kernel, run
from tests.engines.world import found, line_of

if TYPE_CHECKING:
    from pathlib import Path

SQUARE = "A: T.Tensor([64, 64], 'float16'), B: T.Tensor([64, 64], 'float32')"
EYE = np.eye(64, dtype=np.float16)

WARP_GROUP = """
with T.Kernel(1, threads=128) as bx:
    tile = T.alloc_shared([64, 64], 'float16')
    acc = T.alloc_fragment([64, 64], 'float32')
    more = T.alloc_fragment([64, 64], 'float32')
    T.copy(A, tile)
    T.wgmma_gemm(tile, tile, acc, clear_accum=True)
    T.wgmma_gemm(tile, tile, more, clear_accum=True)
    %s
    T.copy(acc, B)
"""


def seen(folder: Path, body: str, *inputs: Any) -> tuple[list[tuple[str, int, str]], str]:
    source = kernel(body, SQUARE, "1")
    assert np.array_equal(run(folder, source, *inputs), inputs[0])
    return found(), source


@pytest.mark.parametrize("wait", ["T.wait_wgmma(0)", "T.wait_wgmma(1)", "T.gemm(tile, tile, more)"])
def test_a_product_of_warp_groups_is_there_when_it_was_waited_for(folder: Path, wait: str) -> None:
    assert seen(folder, WARP_GROUP % wait, EYE)[0] == []


def test_a_product_that_was_not_waited_for_is_told_where_it_is_read(folder: Path) -> None:
    told, source = seen(folder, WARP_GROUP % "T.wait_wgmma(2)", EYE)
    assert told == [("unwaited-read", line_of(source, "T.copy(acc, B)"), "acc")]


def test_what_a_running_product_reads_must_not_be_written(folder: Path) -> None:
    told, source = seen(folder, WARP_GROUP % "T.wait_wgmma(1)\n    T.clear(tile)", EYE)
    assert told == [("unwaited-write", line_of(source, "T.clear(tile)"), "tile")]


COPIES = """
with T.Kernel(1, threads=128) as bx:
    tile = T.alloc_shared([2, 32, 64], 'float16')
    T.async_copy(A[0:32, :], tile[0, :, :])
    T.async_copy(A[32:64, :], tile[1, :, :])
    T.ptx_wait_group(%d)
    T.copy(tile[0, :, :], B[0:32, :])
    T.ptx_wait_group(0)
    T.copy(tile[1, :, :], B[32:64, :])
"""


def test_groups_of_copies_end_in_order(folder: Path) -> None:
    assert seen(folder, COPIES % 1, EYE)[0] == []
    told, source = seen(folder, COPIES % 2, EYE)
    assert told == [("unwaited-read", line_of(source, "tile[0, :, :], B"), "tile")]


BARRIER = """
with T.Kernel(1, threads=256) as bx:
    tile = T.alloc_shared([2, 32, 64], 'float16')
    full = T.alloc_barrier([128] * 2)
    tx = T.get_thread_binding()
    if tx >= 128:
        for s in T.serial(2):
            T.tma_copy(A[s * 32 : s * 32 + 32, :], tile[s, :, :], barrier=full[s])
            T.mbarrier_arrive(full[s])
    else:
        T.mbarrier_wait_parity(full[0], 0)
        T.copy(tile[0, :, :], B[0:32, :])
        T.mbarrier_wait_parity(full[%d], 0)
        T.copy(tile[1, :, :], B[32:64, :])
"""


def test_a_bulk_copy_is_there_when_its_barrier_was_waited_for(folder: Path) -> None:
    assert seen(folder, BARRIER % 1, EYE)[0] == []
    told, source = seen(folder, BARRIER % 0, EYE)
    assert told == [("unwaited-read", line_of(source, "tile[1, :, :], B"), "tile")]


TENSOR_MEMORY = """
with T.Kernel(1, threads=128) as bx:
    tile = T.alloc_shared([64, 64], 'float16')
    acc = T.alloc_tmem([64, 64], 'float32')
    out = T.alloc_fragment([64, 64], 'float32')
    done = T.alloc_barrier(1)
    T.copy(A, tile)
    T.tcgen05_gemm(tile, tile, acc, mbar=done, clear_accum=True)
    %s
    T.copy(acc, out)
    T.copy(out, B)
"""


def test_a_product_into_tensor_memory_is_there_after_its_barrier(folder: Path) -> None:
    assert seen(folder, TENSOR_MEMORY % "T.mbarrier_wait_parity(done, 0)", EYE)[0] == []
    told, source = seen(folder, TENSOR_MEMORY % "pass", EYE)
    assert told == [("unwaited-read", line_of(source, "T.copy(acc, out)"), "acc")]


HAND_OVER = """
with T.Kernel(1, threads=256) as bx:
    tile = T.alloc_shared([64, 64], 'float16')
    half = T.alloc_fragment([64, 64], 'float16')
    full = T.alloc_barrier(128)
    tx = T.get_thread_binding()
    if tx < 128:
        T.copy(A, tile)
        T.mbarrier_arrive(full)
    else:
        %s
        T.copy(tile, half)
        T.copy(half, B)
"""


def test_roles_need_a_barrier_between_a_write_and_a_read(folder: Path) -> None:
    assert seen(folder, HAND_OVER % "T.mbarrier_wait_parity(full, 0)", EYE)[0] == []
    told, source = seen(folder, HAND_OVER % "pass", EYE)
    assert told == [("unordered", line_of(source, "T.copy(tile, half)"), "tile")]


RING = """
with T.Kernel(1, threads=384) as bx:
    tile = T.alloc_shared([%(stages)d, 8, 64], 'float16')
    ready = T.alloc_barrier([128] * %(stages)d)
    free = T.alloc_barrier([128] * %(stages)d)
    tx = T.get_thread_binding()
    if tx >= 256:
        for s in T.serial(8):
            T.mbarrier_wait_parity(free[s %% %(stages)d], ((s // %(stages)d) & 1) ^ 1)
            T.tma_copy(A[s * 8 : s * 8 + 8, :], tile[s %% %(stages)d, :, :],
                       barrier=ready[s %% %(stages)d])
            T.mbarrier_arrive(ready[s %% %(stages)d])
    elif tx >= 128:
        for r in T.serial(4):
            s = 2 * r
            T.mbarrier_wait_parity(ready[s %% %(stages)d], (s // %(stages)d) & 1)
            T.copy(tile[s %% %(stages)d, :, :], B[s * 8 : s * 8 + 8, :])
            T.mbarrier_arrive(free[s %% %(stages)d])
    else:
        for r in T.serial(4):
            s = 1 + 2 * r
            T.mbarrier_wait_parity(ready[s %% %(stages)d], (s // %(stages)d) & 1)
            T.copy(tile[s %% %(stages)d, :, :], B[s * 8 : s * 8 + 8, :])
            T.mbarrier_arrive(free[s %% %(stages)d])
"""


@pytest.mark.parametrize(("stages", "early"), [(2, False), (3, True), (4, False)])
def test_a_parity_tells_a_phase_from_the_next_alone(folder: Path, stages: int, early: bool) -> None:
    """Who skips a phase of a barrier can take the one before the last for the one it waits for."""
    told, source = seen(folder, RING % {"stages": stages}, EYE)
    waits = {line_of(source, start) + 1 for start in ("s = 2 * r", "s = 1 + 2 * r")}
    assert {line for _, line, _ in told} == (waits if early else set())
    assert {kind for kind, _, _ in told} <= {"early-wait"}


def test_what_all_threads_do_is_ordered_by_the_compiler(folder: Path) -> None:
    body = """
with T.Kernel(1, threads=256) as bx:
    tile = T.alloc_shared([64, 64], 'float16')
    tx = T.get_thread_binding()
    T.copy(A, tile)
    if tx < 128:
        T.copy(tile[0:32, :], B[0:32, :])
    else:
        T.copy(tile[32:64, :], B[32:64, :])
"""
    assert seen(folder, body, EYE)[0] == []


LOOP = """
with T.Kernel(1, threads=128) as bx:
    tile = T.alloc_shared([64, 64], 'float16')
    half = T.alloc_fragment([64, 64], 'float16')
    for i, j in T.Parallel(64, 64, annotations={'parallel_async_without_async_commit_wait': True}):
        tile[i, j] = A[i, j]
    T.ptx_commit_group()
    %s
    T.copy(tile, half)
    T.copy(half, B)
"""


def test_a_loop_that_copies_asynchronously_is_waited_for_by_its_group(folder: Path) -> None:
    assert seen(folder, LOOP % "T.ptx_wait_group(0)", EYE)[0] == []
    told, source = seen(folder, LOOP % "T.ptx_wait_group(1)", EYE)
    assert told == [("unwaited-read", line_of(source, "T.copy(tile, half)"), "tile")]
