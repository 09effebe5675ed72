"""Variant files are read strictly, joined, compiled, and their names are found."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from srcmap.catalogue import COMPILED, Catalogue, Choice, Variant, load_catalogue, resolve
from srcmap.errors import CatalogueError
from srcmap.variantfile import compile_shipped, read_catalogue

if TYPE_CHECKING:
    from pathlib import Path

CONCEPTS = """
format = 1
[sets]
pair = ["causal-mask", "kv-loop"]
[concept.causal-mask]
theme = "masking"
name = { en = "causal mask", zh = "因果 mask" }
what = { en = "Hides.", zh = "遮住。" }
[concept.kv-loop]
theme = "loops"
name = { en = "loop", zh = "循环" }
what = { en = "Loops.", zh = "循环。" }
[concept.sink-load]
theme = "softmax"
name = { en = "sink", zh = "汇" }
what = { en = "Loads.", zh = "读取。" }
"""

VARIANT = """
format = 1
id = "tiny"
name = { en = "Tiny", zh = "小" }
summary = { en = "A tiny one.", zh = "很小。" }
"""

SHIPPED = load_catalogue()


def catalogue_of(folder: Path, **files: str) -> Catalogue:
    (folder / "variants").mkdir(parents=True)
    (folder / "concepts.toml").write_text(CONCEPTS, encoding="utf-8")
    for name, text in files.items():
        (folder / "variants" / f"{name}.toml").write_text(text, encoding="utf-8")
    return read_catalogue(folder)


def test_sets_are_written_out_and_the_file_has_the_last_word(tmp_path: Path) -> None:
    text = VARIANT + (
        'must = ["@pair"]\nmay = ["sink-load"]\n'
        '[[file]]\nrepo = "r"\npath = "a.py"\n'
        '[[file]]\nrepo = "r"\npath = "b.py"\nmust = ["sink-load"]\n'
        'lacks = [{ concept = "kv-loop", why = { en = "No.", zh = "无。" } }]\n'
    )
    (tiny,) = catalogue_of(tmp_path, tiny=text).variants
    first, second = tiny.files
    assert (first.must, first.may) == (("causal-mask", "kv-loop"), ("sink-load",))
    assert (second.must, second.may) == (("sink-load", "causal-mask"), ())
    assert [x.concept for x in second.lacks] == ["kv-loop"]
    lack = tiny.lack("kv-loop")
    assert lack is not None
    assert lack.why is not None
    assert lack.why.in_language("zh") == "无。"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("colour = 1\n", "tiny.toml: colour: unknown key", id="unknown key"),
        pytest.param(
            '[[file]]\nrepo = "r"\npath = "a.py"\nlines = 3\n',
            "tiny.toml: file[0].lines: unknown key",
            id="unknown key in a file",
        ),
        pytest.param(
            'aliases.fr = ["petit"]\n', "tiny.toml: aliases.fr: unknown key", id="third language"
        ),
        pytest.param(
            'must = ["kv-loop", "kv-lop"]\n',
            "tiny.toml: must[1]: no concept is called 'kv-lop'",
            id="unknown concept",
        ),
        pytest.param('own = ["@trio"]\n', "tiny.toml: own[0]: no set is called '@trio'", id="set"),
        pytest.param('base = "huge"\n', "tiny.toml: base: no variant is called 'huge'", id="base"),
        pytest.param(
            'counterparts = ["huge"]\n',
            "tiny.toml: counterparts: no variant is called 'huge'",
            id="counterpart",
        ),
        pytest.param(
            'must = ["kv-loop"]\nlacks = ["kv-loop"]\n[[file]]\nrepo = "r"\npath = "a.py"\n',
            "tiny.toml: lacks: 'kv-loop' stands in 'must' too",
            id="two minds",
        ),
        pytest.param(
            '[[file]]\nrepo = "r"\npath = "../a.py"\n',
            "tiny.toml: file[0].path: '../a.py' is no path relative to the repository's root",
            id="path out of the tree",
        ),
        pytest.param(
            '[[file]]\nrepo = "r"\n', "tiny.toml: file[0].path: this key is required", id="no path"
        ),
        pytest.param("own = 3\n", "tiny.toml: own: expected `array`, got `int`", id="wrong type"),
        pytest.param("own = [\n", "tiny.toml: not well-formed TOML: ", id="not TOML"),
    ],
)
def test_a_bad_file_is_named_with_its_key(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(CatalogueError) as caught:
        catalogue_of(tmp_path, tiny=VARIANT + text)
    assert f"variants/{problem}" in caught.value.message.replace("\\", "/")


def test_what_a_set_brings_yields_to_a_name_that_is_written_out(tmp_path: Path) -> None:
    text = VARIANT + (
        'must = ["@pair"]\nmay = ["@pair", "sink-load"]\nlacks = ["kv-loop"]\n'
        '[[file]]\nrepo = "r"\npath = "a.py"\n'
    )
    (tiny,) = catalogue_of(tmp_path, tiny=text).variants
    (file,) = tiny.files
    assert (file.must, file.may) == (("causal-mask",), ("sink-load",))
    assert [x.concept for x in file.lacks] == ["kv-loop"]


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match=r"format: version 2 is newer than this srcmap reads"):
        catalogue_of(tmp_path, tiny=VARIANT.replace("format = 1", "format = 2"))


def test_the_file_is_named_as_the_variant(tmp_path: Path) -> None:
    with pytest.raises(CatalogueError, match=r"id: 'tiny' does not agree with the file's name"):
        catalogue_of(tmp_path, small=VARIANT)


def test_a_project_adds_variants(tmp_path: Path) -> None:
    folder = tmp_path / "srcmap-variants"
    folder.mkdir()
    text = VARIANT + 'base = "sink"\nown = ["sink-load"]\n[[file]]\nrepo = "ours"\npath = "a.py"\n'
    (folder / "tiny.toml").write_text(text, encoding="utf-8")
    joined = load_catalogue(tmp_path)
    assert len(joined.variants) == len(SHIPPED.variants) + 1
    assert joined.repos() == ("ours", "tilelang", "tilelang-ascend")
    assert isinstance(resolve(joined, "Tiny"), Variant)


def test_a_project_says_where_its_variants_are(tmp_path: Path) -> None:
    (tmp_path / ".srcmap.toml").write_text('variants = "kernels/map"\n', encoding="utf-8")
    folder = tmp_path / "kernels" / "map"
    folder.mkdir(parents=True)
    (folder / "tiny.toml").write_text(VARIANT, encoding="utf-8")
    assert load_catalogue(tmp_path).variant("tiny") is not None


def test_a_project_cannot_take_a_shipped_name(tmp_path: Path) -> None:
    folder = tmp_path / "srcmap-variants"
    folder.mkdir()
    (folder / "sink.toml").write_text(VARIANT.replace('"tiny"', '"sink"'), encoding="utf-8")
    with pytest.raises(CatalogueError, match="id: 'sink' is already a shipped variant"):
        load_catalogue(tmp_path)


def test_the_compiled_catalogue_is_current() -> None:
    assert COMPILED.read_bytes() == compile_shipped(), "run `srcmap map build`"


def test_every_shipped_text_is_said_in_both_languages() -> None:
    texts = [t for c in SHIPPED.concepts for t in (c.name, c.what)]
    texts += [t for v in SHIPPED.variants for t in (v.name, v.summary)]
    texts += [note.text for v in SHIPPED.variants for note in v.notes]
    texts += [x.why for v in SHIPPED.variants for f in v.files for x in f.lacks if x.why]
    for text in texts:
        assert text.en.strip() == text.en != ""
        assert text.zh.strip() == text.zh != ""
        assert not re.search(r"[\u4e00-\u9fff]", text.en)
    for long in (*(c.what for c in SHIPPED.concepts), *(v.summary for v in SHIPPED.variants)):
        assert re.search(r"[\u4e00-\u9fff]", long.zh)
        assert "\n" not in long.en + long.zh


def test_what_makes_a_variant_is_asked_of_its_files() -> None:
    for variant in SHIPPED.variants:
        asked = {c for f in variant.files for c in (*f.must, *f.may)}
        assert set(variant.own) <= asked, variant.id


# -- names ----------------------------------------------------------------------------------

every_name = [
    (name, variant.id)
    for variant in SHIPPED.variants
    for name in (variant.id, variant.name.en, variant.name.zh, *variant.aliases)
]


def offered(word: str) -> list[str]:
    answer = resolve(SHIPPED, word)
    return [answer.id] if isinstance(answer, Variant) else [v.id for v in answer.variants]


@pytest.mark.parametrize(
    ("word", "first"),
    [
        ("sink", "sink"), ("attention sink", "sink"), ("Attention_Sink", "sink"),
        ("注意力汇", "sink"), ("snik", "sink"), ("滑动窗口", "sliding-window"),
        ("window", "sliding-window"), ("gqa", "gqa-bshd"), ("GQA varlen", "gqa-varlen"),
        ("gqa-varlen", "gqa-varlen"), ("mha", "mha-bhsd"), ("causal", "causal"),
        ("slidng window", "sliding-window"), ("昇腾", "asc-mha"),
    ],
)  # fmt: skip
def test_names_that_people_type(word: str, first: str) -> None:
    assert offered(word)[0] == first


@pytest.mark.parametrize(
    ("word", "some"),
    [
        ("varlen", {"mha-varlen", "gqa-varlen"}),
        ("paged", {"asc-paged", "paged-gqa", "paged-mla"}),
        ("decode", {"decode-mha", "decode-gqa"}),
        ("split-KV", {"decode-mha", "decode-gqa"}),
    ],
)
def test_a_shared_name_offers_all_who_bear_it(word: str, some: set[str]) -> None:
    answer = resolve(SHIPPED, word)
    assert isinstance(answer, Choice)
    assert answer.shared
    assert {v.id for v in answer.variants} >= some


@pytest.mark.parametrize("word", ["", "   ", "--", "xyzzyplugh", "🙂"])
def test_nothing_near_is_said_plainly(word: str) -> None:
    assert offered(word) == []


@pytest.mark.parametrize(("word", "owner"), every_name)
def test_every_name_is_found_as_it_is_written(word: str, owner: str) -> None:
    assert owner in offered(word), "another variant's id is the same word"


@given(st.sampled_from(every_name), st.booleans(), st.sampled_from(["", " ", "  ", "-", "_"]))
def test_every_name_finds_its_variant(name: tuple[str, str], upper: bool, gap: str) -> None:
    word, owner = name
    if gap:
        word = re.sub(r"[\s_-]+", gap, word)
    assert owner in offered(word.upper() if upper else word)


@given(st.sampled_from(SHIPPED.variants))
def test_an_id_means_one_variant(variant: Variant) -> None:
    assert resolve(SHIPPED, variant.id) is variant


@given(st.text(max_size=40))
def test_no_word_is_too_odd(word: str) -> None:
    resolve(SHIPPED, word)


def test_a_page_lists_its_own_concepts_first() -> None:
    sink = SHIPPED.variant("sink")
    assert sink is not None
    order = SHIPPED.in_order(sink, ["normalise", "sink-epilogue", "softmax-scale", "sink-load"])
    assert order == ["sink-load", "sink-epilogue", "softmax-scale", "normalise"]
