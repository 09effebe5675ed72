"""Our TileLang kernels in srcmap's interpreter, in a child process: inputs go in, outputs come out.

The interpreter puts stand-ins for `tilelang` into `sys.modules`, which nothing else here may see.
Run as a script, this file is that child: it reads a pickle from standard input and writes one.
"""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[3]
HARMLESS = frozenset({"load-out-of-range", "store-out-of-range"})
"""Bulk copies give zeros outside of a tensor, and write nothing there: kernels count on that."""


class Run(NamedTuple):
    """One call of a kernel."""

    arguments: dict[str, Any]
    """What the builder gets."""
    inputs: tuple[Any, ...]
    """Arrays of NumPy (bfloat16 by ml_dtypes), and numbers."""
    backwards: bool = False
    """Whether the last program runs first: who writes rows of another is found out either way."""


def outputs(
    file: str, builder: str, runs: list[Run], seconds: float = 300
) -> list[tuple[Any, ...]]:
    """Return the outputs of every run, in order; AssertionError with what the child said.

    A kernel that returns nothing writes to tensors that it is given: those come back, all of them.

    `file` is relative to the repository. What the interpreter finds to be wrong though the run
    ends (reads of what nobody wrote, races, rows of an output that are left out) fails, too.
    """
    done = subprocess.run(
        [sys.executable, __file__], cwd=ROOT, check=False, capture_output=True, timeout=seconds,
        input=pickle.dumps((file, builder, [tuple(run) for run in runs])),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode("utf-8", "replace")[-3000:]
    found, findings = pickle.loads(done.stdout)  # noqa: S301 - our own child
    assert not findings, "\n".join(findings)
    return found  # type: ignore[no-any-return]


def _child() -> None:
    asked = sys.stdin.buffer.read()
    sys.path.insert(0, str(ROOT))
    from srcmap.engines.interpreter import loader
    from srcmap.engines.interpreter.kernels import options

    file, builder, runs = pickle.loads(asked)  # noqa: S301 - our own parent
    loader.prepare("nvidia")
    module = loader.load(ROOT / file)
    found = []
    for arguments, inputs, options.backwards in runs:
        made = getattr(module, builder)(**arguments)(*inputs)
        made = inputs if made is None else made  # it has written to some of them
        found.append(tuple(made) if isinstance(made, (tuple, list)) else (made,))
    findings = [str(one) for one in options.findings.sorted() if one.kind not in HARMLESS]
    sys.stdout.buffer.write(pickle.dumps((found, findings)))


if __name__ == "__main__":
    _child()
