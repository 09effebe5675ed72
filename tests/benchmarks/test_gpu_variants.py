"""Each variant's benchmark keeps the contract, as far as that shows without a GPU."""

from __future__ import annotations

import json

import pytest

from benchmarks.gpu import variants, work
from benchmarks.gpu.upstream import PIN, ROOT


@pytest.mark.parametrize("name", variants.names())
def test_shapes_are_plain_and_have_their_costs(name: str) -> None:
    module = variants.load(name)
    assert module.SHAPES
    for shape in module.SHAPES:
        assert shape._fields[0] == "variant"
        assert shape.variant == name
        assert json.loads(json.dumps(shape._asdict())) == shape._asdict()
        assert json.loads(json.dumps(shape.key)) == shape.key
        assert shape.flops >= 0
        assert shape.bytes > 0


@pytest.mark.parametrize("name", variants.names())
def test_tilings_are_some_and_each_once(name: str) -> None:
    module = variants.load(name)
    for shape in module.SHAPES:
        tried = [json.dumps(tiling, sort_keys=True) for tiling in module.sweep(shape)]
        assert 1 <= len(set(tried)) == len(tried) <= 30
        labels = [work.short(tiling) for tiling in module.sweep(shape)]
        assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("name", variants.names())
def test_upstream_as_shipped_is_the_first(name: str) -> None:
    module = variants.load(name)
    for shape in module.SHAPES:
        names = [one.name for one in work.contenders(module, shape, sweep=True)]
        assert len(set(names)) == len(names)
        theirs = [one for one in names if one.startswith("upstream")]
        assert theirs[0] == work.SHIPPED
        assert len(theirs) <= 5
        assert names[0] == "ours"


@pytest.mark.pins
@pytest.mark.skipif(not PIN.is_dir(), reason="no checkout of tilelang v0.1.14")
@pytest.mark.parametrize("name", variants.names())
def test_the_files_it_depends_on_are_named(name: str) -> None:
    found = variants.sources(name)
    assert found.ours
    assert found.theirs
    assert all((ROOT / path).is_file() for path in found.ours)
