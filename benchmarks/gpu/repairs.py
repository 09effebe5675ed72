"""What upstream's block-sparse kernel lacks to end on a GPU: its producer's warps kept together.

tilelang 0.1.15 makes one warp group of it copy: all four warps wait for room, one thread starts the
copy. Nothing makes the other three keep up with it. One that looks at a barrier a phase too late
waits for the next one of that parity, is behind from then on, and at the end waits for ever. With
thousands of programs on a GPU that happens. A barrier of the four warps behind each of their waits,
before the copy, is what is added to the generated code; nothing else is changed.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

WAIT = ".wait(((producer_phase_cnt[0] & 1) ^ 1));"
"""For room for keys, and for values, in all threads of the producer or in none."""
BARRIER = "tl::__sync_thread_partial(9, 128);"
"""Of the producer's 128 threads; the generated code uses numbers below 9."""


@contextmanager
def together(builder: Any) -> Iterator[None]:
    """Repair what `builder`, a function under `tilelang.jit`, compiles inside the context."""
    import tilelang
    from tilelang.engine.callback import register_cuda_postproc

    # Something that changes no code, so that the cache on disk keeps it apart from what hangs.
    before = builder.pass_configs
    marker = tilelang.PassConfigKey.TL_DISABLE_DATA_RACE_CHECK
    builder.pass_configs = {**(before or {}), marker: True}
    register_cuda_postproc(_repaired)
    try:
        yield
    finally:
        register_cuda_postproc(lambda code, _target: code)
        builder.pass_configs = before


def _repaired(code: str, _target: Any) -> str:
    if code.count(WAIT) != 2:
        raise ValueError("the code that tilelang makes of upstream's kernel is not as expected")
    return code.replace(WAIT, f"{WAIT}\n        {BARRIER}")
