"""Threads that part: roles with ways of their own, and warp groups that stay abreast."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.engines.test_language import ONE, kernel, run
from tests.engines.world import found

if TYPE_CHECKING:
    from pathlib import Path

# Two warp groups take turns by a barrier each: the second goes when the first has been, and back.
TURNS = """
with T.Kernel(1, threads=256) as bx:
    tile = T.alloc_shared([8], 'float32')
    own = T.alloc_fragment([8], 'float32')
    turn = T.alloc_barrier([128, 128])
    tx = T.get_thread_binding()
    T.copy(A, own)
    for s in T.serial(3):
        T.mbarrier_wait_parity(turn[tx // 128], (s & 1) ^ T.if_then_else(tx < 128, 1, 0))
        for i in T.Parallel(8):
            own[i] = own[i] + 1
        T.mbarrier_arrive(turn[(tx // 128 + 1) % 2])
    REST
"""


def test_warp_groups_take_turns_and_write_as_one(folder: Path) -> None:
    body = TURNS.replace("REST", "T.copy(own, tile)\n    T.copy(tile, B)")
    a = np.arange(8, dtype=np.float32)
    assert np.array_equal(run(folder, kernel(body, ONE, "1"), a), a + 3)
    assert found() == []


def test_what_warp_groups_add_is_added_once(folder: Path) -> None:
    body = TURNS.replace("REST", "for i in T.Parallel(8):\n        T.atomic_add(B[i], own[i])")
    a, b = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    run(folder, kernel(body, ONE), a, b)
    assert np.array_equal(b, a + 3)


def test_what_each_thread_adds_is_added_by_each(folder: Path) -> None:
    body = TURNS.replace("REST", "T.atomic_add(B[0], 1.0)")
    b = np.zeros(8, np.float32)
    run(folder, kernel(body, ONE), np.zeros(8, np.float32), b)
    assert b[0] == 256


@pytest.mark.parametrize(
    ("branch", "want"),
    [
        ("if tx < 128:\n        B[0] = 5.0", 5),
        ("if tx % 128 == 0:\n        B[tx // 128] = 5.0", 5),
        ("if tx >= 128:\n        T.copy(own, tile)\n        T.copy(tile, B)", 4),
    ],
)
def test_warp_groups_abreast_may_part_later(folder: Path, branch: str, want: float) -> None:
    b = np.zeros(8, np.float32)
    run(folder, kernel(TURNS.replace("REST", branch), ONE), np.ones(8, np.float32), b)
    assert b[0] == want
    assert found() == []


def test_what_an_attempt_saw_before_threads_parted_is_not_counted(folder: Path) -> None:
    body = """
with T.Kernel(1, threads=256) as bx:
    own = T.alloc_fragment([16], 'float32')
    turn = T.alloc_barrier([128, 128])
    tx = T.get_thread_binding()
    if tx < 256:
        T.copy(A[4:20], own)
    T.mbarrier_arrive(turn[tx // 128])
    T.copy(own[0:8], B)
"""
    from srcmap.engines.interpreter.kernels import options

    run(folder, kernel(body, ONE, "1"), np.ones(8, np.float32))
    counts = [f.count for f in options.findings.sorted() if f.kind == "load-out-of-range"]
    assert counts == [24]  # 12 in each warp group, and none of the attempt with one role


def test_a_grid_with_several_indices_is_no_core(folder: Path) -> None:
    """Only on Ascend does a second index stand for a Vector, and memory for a core."""
    body = """
with T.Kernel(1, 1, threads=256) as (bx, by):
    tile = T.alloc_shared([8], 'float32')
    full = T.alloc_barrier(128)
    tx = T.get_thread_binding()
    if tx < 128:
        T.copy(A, tile)
        T.mbarrier_arrive(full)
    else:
        T.mbarrier_wait_parity(full, 0)
        T.copy(tile, B)
"""
    a = np.arange(8, dtype=np.float32)
    assert np.array_equal(run(folder, kernel(body, ONE, "1"), a), a)
    assert found() == []


def test_infinities_are_no_warnings_in_any_role(folder: Path) -> None:
    body = """
with T.Kernel(1, threads=256) as bx:
    own = T.alloc_fragment([8], 'float32')
    tx = T.get_thread_binding()
    if tx < 128:
        T.copy(A, own)
        for i in T.Parallel(8):
            own[i] = own[i] - own[i]
        T.copy(own, B)
"""
    source = kernel(body, ONE, "1")
    assert np.isnan(run(folder, source, np.full(8, np.inf, np.float32))).all()
