"""The device table: vendors' numbers, each with the place it is quoted from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernels.models.errors import ModelError
from kernels.models.tables import Table


@dataclass(frozen=True, kw_only=True)
class Quoted:
    """A number as its vendor states it; nobody here has measured it."""

    value: float
    source: str


@dataclass(frozen=True, kw_only=True)
class Device:
    """One accelerator."""

    name: str
    title: str
    tflops: Quoted
    """Peak of dense 16-bit matrix products, in 10^12 operations a second."""
    bandwidth: Quoted
    """Of HBM, in 10^9 bytes a second."""
    processors: Quoted
    """How many programs can run at once when each fills a processor."""
    shared: Quoted
    """Most on-chip memory of one program, in KiB."""

    @property
    def ridge(self) -> float:
        """Operations for each byte at which products, not HBM, become the limit."""
        return self.tflops.value * 1e3 / self.bandwidth.value


def devices() -> tuple[Device, ...]:
    """Return the devices of `devices.json`."""
    text = Path(__file__).with_name("devices.json").read_text(encoding="utf-8")
    return tuple(_device(entry) for entry in json.loads(text)["devices"])


def _device(entry: dict[str, Any]) -> Device:
    quoted = {name: Quoted(**value) for name, value in entry.items() if isinstance(value, dict)}
    return Device(name=entry["name"], title=entry["title"], **quoted)


def device(name: str) -> Device:
    """Return one device by its name. ModelError when the table has none such."""
    for found in devices():
        if found.name == name.lower():
            return found
    known = ", ".join(d.name for d in devices())
    raise ModelError(f"no device is called {name!r}; the table has {known}")


def table() -> Table:
    """Return every number with its source."""
    units = {
        "tflops": "TFLOP/s",
        "bandwidth": "GB/s",
        "processors": "processors",
        "shared": "KiB a program",
    }
    rows = tuple(
        (found.title, getattr(found, name).value, unit, getattr(found, name).source)
        for found in devices()
        for name, unit in units.items()
    )
    return Table(
        model="devices",
        title="Devices, in their vendors' numbers",
        columns=("device", "value", "unit", "quoted from"),
        rows=rows,
        notes=("Quoted, not measured here.",),
    )
