"""compute-sanitizer over small calls of each of our kernels.

`python -m benchmarks.gpu.sanitize [VARIANT...]`

memcheck sees stores and loads out of range, racecheck sees shared memory that is read and written
without a barrier between. Each check has PROCESSES for the kernels, and others for the rest when a
kernel breaks one or takes too long. The table is printed and kept as
`kernels/results/<device>-sanitize.json`, joined with what earlier runs said of the same sources;
what they did not reach comes first, and alone with `--rest`. Exit code 1 when something was found
or did not run.
"""

from __future__ import annotations

import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import one, results, tools, variants
from benchmarks.gpu.crew import LATE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from pathlib import Path

CHECKS = ("memcheck", "racecheck")
SUMMARY = re.compile(r"=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")
FINDING = re.compile(r"=+ ((?:Invalid|Error|Warning|Misaligned|Race|Program hit|Barrier).*)")
PROCESSES = 2
"""Side by side, for each check."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = tools.arguments("sanitize", __doc__)
    parser.add_argument("--seconds", type=float, default=25.0, help="for one variant")
    args = parser.parse_args(argv)
    if unknown := variants.unknown(args.variants):
        print(unknown, file=sys.stderr)
        return 2
    tool = tools.find("compute-sanitizer")
    if tool is None:
        print("compute-sanitizer is not installed", file=sys.stderr)
        return 3
    file = f"{args.device}-sanitize.json"
    known = {_place(row): row for row in results.earlier(file, args.out)}
    asked = args.variants or variants.names()
    for row in run(tool, asked, known, args):
        if row["first"] != LATE or _place(row) not in known:
            known[_place(row)] = row
    rows = [row for _, row in sorted(known.items())]
    show(rows)
    results.write_rows(args.out / file, rows)
    return 0 if all(row["findings"] == 0 for row in rows if row["variant"] in asked) else 1


def run(
    tool: str, asked: list[str], known: dict[tuple[str, str], Any], args: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return the rows of all checks: PROCESSES side by side for each, what is new first."""
    limits = time.monotonic() + args.limit, args.seconds
    told = {place for place, row in known.items() if row["findings"] is not None}

    def of(check: str, part: int) -> list[dict[str, Any]]:
        new = [name for name in asked if (name, check) not in told]
        again = [] if args.rest else [name for name in asked if name not in new]
        many = [*new, *again][part::PROCESSES]
        return examine(tool, check, many, limits, log(args, check))

    parts = [(check, part) for check in CHECKS for part in range(PROCESSES)]
    with ThreadPoolExecutor(len(parts)) as pool:
        return [row for many in pool.map(lambda one: of(*one), parts) for row in many]


def _place(row: dict[str, Any]) -> tuple[str, str]:
    return row["variant"], row["check"]


def log(args: argparse.Namespace, check: str) -> Path:
    """Return where the tool's own words go."""
    folder: Path = args.out
    return folder / f"{args.device}-{check}.log"


def examine(
    tool: str, check: str, names: list[str], limits: tuple[float, float], log: Path
) -> list[dict[str, Any]]:
    """Return a row for each variant; those that a broken process did not reach go to another.

    `limits`: until when, and how many seconds a variant may take.
    """
    rows: list[dict[str, Any]] = []
    left = list(names)
    until, seconds = limits
    while left and time.monotonic() < until:
        command = [tool, "--tool", check, "--print-limit", "300", "--report-api-errors", "no"]
        command += tools.one("small", *left)
        said = tools.run(command, until - time.monotonic(), log, seconds)
        known = judge(check, said)
        if (
            said.code is None
            and time.monotonic() >= until
            and known
            and known[-1]["findings"] is None
        ):
            known[-1]["first"] = LATE
        if not known:
            return rows + [row(name, check, None, tools.last_words(said)) for name in left]
        rows += known
        left = [name for name in left if name not in {one["variant"] for one in known}]
    return rows + [row(name, check, None, LATE) for name in left]


def judge(check: str, said: tools.Said) -> list[dict[str, Any]]:
    """Return rows for the variants that a process came to: its findings lie behind their names."""
    rows: list[dict[str, Any]] = []
    found: dict[str, list[str]] = {}
    name = ""
    for line in said.text.splitlines():
        if line.startswith(one.CALLING):
            name = line.removeprefix(one.CALLING).strip()
            found[name] = []
        elif line.startswith(one.CALLED):
            rows.append(row(name, check, len(found[name]), "".join(found[name][:1])))
        elif line.startswith(one.FAILED):
            rows.append(row(name, check, None, line.removeprefix(f"{one.FAILED} {name} ")))
        elif name and (seen := FINDING.match(line)):
            found[name].append(seen[1].strip()[:200])
    if name and name not in {row["variant"] for row in rows}:
        rows.append(row(name, check, None, "; ".join([*found[name][:1], tools.last_words(said)])))
    total = sum(map(int, SUMMARY.findall(said.text)))
    if total and not any(found.values()):
        rows.append(row("not assigned", check, total, "see the tool's own output"))
    return rows


def row(variant: str, check: str, findings: int | None, first: str) -> dict[str, Any]:
    try:
        digests = results.digests(variant)
    except (OSError, SyntaxError):
        digests = {"ours": {}, "upstream": {}}
    return {
        "variant": variant,
        "check": check,
        "findings": findings,
        "first": first,
        "date": time.strftime("%Y-%m-%d"),
        **digests,
    }


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'variant':<20} {'check':<10} {'findings':>8}")
    for found in rows:
        count = "not run" if found["findings"] is None else found["findings"]
        print(f"{found['variant']:<20} {found['check']:<10} {count:>8}  {found['first']}")


if __name__ == "__main__":
    sys.exit(main())
