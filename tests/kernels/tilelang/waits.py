"""Which waits and arrivals of a kernel nobody would miss: there must be none.

The interpreter knows what copies and products run on while the program does, and says when their
place is read or written too early. Run as a script, this file is the child process that has the
interpreter's stand-ins for `tilelang`.
"""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[3]
ORDERING = {
    "mbarrier_wait_parity",
    "mbarrier_arrive",
    "cp_async_barrier_noinc",
    "wait_wgmma",
}
HARMLESS = {"load-out-of-range", "store-out-of-range", "nan-born"}
OFF = 0.05
"""What no rounding makes of outputs near 1, and a block that is read too early does."""


def unnoticed(file: str, builder: str, runs: list[Any], exact: list[Any]) -> tuple[int, list[str]]:
    """Return how many were left out, one at a time, and those that nothing showed.

    `runs` are `Run`s of `interpreted`, `exact` what they are to give.
    """
    asked = pickle.dumps((file, builder, [tuple(run) for run in runs], exact))
    done = subprocess.run(
        [sys.executable, __file__], cwd=ROOT, input=asked, check=False, capture_output=True,
        timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-3000:]
    found: tuple[int, list[str]] = pickle.loads(done.stdout)  # noqa: S301 - our own child
    return found


def without_one(text: str) -> Iterator[tuple[str, str]]:
    """Yield what is left out, and the kernel without it."""
    for node in ast.walk(ast.parse(text)):
        call = node.value if isinstance(node, ast.Expr) else None
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") in ORDERING:
            lines = text.split("\n")
            first, last = call.lineno - 1, call.end_lineno or call.lineno
            lines[first:last] = [" " * call.col_offset + "pass"] + [""] * (last - first - 1)
            yield f"line {call.lineno}: {ast.unparse(call)}", "\n".join(lines)


def _child() -> None:
    asked = sys.stdin.buffer.read()
    sys.path.insert(0, str(ROOT))
    warnings.simplefilter("ignore")
    from srcmap.engines.interpreter import loader

    file, builder, runs, exact = pickle.loads(asked)  # noqa: S301 - our own parent
    loader.prepare("nvidia")
    path = ROOT / file
    text = path.read_text(encoding="utf-8")
    assert _right(path, text, builder, runs, exact)
    told = [(what, _right(path, less, builder, runs, exact)) for what, less in without_one(text)]
    silent = [what for what, right in told if right]
    sys.stdout.buffer.write(pickle.dumps((len(told), silent)))


def _right(path: Path, text: str, builder: str, runs: list[Any], exact: list[Any]) -> bool:
    """Run a text of the kernel, and say whether all is as it should be."""
    import numpy as np

    from srcmap.engines.interpreter import loader
    from srcmap.engines.interpreter.findings import Findings
    from srcmap.engines.interpreter.kernels import options
    from srcmap.engines.interpreter.machine import DeadlockError

    module: Any = loader.load(path, text)
    for (arguments, inputs, *_), wanted in zip(runs, exact, strict=True):
        options.findings = Findings()
        try:
            got = getattr(module, builder)(**arguments)(*inputs)
        except DeadlockError:
            return False
        kinds = {one.kind for one in options.findings.sorted()} - HARMLESS
        close = np.isclose(got.astype(np.float64), wanted, rtol=OFF, atol=OFF)
        if kinds or not close.all():
            return False
    return True


if __name__ == "__main__":
    _child()
