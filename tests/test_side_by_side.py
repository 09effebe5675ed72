"""diff, compare, concept, search and notes from end to end, on maps that are frozen here.

The maps of `golden/maps` hold a dozen variants as they were found once, so that these pages change
when what is said of a place changes, and not when the place is found better.
"""

from __future__ import annotations

import json
import re
import shutil
from typing import TYPE_CHECKING

import pytest

from srcmap import cli, i18n
from srcmap.catalogue import Evidence, Remark, Text, load_catalogue
from srcmap.evidence import gone, other_pins, seen
from srcmap.mapfile import SourceMap, decode
from srcmap.render.layout import cells
from srcmap.searching import items, search
from tests.test_render import GOLDEN, compare

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MAPS = GOLDEN / "maps"


@pytest.fixture
def srcmap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str]]:
    shutil.copytree(MAPS, tmp_path / ".srcmap" / "maps")
    (tmp_path / "vendor_locks").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "LC_ALL", "LC_MESSAGES", "FORCE_COLOR", "FORCE_HYPERLINK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    monkeypatch.setattr(i18n, "_chosen", ["en"])

    def run(*argv: str, columns: int | None = None) -> tuple[int, str]:
        if columns is not None:
            monkeypatch.setenv("COLUMNS", str(columns))
        capsys.readouterr()
        code = cli.run(argv)
        return code, capsys.readouterr().out

    return run


QUESTIONS = {
    "diff-causal": ["diff", "causal"],
    "diff-sliding-window": ["diff", "sliding-window"],
    "diff-decode-mha": ["diff", "decode-mha"],
    "diff-asc-mha": ["diff", "asc-mha"],
    "compare-mha-bhsd": ["compare", "mha-bhsd"],
    "compare-asc-paged": ["compare", "asc-paged"],
    "compare-sink": ["compare", "sink"],
    "concept-check-inf": ["concept", "check-inf"],
    "concept-workspace-write": ["concept", "workspace-write"],
    "concepts": ["concept"],
    "search-page-table": ["search", "page", "table"],
    "search-chek_inf": ["search", "chek_inf"],
    "notes-asc-mha": ["variant", "asc-mha"],
}


@pytest.mark.parametrize("lang", i18n.LANGUAGES)
@pytest.mark.parametrize("width", [80, 140, None])
@pytest.mark.parametrize("name", QUESTIONS)
def test_text(
    srcmap: Callable[..., tuple[int, str]], name: str, width: int | None, lang: str
) -> None:
    code, out = srcmap(*QUESTIONS[name], "--lang", lang, columns=width)
    assert code == 0
    compare(f"{name}.{lang}.{width or 'pipe'}.txt", out.rstrip("\n"))


@pytest.mark.parametrize("lang", i18n.LANGUAGES)
@pytest.mark.parametrize("name", QUESTIONS)
def test_markdown(srcmap: Callable[..., tuple[int, str]], name: str, lang: str) -> None:
    code, out = srcmap(*QUESTIONS[name], "--lang", lang, "--format", "markdown")
    assert code == 0
    compare(f"{name}.{lang}.md", out.rstrip("\n"))


@pytest.mark.parametrize("name", QUESTIONS)
def test_only_places_are_wider_than_the_terminal(
    srcmap: Callable[..., tuple[int, str]], name: str
) -> None:
    for width in (50, 80, 100, 140):
        for lang in i18n.LANGUAGES:
            _, out = srcmap(*QUESTIONS[name], "--lang", lang, columns=width)
            for line in out.splitlines():
                assert line == line.rstrip()
                assert cells(line) <= width or re.search(r"(examples|src|docs)/", line), line


@pytest.mark.parametrize("name", [n for n in QUESTIONS if n.startswith(("diff", "compare"))])
def test_without_colour_nothing_is_lost(
    srcmap: Callable[..., tuple[int, str]], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = srcmap(*QUESTIONS[name], columns=120)[1]
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = srcmap(*QUESTIONS[name], columns=120)[1]
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


def test_in_a_pipe_every_difference_is_one_line(srcmap: Callable[..., tuple[int, str]]) -> None:
    _, out = srcmap("diff", "sliding-window")
    (line,) = [line for line in out.splitlines() if " loop-range" in line]
    assert line.startswith("  ~ loop-range")
    assert "example_mha_sink_fwd_bhsd.py:82 <- examples/flash_attention" in line


# -- JSON ------------------------------------------------------------------------------------


def test_json_of_a_difference(srcmap: Callable[..., tuple[int, str]]) -> None:
    code, out = srcmap("diff", "sink", "--format", "json")
    found = json.loads(out)
    assert (code, found["format"], found["base"]) == (0, "srcmap-diff/1", "sliding-window")
    (file,) = found["files"]
    assert (file["changed"], file["base"]) == (2, "sliding-window")
    kinds = {d["concept"]: d["kind"] for d in file["differences"]}
    assert kinds["sink-epilogue"] == "added"
    first = file["differences"][0]
    assert first["why"].keys() == {"en", "zh"}
    assert first["after"][0]["lines"] == [79, 80]
    assert first["after"][0]["url"].startswith("https://github.com/")


def test_json_of_two_machines(srcmap: Callable[..., tuple[int, str]]) -> None:
    code, out = srcmap("compare", "asc-mha", "--format", "json")
    (pair,) = json.loads(out)["pairs"]
    assert code == 0
    assert (pair["left"]["variant"], pair["right"]["variant"]) == ("mha-bhsd", "asc-mha")
    rows = {row["concept"]: row for row in pair["concepts"]}
    assert rows["row-max"]["why"] is None
    assert rows["cube-scope"]["left"] == []
    assert "tensor cores" in rows["cube-scope"]["why"]


def test_json_of_a_concept(srcmap: Callable[..., tuple[int, str]]) -> None:
    code, out = srcmap("concept", "check-inf", "--format", "json")
    found = json.loads(out)
    assert (code, found["concept"]["id"]) == (0, "check-inf")
    states = {(e["variant"], e["concept"], e["status"]) for e in found["entries"]}
    assert ("sink", "check-inf", "found") in states
    assert ("decode-mha", "check-inf-disabled", "found") in states
    assert ("mha-bhsd", "check-inf", "absent") in states
    listed = json.loads(srcmap("concept", "--format", "json")[1])["concepts"]
    assert {c["id"]: c["variants"] for c in listed}["check-inf"] == ["sink", "sliding-window"]


def test_json_of_a_search(srcmap: Callable[..., tuple[int, str]]) -> None:
    code, out = srcmap("search", "sink", "--limit", "2", "--format", "json")
    found = json.loads(out)
    assert (code, len(found["hits"])) == (0, 2)
    assert found["all"] > 2
    assert (found["hits"][0]["kind"], found["hits"][0]["name"]) == ("variant", "sink")


def test_json_of_a_note(srcmap: Callable[..., tuple[int, str]]) -> None:
    _, out = srcmap("variant", "asc-mha", "--format", "json")
    (note,) = json.loads(out)["variant"]["notes"]
    assert note["corrects_chapter"]
    assert ("tilelang", "v0.1.15") in {(e["repo"], e["pin"]) for e in note["evidence"]}


# -- what cannot be answered -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (["diff", "mha-bhsd"], 2),
        (["diff", "sink", "--base", "nobody"], 2),
        (["compare", "lib"], 2),
        (["concept", "zzzz"], 2),
        (["search", " "], 2),
        (["search", "xqzwvkj"], 1),
        (["diff", "asc-sink"], 1),
        (["diff", "sink", "--pin", "v0.1.15"], 3),
    ],
)
def test_what_cannot_be_answered(
    srcmap: Callable[..., tuple[int, str]], argv: list[str], code: int
) -> None:
    assert srcmap(*argv)[0] == code


def test_a_variant_of_a_newer_pin_says_so(srcmap: Callable[..., tuple[int, str]]) -> None:
    _, out = srcmap("diff", "asc-sink")
    assert "asc-sink has nothing to compare in tilelang-ascend 95acbd7" in out


def test_a_variant_that_no_pin_has_cannot_be_compared(
    srcmap: Callable[..., tuple[int, str]],
) -> None:
    code, out = srcmap("compare", "asc-sink")
    assert code == 1
    assert "asc-sink is not in tilelang-ascend 95acbd7: 95acbd7 does not have this file." in out


def test_any_two_variants_can_be_compared(srcmap: Callable[..., tuple[int, str]]) -> None:
    code, out = srcmap("diff", "sink", "--base", "mha-bhsd")
    assert code == 0
    assert "+ window-start" in out
    assert "+ sink-epilogue" in out


# -- searching -------------------------------------------------------------------------------

CATALOGUE = load_catalogue()
ENTRIES = [e for path in sorted(MAPS.glob("*.json")) for e in decode(path.read_bytes()).entries]
ITEMS = items(CATALOGUE, ENTRIES)


@pytest.mark.parametrize(
    ("asked", "kind", "name"),
    [
        ("sink", "variant", "sink"),
        ("attention sink", "variant", "sink"),
        ("注意力汇", "variant", "sink"),
        ("滑动窗口", "variant", "sliding-window"),
        ("slidng windw", "variant", "sliding-window"),
        ("GQA", "variant", "gqa-bshd"),
        ("flash decodng", "variant", "decode-gqa"),
        ("check_inf", "concept", "check-inf"),
        ("chek inf", "concept", "check-inf"),
        ("因果 mask", "concept", "causal-mask"),
        ("重标度因字", "concept", "rescale-factor"),
        ("ｓｉｎｋ", "variant", "sink"),
        ("combine kernel", "concept", "combine"),
        ("split weights", "concept", "combine-weights"),
        ("page table", "variant", "asc-paged"),
        ("页表", "variant", "asc-paged"),
        (
            "example_mha_sink_fwd_bhsd.py",
            "file",
            "examples/attention_sink/example_mha_sink_fwd_bhsd.py",
        ),
        (
            "example_mha_snk_fwd",
            "file",
            "examples/attention_sink/example_mha_sink_fwd_bhsd.py",
        ),
        ("max_seqlen_q", "note", "gqa-varlen"),
    ],
)
def test_the_best_answer(asked: str, kind: str, name: str) -> None:
    first = search(asked, ITEMS)[0].item
    assert (first.kind, first.name) == (kind, name)


def test_explanations_are_found_in_both_languages() -> None:
    english = {(m.item.kind, m.item.name) for m in search("inf - inf", ITEMS)}
    chinese = {(m.item.kind, m.item.name) for m in search("避免无穷相减", ITEMS)}
    assert ("concept", "check-inf") in english
    assert ("variant", "mha-varlen") in chinese


@pytest.mark.parametrize("asked", ["", "  ", "___", "xqzwvkj", "龘靐"])
def test_nothing_is_like_nonsense(asked: str) -> None:
    assert search(asked, ITEMS) == []


# -- evidence --------------------------------------------------------------------------------


def frozen(name: str) -> SourceMap:
    return decode((MAPS / name).read_bytes())


def test_evidence_is_by_what_a_place_is() -> None:
    variant = CATALOGUE.variant("asc-mha")
    assert variant is not None
    evidence = Evidence(concept="workspace-write", site="operand=S")
    (place,) = seen(evidence, variant, ENTRIES)
    assert place.site == "scope=C operand=S"
    everywhere = Evidence(concept="check-inf-disabled", variant="*")
    assert len({e.path for e in seen(everywhere, variant, ENTRIES)}) == 3
    assert other_pins(
        [Remark(text=Text("", ""), evidence=(Evidence(concept="x", repo="r", pin="1"),))]
    ) == [("r", "1")]


def test_a_note_whose_evidence_is_gone_is_named() -> None:
    from msgspec.structs import replace

    whole = frozen("tilelang-v0.1.14.json")
    assert list(gone(CATALOGUE, whole)) == []
    entries = tuple(
        e for e in whole.entries if (e.variant, e.concept) != ("decode-mha", "partial-lse")
    )
    ((variant, _, evidence),) = gone(CATALOGUE, replace(whole, entries=entries))
    assert (variant.id, evidence.concept) == ("decode-mha", "partial-lse")
    late = frozen("tilelang-v0.1.15.json")
    assert [v.id for v, *_ in gone(CATALOGUE, replace(late, entries=()))] == ["asc-doc", "asc-mha"]
