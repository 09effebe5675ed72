"""Ten thousand documents with a hundred thousand citations: how long `srcmap cite check` takes.

    python benchmarks/cite_many.py [--documents 10000] [--keep FOLDER]

The documents are made from the map of tilelang: ten citations each, in several written forms, with
quoted code, names and concepts, a part of them wrong. Needs the checkout of the current pin.
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from srcmap.checkout import find_checkout
from srcmap.lock import find_project, known_locks, pick
from srcmap.mapfile import find_map

PROSE = (
    "The kernel keeps a running maximum for every row, and what follows from it is told below. ",
    "下面说明这一段为什么这样写，以及它与上一版相比改了什么。",
    "Ratios such as 3:4, times such as 12:30 and ports such as host:8080 are no citations. ",
)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--documents", type=int, default=10_000)
    parser.add_argument("--keep", type=Path)
    asked = parser.parse_args()
    if asked.keep:
        measure(asked.keep, asked.documents)
    else:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), asked.documents)


def measure(folder: Path, documents: int) -> None:
    if not any(folder.glob("*.md")):
        write(folder, documents)
    for turn in ("first", "warm"):
        start = time.perf_counter()
        argv = [sys.executable, "-m", "srcmap", "cite", "check", str(folder), "--format", "json"]
        with (folder / "answer.json").open("wb") as out:
            subprocess.run(argv, stdout=out, check=False)
        seconds = time.perf_counter() - start
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
        print(f"{turn}: {seconds:.1f} s, largest process {peak:.0f} MB")
    counts = (folder / "answer.json").read_text(encoding="utf-8").split("\n", 2)[1]
    print(counts)


def write(folder: Path, documents: int) -> None:
    project = find_project(Path(__file__))
    lock, pin = pick(known_locks(project), "tilelang")
    checkout, source_map = find_checkout(lock, pin, project), find_map("tilelang", pin.version)
    assert checkout is not None, "srcmap sync tilelang"
    assert source_map is not None
    entries = [e for e in source_map.entries if e.lines is not None]
    texts = {e.path: checkout.read(e.path).decode().split("\n") for e in entries}
    dice = random.Random(7)  # noqa: S311 - the same documents each time
    for number in range(documents):
        parts = [f"# Document {number}\n"]
        for _ in range(10):
            entry = dice.choice(entries)
            first, last = entry.lines.first, entry.lines.last  # type: ignore[union-attr]
            shift = dice.choice((0, 0, 0, 0, 7))
            code = texts[entry.path][first - 1 : last][:6]
            parts.append(paragraph(dice, entry.path, first + shift, last + shift, code, pin.commit))
        (folder / f"{number:05}.md").write_text("\n".join(parts), encoding="utf-8")


def paragraph(
    dice: random.Random, path: str, first: int, last: int, code: list[str], commit: str | None
) -> str:
    prose = dice.choice(PROSE)
    shown = "\n".join(code)
    url = f"https://github.com/tile-ai/tilelang/blob/{commit}/{path}#L{first}-L{last}"
    forms = (
        f"{prose}See `{path}:{first}-{last}`:\n\n```python\n{shown}\n```\n",
        f"{prose}（{path}:{first}–{last}）\n",
        f"{prose}It is [here]({url}), as `{code[0].strip()[:60]}` shows.\n",
        f"{prose}`_vendor/tilelang-v0.1.14/{path}` 第 {first}–{last} 行。\n",
    )
    return dice.choice(forms)


if __name__ == "__main__":
    main()
