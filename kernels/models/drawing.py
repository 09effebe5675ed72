"""A chart -> a file, with matplotlib when it is installed."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kernels.models.errors import ModelError

if TYPE_CHECKING:
    from kernels.models.tables import Chart, Series


def draw(chart: Chart, path: str) -> None:
    """Write the chart; the suffix says the kind of file (png, svg, pdf).

    ModelError when matplotlib is missing, the suffix unknown, or the file cannot be written.
    """
    figure, axes = _axes()
    for series in chart.series:
        _add(axes, series)
    axes.set(title=chart.title, xlabel=chart.x_label, ylabel=chart.y_label)
    if chart.log_x:
        axes.set_xscale("log", base=2)
    if chart.log_y:
        axes.set_yscale("log")
    if len(chart.series) > 1:
        axes.legend()
    _save(figure, path)


def _axes() -> tuple[Any, Any]:
    try:
        matplotlib = importlib.import_module("matplotlib.figure")
    except ImportError as error:
        raise ModelError(
            "a plot needs matplotlib, which is not installed here; pip install matplotlib"
        ) from error
    # A bare figure, without pyplot: no window, no state that outlives the file.
    figure = matplotlib.Figure(figsize=(8, 5), layout="constrained")
    return figure, figure.subplots()


def _add(axes: Any, series: Series) -> None:
    if series.style == "bars":
        axes.bar(series.x, series.y, label=series.label, alpha=0.6)
        return
    marker = "o" if series.style == "points" else None
    line = "none" if series.style == "points" else "-"
    axes.plot(series.x, series.y, label=series.label, marker=marker, linestyle=line)


def _save(figure: Any, path: str) -> None:
    known = sorted(figure.canvas.get_supported_filetypes())
    if Path(path).suffix[1:] not in known:
        raise ModelError(f"{path}: a plot's file must end in one of .{', .'.join(known)}")
    try:
        figure.savefig(path)
    except OSError as error:
        raise ModelError(f"{path}: {error.strerror or error}") from error
