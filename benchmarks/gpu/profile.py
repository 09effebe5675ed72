"""What bounds the kernels: `python -m benchmarks.gpu.profile` reads ncu's counters.

For each variant, at its first shape or at another (`mha:2` is the third of `mha`), one call of ours
and one of upstream as shipped; GROUP of them in a process. The table is printed and kept as
`kernels/results/<device>-profile.json`, joined with what earlier runs said of the same sources;
what they did not reach comes first, and alone with `--rest`. Clocks are left alone.
"""

from __future__ import annotations

import csv
import re
import sys
import time
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import one, results, tools, variants
from benchmarks.gpu.__main__ import COMPILING
from benchmarks.gpu.crew import LATE, Crew, Failed, Job

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

SECTIONS = (
    "SpeedOfLight",
    "ComputeWorkloadAnalysis",
    "SchedulerStats",
    "WarpStateStats",
    "Occupancy",
    "LaunchStats",
)
COLUMNS = {
    "ms": ("gpu__time_duration.sum",),
    "tensor": (
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_op_hmma_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__pipe_tensor_op_gmma_cycles_active.avg.pct_of_peak_sustained_active",
        "sm__inst_executed_pipe_tensor.avg.pct_of_peak_sustained_active",
    ),
    "issue": (
        "sm__issue_active.avg.pct_of_peak_sustained_active",
        "smsp__issue_active.avg.pct_of_peak_sustained_active",
        "sm__instruction_throughput.avg.pct_of_peak_sustained_active",
    ),
    "special": ("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",),
    "dram": (
        "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    "occupancy": ("sm__warps_active.avg.pct_of_peak_sustained_active",),
    "registers": ("launch__registers_per_thread",),
}
"""The columns of the table, and the metrics that they may be: the first that there is.

`special`: the units that compute exponentials."""
EXTRA = tuple(name for many in COLUMNS.values() for name in many if "pipe_tensor" in name)
"""Metrics that no section has; asked for when this chip has them."""
PIPE = re.compile(r"sm__(pipe_\w+|inst_executed_pipe_\w+)\.avg\.pct_of_peak_sustained_active")
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+?)_per_issue_active\.ratio")
PER_MS = {"ns": 1e-6, "nsecond": 1e-6, "us": 1e-3, "usecond": 1e-3, "ms": 1.0, "msecond": 1.0,
          "s": 1e3, "second": 1e3}  # fmt: skip
BETWEEN, BEHIND = "sinh", "cosh"
"""In the names of the kernels that part ours from upstream's, and variants."""
GROUP = 6
"""Variants in a process: a start takes seconds, and a kernel that hangs costs its group."""
LONGEST = 180.0
"""Seconds for a group."""
STEP = 60.0
"""Seconds for a variant."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = tools.arguments("profile", __doc__, "VARIANT[:SHAPE]")
    parser.add_argument("--workers", type=int, default=6, help="for compiling first; 0: do not")
    args = parser.parse_args(argv)
    if unknown := variants.unknown(args.variants, there):
        print(unknown, file=sys.stderr)
        return 2
    ncu = tools.find("ncu")
    if ncu is None:
        print("ncu is not installed", file=sys.stderr)
        return 3
    until = time.monotonic() + args.limit
    name = f"{args.device}-profile.json"
    known = by_place(results.earlier(name, args.out))
    good = {one for one, rows in known.items() if "wrong" not in rows[-1]}
    asked = [place(placed(name, {})) for name in args.variants] or variants.names()
    names = [one for one in asked if one not in good]
    names += [] if args.rest else [one for one in asked if one in good]
    if args.workers:
        compile_first(names, args.workers, until)
    extra = known_metrics(ncu) if names else []
    log = args.out / f"{args.device}-profile.log"
    for start in range(0, len(names), GROUP):
        found = by_place(examine(ncu, names[start : start + GROUP], extra, until, log))
        known |= {v: rows for v, rows in found.items() if v not in good or "wrong" not in rows[-1]}
        results.write_rows(args.out / name, in_order(known))
    show(in_order(known))
    return 0 if all("wrong" not in known[one][-1] for one in asked) else 1


def there(name: str) -> bool:
    """Say whether there are such a variant and such a shape of it, counted from 0."""
    variant, _, number = name.partition(":")
    if variant not in variants.names() or not (number or "0").isdecimal():
        return False
    return one.shape_of(name)[1] < len(variants.load(variant).SHAPES)


def by_place(rows: Iterable[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each variant and shape, by how the command names it."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        found.setdefault(place(row), []).append(row)
    return found


def place(row: dict[str, Any]) -> str:
    """Return how the command names a row's variant and shape; the first goes without a number."""
    return f"{row['variant']}:{row['shape']}" if row.get("shape") else str(row["variant"])


def in_order(known: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    return [row for _, rows in sorted(known.items()) for row in rows]


def compile_first(names: list[str], workers: int, until: float) -> None:
    """Fill the compiler's cache, side by side: under ncu it would be one after another."""
    jobs = [
        Job("benchmarks.gpu.work", "prepare", (*one.shape_of(name), contender, False))
        for name in names
        for contender in ("ours", "upstream as shipped")
    ]
    with Crew(workers) as crew:
        for job, outcome in crew.map(jobs, COMPILING, until):
            if isinstance(outcome, Failed):
                print(*job.arguments[:3], outcome.why)


def known_metrics(ncu: str) -> list[str]:
    """Return those of EXTRA that this ncu knows."""
    said = tools.run([ncu, "--query-metrics", "--chips", "gh100"], 60)
    known = {line.split()[0] for line in said.text.splitlines() if line.strip()}
    return [name for name in EXTRA if name.partition(".")[0] in known]


def examine(
    ncu: str, names: list[str], extra: list[str], until: float, log: Path
) -> list[dict[str, Any]]:
    """Return the rows of some variants: one for each kernel of ours and of upstream's."""
    left = until - time.monotonic()
    if left <= 0:
        return [placed(name, {"wrong": LATE}) for name in names]
    command = [ncu, "--clock-control", "none", "--profile-from-start", "off", "--csv"]
    command += ["--page", "raw", "--print-units", "base", "--print-kernel-base", "demangled"]
    command += [word for section in SECTIONS for word in ("--section", section)]
    command += ["--metrics", ",".join(extra)] if extra else []
    said = tools.run([*command, *tools.one("profile", *names)], min(left, LONGEST), log, STEP)
    rows = read(said.text)
    for name in names:
        if {row["who"] for row in rows if place(row) == name} != {"ours", "upstream"}:
            rows.append(placed(name, {"who": "", "wrong": _why(name, said)}))
    today = {"date": time.strftime("%Y-%m-%d")}
    return [{**row, **today, **results.digests(row["variant"])} for row in rows]


def placed(name: str, facts: dict[str, Any]) -> dict[str, Any]:
    """Return a row of a variant and a shape."""
    variant, shape = one.shape_of(name)
    return {"variant": variant, "shape": shape, **facts}


def _why(name: str, said: tools.Said) -> str:
    prefix = f"{one.FAILED} {name} "
    told = [line for line in said.text.splitlines() if line.startswith(prefix)]
    return told[0].removeprefix(prefix) if told else tools.last_words(said)


def read(text: str) -> list[dict[str, Any]]:
    """Return a row for each kernel in ncu's CSV.

    Variants come in the order in which they were called, ours before the mark between, upstream's
    before the mark behind.
    """
    lines = text.splitlines()
    called = [line.split()[-1] for line in lines if line.startswith(one.CALLED)]
    start = next((n for n, line in enumerate(lines) if line.startswith('"ID"')), None)
    if start is None:
        return []
    table = list(csv.reader(line for line in lines[start:] if line.startswith('"')))
    names, units, *launches = table
    units_of = dict(zip(names, units, strict=False))
    rows, who, turn = [], "ours", 0
    for cells in launches:
        found = dict(zip(names, cells, strict=False))
        if BETWEEN in found["Kernel Name"]:
            who = "upstream"
        elif BEHIND in found["Kernel Name"]:
            who, turn = "ours", turn + 1
        elif turn < len(called):
            rows.append(placed(called[turn], {"who": who, **figures(found, units_of)}))
    return rows


def figures(found: dict[str, str], units: dict[str, str]) -> dict[str, Any]:
    """Return the columns of one kernel, what its warps wait for most, and how busy units are."""
    row: dict[str, Any] = {"kernel": found["Kernel Name"][:80]}
    for name, metrics in COLUMNS.items():
        metric = next((m for m in metrics if number(found.get(m)) is not None), None)
        value = number(found.get(metric or ""))
        if name == "ms" and value is not None:
            value *= PER_MS.get(units[metric or ""], 1.0)
        row[name] = value
    waits = {m[1]: number(v) or 0.0 for k, v in found.items() if (m := STALL.fullmatch(k))}
    waits.pop("selected", None)
    worst = sorted(waits, key=lambda name: -waits[name])[:3]
    row["stalls"] = {name: waits[name] for name in worst}
    pipes = {k: number(v) for k, v in found.items() if PIPE.fullmatch(k)}
    row["pipes"] = {PIPE.sub(r"\1", k): v for k, v in pipes.items() if v}
    return row


def number(text: str | None) -> float | None:
    try:
        return float((text or "").replace(",", ""))
    except ValueError:
        return None


def show(rows: list[dict[str, Any]]) -> None:
    heads = tuple(COLUMNS)
    print(f"{'variant':<18} {'who':<9}" + "".join(f"{h:>10}" for h in heads) + "  waits for")
    for row in rows:
        if "wrong" in row:
            print(f"{place(row):<18} {row['wrong']}")
            continue
        values = [row.get(head) for head in heads]
        cells = "".join(f"{'-' if value is None else format(value, '.4g'):>10}" for value in values)
        waits = ", ".join(f"{name} {value:.2f}" for name, value in row["stalls"].items())
        print(f"{place(row):<18} {row['who']:<9}{cells}  {waits}  [{row['kernel'][:40]}]")


if __name__ == "__main__":
    sys.exit(main())
