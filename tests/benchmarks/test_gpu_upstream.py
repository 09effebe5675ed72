"""Upstream's files are as the repairs expect them, and are changed in nothing else."""

from __future__ import annotations

import ast

import pytest

from benchmarks.gpu import upstream

pytestmark = [
    pytest.mark.pins,
    pytest.mark.skipif(not upstream.PIN.is_dir(), reason="no checkout of tilelang v0.1.14"),
]


@pytest.mark.parametrize("path", upstream.REPAIRS)
def test_each_change_is_made_once(path: str) -> None:
    text = (upstream.PIN / path).read_text(encoding="utf-8")
    for before, after in upstream.REPAIRS[path]:
        assert text.count(before) == 1
        text = text.replace(before, after)
    ast.parse(text)


def test_a_file_that_is_not_as_expected_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    path = next(iter(upstream.REPAIRS))
    monkeypatch.setitem(upstream.REPAIRS, path, (("no such text", "x"),))
    with pytest.raises(ValueError, match="has 0 times no such text, and not once"):
        upstream.repaired(path)


@pytest.mark.parametrize("path", upstream.REPAIRS)
def test_a_repaired_module_loads(path: str) -> None:
    pytest.importorskip("tilelang")
    pytest.importorskip("einops")
    assert hasattr(upstream.repaired(path), "flashattn")
