"""C++, Markdown and library definitions on the real pins, against `facts_trees.json`.

Each fact is a place that a person has read: path, concept, label, lines and the digest of the
lines. Nothing else may be found in the same pin, in any file; registrations of passes are many,
so a few of every form are facts, and the others are counted.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from srcmap.anatomy.cpp import read_cpp
from srcmap.anatomy.library import library_sites
from srcmap.anatomy.markdown import read_markdown
from srcmap.checkout import Checkout, find_checkout
from srcmap.errors import ParseError
from srcmap.lock import find_project, read_locks
from srcmap.model import Lines, Site
from srcmap.parse.python import parse_python

pytestmark = pytest.mark.pins

FILE = json.loads((Path(__file__).parent / "facts_trees.json").read_text("utf-8"))
REGISTRATIONS: dict[str, int] = FILE["registrations"]
FACTS: list[dict[str, Any]] = FILE["facts"]
CPP = {".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp"}

PLAIN = [fact for fact in FACTS if not fact["label"] and not fact["path"].endswith(".py")]

Key = tuple[str, str, str, Lines]


@cache
def checkout(name: str) -> Checkout:
    repo, _, version = name.partition("@")
    project = find_project(Path(__file__))
    assert project is not None
    for lock in read_locks(project / "vendor_locks"):
        for pin in lock.pins:
            if (lock.name, pin.version) == (repo, version):
                found = find_checkout(lock, pin, project)
                if found is None:
                    pytest.skip(f"no checkout of {name}: srcmap sync {name}")
                return found
    pytest.skip(f"{name} is not pinned")


def sites_of(data: bytes, path: str) -> tuple[Site, ...]:
    suffix = PurePosixPath(path).suffix
    if suffix in CPP:
        return read_cpp(data, path).kernels[0].sites
    if suffix == ".md":
        return read_markdown(data, path).kernels[0].sites
    if suffix == ".py":
        try:
            parsed = parse_python(data, path)
        except ParseError:
            return ()
        return library_sites(parsed.tree, parsed.lines)
    return ()


@cache
def everything(name: str) -> dict[Key, Site]:
    tree = checkout(name)
    return {
        (path, site.concept, site.label, site.lines): site
        for path in tree.paths()
        for site in sites_of(tree.read(path), path)
    }


def facts_of(name: str) -> dict[Key, str]:
    return {
        (fact["path"], fact["concept"], fact["label"], Lines(*fact["lines"])): fact["sha256"]
        for fact in FACTS
        if f"{fact['repo']}@{fact['pin']}" == name
    }


@pytest.mark.parametrize("name", REGISTRATIONS)
def test_every_fact_is_found_and_nothing_else(name: str) -> None:
    found, facts = everything(name), facts_of(name)
    assert set(facts) - set(found) == set()
    extra = [key for key in found if key not in facts and key[1] != "pass-registration"]
    assert extra == []
    counted = Counter(key[1] for key in found)
    assert counted["pass-registration"] == REGISTRATIONS[name]


@pytest.mark.parametrize("name", REGISTRATIONS)
def test_the_facts_are_about_these_very_lines(name: str) -> None:
    tree = checkout(name)
    for (path, _, _, lines), digest in facts_of(name).items():
        text = tree.read(path).decode().split("\n")[lines.first - 1 : lines.last]
        assert hashlib.sha256("\n".join(text).encode()).hexdigest() == digest, (path, lines)


@pytest.mark.parametrize("name", REGISTRATIONS)
def test_every_place_is_proved_and_trusted(name: str) -> None:
    for (path, *_), site in everything(name).items():
        assert site.proof, path
        assert site.context.first <= site.lines.first, path
        assert site.context.last == site.lines.last, path
        assert all(premise.note.key.startswith("trees.") for premise in site.proof), path


@pytest.mark.parametrize("name", REGISTRATIONS)
def test_a_moved_and_renamed_file_says_the_same(name: str) -> None:
    tree = checkout(name)
    for path in sorted({key[0] for key in facts_of(name)}):
        data, suffix = tree.read(path), PurePosixPath(path).suffix
        moved = sites_of(b"\n\n" + data, f"elsewhere/x{suffix}")
        expected = [Lines(s.lines.first + 2, s.lines.last + 2) for s in sites_of(data, path)]
        assert [site.lines for site in moved] == expected, path


@pytest.mark.parametrize("fact", PLAIN, ids=lambda f: f"{f['pin']}-{f['path']}-{f['concept']}")
def test_line_ends_change_nothing(fact: dict[str, Any]) -> None:
    path = fact["path"]
    data = checkout(f"{fact['repo']}@{fact['pin']}").read(path)
    crlf = data.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    found = {(site.concept, site.lines) for site in sites_of(crlf, path)}
    assert (fact["concept"], Lines(*fact["lines"])) in found
