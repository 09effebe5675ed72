"""The real pins, when they can be reached from here; else the reason is said."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from srcmap.checkout import Checkout, find_checkout, sync
from srcmap.checkout.check import check_checkout
from srcmap.errors import CheckoutError
from srcmap.lock import pick, shipped_locks

pytestmark = pytest.mark.pins

_REAL = dict(os.environ)
"""As it was before the fixtures hid the user's configuration: mirrors are set up in there."""


@pytest.fixture(autouse=True)
def _as_the_user(_alone: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in set(os.environ) - set(_REAL):
        monkeypatch.delenv(name)
    for name, value in _REAL.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("SRCMAP_CACHE", str(tmp_path / "cache"))


def brought(name: str, project: Path) -> Checkout:
    lock, pin = pick(shipped_locks(), name)
    try:
        return sync(lock, pin, project)
    except CheckoutError as error:
        if error.slug != "unreachable":
            raise
        pytest.skip(f"not reachable from here: {' '.join(error.message.split())}")


def test_tilelang_ascend_comes_through_git(project: Path) -> None:
    checkout = brought("tilelang-ascend@95acbd7", project)
    assert checkout.manifest.source == "git"
    assert checkout.manifest.tree == "9b137ea25b4763db1cd304996e01e6c16bc4d697"
    assert "examples/flash_attention/flash_attn_bhsd.py" in checkout.paths()
    assert not check_checkout(checkout).changes


def test_tilelang_comes_whole_by_git_or_sdist(project: Path) -> None:
    checkout = brought("tilelang@v0.1.14", project)
    assert checkout.manifest.commit == "7e3bbf3703e769479757eb7ecec2f2626f3cd0a8"
    assert not checkout.partial
    assert "examples/attention_sink/example_mha_sink_fwd_bhsd.py" in checkout.paths()
    assert not any(path.startswith("3rdparty/") for path in checkout.paths())
    size = sum(entry.stat().st_size for entry in checkout.root.rglob("*") if entry.is_file())
    assert size < 40_000_000


def test_git_and_sdist_of_one_pin_agree(project: Path, tmp_path: Path) -> None:
    from srcmap.checkout.gitrun import GitFailed, quiet_git, run_git

    lock, pin = pick(shipped_locks(), "tilelang@v0.1.13")
    try:
        with quiet_git():
            run_git(["ls-remote", "--", lock.url, "HEAD"])
    except GitFailed as failed:
        pytest.skip(f"git cannot reach {lock.url}: {failed.said}")
    by_git = brought("tilelang@v0.1.13", project)
    other = tmp_path / "other"
    import msgspec

    no_git = msgspec.structs.replace(lock, url=(tmp_path / "none").as_uri())
    try:
        by_sdist = sync(no_git, pin, other)
    except CheckoutError as error:
        pytest.skip(f"the sdist is not reachable from here: {' '.join(error.message.split())}")
    theirs = {e.path: e.blob for e in by_git.manifest.entries if not e.path.startswith(".github/")}
    ours = {e.path: e.blob for e in by_sdist.manifest.entries}
    assert theirs.keys() - ours.keys() == {"docs/make.bat"}
    assert ours == {path: blob for path, blob in theirs.items() if path in ours}


def test_the_partial_wheel(project: Path) -> None:
    checkout = brought("tilelang@v0.1.15", project)
    if checkout.pin.partial:
        assert checkout.partial
        assert checkout.manifest.covers == ("src/**", "tilelang/**")
    assert {path.partition("/")[0] for path in checkout.paths()} >= {"src", "tilelang"}
    assert "src/op/reduce.cc" in checkout.paths()


def test_what_lies_under_vendor_is_unharmed() -> None:
    project = Path(__file__).parents[2]
    found = [
        checkout
        for lock in shipped_locks()
        for pin in lock.pins
        if (checkout := find_checkout(lock, pin, project))
    ]
    if not found:
        pytest.skip("no pin is synced in this clone")
    for checkout in found:
        assert not check_checkout(checkout).changes, checkout.root
