"""What is kept: `kernels/results/<variant>-<device>.json`, and the table of tilings."""

from __future__ import annotations

import hashlib
import json
import math
import time
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import variants
from benchmarks.gpu.upstream import PIN, ROOT, VERSION

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

FORMAT = 1
"""Of the JSON: a reader refuses a larger one."""
RESULTS = ROOT / "kernels" / "results"
TUNING = ROOT / "kernels" / "tuning.json"


def slug(device: str) -> str:
    """Return a device's name for a file: `NVIDIA H200` is `h200`."""
    return device.removeprefix("NVIDIA ").lower().replace(" ", "-")


def name(variant: str, device: str, kind: str = "") -> str:
    """Return the name of a variant's file; that of a sweep has a `kind`."""
    return f"{variant}-{slug(device)}{kind}.json"


def digests(variant: str) -> dict[str, dict[str, str]]:
    """Return what a result rests on: it is stale when one of these changes.

    `ours`: SHA-256 by path. `upstream`: git's blob ids, by repository, pin and path.
    """
    found = variants.sources(variant)
    ours = {path: ROOT / path for path in found.ours}
    theirs = {f"{VERSION} examples/{path}": PIN / path for path in found.theirs}
    return {
        "ours": {n: hashlib.sha256(f.read_bytes()).hexdigest() for n, f in _there(ours)},
        "upstream": {n: blob(f) for n, f in _there(theirs)},
    }


def holds(kept: dict[str, Any]) -> bool:
    """Say whether what is kept of a variant rests on the sources as they are now."""
    if kept["variant"] not in variants.names():
        return False
    return all(kept.get(whose) == found for whose, found in digests(kept["variant"]).items())


def whole(variant: str, about: dict[str, Any], *folders: Path) -> dict[str, Any] | None:
    """Return an earlier run's figures of all shapes with these sources, versions and device."""
    for folder in dict.fromkeys((*folders, RESULTS)):
        file = folder / name(variant, about["device"])
        kept = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
        same = ("device", "driver", "torch", "tilelang", "cuda")
        if (
            kept.get("format") == FORMAT
            and not kept["missing"]
            and all(map(good, kept["shapes"]))
            and all(kept.get(fact) == about.get(fact) for fact in same)
            and holds(kept)
        ):
            return kept
    return None


def good(line: dict[str, Any]) -> bool:
    """Say whether a line has a figure of ours, of the right outputs."""
    return "ours_ms" in line and "ours" not in line["wrong"]


def untuned(variant: str, device: str, keys: list[dict[str, Any]]) -> list[int]:
    """Return the places of the keys that the table has no tiling for on a device."""
    rows = json.loads(TUNING.read_text(encoding="utf-8"))["rows"] if TUNING.is_file() else []
    wanted = {"variant": variant, "device": device}
    return [
        n for n, key in enumerate(keys) if not any(_replaces({**wanted, **key}, r) for r in rows)
    ]


def earlier(file_name: str, *folders: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a tool's files that still hold, with their dates; the newest come last."""
    for file in dict.fromkeys(folder / file_name for folder in (RESULTS, *folders)):
        if file.is_file():
            kept = json.loads(file.read_text(encoding="utf-8"))
            yield from ({"date": kept["date"], **row} for row in kept["rows"] if holds(row))


def write_rows(file: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Write what a tool said, a row for a kernel or a check; each may be of another day."""
    file.parent.mkdir(parents=True, exist_ok=True)
    kept = {"format": FORMAT, "date": time.strftime("%Y-%m-%d"), "rows": list(rows)}
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def _there(files: dict[str, Path]) -> list[tuple[str, Path]]:
    return [(name, file) for name, file in files.items() if file.is_file()]


def blob(file: Path) -> str:
    """Return the id that git gives to a file of upstream's."""
    data = file.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def write(folder: Path, about: dict[str, Any], variant: str, lines: list[dict[str, Any]],
          missing: int, kind: str = "") -> Path:  # fmt: skip
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
    file = folder / name(variant, about["device"], kind)
    file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return file


def summary(found: dict[str, Any], about: dict[str, Any]) -> dict[str, Any]:
    """Return the line of a shape: the figures of `work.measure`, and the ratios from them.

    `faster_than` holds how many times faster ours is. Without ours there are no ratios.
    """
    ms, kinds = found["ms"], found["kinds"]
    matrix, copy = about["matrix_tflops"] * found["rate"], about["copy_tbs"]
    floor = max(found["flops"] / matrix, found["bytes"] / copy) * 1e-9
    line = {
        "shape": found["shape"],
        "key": found["key"],
        "flops": found["flops"],
        "rate": found["rate"],
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

    Of `tuning.json` there, the rows are merged whose sweep is among the files. A run that broke
    off does not take the place of figures that are whole and hold.
    """
    names = sorted(file.name for file in folder.glob("*.json") if file.name != "tuning.json")
    names = [name for name in names if not _worse(folder / name, into / name)]
    for name in names:
        (into / name).write_bytes((folder / name).read_bytes())
    swept = folder / "tuning.json"
    if swept.is_file():
        rows = json.loads(swept.read_text(encoding="utf-8"))["rows"]
        merge(table, [row for row in rows if row["sweep"].rsplit("/", 1)[-1] in names])
    return names


def _worse(new: Path, old: Path) -> bool:
    """Say whether figures have shapes missing that older ones, which still hold, do not."""
    if not old.is_file():
        return False
    made, kept = (json.loads(file.read_text(encoding="utf-8")) for file in (new, old))
    if not {"variant", "missing"} <= made.keys() & kept.keys():
        return False
    return bool(made["missing"] and not kept["missing"] and holds(kept))
