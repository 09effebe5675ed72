"""Each of our kernels again and again, at the shapes that are measured and at small, ragged ones.

`python -m benchmarks.gpu.soak [VARIANT...]`

A race that loses once in a hundred calls passes a test of one call, and compute-sanitizer, which
slows a kernel down, may never see it. Here every call has to end, and to give what the first one
gave: to the bit, or where numbers are added in any order (`ADDING`), as nearly as that order lets.
Every other call finds nothing in the GPU's cache, which shifts who waits for whom. The table is
printed and kept as `kernels/results/<device>-soak.json`, joined with what earlier runs said of the
same sources; `--rest` leaves out what they passed. Exit code 1 when a kernel hung, or differed.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import agreement, crew, one, results, tools, variants, work
from benchmarks.gpu.crew import LATE, Crew, Failed, Job
from benchmarks.gpu.timing import CACHE

if TYPE_CHECKING:
    from collections.abc import Sequence

CALLS = 500
SECONDS = 25.0
"""For a few calls; a kernel that takes longer hangs."""
FEW = 50
"""Calls between two signs of life."""
ADDING = {"gqa_backward", "mha_backward"}
"""Programs add to dQ, dK and dV as they come, and sums of floats depend on the order."""
REORDERED = 2e-3
"""How far, by norms, another order of adding may move a gradient: half a unit of fp16, and some."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = tools.arguments("soak", __doc__)
    parser.add_argument("--calls", type=int, default=CALLS, help=f"of each shape ({CALLS})")
    parser.add_argument("--workers", type=int, default=2, help="side processes")
    args = parser.parse_args(argv)
    if unknown := variants.unknown(args.variants):
        print(unknown, file=sys.stderr)
        return 2
    name = f"{args.device}-soak.json"
    known = {_place(row): row for row in results.earlier(name, args.out)}
    passed = {place for place, row in known.items() if not row["why"]} if args.rest else set()
    jobs = [
        Job("benchmarks.gpu.soak", "soak", (variant, number, args.calls))
        for variant in args.variants or variants.names()
        for number in range(len(shapes(variants.load(variant))))
        if (variant, number) not in passed
    ]
    until = time.monotonic() + args.limit
    good = True
    with Crew(args.workers) as team:
        for job, outcome in team.map(jobs, SECONDS, until):
            row = judge(job, outcome)
            print(line(row), flush=True)
            good = good and not row["why"]
            if not row["why"].startswith(LATE) or _place(row) not in known:
                known[_place(row)] = row
            results.write_rows(args.out / name, [row for _, row in sorted(known.items())])
    return 0 if good else 1


def shapes(module: Any) -> list[Any]:
    """Return those that are measured, and behind them those for tools that are slow."""
    return [*module.SHAPES, *one.small(module)]


def _place(row: dict[str, Any]) -> tuple[str, int]:
    return row["variant"], row["shape"]


def judge(job: Job, outcome: Any) -> dict[str, Any]:
    """Return the row of a shape; `why` is empty when all calls ended and agreed."""
    variant, number, calls = job.arguments
    row = {"variant": variant, "shape": number, "calls": calls, "different": None, "why": ""}
    if isinstance(outcome, Failed):
        row["why"] = outcome.why
    else:
        row["different"] = outcome["different"]
        row["why"] = outcome["worst"]
    return row | {"date": time.strftime("%Y-%m-%d"), **results.digests(variant)}


def line(row: dict[str, Any]) -> str:
    """Return a row as a line of the table."""
    place = f"{row['variant']:<20} shape {row['shape']}"
    said = f"{row['calls']} calls, {row['different']} other outputs"
    return f"{place}  {said if row['different'] is not None else 'not done'}  {row['why']}".rstrip()


def soak(variant: str, number: int, calls: int) -> dict[str, Any]:
    """Call ours `calls` times, in a process that may be ended.

    Returns `different`, how many outputs were not the first one's bits, and `worst`, what is wrong
    with the first of those that no order of adding explains; empty when nothing is.
    """
    import torch

    module = variants.load(variant)
    shape = shapes(module)[number]
    crew.doing("the first call")
    inputs = module.inputs(shape)
    call = module.ours(shape, None)
    first = call(*inputs)
    large = torch.zeros(CACHE // 4, device="cuda")
    tolerance = REORDERED if variant in ADDING else 0.0
    found: dict[str, Any] = {"different": 0, "worst": ""}
    for n in range(calls):
        if n % FEW == 0:
            torch.cuda.synchronize()
            crew.doing(f"call {n} and the next {FEW}")
        if n % 2:
            large.amax()
        got = call(*inputs)
        if not same(got, first):
            found["different"] += 1
            found["worst"] = found["worst"] or _off(got, first, tolerance, n)
    torch.cuda.synchronize()
    return found


def same(got: Any, first: Any) -> bool:
    """Say whether two outputs are alike to the bit, NaN too; a tensor, or several."""
    import torch

    if first is None:
        return True
    if isinstance(first, (tuple, list)):
        return all(map(same, got, first))
    return bool(torch.equal(got.view(torch.uint8), first.view(torch.uint8)))


def _off(got: Any, first: Any, tolerance: float, n: int) -> str:
    off = agreement.difference(got, first, tolerance)
    return f"call {n}: {off}" if off else ""


sound = work.sound

if __name__ == "__main__":
    sys.exit(main())
