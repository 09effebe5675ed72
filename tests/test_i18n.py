"""Sentences: look-up, fall-back, and that both languages say the same things."""

from __future__ import annotations

import json
import string
from typing import TYPE_CHECKING

import pytest

from srcmap import i18n
from srcmap.i18n import default_language, say
from srcmap.model import Note

if TYPE_CHECKING:
    from pathlib import Path

AREAS = sorted({path.name.split(".")[0] for path in i18n.TEXT_FOLDER.glob("*.json")})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A text folder of our own; the real one is back, with a clean cache, afterwards."""
    monkeypatch.setattr(i18n, "TEXT_FOLDER", tmp_path)
    i18n._area.cache_clear()
    monkeypatch.setattr(i18n, "_area", i18n._area.__wrapped__)
    return tmp_path


def write(folder: Path, name: str, sentences: dict[str, str]) -> None:
    (folder / name).write_text(json.dumps(sentences, ensure_ascii=False), encoding="utf-8")


def test_a_sentence_takes_its_arguments(folder: Path) -> None:
    write(folder, "pins.en.json", {"pins.none": "no pin named {pin}"})
    assert say(Note("pins.none", {"pin": "v9"}), "en") == "no pin named v9"


def test_a_language_that_lacks_a_sentence_says_it_in_english(folder: Path) -> None:
    write(folder, "pins.en.json", {"pins.none": "no pin named {pin}"})
    write(folder, "pins.zh.json", {"pins.other": "别的"})
    assert say(Note("pins.none", {"pin": "v9"}), "zh") == "no pin named v9"
    assert say(Note("pins.other"), "zh") == "别的"


@pytest.mark.parametrize("key", ["pins.none", "none", "a/../b.c", "x\0.y"])
def test_an_unknown_key_says_itself(folder: Path, key: str) -> None:
    assert say(Note(key), "zh") == key


def test_an_unknown_key_keeps_its_arguments(folder: Path) -> None:
    assert say(Note("a.b", {"x": "1"}), "en") == "a.b (x=1)"


def test_values_are_not_looked_into(folder: Path) -> None:
    write(folder, "a.en.json", {"a.b": "{x} and {y}"})
    assert say(Note("a.b", {"x": "{y}"}), "en") == "{y} and {y}"


@pytest.mark.parametrize(
    ("environ", "lang"),
    [
        ({}, "en"),
        ({"LANG": "zh_CN.UTF-8"}, "zh"),
        ({"LANG": "zh_CN.UTF-8", "LC_ALL": "C"}, "en"),
        ({"LC_MESSAGES": "zh_TW", "LANG": "en_US"}, "zh"),
        ({"LC_ALL": "", "LANG": "zh"}, "zh"),
        ({"LANG": "de_DE"}, "en"),
    ],
)
def test_the_language_is_the_locales(environ: dict[str, str], lang: str) -> None:
    assert default_language(environ) == lang


def sentences(area: str, lang: str) -> dict[str, str]:
    path = i18n.TEXT_FOLDER / f"{area}.{lang}.json"
    assert path.is_file(), f"{path.name} is missing"

    def no_twins(pairs: list[tuple[str, str]]) -> dict[str, str]:
        keys = [key for key, _ in pairs]
        assert len(keys) == len(set(keys)), f"{path.name} has a key twice"
        return dict(pairs)

    found: dict[str, str] = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=no_twins)
    return found


def placeholders(sentence: str) -> set[str]:
    parts = list(string.Formatter().parse(sentence))
    assert all(not spec and not conversion for _, _, spec, conversion in parts), sentence
    return {name for _, name, _, _ in parts if name is not None}


@pytest.mark.parametrize("area", AREAS)
def test_both_languages_have_the_same_sentences(area: str) -> None:
    english, chinese = sentences(area, "en"), sentences(area, "zh")
    assert english.keys() == chinese.keys()
    for key, sentence in english.items():
        assert key.partition(".")[0] == area, f"{key} stands in the wrong file"
        assert sentence.strip(), f"{key} is empty"
        assert chinese[key].strip(), f"{key} is empty in Chinese"
        assert placeholders(sentence) == placeholders(chinese[key]), key
