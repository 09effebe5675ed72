"""What single operations and rewrites mean, on tiny kernels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from srcmap.engines.interpreter.machine import DeadlockError, KernelError, UnsupportedError
from tests.engines.world import found, line_of, loaded

if TYPE_CHECKING:
    from pathlib import Path


def kernel(body: str, parameters: str, out: str = "", before: str = "") -> str:
    """Return a file with one builder `make()` and one kernel `main`."""
    indented = "\n".join(f"        {line}" for line in body.strip("\n").split("\n"))
    return (
        f"{before}\n"
        f"@tilelang.jit(out_idx=[{out}])\n"
        "def make():\n"
        "    @T.prim_func\n"
        f"    def main({parameters}):\n"
        f"{indented}\n"
        "    return main\n"
    )


def run(folder: Path, source: str, *inputs: Any, dialect: str = "nvidia") -> Any:
    return loaded(folder, source, dialect).make()(*inputs)


ONE = "A: T.Tensor([8], 'float32'), B: T.Tensor([8], 'float32')"


def test_a_parallel_loop_is_all_its_iterations(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1, threads=32) as bx:\n"
        "    for i in T.Parallel(8):\n"
        "        B[i] = A[i] * 2 + i",
        ONE,
        "1",
    )
    a = np.arange(8, dtype=np.float32)
    assert np.array_equal(run(folder, source, a), a * 3)


@pytest.mark.parametrize(
    ("expression", "want"),
    [
        ("T.if_then_else(i < 4, A[i], -A[i])", lambda a, i: np.where(i < 4, a, -a)),
        ("A[i] if i >= 2 and i < 5 else 0", lambda a, i: np.where((i >= 2) & (i < 5), a, 0)),
        ("A[i] if not i == 3 else 7", lambda a, i: np.where(i != 3, a, 7)),
        ("A[i] if 1 < i < 6 else 0", lambda a, i: np.where((i > 1) & (i < 6), a, 0)),
        ("A[7 - i]", lambda a, _i: a[::-1]),
        ("T.max(A[i], 3)", lambda a, _i: np.maximum(a, 3)),
        ("A[T.min(i, 2)]", lambda a, i: a[np.minimum(i, 2)]),
        ("T.cast(T.cast(A[i] / 2, 'int32'), 'float32')", lambda a, _i: np.trunc(a / 2)),
        ("T.ceildiv(i, 3) + A[i // 2]", lambda a, i: -(-i // 3) + a[i // 2]),
    ],
)
def test_expressions_are_element_by_element(folder: Path, expression: str, want: Any) -> None:
    source = kernel(
        f"with T.Kernel(1) as bx:\n    for i in T.Parallel(8):\n        B[i] = {expression}",
        ONE,
        "1",
    )
    a = np.arange(1, 9, dtype=np.float32)
    assert np.array_equal(run(folder, source, a), want(a, np.arange(8)).astype(np.float32))


def test_a_side_that_is_not_taken_is_not_read(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1) as bx:\n"
        "    for i in T.Parallel(8):\n"
        "        B[i] = T.if_then_else(i < 4, A[i + 4], 0)",
        ONE,
        "1",
    )
    run(folder, source, np.ones(8, np.float32))
    assert found() == []


def test_an_if_in_a_parallel_loop_is_a_mask(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1) as bx:\n"
        "    for i in T.Parallel(8):\n"
        "        B[i] = 1\n"
        "        if i < 3:\n"
        "            B[i] = A[i]\n"
        "        elif i == 5:\n"
        "            B[i] += 10",
        ONE,
        "1",
    )
    a = np.full(8, 7, np.float32)
    assert run(folder, source, a).tolist() == [7, 7, 7, 1, 1, 11, 1, 1]


def test_variables_store_and_loops_leave(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1) as bx:\n"
        "    total = T.alloc_var('float32')\n"
        "    total = 0\n"
        "    for k in T.serial(8):\n"
        "        if k > 3:\n"
        "            break\n"
        "        total += A[k]\n"
        "    B[0] = total",
        ONE,
    )
    b = np.zeros(8, np.float32)
    run(folder, source, np.arange(8, dtype=np.float32), b)
    assert b[0] == 6


def test_a_copy_goes_over_the_side_closer_to_the_arithmetic(folder: Path) -> None:
    """`example_gqa_decode` names a slice of two rows and fills a tile of four."""
    source = kernel(
        "with T.Kernel(1) as bx:\n"
        "    tile = T.alloc_shared([4], 'float32')\n"
        "    T.copy(A[2:4], tile)\n"
        "    T.copy(tile, B[0:4])",
        ONE,
    )
    b = np.zeros(8, np.float32)
    run(folder, source, np.arange(8, dtype=np.float32), b)
    assert b.tolist() == [2, 3, 4, 5, 0, 0, 0, 0]


def test_outside_reads_zero_and_drops_and_is_told(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1) as bx:\n"
        "    tile = T.alloc_fragment([4], 'float32')\n"
        "    T.copy(A[6:10], tile)\n"
        "    T.copy(tile, B[5:9])",
        ONE,
    )
    b = np.full(8, -1, np.float32)
    run(folder, source, np.arange(8, dtype=np.float32), b)
    assert b.tolist() == [-1, -1, -1, -1, -1, 6, 7, 0]
    assert [(kind, buffer) for kind, _, buffer in found()] == [
        ("load-out-of-range", "A"),
        ("store-out-of-range", "B"),
    ]


def test_a_product_accumulates_and_reductions_drop_nan(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1) as bx:\n"
        "    a = T.alloc_shared([2, 2], 'float16')\n"
        "    c = T.alloc_fragment([2, 2], 'float32')\n"
        "    m = T.alloc_fragment([2], 'float32')\n"
        "    T.copy(A, a)\n"
        "    T.fill(c, 1)\n"
        "    T.gemm(a, a, c, transpose_B=True)\n"
        "    T.fill(m, 100)\n"
        "    T.reduce_max(c, m, dim=1, clear=False)\n"
        "    T.copy(c, B)\n"
        "    T.copy(m, C)",
        "A: T.Tensor([2, 2], 'float16'), B: T.Tensor([2, 2], 'float32'), "
        "C: T.Tensor([2], 'float32')",
        "1, 2",
    )
    a = np.array([[1, 2], [3, 4]], np.float16)
    b, c = run(folder, source, a)
    assert np.array_equal(b, a.astype(np.float32) @ a.T.astype(np.float32) + 1)
    assert c.tolist() == [100, 100]


def test_a_float_literal_widens_a_half(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1) as bx:\n    for i in T.Parallel(1):\n        B[i] = A[i] * 1.44269504",
        "A: T.Tensor([1], 'float16'), B: T.Tensor([1], 'float32')",
        "1",
    )
    got = run(folder, source, np.array([3], np.float16))
    assert got[0] == np.float32(3) * np.float32(1.44269504)


def test_macros_helpers_and_dynamic_sizes(folder: Path) -> None:
    source = (
        "n = T.dynamic('n')\n"
        "@T.macro\n"
        "def double(X, Y, size):\n"
        "    for i in T.Parallel(4):\n"
        "        if i < size:\n"
        "            Y[i] = X[i] * 2\n"
        + kernel(
            "with T.Kernel(T.ceildiv(n, 4)) as bx:\n"
            "    x = T.alloc_shared([4], 'float32')\n"
            "    y = T.alloc_fragment([4], 'float32')\n"
            "    T.copy(A[bx * 4], x)\n"
            "    double(x, y, T.min(4, n - bx * 4))\n"
            "    for i in T.Parallel(4):\n"
            "        if bx * 4 + i < n:\n"
            "            B[bx * 4 + i] = y[i]",
            "A: T.Tensor([n], 'float32'), B: T.Tensor([n], 'float32')",
        )
    )
    module = loaded(folder, source)
    for size in (4, 7, 1):
        a, b = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
        module.make()(a, b)
        assert np.array_equal(b, a * 2)


def test_an_eager_kernel_binds_its_annotations(folder: Path) -> None:
    source = (
        "@tilelang.jit\n"
        "def scaled(A, factor: float = 2.0):\n"
        "    n = T.const('n')\n"
        "    B = T.empty([n * 2], 'float32')\n"
        "    A: T.Tensor[[n], 'float32']\n"
        "    with T.Kernel(1) as bx:\n"
        "        for i in T.Parallel(n):\n"
        "            B[i] = A[i] * factor\n"
        "            B[n + i] = 0\n"
        "    return B\n"
    )
    got = loaded(folder, source).scaled(np.ones(3, np.float32), factor=3.0)
    assert got.tolist() == [3, 3, 3, 0, 0, 0]


def test_an_eager_kernel_refuses_other_sizes(folder: Path) -> None:
    source = (
        "@tilelang.jit\n"
        "def doubled(A, B, batch):\n"
        "    n = T.const('n')\n"
        "    A: T.Tensor[[n], 'float32']\n"
        "    B: T.Tensor[[batch + 1], 'float32']\n"
        "    with T.Kernel(1) as bx:\n"
        "        B[0] = A[0]\n"
    )
    a, b = np.ones(3, np.float32), np.ones(3, np.float32)
    with pytest.raises(KernelError, match=r"B has shape \[3\], the kernel takes \[2\]"):
        loaded(folder, source).doubled(a, b, 1)


def test_an_eager_kernel_refuses_another_type(folder: Path) -> None:
    source = (
        "@tilelang.jit\n"
        "def kept(A):\n"
        "    n = T.const('n')\n"
        "    A: T.Tensor[[n], 'float16']\n"
        "    with T.Kernel(1) as bx:\n"
        "        A[0] = 0\n"
    )
    with pytest.raises(KernelError, match="A is float32, the kernel takes float16"):
        loaded(folder, source).kept(np.ones(3, np.float32))


def test_blocks_may_run_last_first(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(4, threads=32) as bx:\n    B[0] = bx\n", "B: T.Tensor([8], 'float32')"
    )
    from srcmap.engines.interpreter.kernels import options

    module = loaded(folder, source)
    kept = []
    for backwards in (False, True):
        options.backwards, b = backwards, np.zeros(8, np.float32)
        module.make()(b)
        kept.append(b[0])
    options.backwards = False
    assert kept == [3, 0]


def test_roles_wait_for_each_other(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1, threads=64) as bx:\n"
        "    tile = T.alloc_shared([8], 'float32')\n"
        "    full = T.alloc_barrier(arrive_count=32)\n"
        "    tx = T.get_thread_binding()\n"
        "    if tx < 32:\n"
        "        T.barrier_wait(full, 0)\n"
        "        T.copy(tile, B)\n"
        "    else:\n"
        "        T.copy(A, tile)\n"
        "        T.barrier_arrive(full)",
        ONE,
        "1",
    )
    a = np.arange(8, dtype=np.float32)
    assert np.array_equal(run(folder, source, a), a)
    assert found() == []


def test_a_deadlock_says_who_waits_for_what(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1, threads=64) as bx:\n"
        "    full = T.alloc_barrier(arrive_count=[64])\n"
        "    tx = T.get_thread_binding()\n"
        "    if tx < 32:\n"
        "        T.barrier_wait(full[0], 0)\n"
        "    else:\n"
        "        T.barrier_arrive(full[0])",
        ONE,
    )
    zeros = np.zeros(8, np.float32)
    with pytest.raises(DeadlockError, match=r"threads 0-31 waits for full\[0\], parity 0"):
        run(folder, source, zeros, zeros)
    assert [kind for kind, _, _ in found()] == ["deadlock"]


def test_reading_what_nobody_wrote_is_told(folder: Path) -> None:
    body = (
        "with T.Kernel(1) as bx:\n"
        "    tile = T.alloc_fragment([8], 'float32')\n"
        "    T.copy(A[0:4], tile[0:4])\n"
        "    for i in T.Parallel(8):\n"
        "        B[i] = tile[i]"
    )
    source = kernel(body, ONE, "1")
    run(folder, source, np.ones(8, np.float32))
    assert found() == [("uninitialised-read", line_of(source, "B[i] = tile[i]"), "tile")]


def test_a_nan_is_told_where_it_is_born_and_not_where_it_goes(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1) as bx:\n"
        "    x = T.alloc_fragment([8], 'float32')\n"
        "    for i in T.Parallel(8):\n"
        "        x[i] = A[i] - A[i]\n"
        "    for i in T.Parallel(8):\n"
        "        B[i] = x[i] + 1",
        ONE,
        "1",
    )
    run(folder, source, np.full(8, -np.inf, np.float32))
    assert found() == [("nan-born", line_of(source, "x[i] = A[i] - A[i]"), "x")]


def test_an_output_left_unwritten_is_told(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1) as bx:\n    for i in T.Parallel(4):\n        B[i] = A[i]", ONE, "1"
    )
    run(folder, source, np.ones(8, np.float32))
    assert [(kind, buffer) for kind, _, buffer in found()] == [("output-unwritten", "B")]


def test_lanes_that_write_one_element_are_told(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1) as bx:\n    for i in T.Parallel(8):\n        B[0] = A[i]", ONE, "1"
    )
    run(folder, source, np.arange(8, dtype=np.float32))
    assert "race" in [kind for kind, _, _ in found()]


def test_an_unknown_operation_names_itself(folder: Path) -> None:
    source = kernel("with T.Kernel(1) as bx:\n    T.frobnicate(A, B)", ONE)
    zeros = np.zeros(8, np.float32)
    with pytest.raises(UnsupportedError, match=r"operation T\.frobnicate is not known") as caught:
        run(folder, source, zeros, zeros)
    assert caught.value.operation == "frobnicate"


def test_arguments_of_another_shape_are_refused(folder: Path) -> None:
    source = kernel("with T.Kernel(1) as bx:\n    T.copy(A, B)", ONE, "1")
    with pytest.raises(KernelError, match=r"A has shape \[7\], the kernel takes \[8\]"):
        run(folder, source, np.zeros(7, np.float32))


def test_demos_of_a_file_do_not_run(folder: Path) -> None:
    source = (
        "import torch\n"
        "torch.set_default_device('npu')\n"
        "SIZE = 8\n"
        "x = explode(1)\n"
        "y = x + 1\n"
        "def helper():\n    return SIZE\n"
        "raise_later = helper\n"
        "for i in range(3):\n    explode(i)\n"
        "if __name__ == '__main__':\n    explode(2)\n"
    )
    module = loaded(folder, source)
    assert module.helper() == 8
    assert not hasattr(module, "y")


# -- Ascend --------------------------------------------------------------------------------------

TWO = (
    "A: T.Tensor([2, 8], 'float32'), B: T.Tensor([2, 8], 'float32'), "
    "W: T.Tensor([1, 2, 8], 'float32')"
)


def ascend(body: str, parameters: str = TWO, out: str = "1") -> str:
    made = kernel(body, parameters, out)
    return made.replace(f"out_idx=[{out}]", f"out_idx=[{out}], workspace_idx=[2]")


CUBE = (
    "with T.Kernel(1, is_npu=True) as (cid, vid):\n"
    "    a = T.alloc_L1([2, 8], 'float32')\n"
    "    u = T.alloc_ub([1, 8], 'float32')\n"
)


def test_flags_order_cube_and_vectors(folder: Path) -> None:
    source = ascend(
        CUBE + "    with T.Scope('C'):\n"
        "        T.copy(A, a)\n"
        "        T.copy(a, W[cid, :, :])\n"
        "        T.set_cross_flag('FIX', 0)\n"
        "    with T.Scope('V'):\n"
        "        T.wait_cross_flag(0)\n"
        "        T.copy(W[cid, vid, :], u)\n"
        "        T.tile.mul(u, u, 2.0)\n"
        "        T.copy(u, B[vid, :])"
    )
    a = np.arange(16, dtype=np.float32).reshape(2, 8)
    assert np.array_equal(run(folder, source, a, dialect="ascend"), a * 2)
    assert found() == []


def test_a_missing_flag_is_a_deadlock_and_one_too_many_is_told(folder: Path) -> None:
    waits = ascend(CUBE + "    with T.Scope('C'):\n        T.wait_cross_flag(3)")
    zeros = np.zeros((2, 8), np.float32)
    with pytest.raises(DeadlockError, match="Cube waits for cross flag 3"):
        run(folder, waits, zeros, dialect="ascend")
    sets = ascend(CUBE + "    with T.Scope('C'):\n        T.set_cross_flag('FIX', 3)")
    run(folder, sets, zeros, dialect="ascend")
    assert [kind for kind, _, _ in found() if kind.startswith("flag")] == ["flag-left-set"] * 2


def test_without_scopes_each_core_runs_what_touches_its_memory(folder: Path) -> None:
    """The source order is not the order of execution: the Vector's part stands first."""
    source = ascend(
        CUBE + "    T.copy(W[cid, vid, :], u)\n"
        "    T.tile.add(u, u, 1.0)\n"
        "    T.copy(u, B[vid, :])\n"
        "    T.copy(A, a)\n"
        "    T.copy(a, W[cid, :, :])"
    )
    a = np.arange(16, dtype=np.float32).reshape(2, 8)
    assert np.array_equal(run(folder, source, a, dialect="ascend"), a + 1)


def test_buffers_at_one_address_destroy_each_other(folder: Path) -> None:
    source = ascend(
        CUBE + "    w = T.alloc_ub([1, 8], 'float32')\n"
        "    T.annotate_address({u: 0, w: 16})\n"
        "    with T.Scope('V'):\n"
        "        T.copy(A[vid, :], u)\n"
        "        T.tile.fill(w, 0.0)\n"
        "        T.tile.add(u, u, 1.0)\n"
        "        T.copy(u, B[vid, :])"
    )
    run(folder, source, np.zeros((2, 8), np.float32), dialect="ascend")
    kinds = [(kind, line, buffer) for kind, line, buffer in found() if kind == "address-overlap"]
    assert kinds == [("address-overlap", line_of(source, "T.tile.add(u, u"), "u")]


@pytest.mark.parametrize(
    ("operation", "want"),
    [
        ("T.tile.topk(w, u, 2, 8)", [7, 7, 6, 6]),
        ("T.tile.gather_mask(w, u, 'P1010')", [1, 3, 5, 7]),
        ("T.tile.createvecindex(w, 5)", [5, 6, 7, 8]),
        ("T.reduce_sum(u, w[0:1], dim=-1)", [28]),
        ("T.tile.cast(w, u, 'CAST_RINT', 4)", [0, 1, 2, 3]),
    ],
)
def test_operations_of_a_vector(folder: Path, operation: str, want: list[int]) -> None:
    source = ascend(
        CUBE + "    w = T.alloc_ub([4], 'float32')\n"
        "    with T.Scope('V'):\n"
        "        T.copy(A[vid, :], u)\n"
        "        T.tile.fill(w, 0.0)\n"
        f"        {operation}\n"
        "        T.copy(w, B[vid, 0:4])"
    )
    a = np.tile(np.arange(8, dtype=np.float32), (2, 1))
    got = run(folder, source, a, dialect="ascend")
    assert got[0, : len(want)].tolist() == want


def test_compare_and_select_go_through_bits(folder: Path) -> None:
    source = ascend(
        CUBE + "    m = T.alloc_ub([1], 'uint8')\n"
        "    with T.Scope('V'):\n"
        "        T.copy(A[vid, :], u)\n"
        "        T.tile.compare(m, u, T.float32(2), 'LE')\n"
        "        T.tile.select(u, m, u, -1.0, 'VSEL_TENSOR_SCALAR_MODE')\n"
        "        T.copy(u, B[vid, :])"
    )
    a = np.tile(np.arange(8, dtype=np.float32), (2, 1))
    got = run(folder, source, a, dialect="ascend")
    assert got[1].tolist() == [0, 1, 2, -1, -1, -1, -1, -1]


def test_an_asynchronous_copy_writes_zeros_where_its_predicate_is_false(folder: Path) -> None:
    source = kernel(
        "with T.Kernel(1, threads=8) as bx:\n"
        "    s = T.alloc_shared([8, 4], 'float32')\n"
        "    done = T.alloc_barrier(8)\n"
        "    tx = T.get_thread_binding()\n"
        "    source = T.access_ptr(A[T.max(0, tx - 3), 0], 'r', 4)\n"
        "    T.ptx_cp_async(T.access_ptr(s[tx, 0], 'w', 4), source, 4, tx >= 3)\n"
        "    T.cp_async_barrier_noinc(done)\n"
        "    T.mbarrier_wait_parity(done, 0)\n"
        "    T.copy(s, B)",
        "A: T.Tensor([5, 4], 'float32'), B: T.Tensor([8, 4], 'float32')",
        "1",
    )
    a = np.arange(1, 21, dtype=np.float32).reshape(5, 4)
    a[0, 1] = np.nan
    want = np.concatenate([np.zeros((3, 4), np.float32), a])
    assert np.array_equal(run(folder, source, a), want, equal_nan=True)
    assert not found()


DEVELOPER = """
with T.Kernel(1, is_npu=True) as (cid, vid):
    a = T.alloc_shared([16, 16], 'float16')
    c = T.alloc_fragment([16, 16], 'float32')
    half = T.alloc_shared([8, 16], 'float32')
    T.copy(A, a)
    T.gemm_v0(a, a, c, init=True)
    T.copy(c, W)
    T.copy(W[vid * 8 : vid * 8 + 8, :], half)
    T.tile.mul(half, half, 2.0)
    T.copy(half, B[vid * 8 : vid * 8 + 8, :])
"""


def test_memory_that_the_compiler_places_belongs_to_the_core_that_uses_it(folder: Path) -> None:
    tensors = (
        "A: T.Tensor([16, 16], 'float16'), B: T.Tensor([16, 16], 'float32'), "
        "W: T.Tensor([16, 16], 'float32')"
    )
    source = kernel(DEVELOPER, tensors, "1").replace(
        "out_idx=[1]", "out_idx=[1], workspace_idx=[2]"
    )
    eye = np.eye(16, dtype=np.float16)
    assert np.array_equal(run(folder, source, eye, dialect="ascend"), 2 * eye)
    assert found() == []
