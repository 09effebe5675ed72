"""The cache gives back what it was given, and never stops a command."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import msgspec
import pytest

from srcmap import cache as caching
from srcmap.cache import Cache, cache_folder, fingerprint, key_of

if TYPE_CHECKING:
    from pathlib import Path


class Thing(msgspec.Struct, frozen=True):
    name: str
    numbers: tuple[int, ...]


THING = Thing("a", (1, 2))
KEY = key_of("some", "thing")


def test_what_is_put_comes_back(tmp_path: Path) -> None:
    kept = Cache(tmp_path / "deep" / "down", Thing)
    assert kept.get(KEY) is None
    kept.put(KEY, THING)
    assert kept.get(KEY) == THING
    assert [p.name for p in (tmp_path / "deep" / "down" / KEY[:2]).iterdir()] == [KEY[2:]]


@pytest.mark.parametrize("damage", [b"", b"\x00", b"not msgpack", b"\x91\x91\x91", b"\x82\xa4name"])
def test_a_damaged_entry_is_no_entry_and_can_be_written_anew(tmp_path: Path, damage: bytes) -> None:
    kept = Cache(tmp_path, Thing)
    kept.put(KEY, THING)
    (tmp_path / KEY[:2] / KEY[2:]).write_bytes(damage)
    assert kept.get(KEY) is None
    kept.put(KEY, THING)
    assert kept.get(KEY) == THING


def test_an_entry_of_another_type_is_no_entry(tmp_path: Path) -> None:
    Cache(tmp_path, int).put(KEY, 3)
    assert Cache(tmp_path, Thing).get(KEY) is None


def test_a_folder_that_cannot_be_made_costs_nothing_but_time(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    kept = Cache(tmp_path / "file", Thing)
    kept.put(KEY, THING)
    assert kept.get(KEY) is None


def test_a_full_disk_leaves_no_half_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(source: str, target: object) -> None:
        raise OSError(28, "No space left on device")

    kept = Cache(tmp_path, Thing)
    monkeypatch.setattr(os, "replace", full)
    kept.put(KEY, THING)
    assert list((tmp_path / KEY[:2]).iterdir()) == []


def test_keys_tell_their_parts_apart() -> None:
    assert key_of("ab", "c") != key_of("a", "bc")


def test_the_folder_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SRCMAP_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("SRCMAP_CACHE")
    assert cache_folder().name == "srcmap"


def test_the_fingerprint_follows_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "anatomy").mkdir()
    code = tmp_path / "anatomy" / "rule.py"
    code.write_text("one = 1")
    monkeypatch.setattr(caching, "_PACKAGE", tmp_path)

    def now() -> str:
        fingerprint.cache_clear()
        return fingerprint("anatomy", "absent.py")

    first = now()
    assert now() == first
    code.write_text("one = 2")
    second = now()
    assert second != first
    (tmp_path / "anatomy" / "__pycache__").mkdir()
    (tmp_path / "anatomy" / "__pycache__" / "rule.pyc").write_bytes(b"x")
    assert now() == second
    fingerprint.cache_clear()
