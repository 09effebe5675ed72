"""`python -m kernels.models NAME [sizes] [--format json] [--plot FILE]`: one model's table.

Exit codes: 0 printed, 2 wrong sizes or arguments, or a plot that cannot be drawn.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

from kernels.models import devices, kvcache, onchip, roofline, splits, traffic
from kernels.models.drawing import draw
from kernels.models.errors import ITEM_BYTES, ModelError
from kernels.models.tables import Chart, Table, as_json, as_text

Answer = Callable[[dict[str, Any]], Table]
Picture = Callable[[dict[str, Any]], Chart]

SHAPE = {"queries": 8192, "keys": 8192, "dim": 128, "block_m": 128}
"""Defaults: the sizes of the chapter."""


def main(argv: list[str] | None = None) -> int:
    """Print a table, and draw it when asked; errors go to stderr in one sentence."""
    options = vars(_parser().parse_args(argv))
    answer, picture = options.pop("answer"), options.pop("picture")
    form, plot = options.pop("format"), options.pop("plot", None)
    try:
        table = answer(options)
        if plot:
            draw(picture(options), plot)
    except ModelError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(as_json(table) if form == "json" else as_text(table))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m kernels.models", description="What attention costs, counted."
    )
    models = parser.add_subparsers(metavar="MODEL", required=True)
    for add in (_traffic, _roofline, _onchip, _splits, _kvcache, _rounding, _devices):
        add(models)
    return parser


def _model(
    models: Any, name: str, text: str, answer: Answer, picture: Picture | None, **sizes: int
) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = models.add_parser(name, help=text, description=text)
    for size, default in sizes.items():
        flag = f"--{size.replace('_', '-')}"
        parser.add_argument(flag, type=int, default=default, metavar="N", help=f"{default}")
    parser.add_argument("--format", choices=("text", "json"), default="text")
    if picture is not None:
        parser.add_argument("--plot", metavar="FILE", help="draw it too (needs matplotlib)")
    parser.set_defaults(answer=answer, picture=picture)
    return parser


def _device_of(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(found.name for found in devices.devices())
    parser.add_argument("--device", default="h200", metavar="NAME", help=f"one of {names}")


def _dtype_of(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dtype", default="float16", metavar="TYPE", help=f"one of {', '.join(ITEM_BYTES)}"
    )


def _traffic(models: Any) -> None:
    _model(
        models,
        "traffic",
        "elements moved to and from HBM by naive and by fused attention",
        lambda o: traffic.table(**o),
        lambda o: traffic.chart(**o),
        **SHAPE,
    )


def _roofline(models: Any) -> None:
    parser = _model(
        models,
        "roofline",
        "arithmetic intensity, and what a device can reach at it",
        lambda o: roofline.table(**_named(o)),
        lambda o: roofline.chart(**_named(o)),
        **SHAPE,
    )
    _device_of(parser)
    _dtype_of(parser)


def _onchip(models: Any) -> None:
    parser = _model(
        models,
        "onchip",
        "shared memory of one program, by number of stages",
        lambda o: onchip.table(**_named(o)),
        lambda o: onchip.chart(**_named(o)),
        block_m=128,
        block_n=128,
        dim=128,
        stages=3,
    )
    _device_of(parser)
    _dtype_of(parser)


def _splits(models: Any) -> None:
    sizes = {"batch": 1, "heads": 32, "queries": 1, "keys": 131072, "dim": 128, "block_m": 64}
    parser = _model(
        models,
        "splits",
        "programs against splits of the keys, and the cost of merging",
        lambda o: splits.table(**_most(_named(o))),
        lambda o: splits.chart(**_most(_named(o))),
        splits=16,
        **sizes,
    )
    _device_of(parser)


def _kvcache(models: Any) -> None:
    sizes = {"layers": 32, "batch": 1, "keys": 131072, "heads": 32, "dim": 128}
    parser = _model(
        models,
        "kvcache",
        "bytes of the KV cache by heads and groups",
        lambda o: kvcache.table(**o),
        lambda o: kvcache.chart(**o),
        **sizes,
        latent=512,
        rope=64,
    )
    _dtype_of(parser)


def _rounding(models: Any) -> None:
    parser = _model(
        models,
        "rounding",
        "errors of merged splits and of narrow sums against float64",
        lambda o: _rounding_model().table(**_most(o)),
        lambda o: _rounding_model().chart(**_most(o)),
        splits=64,
        keys=8192,
        dim=128,
        seed=0,
    )
    parser.add_argument("--largest", type=float, default=20.0, metavar="X", help="20")


def _devices(models: Any) -> None:
    _model(models, "devices", "the devices known, and where their numbers are from", _all, None)


def _all(_options: dict[str, Any]) -> Table:
    return devices.table()


def _named(options: dict[str, Any]) -> dict[str, Any]:
    return {("name" if key == "device" else key): value for key, value in options.items()}


def _most(options: dict[str, Any]) -> dict[str, Any]:
    return {("most" if key == "splits" else key): value for key, value in options.items()}


def _rounding_model() -> Any:
    # The one model that computes with NumPy; the others answer without it.
    try:
        from kernels.models import rounding
    except ImportError as error:
        raise ModelError("this model needs NumPy; pip install numpy") from error
    return rounding


if __name__ == "__main__":
    raise SystemExit(main())
