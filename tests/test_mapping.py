"""Maps: what is asked, what is answered, and that the JSON is stable."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from srcmap.catalogue import Catalogue, FileRequest, Lack, Text, Variant
from srcmap.checkout.nouns import blob_id
from srcmap.errors import CatalogueError, ParseError
from srcmap.lock import Archive, Lock, Pin
from srcmap.mapfile import Entry, Proof, SourceMap, compare, decode, encode, sort_key
from srcmap.mapping import build_map
from srcmap.model import (
    Absence,
    FileAnatomy,
    KernelAnatomy,
    Lines,
    Note,
    Premise,
    Site,
)

COMMIT = "c" * 40
SOURCE = "".join(f"line {n}\n" for n in range(1, 21))


class Tree:
    """A checkout in memory."""

    def __init__(self, files: dict[str, str], *, pin: Pin | None = None, name: str = "r") -> None:
        self._files = files
        self.pin = pin or Pin(version="v1", requested="v1", commit=COMMIT)
        self.lock = Lock(
            name=name, url="https://x.example/r", licence="MIT", current="v1", pins=(self.pin,)
        )
        self.partial = self.pin.partial

    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(self._files))

    def read(self, path: str) -> bytes:
        if self._files[path] == "unreadable":
            raise PermissionError(13, "Permission denied")
        return self._files[path].encode()


def site(concept: str, first: int, last: int, label: str = "", name: str = "f.main") -> Site:
    lines = Lines(first, last)
    return Site(
        concept=concept,
        label=label,
        lines=lines,
        context=Lines(first - 1, last),
        qualname=name,
        proof=(Premise(note=Note("anatomy.score"), lines=lines),),
    )


def reader(*kernels: KernelAnatomy, problems: tuple[Note, ...] = ()) -> Any:
    def read(data: bytes, path: str) -> FileAnatomy:
        if data == b"broken":
            raise ParseError(f"{path}: not Python", slug="parse")
        return FileAnatomy(path=path, language="python", kernels=kernels, problems=problems)

    return read


def kernel(*sites: Site, absences: tuple[Absence, ...] = ()) -> KernelAnatomy:
    return KernelAnatomy(
        qualname="f.main", kind="attention", lines=Lines(1, 20), sites=sites, absences=absences
    )


def variant(name: str, *files: FileRequest) -> Variant:
    return Variant(id=name, name=Text(name, name), summary=Text("A.", "一。"), files=files)


def ask(path: str, **more: Any) -> FileRequest:
    return FileRequest(repo="r", path=path, **more)


def built(tree: Tree, *variants: Variant, read: Any) -> SourceMap:
    catalogue = Catalogue(format=1, concepts=(), variants=variants)
    return build_map(catalogue, tree, read=read)


def rows(source_map: SourceMap) -> list[tuple[str, str, str, Lines | None]]:
    return [(e.concept, e.site, e.status, e.lines) for e in source_map.entries]


def test_an_entry_remembers_enough_to_be_found_again() -> None:
    tree = Tree({"a.py": SOURCE})
    found = built(tree, variant("v", ask("a.py", must=("row-max",))),
                  read=reader(kernel(site("row-max", 3, 4))))  # fmt: skip
    (entry,) = found.entries
    assert entry == Entry(
        variant="v",
        concept="row-max",
        site="",
        repo="r",
        pin="v1",
        commit=COMMIT,
        path="a.py",
        lines=Lines(3, 4),
        context=Lines(2, 4),
        qualname="f.main",
        status="found",
        blob=blob_id(SOURCE.encode()),
        digest=hashlib.sha256(b"line 3\nline 4").hexdigest(),
        code_digest=hashlib.sha256(b"line\x003\x00line\x004").hexdigest(),
        form=hashlib.sha256(b"$0\x003\x00$0\x004").hexdigest()[:16],
        proof=(Proof("anatomy.score", Lines(3, 4)),),
    )
    assert found.counts == {
        "found": 1, "absent": 0, "missing": 0, "ambiguous": 0,
        "files_read": 1, "files_unread": 0, "files_not_in_pin": 0,
    }  # fmt: skip


def test_everything_that_the_kernel_does_is_an_entry() -> None:
    request = ask("a.py", must=("row-max",), may=("check-inf",), lacks=(Lack(concept="kv-head"),))
    sites = (site("row-max", 3, 4), site("row-sum", 6, 6))
    found = built(Tree({"a.py": SOURCE}), variant("v", request), read=reader(kernel(*sites)))
    assert rows(found) == [
        ("check-inf", "", "absent", None),
        ("kv-head", "", "absent", None),
        ("row-max", "", "found", Lines(3, 4)),
        ("row-sum", "", "found", Lines(6, 6)),
    ]


def test_a_must_that_is_not_there_is_missing_with_near_misses() -> None:
    absence = Absence(concept="check-inf", reason=Note("anatomy.never-compared"))
    file = kernel(site("check-inf-disabled", 8, 9), absences=(absence,))
    request = ask("a.py", must=("check-inf",))
    found = built(Tree({"a.py": SOURCE}), variant("v", request), read=reader(file))
    missing = found.entries[0]
    assert (missing.status, missing.reason) == ("missing", Note("anatomy.never-compared"))
    assert [(c.concept, c.lines) for c in missing.candidates] == [
        ("check-inf-disabled", Lines(8, 9))
    ]


def test_what_was_not_judged_is_missing_even_where_nobody_needs_it() -> None:
    absence = Absence(concept="kv-head", reason=Note("anatomy.unread"), judged=False)
    request = ask("a.py", lacks=(Lack(concept="kv-head"),))
    found = built(Tree({"a.py": SOURCE}), variant("v", request),
                  read=reader(kernel(absences=(absence,))))  # fmt: skip
    assert rows(found) == [("kv-head", "", "missing", None)]


def test_the_catalogue_is_contradicted_aloud() -> None:
    request = ask("a.py", lacks=(Lack(concept="kv-head"),))
    found = built(Tree({"a.py": SOURCE}), variant("v", request),
                  read=reader(kernel(site("kv-head", 5, 5))))  # fmt: skip
    assert rows(found) == [("kv-head", "", "found", Lines(5, 5))]
    args = {"variant": "v", "concept": "kv-head", "path": "a.py", "lines": "5"}
    assert found.problems == (Note("maps.unexpected", args),)


def labels(*kernels: KernelAnatomy) -> list[tuple[str, str]]:
    found = built(Tree({"a.py": SOURCE}), variant("v", ask("a.py")), read=reader(*kernels))
    return [(e.concept, e.site) for e in found.entries]


def test_two_kernels_are_told_apart_by_number() -> None:
    one = kernel(site("row-max", 3, 3), site("softmax-scale", 1, 1))
    other = kernel(site("row-max", 9, 9), site("row-max", 12, 12), site("softmax-scale", 1, 1))
    assert labels(one, other) == [
        ("row-max", "kernel=1"),
        ("row-max", "kernel=2"),
        ("row-max", "kernel=2 n=2"),
        ("softmax-scale", ""),
    ]


def test_what_stands_outside_kernels_is_not_counted_among_them() -> None:
    host = msgspec.structs.replace(kernel(site("top-k", 9, 9, "host")), kind="file")
    request = ask("a.py", kernels=("attention", "file"))
    found = built(Tree({"a.py": SOURCE}), variant("v", request),
                  read=reader(kernel(site("row-max", 3, 3)), host))  # fmt: skip
    assert [(e.concept, e.site) for e in found.entries] == [("row-max", ""), ("top-k", "host")]


def test_the_kernel_without_a_split_is_called_whole() -> None:
    split = kernel(site("row-max", 3, 3, "kernel=split"), site("split-range", 2, 2, "kernel=split"))
    whole = kernel(site("row-max", 9, 9), site("kv-head", 8, 8, "operand=K"))
    assert labels(split, whole) == [
        ("kv-head", "kernel=whole operand=K"),
        ("row-max", "kernel=split"),
        ("row-max", "kernel=whole"),
        ("split-range", "kernel=split"),
    ]


def test_only_limits_a_variant_to_its_concepts() -> None:
    request = ask("a.py", only=("warp-policy",), must=("warp-policy",))
    file = kernel(site("warp-policy", 3, 3), site("reduce-clear", 5, 9))
    found = built(Tree({"a.py": SOURCE}), variant("v", request), read=reader(file))
    assert rows(found) == [("warp-policy", "", "found", Lines(3, 3))]


# -- files that are not there ---------------------------------------------------------------

WHEEL = Archive(
    kind="wheel", project="r", file="r.whl", sha256="0" * 64, covers=(("lib/**", "lib/**"),)
)


def gap(tree: Tree, **more: Any) -> Entry:
    request = ask("examples/a.py", must=("row-max",), **more)
    (entry,) = built(tree, variant("v", request), read=reader()).entries
    return entry


def test_a_partial_pin_says_so() -> None:
    pin = Pin(version="v2", requested="v2", archives=(WHEEL,))
    entry = gap(Tree({"lib/a.txt": ""}, pin=pin))
    assert entry.status == "missing"
    assert entry.reason == Note("maps.partial", {"pin": "v2", "covers": "lib/**"})
    assert entry.commit is None


def test_a_file_that_the_pin_is_known_not_to_have_is_absent() -> None:
    entry = gap(Tree({}), not_in=("v1",))
    assert (entry.status, entry.reason) == ("absent", Note("maps.not-in-pin", {"pin": "v1"}))


def test_a_file_that_should_be_there_is_missing() -> None:
    entry = gap(Tree({}))
    assert (entry.status, entry.reason) == ("missing", Note("maps.no-such-file", {"pin": "v1"}))


def test_a_file_that_the_catalogue_did_not_expect_is_a_problem() -> None:
    request = ask("a.py", not_in=("v1",))
    found = built(Tree({"a.py": SOURCE}), variant("v", request),
                  read=reader(kernel(site("row-max", 3, 3))))  # fmt: skip
    assert found.problems == (Note("maps.is-in-pin", {"path": "a.py", "pin": "v1"}),)


@pytest.mark.parametrize(
    ("files", "path"),
    [
        pytest.param({"old/a.py": SOURCE, "x/a.py": SOURCE}, "old/a.py", id="known former place"),
        pytest.param({"moved/a.py": SOURCE}, "moved/a.py", id="the only file of that name"),
        pytest.param({"x/a.py": SOURCE, "y/a.py": SOURCE}, None, id="two of that name"),
    ],
)
def test_a_file_may_have_moved(files: dict[str, str], path: str | None) -> None:
    request = ask("new/a.py", also=("old/a.py",), must=("row-max",))
    (entry,) = built(Tree(files), variant("v", request),
                     read=reader(kernel(site("row-max", 3, 3)))).entries  # fmt: skip
    assert (entry.path if entry.status == "found" else None) == path


def test_another_file_of_that_name_is_not_the_one() -> None:
    request = ask("new/a.py", must=("row-max",))
    (entry,) = built(Tree({"x/a.py": SOURCE}), variant("v", request), read=reader()).entries
    assert (entry.path, entry.reason) == ("new/a.py", Note("maps.no-such-file", {"pin": "v1"}))


def test_a_fork_under_another_name_is_known_by_its_files() -> None:
    tree = Tree({"a.py": SOURCE}, name="our-fork")
    (entry,) = built(tree, variant("v", ask("a.py")),
                     read=reader(kernel(site("row-max", 3, 3)))).entries  # fmt: skip
    assert entry.repo == "our-fork"
    assert built(Tree({"z.py": ""}, name="other"), variant("v", ask("a.py")),
                 read=reader()).entries == ()  # fmt: skip


@pytest.mark.parametrize("content", ["unreadable", "broken"])
def test_a_bad_file_costs_its_own_entries_only(content: str) -> None:
    tree = Tree({"a.py": SOURCE, "b.py": content})
    must = ("row-max",)
    both = variant("v", ask("a.py", must=must), ask("b.py", must=must))
    found = built(tree, both, read=reader(kernel(site("row-max", 3, 3))))
    assert [(e.path, e.status) for e in found.entries] == [("a.py", "found"), ("b.py", "missing")]
    (problem,) = found.problems
    assert problem.key == "maps.unreadable"
    assert problem.args["path"] == "b.py"
    assert found.entries[1].reason == problem
    counts = found.counts
    assert (counts["files_read"], counts["files_unread"]) == (1, 1)


def test_a_fault_of_our_own_costs_one_file_and_is_named() -> None:
    def read(data: bytes, path: str) -> FileAnatomy:
        raise IndexError("list index out of range")

    found = built(Tree({"a.py": SOURCE}), variant("v", ask("a.py", must=("row-max",))), read=read)
    args = {"path": "a.py", "error": "IndexError: list index out of range"}
    assert found.problems == (Note("maps.crashed", args),)
    assert found.counts["files_unread"] == 1


def test_a_factor_that_two_kernels_share_is_one_place() -> None:
    proof = (Premise(note=Note("anatomy.other"), lines=Lines(2, 2)),)
    shared = site("softmax-scale", 1, 1)
    split = kernel(shared, site("split-range", 2, 2))
    whole = kernel(msgspec.structs.replace(shared, proof=proof))
    assert labels(split, whole) == [("softmax-scale", ""), ("split-range", "")]


def test_what_the_parser_complained_of_is_listed_with_its_file() -> None:
    read = reader(kernel(), problems=(Note("parse.not-utf8", {"line": "3"}),))
    found = built(Tree({"a.py": SOURCE}), variant("v", ask("a.py")), read=read)
    assert found.problems == (Note("parse.not-utf8", {"line": "3", "path": "a.py"}),)


# -- JSON -----------------------------------------------------------------------------------

words = st.text(alphabet="abc-é/", min_size=1, max_size=8)
spans = st.tuples(st.integers(1, 99), st.integers(0, 9)).map(lambda p: Lines(p[0], p[0] + p[1]))
entries = st.builds(
    Entry,
    variant=words,
    concept=words,
    site=words,
    repo=st.just("r"),
    pin=st.just("v1"),
    commit=st.none() | st.just(COMMIT),
    path=words,
    lines=st.none() | spans,
    context=st.none() | spans,
    qualname=words,
    status=st.sampled_from(["found", "absent", "missing", "ambiguous"]),
    reason=st.none() | st.builds(Note, words, st.dictionaries(words, words, max_size=2)),
    proof=st.lists(st.builds(Proof, words, spans), max_size=2).map(tuple),
)


def map_of(found: list[Entry], problems: tuple[Note, ...] = ()) -> SourceMap:
    return SourceMap(
        format="srcmap-map/1", repo="r", pin="v1", commit=COMMIT, url="u", partial=False,
        counts={"found": len(found)}, problems=problems,
        entries=tuple(sorted(found, key=sort_key)),
    )  # fmt: skip


@given(st.lists(entries, max_size=5), st.text(alphabet='},{"\n', max_size=9))
def test_json_round_trip(found: list[Entry], odd: str) -> None:
    source_map = map_of(found, (Note("maps.unreadable", {"path": odd}),))
    data = encode(source_map)
    assert decode(data) == source_map
    assert encode(decode(data)) == data
    assert len(data.decode().rstrip("\n").split("\n")) >= len(found)


@given(st.permutations([site("row-max", 3, 3), site("row-sum", 5, 5), site("kv-loop", 2, 2)]))
def test_the_order_of_reading_does_not_show(sites: list[Site]) -> None:
    tree = Tree({"a.py": SOURCE})
    found = built(tree, variant("w", ask("a.py")), variant("v", ask("a.py")),
                  read=reader(kernel(*sites)))  # fmt: skip
    assert [e.key for e in found.entries] == sorted(e.key for e in found.entries)
    again = built(tree, variant("v", ask("a.py")), variant("w", ask("a.py")),
                  read=reader(kernel(*reversed(sites))))  # fmt: skip
    assert encode(found) == encode(again)


@pytest.mark.parametrize(
    "data",
    [b"", b"[]", b"{}", b'{"format": "srcmap-map/1"}', b"\xff"],
)
def test_damaged_maps_are_named(data: bytes) -> None:
    with pytest.raises(CatalogueError, match=r"^x\.json: not a source map: "):
        decode(data, "x.json")


def test_a_map_of_another_format_is_refused() -> None:
    data = encode(map_of([])).replace(b"srcmap-map/1", b"srcmap-map/9")
    with pytest.raises(CatalogueError, match="format 'srcmap-map/9', expected 'srcmap-map/1'"):
        decode(data, "x.json")


def test_comparing_names_what_differs() -> None:
    request = ask("a.py", must=("row-max",))
    tree = Tree({"a.py": SOURCE})
    before = built(tree, variant("v", request),
                   read=reader(kernel(site("row-max", 3, 4), site("kv-loop", 2, 2))))  # fmt: skip
    after = built(tree, variant("v", request),
                  read=reader(kernel(site("row-max", 3, 5), site("row-sum", 9, 9))))  # fmt: skip
    changes = [
        (c.kind, (c.after or c.before).concept, c.fields)  # type: ignore[union-attr]
        for c in compare(before, after)
    ]
    assert changes == [
        ("gone", "kv-loop", ()),
        ("changed", "row-max", ("lines", "context", "digest", "code_digest", "form", "proof")),
        ("added", "row-sum", ()),
    ]
    assert compare(before, before) == []


def test_no_upstream_text_is_in_a_map() -> None:
    found = built(Tree({"a.py": SOURCE}), variant("v", ask("a.py")),
                  read=reader(kernel(site("row-max", 3, 4))))  # fmt: skip
    assert "line 3" not in encode(found).decode()
    assert msgspec.json.decode(encode(found))["entries"][0]["lines"] == [3, 4]
