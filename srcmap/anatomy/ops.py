"""The table of operations: the one place for dialects.

One row says what a tilelang call does and where its operands stand.
NVIDIA and Ascend, tile and scalar style are rows of the same table.
A call that no row knows is counted, shown, and makes the answers that it touches "not judged".
Sources: tilelang 0.1.13 to 0.1.15 `tilelang/language/**`, tilelang-ascend `tilelang/language/**`.
"""

from __future__ import annotations

import ast
from typing import NamedTuple

Operand = int | str
"""Position of an argument, or its keyword when it has no position."""


CHOICE_NAMES = ("cond", "true_value", "false_value")
"""Formal names of `T.if_then_else` and `T.Select`, by position."""
REDUCTION_NAMES = ("buffer", "out", "dim", "clear")
"""Formal names of the reductions, by position."""


class Row(NamedTuple):
    """What a call does."""

    kind: str
    dst: Operand
    """What is written."""
    src: tuple[Operand, ...] = ()
    """What is read, in the order of the operation."""
    names: tuple[str, ...] = ()
    """Formal names by position, for calls that pass by keyword."""


class Operation(NamedTuple):
    """A tile operation as one call performs it."""

    kind: str
    """The kind of its row: `copy`, `gemm`, `reduce_max`, ..."""
    call: ast.Call
    target: ast.expr | None
    """What it writes; None when the call leaves it out."""
    sources: tuple[ast.expr, ...]
    """What it reads, in the order of its row; operands left out are missing."""


def _copy(dst: int = 1, src: int = 0) -> Row:
    names = ("src", "dst") if dst == 1 else ("dst", "src")
    return Row("copy", dst, (src,), names)


def _gemm() -> Row:
    return Row("gemm", 2, (0, 1), ("A", "B", "C"))


def _reduce(kind: str) -> Row:
    return Row(kind, 1, (0,), REDUCTION_NAMES)


def _tile(kind: str, sources: int = 2) -> Row:
    return Row(kind, 0, tuple(range(1, sources + 1)), ("dst", "src0", "src1"))


_ARITHMETIC = ("add", "sub", "mul", "div", "max", "min")
_REDUCTIONS = ("reduce_max", "reduce_sum", "reduce_min")
_UNARY = {
    "exp": "exp", "exp2": "exp", "ln": "log", "log": "log", "log2": "log", "neg": "neg",
    "reciprocal": "reciprocal", "relu": "relu", "leaky_relu": "relu",
}  # fmt: skip

TILE_OPS: dict[str, Row] = {
    # moving data
    **dict.fromkeys(
        ("copy", "tma_copy", "async_copy", "npuir_copy", "tile.copy", "im2col", "c2d_im2col"),
        _copy(),
    ),
    **dict.fromkeys(
        ("ptx_cp_async", "tile.cast", "tile.broadcast", "tile.transpose", "tile.brcb",
         "tile.brcb_experiment"), _copy(0, 1)),
    **dict.fromkeys(("gather", "tile.gather", "tile.gatherb"), Row("copy", 0, (1, 2))),
    "tile.gather_mask": Row("copy", 0, (1,)),
    # constants
    **dict.fromkeys(("fill", "tile.fill"), Row("fill", 0, (1,), ("buffer", "value"))),
    **dict.fromkeys(("clear", "tile.clear"), Row("clear", 0, (), ("buffer",))),
    # matrix products
    **dict.fromkeys(
        ("gemm", "gemm_v0", "gemm_v1", "gemm_v2", "mma", "wgmma_gemm", "tcgen05_gemm", "gemm_sp",
         "gemm_sp_v2", "gemm_rs", "gemm_ss", "tile.gemm", "tile.mma", "wgmma_gemm_sp", "cdna_gemm",
         "mma_gemm"), _gemm()),
    # reductions
    **{name: _reduce(name) for name in _REDUCTIONS},
    **dict.fromkeys(
        ("reduce", "npuir_reduce", "reduce_abssum", "reduce_absmax", "reduce_bitand",
         "reduce_bitor", "reduce_bitxor"), _reduce("reduce_other")),
    **dict.fromkeys(("cumsum", "cummax"), Row("reduce_other", 1, (0,))),
    **{f"tile.{name}": Row(name, 0, (1,), ("dst", "src")) for name in _REDUCTIONS},
    # element-wise on tiles, destination first
    **{f"tile.{name}": _tile(name) for name in _ARITHMETIC},
    **{f"tile.{name}s": _tile(name) for name in _ARITHMETIC},
    **{f"tile.row_expand_{name}": _tile(name) for name in _ARITHMETIC},
    **{f"tile.row_expand_{name}_experiment": _tile(name) for name in _ARITHMETIC},
    **{f"tile.{name}": _tile(kind, 1) for name, kind in _UNARY.items()},
    "tile.axpy": Row("axpy", 0, (1, 2)),
    **dict.fromkeys(("tile.mul_add_dst", "tile.fused_mul_add"), Row("mul_add", 0, (1, 2))),
    "tile.select": Row("select", 0, (1, 2, 3)),
    **dict.fromkeys(("tile.compare", "tile.compare_scalar"), Row("compare", 0, (1, 2, 3))),
    **{f"tile.bitwise_{name}": _tile("bitwise_" + name) for name in ("and", "or", "xor")},
    "tile.bitwise_not": _tile("bitwise_not", 1),
    **dict.fromkeys(
        ("tile.createvecindex", "tile.arith_progression"), Row("index_vector", 0, (1,))),
    **dict.fromkeys(
        ("tile.abs", "tile.sqrt", "tile.rsqrt", "tile.sin", "tile.cos", "tile.sigmoid",
         "tile.silu", "tile.round", "tile.floor", "tile.ceil", "tile.trunc"),
        Row("elementwise", 0, (1,))),
    **dict.fromkeys(
        ("tile.clamp", "tile.clamp_max", "tile.clamp_min", "tile.bitwise_lshift",
         "tile.bitwise_rshift", "tile.pow", "tile.powers"), Row("elementwise", 0, (1, 2))),
    # choosing
    **dict.fromkeys(
        ("tile.topk", "topk", "tile.sort", "tile.sort32", "tile.merge_sort", "tile.init_sort_buf",
         "tile.sort_block", "tile.mrgsort"), Row("topk", 0, (1, 2, 3, 4))),
    # adding through memory
    **dict.fromkeys(
        ("atomic_add", "atomic_addx2", "atomic_addx4", "atomic_max", "atomic_min",
         "tile.atomic_add"), Row("atomic", 0, (1,))),
    "reinterpretcast": Row("alias", 0, (1,)),
    # tilelang-ascend's npuir branch: operands first, destination last
    **{f"{prefix}{name}": Row(name, 2, (0, 1), ("A", "B", "C"))
       for prefix in ("v", "npuir_") for name in _ARITHMETIC},
    **{f"{prefix}{name}": Row(kind, 1, (0,), ("A", "B"))
       for prefix in ("v", "npuir_")
       for name, kind in {**_UNARY, "rec": "reciprocal"}.items()},
    **dict.fromkeys(
        ("vbrc", "npuir_brc", "vcast", "npuir_cast", "load_nd2nz", "npuir_load_nd2nz",
         "store_nz2nd", "npuir_store_nz2nd", "store_fixpipe", "npuir_store_fixpipe",
         "vtranspose", "npuir_transpose"), _copy()),
    **dict.fromkeys(("npuir_dot", "vdot"), _gemm()),
    **{f"{prefix}{name}": Row(f"bitwise_{name}", 2, (0, 1))
       for prefix in ("v", "npuir_") for name in ("and", "or", "xor")},
    **dict.fromkeys(("vselect", "npuir_select"), Row("select", 3, (0, 1, 2))),
    **dict.fromkeys(("vcmp", "npuir_cmp"), Row("compare", 2, (0, 1, 3))),
    "npuir_fill": Row("fill", 0, (1,), ("buffer", "value")),
    "npuir_clear": Row("clear", 0, (), ("buffer",)),
    **dict.fromkeys(("arange", "npuir_arange"), Row("index_vector", 0, (2,))),
}  # fmt: skip
"""Calls that stand alone as statements and write a tile."""

ALLOCATIONS = {
    "alloc_shared", "alloc_fragment", "alloc_local", "alloc_var", "alloc_tmem", "alloc_L1",
    "alloc_L0A", "alloc_L0B", "alloc_L0C", "alloc_ub", "alloc_buffer", "alloc_descriptor",
    "alloc_wgmma_desc", "alloc_tcgen05_smem_desc", "alloc_tcgen05_instruction_desc",
    "alloc_cluster_barrier", "alloc_reducer", "alloc_workspace",
}  # fmt: skip
GLOBAL_ALLOCATIONS = {"alloc_global", "empty", "alloc_workspace"}
BARRIER_ALLOCATIONS = {"alloc_barrier", "alloc_cluster_barrier", "create_list_of_mbarrier"}
ALL_ALLOCATIONS = ALLOCATIONS | GLOBAL_ALLOCATIONS | BARRIER_ALLOCATIONS
ALIASES = {"reshape", "view", "reinterpret", "reinterpretcast"}

ASCEND_MEMORIES = {"alloc_L1", "alloc_L0C", "alloc_ub"}

BARRIERS = {
    "barrier_all", "pipe_barrier", "sync_threads", "sync_warp", "sync_grid", "sync_all",
    "sync_block", "sync_cluster", "cluster_sync", "set_flag", "wait_flag", "barrier_arrive",
    "mbarrier_arrive", "mbarrier_expect_tx", "cp_async_barrier_noinc", "tcgen05_mma_arrive",
    "tcgen05_commit", "fence_proxy_async", "warpgroup_arrive", "warpgroup_commit_batch",
    "warpgroup_wait", "wait_wgmma", "ptx_commit_group", "ptx_wait_group", "ptx_wait_barrier",
    "cp_async_wait_group", "cp_async_commit_group", "sync_global", "fence", "tma_store_arrive",
    "tma_store_wait", "syncthreads", "tcgen05_before_thread_sync", "tcgen05_after_thread_sync",
    "any_sync", "all_sync", "ptx_arrive_barrier", "arrive_barrier", "wait_group",
    "commit_group", "set_cross_flag", "wait_cross_flag", "barrier_wait", "mbarrier_wait_parity",
    "griddepcontrol_wait", "pdl_sync", "pdl_trigger", "sync_subblock", "block_barrier",
    "pto_barrier", "wait_intra_block", "set_intra_block", "cluster_arrive", "cluster_wait",
    "sync_block_set", "sync_block_wait", "subblock_barrier", "sync_block_all",
    "warp_sync", "ptx_fence_barrier_init", "fence_barrier_init", "tcgen05_cp_warpx4",
}  # fmt: skip
"""Synchronisation: it parts a product from the load before it and is otherwise noise."""

GRID_BARRIERS = {"sync_grid", "sync_all"}
FLAG_SETS = {"set_cross_flag", "set_intra_block", "sync_block_set"}
FLAG_WAITS = {"wait_cross_flag", "wait_intra_block", "sync_block_wait"}
BARRIER_WAITS = {"mbarrier_wait_parity", "barrier_wait", "ptx_wait_barrier"}

NOISE = {
    "annotate_layout", "annotate_address", "annotate_safe_value", "annotate_l2_hit_ratio",
    "use_swizzle", "set_max_nreg", "inc_max_nreg", "dec_max_nreg",
    "annotate_producer_reg_dealloc", "annotate_consumer_reg_alloc", "no_set_max_nreg",
    "disable_warp_group_reg_alloc", "func_attr", "attr", "block_attr", "evaluate", "print",
    "device_assert", "assume", "annotate_restrict_buffers", "annotate_ws_schedule",
    "annotate_pass_configs", "import_source", "printf", "dump", "initialize_wgmma_descriptor",
    "initialize_tcgen05_descriptor", "increase_descriptor_offset", "tcgen05_dealloc",
    "annotate_compile_flags", "dump_tensor", "setprio", "hint", "cluster_launch_control",
    "call_extern", "loop_break", "deallocate_tmem", "tile.set_mask", "tile.reset_mask",
    "rng_init", "annotate_min_blocks_per_sm", "prefetch", "create_tma_descriptor",
    "tma_prefetch", "annotate_blockscale", "reads", "writes",
}  # fmt: skip
"""Statements that move no data that a concept looks at."""

ROLE_SCOPES = {"ws", "WSScope", "warp_specialize"}
"""What `with` opens for one warp role."""
MAP_LOOPS = {"Parallel", "vectorized", "grid"}

EXPRESSIONS = {
    "exp": "exp", "exp2": "exp", "log": "log", "log2": "log", "max": "max", "min": "min", "Max":
    "max", "Min": "min", "maximum": "max", "minimum": "min", "__exp": "exp", "__exp2": "exp",
    "__log": "log", "__log2": "log", "exp10": "exp", "__exp10": "exp", "if_then_else": "choice",
    "Select": "choice", "where": "choice", "infinity": "infinity", "max_value": "infinity",
    "min_value": "neg_infinity", "cast": "keep_first", "Cast": "keep_second", "ceildiv":
    "scalar", "floordiv": "scalar", "floormod": "scalar", "truncdiv": "scalar", "truncmod":
    "scalar", "fma": "fma", "__fmul": "mul", "__fadd": "add", "__fsub": "sub", "__fdiv": "div",
    "ieee_mul": "mul", "ieee_add": "add", "ieee_sub": "sub", "ieee_fdiv": "div", "fdividef":
    "div", "__fdividef": "div", "ieee_frcp": "reciprocal", "reciprocal": "reciprocal",
    "max_nan": "max", "min_nan": "min", "fmax": "max", "fmin": "min", "reinterpret":
    "keep_second", "access_ptr": "keep_first", "address_of": "keep_first", "tvm_access_ptr":
    "keep_first", "not_": "keep_first", "Not": "keep_first", "likely": "keep_first",
    "shuffle_elect": "scalar", **dict.fromkeys(
        ("tanh", "sigmoid", "abs", "fabs", "sqrt", "rsqrt", "sin", "cos", "floor", "ceil", "round",
         "trunc", "erf", "pow", "power", "__tanh", "__sin", "__cos", "nearbyint", "clamp"),
        "shape"),
}  # fmt: skip
"""Calls inside expressions, by what they do with the roles of their arguments."""

SCALAR_TYPES = {
    "float16", "float32", "float64", "bfloat16", "int8", "int16", "int32", "int64", "uint8",
    "uint16", "uint32", "uint64", "bool", "float", "half", "float8_e4m3fn", "float8_e5m2",
    "float8_e4m3", "float8_e4m3fnuz",
}  # fmt: skip
THREADS = {
    "get_thread_binding", "get_thread_bindings", "get_warp_idx", "get_warp_group_idx",
    "get_lane_idx", "get_warp_idx_sync", "thread_binding",
}  # fmt: skip


LANGUAGE_NAMES = frozenset(
    name
    for table in (
        TILE_OPS, ALL_ALLOCATIONS, BARRIERS, NOISE, EXPRESSIONS, MAP_LOOPS, SCALAR_TYPES, THREADS,
        ROLE_SCOPES, ALIASES,
        ("Kernel", "Tensor", "Buffer", "prim_func", "macro", "Scope", "Pipelined", "serial",
         "unroll", "dynamic", "symbolic", "const"),
    )
    for name in table
    if "." not in name
) - {"max", "min", "print", "float", "bool"}  # fmt: skip
"""Names that a star import of the language brings, less those that plain Python means too."""


def argument(call: ast.Call, operand: Operand, names: tuple[str, ...] = ()) -> ast.expr | None:
    """The argument of a call at a position or under its formal name."""
    if isinstance(operand, int):
        if operand < len(call.args):
            return call.args[operand]
        if operand >= len(names):
            return None
        operand = names[operand]
    return keyword(call, operand)


def operation_of(name: str | None, call: ast.Call) -> Operation | None:
    """The operation that a call of this canonical name performs; None when no row has the name."""
    row = TILE_OPS.get(name or "")
    if row is None:
        return None
    operands = (argument(call, operand, row.names) for operand in row.src)
    return Operation(
        _said_reduction(call) if name in ("reduce", "npuir_reduce") else row.kind,
        call,
        argument(call, row.dst, row.names),
        tuple(operand for operand in operands if operand is not None),
    )


def _said_reduction(call: ast.Call) -> str:
    """`T.reduce` names the reduction in an argument: `"max"`, `reduce_mode="sum"`."""
    arguments = [*call.args, *(item.value for item in call.keywords)]
    said = [one.value for one in arguments if isinstance(one, ast.Constant)]
    return next((k for k in _REDUCTIONS if k.removeprefix("reduce_") in said), "reduce_other")


def keyword(call: ast.Call, name: str) -> ast.expr | None:
    """The value of a keyword argument."""
    return next((item.value for item in call.keywords if item.arg == name), None)


def is_known(name: str) -> bool:
    """Whether some table above has a row for a call that stands alone."""
    return (
        name in TILE_OPS
        or name in BARRIERS
        or name in NOISE
        or name in ALLOCATIONS | GLOBAL_ALLOCATIONS
    )
