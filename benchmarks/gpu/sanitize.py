"""compute-sanitizer over one small call of each of our kernels.

`python -m benchmarks.gpu.sanitize [VARIANT...]`

memcheck sees stores and loads out of range, racecheck sees shared memory that is read and written
without a barrier between. Calls run side by side; the table is printed and kept as
`kernels/results/<device>-sanitize.json`. Exit code 1 when something was found or did not run.
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
FIRST = re.compile(r"=+ ((?:Invalid|Error|Warning|Misaligned|Race|Program hit|Barrier).*)")
LONGEST = 240.0
"""Seconds for one check of one kernel."""


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.sanitize", description=__doc__)
    parser.add_argument("variants", nargs="*", help="which variants; all when none is named")
    parser.add_argument("--limit", type=float, default=420.0, metavar="SECONDS")
    parser.add_argument("--jobs", type=int, default=8, help="how many calls side by side")
    parser.add_argument("--device", default="h200", help="the device's name in the file's")
    parser.add_argument("--out", type=Path, default=results.RESULTS)
    args = parser.parse_args(argv)
    tool = tools.find("compute-sanitizer")
    if tool is None:
        print("compute-sanitizer is not installed", file=sys.stderr)
        return 3
    until = time.monotonic() + args.limit
    asked = [(name, check) for name in args.variants or variants.names() for check in CHECKS]
    with ThreadPoolExecutor(args.jobs) as pool:
        rows = list(pool.map(lambda pair: examine(tool, pair[0], pair[1], until), asked))
    show(rows)
    args.out.mkdir(parents=True, exist_ok=True)
    found = {"format": results.FORMAT, "date": time.strftime("%Y-%m-%d"), "rows": rows}
    file = args.out / f"{args.device}-sanitize.json"
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0 if all(row["findings"] == 0 for row in rows) else 1


def examine(tool: str, variant: str, check: str, until: float) -> dict[str, Any]:
    """Return the row of one check of one kernel."""
    left = until - time.monotonic()
    if left <= 0:
        return row(variant, check, None, "the time was up")
    command = [tool, "--tool", check, "--print-limit", "20", *tools.one("small", variant)]
    return judge(variant, check, tools.run(command, min(left, LONGEST)))


def judge(variant: str, check: str, said: tools.Said) -> dict[str, Any]:
    """Read what the tool said: how many findings, and the first of them."""
    summaries = SUMMARY.findall(said.text)
    if not summaries or one.CALLED not in said.text or said.code is None:
        return row(variant, check, None, tools.last_words(said))
    first = FIRST.search(said.text)
    found = sum(map(int, summaries))
    return row(variant, check, found, first[1].strip()[:200] if found and first else "")


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
