"""Every Python file of both current pins is read; what is attention and what is not is known."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.corpus.pins import KINDS, PINS, checkout, kinds_of, sweep

if TYPE_CHECKING:
    from srcmap.model import Site

pytestmark = pytest.mark.pins


@pytest.mark.parametrize("pin", PINS)
def test_no_file_breaks_the_reading(pin: str) -> None:
    assert sweep(pin).failures == {}
    assert len(sweep(pin).readings) > 300


@pytest.mark.parametrize("pin", PINS)
def test_kernel_classes(pin: str) -> None:
    """`python -m tests.corpus.refresh` writes the file anew; every changed entry is to be read."""
    found = {path: kinds for path, r in sweep(pin).readings.items() if (kinds := kinds_of(r))}
    assert found == KINDS[pin]


@pytest.mark.parametrize("pin", PINS)
@pytest.mark.parametrize("topic", ["gemm", "norm", "elementwise", "conv", "quant", "topk", "cast"])
def test_files_about_other_things_hold_no_attention(pin: str, topic: str) -> None:
    taken = [
        f"{path}: {kernel.qualname}"
        for path, reading in sweep(pin).readings.items()
        if topic in path.rpartition("/")[2] and not any(w in path for w in ("attn", "attention"))
        for kernel in reading.kernels
        if kernel.kind == "attention"
    ]
    assert taken == []


@pytest.mark.parametrize("pin", PINS)
def test_sites_lie_inside_the_file_and_on_code(pin: str) -> None:
    wrong = []
    for path, reading in sweep(pin).readings.items():
        sites = [site for kernel in reading.kernels for site in kernel.sites]
        lines = checkout(pin).read(path).decode().split("\n") if sites else []
        wrong += [f"{path}:{s.lines} {s.concept}" for s in sites if not _is_sound(s, lines)]
    assert wrong == []


def _is_sound(site: Site, lines: list[str]) -> bool:
    span, context = site.lines, site.context
    if not 1 <= context.first <= span.first <= span.last <= context.last <= len(lines):
        return False
    ends = [lines[n - 1].strip() for n in (span.first, span.last)]
    comment = site.concept == "check-inf-disabled"
    return all(text and text.startswith("#") == comment for text in ends)


@pytest.mark.parametrize("pin", PINS)
def test_attention_kernels_are_read_to_the_end(pin: str) -> None:
    """A kernel called attention has its two products, its maximum and its exponential."""
    lacking = dict[str, list[str]]()
    for path, reading in sweep(pin).readings.items():
        for kernel in reading.kernels:
            concepts = {site.concept for site in kernel.sites}
            need = {"qk-gemm", "row-max", "probability"}
            if kernel.kind == "attention" and not need <= concepts:
                lacking[f"{path}: {kernel.qualname}"] = sorted(need - concepts)
    assert lacking == {}


@pytest.mark.parametrize("pin", PINS)
def test_one_place_is_reported_once(pin: str) -> None:
    twice = []
    for path, reading in sweep(pin).readings.items():
        for kernel in reading.kernels:
            counts = Counter((site.concept, site.label, site.lines) for site in kernel.sites)
            twice += [f"{path}: {site} in {kernel.qualname}" for site, n in counts.items() if n > 1]
    assert twice == []
