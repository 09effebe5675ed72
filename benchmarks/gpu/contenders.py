"""Who is measured: our kernels, upstream's from the checkout, PyTorch's backends. One table."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[2]
PIN = ROOT / "_vendor" / "tilelang-v0.1.14" / "examples"


class Shape(NamedTuple):
    """One line of the table."""

    variant: str
    batch: int
    heads: int
    kv_heads: int
    seq: int
    dim: int
    causal: bool = True
    window: int | None = None

    @property
    def flops(self) -> float:
        """Two products over the pairs that a query sees; on the diagonal, half a square."""
        if self.variant == "decode":
            return 4.0 * self.batch * self.heads * self.seq * self.dim
        pairs = self.seq * self.seq * (0.5 if self.causal else 1.0)
        if self.window is not None:
            pairs = self.seq * self.window - self.window * (self.window - 1) / 2
        return 4.0 * self.batch * self.heads * pairs * self.dim

    @property
    def bytes(self) -> float:
        """Q, K, V and the output once, in two bytes a number; for decoding, K and V."""
        if self.variant == "decode":
            return 2.0 * self.batch * self.seq * self.dim * 2 * self.kv_heads
        return 2.0 * self.batch * self.seq * self.dim * 2 * (self.heads + self.kv_heads)

    @property
    def bhsd(self) -> bool:
        return self.variant != "gqa"


SHAPES = (
    Shape("mha", 1, 32, 32, 8192, 128, causal=False),
    Shape("mha", 1, 32, 32, 8192, 128),
    Shape("mha", 4, 32, 32, 4096, 64, causal=False),
    Shape("mha", 4, 32, 32, 4096, 64),
    Shape("gqa", 1, 32, 8, 8192, 128, causal=False),
    Shape("gqa", 1, 32, 8, 8192, 128),
    Shape("window", 1, 32, 32, 8192, 128, window=1024),
    Shape("sink", 1, 32, 32, 8192, 128),
    Shape("sink", 1, 32, 32, 8192, 128, window=1024),
    Shape("decode", 1, 32, 8, 65536, 128, causal=False),
    Shape("decode", 16, 32, 8, 8192, 128, causal=False),
)

SHIPPED = {
    "mha": ("flash_attention/example_mha_fwd_bhsd.py", (128, 128, 2, 256)),
    "gqa": ("flash_attention/example_gqa_fwd_bshd.py", (64, 64, 2, 128)),
    "window": ("attention_sink/example_mha_sink_fwd_bhsd.py", (128, 128, 2, 256)),
    "sink": ("attention_sink/example_mha_sink_fwd_bhsd.py", (128, 128, 2, 256)),
    "decode": ("flash_decoding/example_gqa_decode.py", (128, 64, 8, 2, 128)),
}
"""Upstream's file, and what it measures itself with: `run_regression_perf`, or its heuristic."""

UPSTREAM_SWEEP = ((128, 128, 1, 256), (128, 128, 2, 256), (192, 128, 2, 384), (128, 176, 1, 256))
"""block_M, block_N, num_stages, threads."""

OUR_BLOCKS = {
    128: ((128, 128), (128, 160), (128, 176)),
    64: ((128, 96), (128, 128), (128, 160), (192, 64), (192, 96), (192, 112), (192, 128)),
}
"""block_m and block_n for a head size; three warp groups have too few registers for 128."""


def our_sweep(dim: int) -> Iterator[dict[str, Any]]:
    """Yield the tilings that are tried for a head size."""
    for m, n in OUR_BLOCKS[dim]:
        for group in (1, 8, 32):
            for turns in (False, True):
                if (group, turns) != (32, dim == 128):
                    yield {"block_m": m, "block_n": n, "stages": 2, "head_group": group,
                           "turns": turns}  # fmt: skip


DECODE_SWEEP = ((128, 64, 16, 2, 128), (64, 64, 16, 3, 128), (64, 64, 32, 2, 128))
"""Upstream's decoding: block_N, block_H, num_split, num_stages, threads."""

OUR_DECODE_SWEEP = tuple(
    {"block_n": n, "stages": stages, "programs": programs}
    for n, stages in ((64, 2), (64, 4), (64, 6), (128, 2), (128, 3))
    for programs in (132, 264, 528)
)


class Contender(NamedTuple):
    """A name and how to get its function, apart from each other: compiling takes seconds."""

    name: str
    kind: str
    """ours, upstream or pytorch."""
    settings: Any
    make: Callable[[tuple[Any, ...]], Callable[[], Any]]
    """Inputs in the variant's own layout -> the call."""


def upstream_module(path: str) -> Any:
    """Return a module of upstream's examples, from the checkout."""
    name = "upstream_" + Path(path).stem
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, PIN / path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


def upstream_kernel(shape: Shape, config: tuple[int, ...]) -> Any:
    """Return upstream's compiled kernel."""
    build = upstream_module(SHIPPED[shape.variant][0]).flashattn
    b, h, s, d = shape.batch, shape.heads, shape.seq, shape.dim
    if shape.variant == "decode":
        return build(b, h, shape.kv_heads, s, d, *config)
    named = dict(zip(("block_M", "block_N", "num_stages", "threads"), config, strict=True))
    if shape.variant == "mha":
        return build(b, h, s, s, d, shape.causal, **named)
    if shape.variant == "gqa":
        return build(b, h, s, d, shape.causal, groups=h // shape.kv_heads, **named)
    return build(b, h, s, s, d, shape.window, **named)


def our_call(shape: Shape, tiling: dict[str, Any] | None) -> Callable[..., Any]:
    """Return our launcher with the options of the shape."""
    module = importlib.import_module(f"kernels.{shape.variant}.tilelang_kernel")
    launch = importlib.import_module("kernels.launch")
    kind = launch.Splitting if shape.variant == "decode" else launch.Tiling
    chosen = kind(**tiling) if tiling else None
    named: dict[str, Any] = {"tiling": chosen}
    if shape.variant in ("mha", "gqa"):
        named["causal"] = shape.causal
    elif shape.window is not None:
        named["window_size"] = shape.window
    return lambda *inputs: module.attention(*inputs, **named)


def inputs_of(shape: Shape) -> tuple[Any, ...]:
    """Return q, k, v in the variant's layout, and sinks where there are some."""
    import torch

    torch.manual_seed(8)
    if shape.variant == "decode":
        return _decode_inputs(shape)
    sizes = (shape.heads, shape.kv_heads, shape.kv_heads)
    many = [
        torch.randn(shape.batch, h, shape.seq, shape.dim, device="cuda", dtype=torch.float16)
        for h in sizes
    ]
    if not shape.bhsd:
        many = [x.transpose(1, 2).contiguous() for x in many]
    if shape.variant == "sink":
        many.append(torch.randn(shape.heads, device="cuda", dtype=torch.float16))
    return tuple(many)


def _decode_inputs(shape: Shape) -> tuple[Any, ...]:
    import torch

    b, s, g, d = shape.batch, shape.seq, shape.kv_heads, shape.dim
    q = torch.randn(b, shape.heads, d, device="cuda", dtype=torch.float16)
    k, v = (torch.randn(b, s, g, d, device="cuda", dtype=torch.float16) for _ in range(2))
    return q, k, v, torch.ones(b, s, g, device="cuda", dtype=torch.uint8)


def contenders(shape: Shape, sweep: bool) -> Iterator[Contender]:
    """Yield everybody who can compute this shape."""

    def mine(tiling: dict[str, Any] | None) -> Callable[..., Any]:
        return lambda inputs: lambda: our_call(shape, tiling)(*inputs)

    def theirs(config: tuple[int, ...]) -> Callable[..., Any]:
        return lambda inputs: _theirs(shape, config, inputs)

    yield Contender("ours", "ours", None, mine(None))
    decoding = shape.variant == "decode"
    if sweep:
        for tiling in OUR_DECODE_SWEEP if decoding else our_sweep(shape.dim):
            yield Contender(f"ours {_short(tiling)}", "ours", tiling, mine(tiling))
    shipped = SHIPPED[shape.variant][1]
    yield Contender("upstream as shipped", "upstream", shipped, theirs(shipped))
    if decoding:
        yield Contender("ours without a mask", "ours", None, lambda i: mine(None)(i[:3]))
    for config in DECODE_SWEEP if decoding else UPSTREAM_SWEEP:
        if shape.window is None or shape.window % config[1] == 0:  # upstream's own condition
            yield Contender(f"upstream {config}", "upstream", config, theirs(config))
    if shape.variant in ("mha", "gqa"):
        for backend in ("cudnn", "flash"):
            yield Contender(f"pytorch {backend}", "pytorch", backend, _pytorch(shape, backend))


def _short(tiling: dict[str, Any]) -> str:
    return " ".join(str(int(value)) for value in tiling.values())


def _theirs(shape: Shape, config: tuple[int, ...], inputs: tuple[Any, ...]) -> Callable[[], Any]:
    import torch

    kernel = upstream_kernel(shape, config)
    if shape.variant == "window":  # upstream has no window without sinks: these weigh nothing
        none = torch.full((shape.heads,), -60000.0, device="cuda", dtype=torch.float16)
        return lambda: kernel(*inputs, none)
    return lambda: kernel(*inputs)


def _pytorch(shape: Shape, backend: str) -> Callable[..., Any]:
    def make(inputs: tuple[Any, ...]) -> Callable[[], Any]:
        from torch.nn.attention import SDPBackend, sdpa_kernel
        from torch.nn.functional import scaled_dot_product_attention

        one = {"cudnn": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}[backend]
        q, k, v = inputs if shape.bhsd else (x.transpose(1, 2) for x in inputs)
        grouped = shape.heads != shape.kv_heads

        def call() -> Any:
            with sdpa_kernel(one):
                out = scaled_dot_product_attention(
                    q, k, v, is_causal=shape.causal, enable_gqa=grouped
                )
            return out if shape.bhsd else out.transpose(1, 2)

        return call

    return make
