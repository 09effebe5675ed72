"""Our kernels beside upstream's and PyTorch's on this GPU: `python -m benchmarks.gpu`.

Everything of one shape is measured in turns, in one run. `--sweep` tries all tilings of ours and
puts the best into `kernels/tuning.json`. Results go to `kernels/results/` as JSON.
Needs the extra `kernels`, and the checkout of tilelang v0.1.14 (`srcmap sync tilelang@v0.1.14`).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.compiling import compile_all
from benchmarks.gpu.contenders import (
    PIN,
    ROOT,
    SHAPES,
    SHIPPED,
    Contender,
    Shape,
    contenders,
    inputs_of,
)
from benchmarks.gpu.timing import ceilings, medians

if TYPE_CHECKING:
    from collections.abc import Callable


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("variants", nargs="*", help="which variants; all when none is named")
    parser.add_argument("--sweep", action="store_true", help="try all tilings of ours")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=os.cpu_count(), help="for compiling")
    parser.add_argument("--out", type=Path, default=ROOT / "kernels" / "results")
    args = parser.parse_args()
    shapes = [s for s in SHAPES if not args.variants or s.variant in args.variants]
    compile_all(shapes, args.sweep, args.workers)
    about = machine() | ceilings(args.rounds)
    for variant in dict.fromkeys(shape.variant for shape in shapes):
        lines = [measure(s, args.sweep, args.rounds, about) for s in shapes if s.variant == variant]
        slug = about["device"].removeprefix("NVIDIA ").lower().replace(" ", "-")
        args.out.mkdir(parents=True, exist_ok=True)
        found = {"variant": variant, **about, "digests": digests(variant), "shapes": lines}
        file = args.out / f"{variant}-{slug}{'-sweep' if args.sweep else ''}.json"
        file.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        if args.sweep:
            write_tuning(variant, about["device"], lines, file.name)


def write_tuning(variant: str, device: str, lines: list[dict[str, Any]], sweep: str) -> None:
    """Put the best tilings into the table, in the place of older ones of this variant and device.

    Of several shapes with one key, the first stands in the table.
    """
    rows = {}
    for line in reversed(lines):
        shape = line["shape"]
        key = (shape["dim"], shape["causal"], shape["window"] is not None)
        rows[key] = {
            "variant": variant,
            "device": device,
            **dict(zip(("dim", "causal", "windowed"), key, strict=True)),
            "tiling": line["best_of_ours"]["tiling"],
            "shape": shape,
            "sweep": f"kernels/results/{sweep}",
        }
    table = ROOT / "kernels" / "tuning.json"
    old = json.loads(table.read_text(encoding="utf-8"))["rows"]
    kept = [row for row in old if (row["variant"], row["device"]) != (variant, device)]
    text = ",\n".join("  " + json.dumps(row) for row in [*kept, *reversed(rows.values())])
    table.write_text('{"rows": [\n' + text + "\n]}\n", encoding="utf-8")


def measure(shape: Shape, sweep: bool, rounds: int, about: dict[str, Any]) -> dict[str, Any]:
    """Check everybody against everybody's median output, then time them; return the line."""
    import torch

    inputs = inputs_of(shape)
    calls, who, wrong = {}, {}, {}
    for contender in contenders(shape, sweep):
        made = attempt(contender, inputs)
        if isinstance(made, str):
            wrong[contender.name] = made
        else:
            calls[contender.name], who[contender.name] = made, contender
    truth = calls["upstream as shipped"]().float()
    for name, call in list(calls.items()):
        off = float((call().float() - truth).abs().max())
        if not off < 1e-2:
            wrong[name] = f"off by {off}"
            del calls[name]
    found = medians(calls, rounds)
    torch.cuda.empty_cache()
    floor = max(shape.flops / about["matrix_tflops"] * 1e-9, shape.bytes / about["copy_tbs"] * 1e-9)
    line = summary(shape, found, who, floor)
    show(line, found, wrong)
    return {**line, "milliseconds": found, "wrong": wrong}


def attempt(contender: Contender, inputs: tuple[Any, ...]) -> Callable[[], Any] | str:
    """Return a call that has worked once, or why it has not: a line of the table, either way."""
    try:
        call = contender.make(inputs)
        call()
    except Exception as problem:  # noqa: BLE001 - whatever it is, it is said
        return repr(problem)[:200]
    return call


def summary(
    shape: Shape, found: dict[str, float], who: dict[str, Contender], floor: float
) -> dict[str, Any]:
    """Return the numbers of the table: milliseconds, and how many times faster ours is."""
    upstream = min((n for n in found if who[n].kind == "upstream"), key=lambda n: found[n])
    swept = [n for n in found if who[n].kind == "ours" and who[n].settings] or ["ours"]
    best = min(swept, key=lambda n: found[n])
    rivals = {
        "upstream as shipped": found["upstream as shipped"],
        "upstream's best": found[upstream],
    } | {n: t for n, t in found.items() if who[n].kind == "pytorch"}
    return {
        "shape": shape._asdict(),
        "ours_ms": found["ours"],
        "ours_tflops": shape.flops / found["ours"] * 1e-9,
        "floor_ms": floor,
        "of_floor": floor / found["ours"],
        "faster_than": {name: time / found["ours"] for name, time in rivals.items()},
        "best_of_ours": {"name": best, "tiling": who[best].settings, "ms": found[best]},
        "best_of_upstream": upstream,
    }


def show(line: dict[str, Any], found: dict[str, float], wrong: dict[str, str]) -> None:
    shape = line["shape"]
    print(f"\n{shape}")
    print(
        f"  ours {line['ours_ms']:.3f} ms = {line['ours_tflops']:.0f} TFLOP/s, "
        f"{line['of_floor']:.0%} of the floor; "
        + ", ".join(f"{n} x{r:.2f}" for n, r in line["faster_than"].items())
    )
    print(f"  best of ours: {line['best_of_ours']}")
    for name, ms in sorted(found.items(), key=lambda item: item[1]):
        print(f"    {ms:8.3f} ms  {name}")
    for name, why in wrong.items():
        print(f"    excluded  {name}: {why}")


def machine() -> dict[str, Any]:
    """Return what the figures depend on."""
    import tilelang
    import torch

    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=True).stdout.split("\n")[0]
    return {
        "device": torch.cuda.get_device_name(),
        "driver": driver,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version(),
        "torch": torch.__version__,
        "tilelang": tilelang.__version__,
        "date": time.strftime("%Y-%m-%d"),
        "dtype": "float16",
    }


def digests(variant: str) -> dict[str, str]:
    """Return sha256 of our file and of upstream's: a result is stale when one changes."""
    ours = ROOT / "kernels" / variant / "tilelang_kernel.py"
    theirs = PIN / SHIPPED[variant][0]
    return {
        f"kernels/{variant}/tilelang_kernel.py": hashlib.sha256(ours.read_bytes()).hexdigest(),
        f"tilelang v0.1.14 examples/{SHIPPED[variant][0]}": hashlib.sha256(
            theirs.read_bytes()
        ).hexdigest(),
    }


if __name__ == "__main__":
    main()
