"""Sentences in the reader's language: a `Note` and a language in, a line of text out.

The sentences stand in `data/text/<area>.<lang>.json`, one flat object of `key: sentence` each.
The area is the key up to its first dot (`pins.no-such-pin` stands in `pins.en.json`), and a file
is read when the first sentence of its area is said. `{name}` in a sentence is replaced by the
argument of that name; argument values are never looked into, so braces in them are safe.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from srcmap.model import Note

if TYPE_CHECKING:
    from collections.abc import Mapping

LANGUAGES = ("en", "zh")
"""What `--lang` accepts. English is complete; what another language lacks is said in English."""

# Not importlib.resources: it costs 5 ms at every start, and a wheel is always unpacked.
TEXT_FOLDER = Path(__file__).parent / "data" / "text"


def say(note: Note, lang: str) -> str:
    """Say `note` in `lang`, else in English, else its key.

    A placeholder without an argument stays as it is written; nothing here raises for bad text.
    """
    sentence = _sentence(note.key, lang)
    if sentence is None:
        return _bare(note)
    return sentence.format_map(_Arguments(note.args)) if "{" in sentence else sentence


def text(key: str, lang: str, **args: object) -> str:
    """`say` for sentences whose arguments are at hand."""
    return say(Note(key, {name: str(value) for name, value in args.items()}), lang)


def known(key: str, lang: str) -> bool:
    """Whether a sentence stands under `key`, in `lang` or in English."""
    return _sentence(key, lang) is not None


def default_language(environ: Mapping[str, str] | None = None) -> str:
    """Read the language off the locale: LC_ALL, LC_MESSAGES or LANG; English when unknown."""
    values = os.environ if environ is None else environ
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        if locale := values.get(name):
            return "zh" if locale.lower().startswith("zh") else "en"
    return "en"


def use(lang: str) -> None:
    """Set the language of this process; the command line does so once, before any command."""
    _chosen[0] = lang


def language() -> str:
    """Return the language of this process. For command callbacks; `run` functions take `lang`."""
    return _chosen[0]


_chosen = ["en"]


def _sentence(key: str, lang: str) -> str | None:
    area = key.partition(".")[0]
    found = _area(area, lang).get(key)
    return found if found is not None or lang == "en" else _area(area, "en").get(key)


def _bare(note: Note) -> str:
    """Show a note that nobody has written a sentence for: its key and what it carries."""
    carried = ", ".join(f"{name}={value}" for name, value in note.args.items())
    return f"{note.key} ({carried})" if carried else note.key


class _Arguments(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "{" + name + "}"


@cache
def _area(area: str, lang: str) -> dict[str, str]:
    path = TEXT_FOLDER / f"{area}.{lang}.json"
    try:
        data = path.read_bytes()
    except (OSError, ValueError):  # no such area, or a key that cannot be a file name
        return {}
    return msgspec.json.decode(data, type=dict[str, str])
