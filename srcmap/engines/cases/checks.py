"""The nouns of the diff test, and the budget for an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

UNIT = {"float16": 2.0**-11, "bfloat16": 2.0**-8, "float32": 2.0**-24, "float8_e4m3fn": 2.0**-4}
"""Half a unit in the last place of 1."""


class Expected(NamedTuple):
    """An output in float64, and how far from it a kernel may come out."""

    values: Any
    spread: Any
    """The sum of the magnitudes of what was added up, element by element: errors scale with it."""
    magnify: float = 1.0
    """How much an error of a score becomes larger: the largest magnitude of a score."""
    cuts: Any = 0.0
    """What it comes to, element by element, when each fp8 product is off by as much as the largest
    one of its score: such errors add up as random numbers do. 0 where there are none."""


class Run(NamedTuple):
    """How to call one kernel of a module."""

    build: str
    """The builder, or the eager kernel, by its name in the module."""
    args: tuple[Any, ...] = ()
    """What the builder gets."""
    named: dict[str, Any] = {}  # noqa: RUF012 - never written to
    inputs: tuple[Any, ...] = ()
    """What the kernel gets: arrays and numbers."""
    eager: bool = False
    """Whether builder and kernel are one function."""
    filled: tuple[int, ...] = ()
    """Inputs that the kernel writes its results to; else it returns them."""
    only: tuple[int, ...] = ()
    """Which of the results are looked at; all when empty."""
    finish: Callable[[tuple[Any, ...]], tuple[Any, ...]] | None = None
    """What is done with the results before they are compared."""
    backwards: bool = False
    """Whether the last block of the grid runs first: sound kernels do not care."""


class Theirs(NamedTuple):
    """How to call upstream's own reference; float inputs are widened to float32."""

    function: str
    inputs: tuple[Any, ...]
    extra: tuple[Any, ...] = ()
    dtype: str = ""
    """Handed over as `dtype`, when there is such a parameter."""


def execute(module: Any, run: Run) -> tuple[Any, ...]:
    """Call the kernel and return its outputs; inputs are left as they are."""
    function = getattr(module, run.build)
    inputs = [np.array(x) if isinstance(x, np.ndarray) else x for x in run.inputs]
    if run.eager:
        made = function(*inputs, **run.named)
    else:
        made = function(*run.args, **run.named)(*inputs)
    if run.filled:
        made = tuple(inputs[place] for place in run.filled)
    outputs = tuple(made) if isinstance(made, tuple | list) else (made,)
    if run.only:
        outputs = tuple(outputs[place] for place in run.only)
    return run.finish(outputs) if run.finish is not None else outputs


def execute_theirs(module: Any, theirs: Theirs) -> tuple[Any, ...]:
    """Call upstream's own reference on the CPU. Needs torch."""
    import torch

    from srcmap.engines.interpreter.tensors import to_numpy, to_torch

    tensors = [to_torch(np.ascontiguousarray(x)) for x in theirs.inputs]
    wide = [t.float() if t.is_floating_point() else t for t in tensors]
    named = {"dtype": getattr(torch, theirs.dtype)} if theirs.dtype else {}
    made = getattr(module, theirs.function)(*wide, *theirs.extra, **named)
    outputs = made if isinstance(made, tuple | list) else (made,)
    return tuple(to_numpy(output) for output in outputs)


class Check(NamedTuple):
    """One set of inputs for one kernel."""

    name: str
    run: Run
    want: tuple[Expected, ...]
    stored: str = "float16"
    """The type in which the output is stored."""
    worked: str = ""
    """The narrowest type on the way, if it is not that one."""
    theirs: Theirs | None = None
    diverges: str = ""
    """Why upstream's kernel differs here from what is meant (a key of the texts); then it must."""
    exact: bool = False
    """Indices and masks: compared bit by bit."""
    left_out: bool = False
    """Whether what the loops of the kernel must leave out is infinite; see `leaving_out`."""
    rounds: int = 1
    """How often intermediate results are stored in the working type (splits store once more)."""


class Case(NamedTuple):
    """All checks of one upstream file."""

    id: str
    variants: tuple[str, ...]
    repo: str
    path: str
    checks: Callable[[np.random.Generator], Iterator[Check]]
    kernels: tuple[str, ...] = ()


CASES: list[Case] = []


def case(
    *variants: str, path: str, repo: str = "tilelang", name: str = ""
) -> Callable[[Callable[[np.random.Generator], Iterator[Check]]], Any]:
    """Register a case for the variants of the catalogue that use this file."""

    def register(function: Callable[[np.random.Generator], Iterator[Check]]) -> Any:
        made = name or path.removeprefix("examples/").removesuffix(".py")
        CASES.append(Case(made, variants, repo, path, function))
        return function

    return register


def leaving_out(check: Check, place: int, unseen: Any, rows: Any) -> Check:
    """Return a check in which values that no row of some outputs sees are infinite.

    `unseen` picks them from input `place`, the values; `rows` picks what is compared. A loop that
    visits blocks too many multiplies them with probabilities of 0, and that is NaN: so the range
    of a loop shows in the result, which a mask alone would hide.
    """
    inputs = list(check.run.inputs)
    inputs[place] = np.array(inputs[place])
    inputs[place][unseen] = np.inf
    run = check.run._replace(
        inputs=tuple(inputs), finish=lambda outputs: tuple(output[rows] for output in outputs)
    )
    want = tuple(Expected(w.values[rows], w.spread[rows], w.magnify) for w in check.want)
    name = f"{check.name}, infinite where no block is visited"
    return check._replace(name=name, run=run, want=want, theirs=None, left_out=True)


def budget(check: Check, want: Expected, cut: float = 0.0) -> Any:
    """Return how far each element may be off.

    One rounding of the result where it is stored; probabilities rounded to the working type, which
    the spread weighs; and float32 rounding of scores, which the exponential magnifies. On an engine
    whose matrix units cut fp8 products at `cut` of the largest one, twice what that comes to.
    """
    out, work = UNIT[check.stored], UNIT[check.worked or check.stored]
    scores = 2.0**-22 * (want.magnify + 8)
    factor = 2 * check.rounds * work + scores
    stored = out * np.abs(want.values) * (1 + 2 * check.rounds)
    return stored + factor * want.spread + 2 * cut * want.cuts + 1e-7
