"""compute-sanitizer over small calls of each of our kernels.

`python -m benchmarks.gpu.sanitize [VARIANT...]`

memcheck sees stores and loads out of range, racecheck sees shared memory that is read and written
without a barrier between. Each check has one process for all kernels, and another for the rest when
a kernel breaks it. The table is printed and kept as `kernels/results/<device>-sanitize.json`. Exit
code 1 when something was found or did not run.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import one, results, tools, variants

if TYPE_CHECKING:
    from collections.abc import Sequence

CHECKS = ("memcheck", "racecheck")
SUMMARY = re.compile(r"=+ (?:ERROR|RACECHECK) SUMMARY: (\d+) (?:error|hazard)")
FINDING = re.compile(r"=+ ((?:Invalid|Error|Warning|Misaligned|Race|Program hit|Barrier).*)")
LONGEST = 300.0
"""Seconds for one process."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.sanitize", description=__doc__)
    parser.add_argument("variants", nargs="*", help="which variants; all when none is named")
    parser.add_argument("--limit", type=float, default=420.0, metavar="SECONDS")
    parser.add_argument("--device", default="h200", help="the device's name in the file's")
    parser.add_argument("--out", type=Path, default=results.RESULTS)
    args = parser.parse_args(argv)
    tool = tools.find("compute-sanitizer")
    if tool is None:
        print("compute-sanitizer is not installed", file=sys.stderr)
        return 3
    until = time.monotonic() + args.limit
    names = args.variants or variants.names()
    with ThreadPoolExecutor(len(CHECKS)) as pool:
        found = pool.map(lambda check: examine(tool, check, names, until, log(args, check)), CHECKS)
        rows = sorted((row for many in found for row in many), key=lambda row: row["variant"])
    show(rows)
    args.out.mkdir(parents=True, exist_ok=True)
    kept = {"format": results.FORMAT, "date": time.strftime("%Y-%m-%d"), "rows": rows}
    file = args.out / f"{args.device}-sanitize.json"
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["findings"] == 0 for row in rows) else 1


def log(args: argparse.Namespace, check: str) -> Path:
    """Return where the tool's own words go."""
    folder: Path = args.out
    return folder / f"{args.device}-{check}.log"


def examine(
    tool: str, check: str, names: list[str], until: float, log: Path
) -> list[dict[str, Any]]:
    """Return a row for each variant; those that a broken process did not reach go to another."""
    rows: list[dict[str, Any]] = []
    left = list(names)
    while left and time.monotonic() < until:
        command = [tool, "--tool", check, "--print-limit", "300", "--report-api-errors", "no"]
        seconds = min(until - time.monotonic(), LONGEST)
        said = tools.run([*command, *tools.one("small", *left)], seconds, log)
        known = judge(check, said)
        if not known:
            return rows + [row(name, check, None, tools.last_words(said)) for name in left]
        rows += known
        left = [name for name in left if name not in {one["variant"] for one in known}]
    return rows + [row(name, check, None, "the time was up") for name in left]


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
        **digests,
    }


def show(rows: list[dict[str, Any]]) -> None:
    print(f"{'variant':<20} {'check':<10} {'findings':>8}")
    for found in rows:
        count = "not run" if found["findings"] is None else found["findings"]
        print(f"{found['variant']:<20} {found['check']:<10} {count:>8}  {found['first']}")


if __name__ == "__main__":
    sys.exit(main())
