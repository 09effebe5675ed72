"""Which outputs count as alike."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")
from benchmarks.gpu import agreement  # noqa: E402 - after the skip

INF = float("inf")


def tensor(*values: float) -> Any:
    return torch.tensor(values, dtype=torch.float32)


@pytest.mark.parametrize(
    ("got", "wanted", "expected"),
    [
        (tensor(1, 2), tensor(1, 2.001), ""),
        (tensor(1, 2), tensor(1, 2.1), "off by"),
        (tensor(1, float("nan")), tensor(1, 2), "off by"),
        (tensor(1, float("nan")), tensor(1, float("nan")), "off by"),
        (tensor(1, -INF), tensor(1, -INF), ""),
        (tensor(1, INF), tensor(1, -INF), "off by"),
        (tensor(1, 2), tensor(1, 2, 3), "shape [2], and not [3]"),
        (torch.tensor([1, 2]), torch.tensor([1, 3]), "1 of 2 are others"),
        ((tensor(1), (tensor(2), tensor(3))), (tensor(1), (tensor(2), tensor(4))), "output 1: out"),
        ((tensor(1), tensor(7)), (tensor(1), None), ""),
        ((tensor(1),), (tensor(1), tensor(1)), "1 outputs, and not 2"),
        (tensor(0.0), tensor(0.0), ""),
        (tensor(0.5), tensor(0.0), "off by"),
    ],
)
def test_difference(got: Any, wanted: Any, expected: str) -> None:
    found = agreement.difference(got, wanted)
    assert found.startswith(expected)
    assert bool(found) is bool(expected)


def test_a_truth_names_places_of_outputs() -> None:
    out = (torch.arange(12.0).reshape(3, 4), tensor(5))
    wanted = agreement.truth([((1, slice(0, 2)), tensor(4, 5)), None])
    assert agreement.difference(out, wanted) == ""
    wanted = agreement.truth([(2, tensor(0, 0, 0, 0)), None])
    assert agreement.difference(out, wanted).startswith("output 0: off by")
    assert agreement.difference(out[0], agreement.truth((0, tensor(0, 1, 2, 3)))) == ""
