"""What is kept: `kernels/results/<variant>-<device>.json`, and the table of tilings."""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import variants
from benchmarks.gpu.upstream import PIN, ROOT, VERSION

if TYPE_CHECKING:
    from pathlib import Path

FORMAT = 1
"""Of the JSON: a reader refuses a larger one."""
RESULTS = ROOT / "kernels" / "results"
TUNING = ROOT / "kernels" / "tuning.json"


def slug(device: str) -> str:
    """Return a device's name for a file: `NVIDIA H200` is `h200`."""
    return device.removeprefix("NVIDIA ").lower().replace(" ", "-")


def digests(variant: str) -> dict[str, dict[str, str]]:
    """Return what a result rests on: it is stale when one of these changes.

    `ours`: SHA-256 by path. `upstream`: git's blob ids, by repository, pin and path.
    """
    found = variants.sources(variant)
    ours = {path: ROOT / path for path in found.ours}
    theirs = {f"{VERSION} examples/{path}": PIN / path for path in found.theirs}
    return {
        "ours": {n: hashlib.sha256(f.read_bytes()).hexdigest() for n, f in _there(ours)},
        "upstream": {n: _blob(f.read_bytes()) for n, f in _there(theirs)},
    }


def _there(files: dict[str, Path]) -> list[tuple[str, Path]]:
    return [(name, file) for name, file in files.items() if file.is_file()]


def _blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def write(folder: Path, about: dict[str, Any], variant: str, lines: list[dict[str, Any]],
          missing: int, *, sweep: bool) -> Path:  # fmt: skip
    """Write what is known of a variant by now; `missing` shapes are not measured."""
    found = {
        "format": FORMAT,
        "variant": variant,
        **about,
        **digests(variant),
        "missing": missing,
        "shapes": lines,
    }
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{variant}-{slug(about['device'])}{'-sweep' if sweep else ''}.json"
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return file


def summary(found: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """Return the line of a shape: the figures of `work.measure`, and the ratios from them.

    `faster_than` holds how many times faster ours is. Without ours there are no ratios.
    """
    ms, kinds = found["ms"], found["kinds"]
    matrix, copy = about["matrix_tflops"], about["copy_tbs"]
    floor = max(found["flops"] / matrix, found["bytes"] / copy) * 1e-9
    line = {
        "shape": found["shape"],
        "key": found["key"],
        "flops": found["flops"],
        "bytes": found["bytes"],
        "floor_ms": floor,
        "bound": "matrix" if found["flops"] / matrix >= found["bytes"] / copy else "memory",
        "milliseconds": ms,
        "tilings": {name: tiling for name, tiling in found["tilings"].items() if name in ms},
        "wrong": found["wrong"],
    }
    if "ours" in ms:
        line |= _ratios(ms, kinds, found["flops"], floor)
    return line


def _ratios(
    ms: dict[str, float], kinds: dict[str, str], flops: float, floor: float
) -> dict[str, Any]:
    theirs = [name for name in ms if kinds[name] == "upstream"]
    rivals = {name: ms[name] for name in ms if kinds[name] == "pytorch"}
    if theirs:
        best = min(theirs, key=lambda name: ms[name])
        rivals = {"upstream's best": ms[best], **rivals}
        if "upstream as shipped" in ms:
            rivals = {"upstream as shipped": ms["upstream as shipped"], **rivals}
    return {
        "ours_ms": ms["ours"],
        "ours_tflops": flops / ms["ours"] * 1e-9,
        "of_floor": floor / ms["ours"],
        "faster_than": {name: time / ms["ours"] for name, time in rivals.items()},
        "best_of_upstream": best if theirs else None,
    }


def choose(lines: list[dict[str, Any]]) -> list[tuple[dict[str, Any], dict[str, Any], Any]]:
    """Return (key, tiling, first shape) for each key of a sweep's lines.

    Of the tilings that ran for all shapes of a key, the one that is fastest over them together.
    """
    chosen = []
    keys: list[dict[str, Any]] = []
    for line in lines:
        if line["key"] not in keys:
            keys.append(line["key"])
    for key in keys:
        same = [line for line in lines if line["key"] == key]
        costs: dict[str, float] = {}
        tried = [
            name for name, tiling in same[0]["tilings"].items()
            if name != "ours" and tiling and all(name in line["milliseconds"] for line in same)
        ]  # fmt: skip
        for name in tried:
            costs[name] = sum(math.log(line["milliseconds"][name]) for line in same)
        if costs:
            best = min(costs, key=lambda name: costs[name])
            chosen.append((key, same[0]["tilings"][best], same[0]["shape"]))
    return chosen


def tune(table: Path, variant: str, device: str, lines: list[dict[str, Any]], sweep: str) -> None:
    """Put the best tilings of a sweep into the table, in the place of older ones of their keys."""
    rows = [
        {"variant": variant, "device": device, **key, "tiling": tiling, "shape": shape,
         "sweep": f"kernels/results/{sweep}"}
        for key, tiling, shape in choose(lines)
    ]  # fmt: skip
    merge(table, rows)


def merge(table: Path, rows: list[dict[str, Any]]) -> None:
    """Put rows into the table, in the place of those of the same variant, device and key."""
    old = json.loads(table.read_text(encoding="utf-8"))["rows"] if table.is_file() else []
    kept = [row for row in old if not any(_replaces(new, row) for new in rows)]
    text = ",\n".join("  " + json.dumps(row) for row in [*kept, *rows])
    table.write_text('{"rows": [\n' + text + "\n]}\n", encoding="utf-8")


def _replaces(new: dict[str, Any], old: dict[str, Any]) -> bool:
    key = {name: value for name, value in new.items() if name not in ("tiling", "shape", "sweep")}
    return all(name in old and old[name] == value for name, value in key.items())


def take(folder: Path, into: Path = RESULTS, table: Path = TUNING) -> list[str]:
    """Copy results that were written elsewhere into the repository; return the files' names.

    Of `tuning.json` there, the rows are merged whose sweep is among the files.
    """
    names = sorted(file.name for file in folder.glob("*.json") if file.name != "tuning.json")
    for name in names:
        (into / name).write_bytes((folder / name).read_bytes())
    swept = folder / "tuning.json"
    if swept.is_file():
        rows = json.loads(swept.read_text(encoding="utf-8"))["rows"]
        merge(table, [row for row in rows if row["sweep"].rsplit("/", 1)[-1] in names])
    return names
