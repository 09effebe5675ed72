"""The results -> `kernels/results/README.md` and a plot. Both are derived, and a test says so."""

from __future__ import annotations

import hashlib
import importlib
import json
import statistics
from typing import TYPE_CHECKING, Any

from benchmarks.gpu import bounds
from benchmarks.gpu.results import FORMAT, RESULTS, slug

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

TOOLS = ("sanitize", "soak", "profile")
"""Commands that keep a table of all variants beside the results."""
RIVALS = ("upstream as shipped", "upstream's best", "pytorch cudnn", "pytorch flash")
COLOURS = ("#0b6e4f", "#e08e0b", "#3b5bdb", "#a0a0a0")
MAIN = ("batch", "samples", "heads", "seq", "longest", "dim")
"""The sizes that go without their names; a variant has its own of some."""
TICKS = (0.25, 0.5, 0.75, 1, 1.25, 1.5, 2, 3, 4, 6, 8, 12, 16, 32, 64)
INTRODUCTION = """\
# What was measured

This page is written by `python -m benchmarks.gpu --table` from the JSON files beside it; a test compares them.
`speed.svg` draws the same figures (`--plot`), `../tuning.json` has the tilings and names the sweep that chose each.

All contenders of a line were timed in turns, in one run on one GPU, with CUDA events; figures are medians, and inputs are not in the chip's cache.
A ratio says how many times faster ours is.
The floor is what the GPU reached in the same run: the operations over the rate of an fp16 matrix product (twice that for fp8), or the bytes (each input read once, each output written once) over the rate of a copy, whichever takes longer.
Upstream is tilelang v0.1.14's example: as it ships, with the blocks that its own benchmark or heuristic takes, and the best of a few other blocks.
The last table has the tests on the GPU. Its errors are our largest against float64 over upstream's largest at the same inputs, test by test; where upstream has no such call, as in bfloat16, over what its error would be there. Where the ratio is above 1 ours is less exact; a test fails above 2, one rounding of the output aside.
"""  # noqa: E501 - prose: a sentence is a line


def load(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Return the results of all variants, without sweeps and tests, in the order of names."""
    found = []
    for file in sorted(folder.glob("*.json")):
        if file.stem.endswith(tuple(f"-{kind}" for kind in ("sweep", "tests", *TOOLS))):
            continue
        result = json.loads(file.read_text(encoding="utf-8"))
        if result["format"] > FORMAT:
            raise ValueError(f"{file.name} has format {result['format']}: newer than {FORMAT}")
        found.append(result)
    return found


def load_tests(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Return what the tests of all folders came out with."""
    files = sorted(folder.glob("*-tests.json"))
    return [json.loads(file.read_text(encoding="utf-8")) for file in files]


def load_checks(folder: Path, kind: str) -> dict[str, list[dict[str, Any]]]:
    """Return by device what one of TOOLS said, row by row."""
    files = sorted(folder.glob(f"*-{kind}.json"))
    read = {file: json.loads(file.read_text(encoding="utf-8")) for file in files}
    return {
        file.stem.removesuffix(f"-{kind}"): [{"date": kept["date"], **row} for row in kept["rows"]]
        for file, kept in read.items()
    }


def write(plot: Path | None, folder: Path | None) -> None:
    """Write the page into `folder`, and the plot: what is None is not wanted."""
    if folder:
        (folder / "README.md").write_text(current(folder), encoding="utf-8")
    if plot:
        draw(load(folder or RESULTS), plot)


def current(folder: Path = RESULTS) -> str:
    """Return the page of everything in the folder."""
    tools = {kind: load_checks(folder, kind) for kind in TOOLS}
    return page(load(folder), load_tests(folder), **tools)


def page(
    found: list[dict[str, Any]],
    tests: Sequence[dict[str, Any]] = (),
    **tools: Mapping[str, list[dict[str, Any]]],
) -> str:
    """Return the page; `tools`: what those of TOOLS said, by device."""
    parts = [INTRODUCTION]
    for device in sorted({result["device"] for result in found}):
        here = [result for result in found if result["device"] == device]
        said = {kind: by_device.get(slug(device), []) for kind, by_device in tools.items()}
        shapes = {one["variant"]: [line["shape"] for line in one["shapes"]] for one in here}
        parts += [f"\n## {device}\n\n", *_verdict(here), "\n", *_table(here), "\n", *_runs(here)]
        parts += ["\n", *bounds.table(said.get("profile", []), label, shapes)]
        parts += ["\n", *_tests([one for one in tests if one["device"] == device])]
        parts += ["\n", *_checks(said.get("sanitize", [])), *_soaked(said.get("soak", []))]
    return "".join(parts).rstrip() + "\n"


def lines(found: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (variant, line) for each shape that ours ran."""
    for result in found:
        for line in result["shapes"]:
            if "faster_than" in line:
                yield result["variant"], line


def ratios(found: list[dict[str, Any]], rival: str) -> dict[str, float]:
    """Return, for each variant, the median over its shapes of how much faster ours is."""
    many: dict[str, list[float]] = {}
    for variant, line in lines(found):
        if rival in line["faster_than"]:
            many.setdefault(variant, []).append(line["faster_than"][rival])
    return {variant: statistics.median(all_of_it) for variant, all_of_it in many.items()}


def label(shape: dict[str, Any]) -> str:
    """Return the sizes of a shape in a few words: `1x32x8192x128 causal`."""
    plain = {n: v for n, v in shape.items() if n != "variant" and not isinstance(v, bool)}
    main = [plain.pop(name) for name in MAIN if name in plain]
    said = ["x".join(map(str, main))] if main else []
    said += [f"{name} {value}" for name, value in plain.items() if value is not None]
    said += [name for name, value in shape.items() if value is True]
    said += [f"not {name}" for name, value in shape.items() if value is False]
    return ", ".join(said)


def _verdict(here: list[dict[str, Any]]) -> Iterator[str]:
    shipped = ratios(here, "upstream as shipped")
    if not shipped:
        return
    slowest = min(
        (line["faster_than"]["upstream as shipped"], variant, label(line["shape"]))
        for variant, line in lines(here)
        if "upstream as shipped" in line["faster_than"]
    )
    yield (
        f"Over {len(shipped)} variants, ours is {statistics.median(shipped.values()):.2f} times as "
        "fast as upstream as shipped (the median of the variants' medians); "
        f"the least is {slowest[0]:.2f} ({slowest[1]}, {slowest[2]}).\n"
    )


def _table(here: list[dict[str, Any]]) -> Iterator[str]:
    heads = ("variant", "shape", "ms", "TFLOP/s", "of the floor", *(f"x {r}" for r in RIVALS))
    yield "| " + " | ".join(heads) + " |\n" + "|---|---|" + "--:|" * (len(heads) - 2) + "\n"
    for variant, line in lines(here):
        cells = [
            variant,
            label(line["shape"]),
            f"{line['ours_ms']:.3f}",
            f"{line['ours_tflops']:.0f}",
            f"{line['of_floor']:.0%}",
        ]
        faster = line["faster_than"]
        cells += [f"{faster[rival]:.2f}" if rival in faster else "" for rival in RIVALS]
        yield "| " + " | ".join(cells) + " |\n"
    for result in here:
        for line in result["shapes"]:
            if "faster_than" not in line:
                why = line["wrong"].get("ours", "nothing ran")
                yield f"\nNot in the table: {result['variant']}, {label(line['shape'])}: {why}\n"
        if result.get("missing"):
            yield f"\nNot measured: {result['missing']} more shapes of {result['variant']}\n"


def _runs(here: list[dict[str, Any]]) -> Iterator[str]:
    yield "| variant | date | driver | CUDA | torch | tilelang | matrix TFLOP/s | copy TB/s |\n"
    yield "|---|---|---|---|---|---|--:|--:|\n"
    for result in here:
        cells = [result[n] for n in ("variant", "date", "driver", "cuda", "torch", "tilelang")]
        cells += [f"{result['matrix_tflops']:.0f}", f"{result['copy_tbs']:.2f}"]
        yield "| " + " | ".join(map(str, cells)) + " |\n"


def _tests(here: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a line for each folder; test files that did not run count as one test each."""
    heads = ("passed", "failed", "skipped", "not run", "error / upstream's", "the largest")
    yield "| folder | date | " + " | ".join(heads) + " |\n|---|---|" + "--:|" * len(heads) + "\n"
    for one in here:
        counts = [one[name] for name in ("passed", "failed", "skipped")]
        counts.append(one["unfinished"] + len(one["missing"]))
        errors = [x for kept in one["files"].values() for x in kept.get("errors", {}).values()]
        ratios = [f"{of(errors):.2f}" if errors else "" for of in (statistics.median, max)]
        yield f"| {' | '.join(map(str, [one['folder'], one['date'], *counts, *ratios]))} |\n"


def _checks(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence for each check of the sanitizer, and a line for each variant it is about."""
    for check in sorted({row["check"] for row in rows}):
        here = [row for row in rows if row["check"] == check]
        clean = [row["variant"] for row in here if row["findings"] == 0]
        dates = sorted({row["date"] for row in here})
        yield (
            f"`compute-sanitizer --tool {check}` ({', '.join(dates)}) has small calls of "
            f"{len(here)} variants, and finds nothing in {len(clean)}.\n\n"
        )
        for row in here:
            if row["findings"] != 0:
                number = "not run" if row["findings"] is None else f"{row['findings']} findings"
                yield f"- {row['variant']}: {number}: {row['first']}.\n"
        if len(clean) < len(here):
            yield "\n"


def _soaked(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield a sentence on what many calls came out with, and a line for each fault."""
    if not rows:
        return
    fine = [row for row in rows if not row["why"]]
    dates = ", ".join(sorted({row["date"] for row in rows}))
    calls = min((row["calls"] for row in fine), default=0)
    yield (
        f"`python -m benchmarks.gpu.soak` ({dates}) has {len(rows)} shapes, large and small, of "
        f"{len({row['variant'] for row in rows})} variants. In {len(fine)}, all of {calls} calls "
        "or more ended, and gave what the first gave; gradients that programs add up in any order "
        "differ by that alone.\n\n"
    )
    for row in rows:
        if row["why"]:
            yield f"- {row['variant']}, shape {row['shape']}: {row['why']}.\n"
    if len(fine) < len(rows):
        yield "\n"


def stamp(found: list[dict[str, Any]]) -> str:
    """Return what a plot of these results carries as its description."""
    return "results " + hashlib.sha256(page(found).encode()).hexdigest()


def draw(found: list[dict[str, Any]], file: Path) -> None:
    """Draw, for each shape, how many times faster ours is than each rival (.svg or .png)."""
    settings: Any = vars(importlib.import_module("matplotlib"))["rcParams"]
    settings |= {"svg.hashsalt": "srcmap", "svg.fonttype": "none", "font.size": 8}
    rows = list(lines(found))
    figure = importlib.import_module("matplotlib.figure").Figure(
        figsize=(11, 1.4 + 0.2 * len(rows)), layout="constrained"
    )
    axes = figure.subplots()
    for rival, colour, marker in zip(RIVALS, COLOURS, "oDs^", strict=True):
        points = [
            (line["faster_than"][rival], place)
            for place, (_, line) in enumerate(rows)
            if rival in line["faster_than"]
        ]
        if points:
            axes.scatter(*zip(*points, strict=True), label=rival, c=colour, marker=marker, s=22)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log", base=2)
    ticks = [tick for tick in TICKS if _within(tick, rows)]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xticks([], minor=True)
    axes.set_yticks(
        range(len(rows)), [f"{variant}  {label(line['shape'])}" for variant, line in rows]
    )
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.grid(axis="both", linewidth=0.3)
    axes.set_xlabel(f"times faster than (to the right of 1: ours is faster); {_devices(found)}")
    figure.legend(loc="outside upper center", ncols=len(RIVALS), frameon=False)
    about = {"Description": stamp(found), "Title": "TileLang kernels beside their rivals"}
    when = {"Date": None} if file.suffix == ".svg" else {}
    figure.savefig(file, metadata=about | when)


def _within(tick: float, rows: list[tuple[str, dict[str, Any]]]) -> bool:
    many = [ratio for _, line in rows for ratio in line["faster_than"].values()]
    return 0.8 * min(many, default=1) <= tick <= 1.25 * max(many, default=1) or tick == 1


def _devices(found: list[dict[str, Any]]) -> str:
    return ", ".join(sorted({result["device"] for result in found}))
