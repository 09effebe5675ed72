"""Our kernels beside upstream's and PyTorch's on this GPU: `python -m benchmarks.gpu`.

Everything of one shape is measured in turns, in one run. `--sweep` tries all tilings of ours, puts
the best into `kernels/tuning.json`, and measures with those. Results go to `kernels/results/` as
JSON after each shape; `--limit` ends in time and keeps what there is. `--sweep-missing` tries
tilings only where the table has none, and `--rest` leaves out variants whose figures of an earlier
run are whole and of the same sources, versions and device: they keep that run's date and rates.
Needs the extra `kernels`, and the checkout of tilelang v0.1.14 (`srcmap sync tilelang@v0.1.14`).
Without a GPU: `--take FOLDER` copies results from elsewhere, `--table` writes their README, and
`--plot FILE` draws them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import results, variants
from benchmarks.gpu.crew import ENDLESS, Crew, Failed, Job
from benchmarks.gpu.work import ALL, MISSING

if TYPE_CHECKING:
    from collections.abc import Sequence

CHUNK = 4
"""Variants that are compiled together: enough for all cores, few enough to see results early."""
COMPILING = 240.0
"""Seconds for one kernel."""
MEASURING = 60.0
"""Seconds for one shape."""
RESERVE = 2.0
"""Seconds kept for measuring a shape, when the limit would end compiling; half of them at most."""


def main(argv: Sequence[str] | None = None) -> int:
    args = _arguments(argv)
    if args.take:
        print("took", *results.take(args.take))
    if args.table or args.plot:
        from benchmarks.gpu import report

        report.write(args.plot, args.out if args.table else None)
    if args.take or args.table or args.plot:
        return 0
    if unknown := variants.unknown(args.variants):
        print(unknown, file=sys.stderr)
        return 2
    with Crew(args.workers) as crew:
        return Run(crew, args).all(args.variants or variants.names())


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("variants", nargs="*", help="which variants; all when none is named")
    sweep: dict[str, Any] = {"dest": "sweep", "action": "store_const"}
    parser.add_argument("--sweep", const=ALL, help="try all tilings of ours", **sweep)
    parser.add_argument(
        "--sweep-missing", const=MISSING, help="the same where the table has no row", **sweep
    )
    parser.add_argument("--rest", action="store_true", help="only what has no figure yet")
    parser.add_argument("--limit", type=float, default=float("inf"), metavar="SECONDS")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="side processes")
    parser.add_argument(
        "--compiled",
        action="store_true",
        help="measure at once: the cache has the kernels; the workers get shapes ready",
    )
    parser.add_argument("--out", type=Path, default=results.RESULTS)
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the results: .svg or .png")
    parser.add_argument("--table", action="store_true", help="write the results' README.md")
    parser.add_argument("--take", type=Path, metavar="FOLDER", help="copy results from there")
    return parser.parse_args(argv)


class Run:
    """One run of the command: what it was asked for, and until when."""

    def __init__(self, crew: Crew, args: argparse.Namespace) -> None:
        self.crew = crew
        self.args = args
        self.began = time.monotonic()
        self.until = self.began + args.limit
        self.about: dict[str, Any] = {}
        stamp = time.strftime("-%Y%m%d-%H%M") if args.sweep == MISSING else ""
        self.sweep = f"{stamp}-sweep"
        """What the name of a sweep's file ends with: a part of one leaves the other parts."""

    def all(self, names: list[str]) -> int:
        """Measure variants, some at a time; return 1 when something is missing or wrong."""
        about = self.crew.run(_job("machine", self.args.rounds), MEASURING)
        if isinstance(about, Failed):
            print(f"no GPU to measure on: {about.why}", file=sys.stderr)
            return 3
        self.about = about
        print(about)
        if self.args.rest:
            known = [n for n in names if results.whole(n, about, self.args.out)]
            names = [name for name in names if name not in known]
            print("measured before:", *known)
        good = True
        for start in range(0, len(names), CHUNK):
            chunk = names[start : start + CHUNK]
            plans = self.plan(chunk)
            ready = self.everybody(plans) if self.args.compiled else self.compile(plans)
            for name in chunk:
                good = self.variant(name, plans.get(name, []), ready) and good
        return 0 if good else 1

    def plan(self, names: list[str]) -> dict[str, list[list[str]]]:
        """Return the contenders' names of each shape of each variant."""
        plans = {}
        jobs = [_job("plan", name, self.args.sweep) for name in names]
        for job, found in self.crew.map(jobs, MEASURING, self.until):
            name = job.arguments[0]
            if isinstance(found, Failed):
                print(f"\n{name}: nothing is measured: {found.why}")
            else:
                plans[name] = found
        return plans

    @staticmethod
    def everybody(plans: dict[str, list[list[str]]]) -> set[tuple[str, int, str]]:
        """Return all contenders of all shapes."""
        return {
            (variant, number, name)
            for variant, shapes in plans.items()
            for number, names in enumerate(shapes)
            for name in names
        }

    def compile(self, plans: dict[str, list[list[str]]]) -> set[tuple[str, int, str]]:
        """Compile everybody side by side; return who is ready: variant, shape, contender."""
        jobs = [
            _job("prepare", variant, number, name, bool(self.args.sweep))
            for variant, shapes in plans.items()
            for number, names in enumerate(shapes)
            for name in names
        ]
        left = self.until - time.monotonic()
        until = self.until - min(RESERVE * sum(map(len, plans.values())), left / 2)
        ready = set()
        for job, outcome in self.crew.map(jobs, COMPILING, until):
            variant, number, name, _ = job.arguments
            if isinstance(outcome, Failed):
                print(f"{variant} {number} {name}: {outcome.why}")
            else:
                ready.add((variant, number, name))
        print(f"\n{len(ready)} of {len(jobs)} compiled, {time.monotonic() - self.began:.0f} s")
        return ready

    def variant(
        self, variant: str, plan: list[list[str]], ready: set[tuple[str, int, str]]
    ) -> bool:
        """Measure a variant's shapes; in a sweep again, with the tilings that it chose."""
        names = [
            [name for name in names if (variant, number, name) in ready]
            for number, names in enumerate(plan)
        ]
        if not self.args.sweep:
            lines = self.shapes(variant, names, {})
            return len(lines) == len(plan) and all(map(results.good, lines.values())) and bool(plan)
        tried = [many if any(n.startswith("ours ") for n in many) else None for many in names]
        swept = self.shapes(variant, tried, {}, sweep=True) if any(tried) else {}
        if any(tried) and not swept:
            return False
        tilings = self.tune(variant, swept) if swept else {}
        finalists = [
            sorted({n for n in many if not n.startswith("ours ")} | {"ours"}) for many in names
        ]
        lines = self.shapes(variant, finalists, tilings)
        return len(lines) == len(plan) and all(map(results.good, lines.values()))

    def tune(self, variant: str, swept: dict[int, dict[str, Any]]) -> dict[int, dict[str, Any]]:
        """Write the tilings that a sweep chose into the table; return them by shape."""
        device = self.about["device"]
        lines = list(swept.values())
        file = results.name(variant, device, self.sweep)
        results.tune(results.TUNING, variant, device, lines, file)
        if self.args.out != results.RESULTS:  # on a machine that keeps nothing else
            results.tune(self.args.out / "tuning.json", variant, device, lines, file)
        chosen = results.choose(lines)
        return {
            number: tiling
            for number, line in swept.items()
            for key, tiling, _ in chosen
            if key == line["key"]
        }

    def shapes(
        self,
        variant: str,
        names: Sequence[list[str] | None],
        tilings: dict[int, Any],
        *,
        sweep: bool = False,
    ) -> dict[int, dict[str, Any]]:
        """Measure those of these names, and write the results after each shape; None: not asked."""
        lines: dict[int, dict[str, Any]] = {}
        jobs = []
        for number, many in enumerate(names):
            if many:
                jobs.append(
                    _job("measure", variant, number, many, sweep, self.args.rounds,
                         tilings.get(number))
                )  # fmt: skip
            elif many is not None:
                print(f"\n{variant}, shape {number}: not measured: nobody is ready")
        # Others get ready while one is timed: timing itself waits for its turn.
        for job, found in self.crew.map(jobs, MEASURING, self.until):
            number = job.arguments[1]
            if isinstance(found, Failed):
                print(f"\n{variant}, shape {number}: not measured: {found.why}")
                if found.why.startswith(ENDLESS):
                    break  # the others would wait for it, and hang as well
                continue
            lines[number] = results.summary(found, self.about)
            _show(lines[number])
            results.write(
                self.args.out, self.about, variant, [lines[n] for n in sorted(lines)],
                len(names) - len(lines), self.sweep if sweep else "",
            )  # fmt: skip
        return lines


def _job(function: str, *arguments: Any) -> Job:
    return Job("benchmarks.gpu.work", function, arguments)


def _show(line: dict[str, Any]) -> None:
    print(f"\n{line['shape']}")
    if "ours_ms" in line:
        print(
            f"  ours {line['ours_ms']:.4f} ms = {line['ours_tflops']:.0f} TFLOP/s, "
            f"{line['of_floor']:.0%} of the floor ({line['bound']}); "
            + ", ".join(f"{n} x{r:.2f}" for n, r in line["faster_than"].items())
        )
    for name, ms in sorted(line["milliseconds"].items(), key=lambda item: item[1]):
        print(f"    {ms:9.4f} ms  {name}")
    for name, why in line["wrong"].items():
        print(f"    excluded  {name}: {why}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
