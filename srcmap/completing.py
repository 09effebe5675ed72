"""The words of a half-typed command line -> what may stand at its end, for any shell.

The shells' scripts (`srcmap completion SHELL`) call srcmap with `_SRCMAP_COMPLETE` set to their
name and the words so far; one candidate comes back on a line, with a word on what it is.
Nothing here may fail or be slow: a candidate that cannot be found is left out.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Any, NamedTuple

from srcmap import i18n

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from srcmap.catalogue import Catalogue

SHELLS = ("bash", "zsh", "fish")
EVERYWHERE = {"--lang": i18n.LANGUAGES, "--width": (), "--no-pager": None}
"""Options that may stand anywhere: their values, or None for a flag."""


class Answer(NamedTuple):
    """One candidate."""

    value: str
    about: str = ""


def complete(command: Any, environ: Mapping[str, str], argv: Sequence[str]) -> str:
    """Return the answer for the shell that `_SRCMAP_COMPLETE` names.

    bash hands over its line, for it cuts words at `:` and `@`; the others hand over words.
    """
    shell = environ["_SRCMAP_COMPLETE"]
    words = _bash_words(environ) if shell == "bash" else list(argv)
    found = list(answers(command, words or [""]))
    return "\n".join(_written(found, shell, words[-1] if words else "", environ))


def _bash_words(environ: Mapping[str, str]) -> list[str]:
    line = environ.get("COMP_LINE", "")
    point = environ.get("COMP_POINT", "")
    line = line[: int(point)] if point.isdecimal() else line
    try:
        words = shlex.split(line)
    except ValueError:  # an open quote
        words = line.split()
    if not line or line[-1].isspace():
        words.append("")
    return words[1:]


def _written(
    found: Iterable[Answer], shell: str, word: str, environ: Mapping[str, str]
) -> Iterator[str]:
    if shell == "bash":
        # bash puts the answer in place of what stands after the last of its word breaks.
        breaks = [c for c in environ.get("COMP_WORDBREAKS", ":=@") if c in ":=@"]
        cut = max((word.rfind(c) + 1 for c in breaks), default=0)
        for answer in found:
            yield re.sub(r"([\s'\"\\$&|;<>()])", r"\\\1", answer.value[cut:])
        return
    for answer in found:
        about = " ".join(answer.about.split())
        if shell == "zsh":
            yield answer.value.replace("\\", "\\\\").replace(":", "\\:") + (about and f":{about}")
        else:
            yield f"{answer.value}\t{about}".rstrip("\t")


# -- what may stand there --------------------------------------------------------------------


def answers(root: Any, words: Sequence[str]) -> Iterator[Answer]:
    """Yield what may stand in place of the last word, which may be empty or half typed."""
    *before, word = words
    where = _Where(root)
    for typed in before:
        where.take(typed)
    found = list(where.candidates(word))
    fitting = [answer for answer in found if answer.value.startswith(word)]
    # File names are known better than folders: the only path with such an end is meant.
    ends = [a for a in found if word and a.value.rpartition("/")[2].startswith(word)]
    yield from fitting or (ends if len(ends) == 1 else ())


class _Where:
    """How far the words lead: which command, how many arguments, which option is open."""

    def __init__(self, root: Any) -> None:
        self._command = root
        self._arguments: list[str] = []
        self._open: Any = None
        self._ended = False

    def take(self, word: str) -> None:
        if self._open is not None:
            self._open = None
        elif word == "--":
            self._ended = True
        elif word.startswith("-") and not self._ended:
            self._open = None if "=" in word else self._option(word)
        elif self._children():
            self._command = self._child(word) or self._command
        else:
            self._arguments.append(word)

    def candidates(self, word: str) -> Iterable[Answer]:
        if self._open is not None:
            return self._values(self._open)
        option, equals, _ = word.partition("=")
        if word.startswith("--") and equals:
            values = self._values(self._option(option))
            return [Answer(f"{option}={a.value}", a.about) for a in values]
        if word.startswith("-") and not self._ended:
            return self._options()
        names = self._children()
        if names:
            return [Answer(name, _about(self._command, name)) for name in names]
        return self._argument()

    def _children(self) -> list[str]:
        if not hasattr(self._command, "list_commands"):
            return []
        return list(self._command.list_commands(None))

    def _child(self, name: str) -> Any:
        return self._command.get_command(None, name) if name in self._children() else None

    def _option(self, word: str) -> Any:
        """Return what takes a value and waits for it: a parameter, or the values themselves."""
        if word in EVERYWHERE:
            return EVERYWHERE[word]
        for param in self._command.params:
            flag = getattr(param, "is_flag", False) or getattr(param, "count", False)
            if word in getattr(param, "opts", ()) and not flag:
                return param
        return None

    def _options(self) -> list[Answer]:
        known = {
            opt: getattr(param, "help", None) or ""
            for param in self._command.params
            for opt in param.opts
            if opt.startswith("--")
        }
        return [Answer(opt, known.get(opt, "")) for opt in {**known, **EVERYWHERE, "--help": None}]

    def _values(self, open_option: Any) -> Iterable[Answer]:
        if open_option is None or isinstance(open_option, tuple):
            return [Answer(value) for value in open_option or ()]
        return self._of(open_option)

    def _argument(self) -> Iterable[Answer]:
        params = [p for p in self._command.params if p.param_type_name == "argument"]
        if not params:
            return []
        at = len(self._arguments)
        if at < len(params):
            return self._of(params[at])
        return self._of(params[-1]) if params[-1].nargs == -1 else []

    def _of(self, param: Any) -> Iterable[Answer]:
        choices = getattr(param.type, "choices", None)
        if choices:
            return [Answer(str(getattr(choice, "value", choice))) for choice in choices]
        meaning = _MEANINGS.get((getattr(self._command, "name", ""), str(param.metavar)))
        meaning = meaning or _MEANINGS.get(("", str(param.metavar)))
        return meaning(self._arguments) if meaning is not None else []


def _about(command: Any, name: str) -> str:
    key = f"cli.about.{name}"
    if i18n.known(key, "en"):
        return i18n.text(key, i18n.language())
    child = getattr(command, "commands", {}).get(name)
    return str(getattr(child, "help", "") or "").partition("\n")[0]


# -- what the words of a help page mean ------------------------------------------------------


def _project() -> Path | None:
    from pathlib import Path

    from srcmap.lock import find_project

    return find_project(Path.cwd())


def _catalogue() -> Catalogue:
    from srcmap.catalogue import load_catalogue

    return load_catalogue(_project())


def _variants(typed: Sequence[str]) -> list[Answer]:  # noqa: ARG001
    lang = i18n.language()
    return [Answer(v.id, v.name.in_language(lang)) for v in _catalogue().variants]


def _concepts(typed: Sequence[str]) -> list[Answer]:
    """All concepts; behind a variant, those that its maps speak of."""
    lang = i18n.language()
    catalogue = _catalogue()
    known = {c.id: Answer(c.id, c.name.in_language(lang)) for c in catalogue.concepts}
    spoken = {e.concept for e in _entries() if typed and e.variant == typed[0]}
    return [answer for name, answer in known.items() if not spoken or name in spoken]


def _entries() -> list[Any]:
    from srcmap.lock import known_locks
    from srcmap.mapfile import find_map

    project = _project()
    maps = (find_map(lock.name, lock.current, project) for lock in known_locks(project))
    return [entry for found in maps if found is not None for entry in found.entries]


def _paths(typed: Sequence[str]) -> list[Answer]:  # noqa: ARG001
    return [Answer(path) for path in sorted({e.path for e in _entries() if e.lines})]


def _repos(typed: Sequence[str]) -> list[Answer]:  # noqa: ARG001
    from srcmap.lock import known_locks

    return [Answer(lock.name, lock.url) for lock in known_locks(_project())]


def _versions(typed: Sequence[str]) -> list[Answer]:  # noqa: ARG001
    from srcmap.lock import known_locks

    pins = [(lock, pin) for lock in known_locks(_project()) for pin in lock.pins]
    bare = [Answer(pin.version, lock.name) for lock, pin in pins]
    return [*bare, *(Answer(f"{lock.name}@{pin.version}") for lock, pin in pins)]


def _versions_of(typed: Sequence[str]) -> list[Answer]:
    """The versions of the repository that is typed before them."""
    name = typed[0] if typed else ""
    return [a for a in _versions(typed) if a.about == name]


def _pins(typed: Sequence[str]) -> list[Answer]:
    return [*_repos(typed), *(answer for answer in _versions(typed) if "@" in answer.value)]


def _shells(typed: Sequence[str]) -> list[Answer]:  # noqa: ARG001
    return [Answer(shell) for shell in SHELLS]


_MEANINGS: dict[tuple[str, str], Callable[[Sequence[str]], list[Answer]]] = {
    ("variant", "[NAME]"): _variants,
    ("concept", "[NAME]"): _concepts,
    ("", "VARIANT"): _variants,
    ("", "VARIANT|FILE"): _variants,
    ("", "CONCEPT"): _concepts,
    ("", "PATH[:LINE[-LINE]]"): _paths,
    ("", "REPO"): _repos,
    ("", "VERSION"): _versions,
    ("", "REPO@VERSION"): _pins,
    ("", "OLD"): _versions_of,
    ("", "NEW"): _versions_of,
    ("", "PATH:A-B"): _paths,
    ("", "[REPO[@VERSION]]..."): _pins,
    ("", "[REPO[@VERSION]]"): _pins,
    ("", "SHELL"): _shells,
}
"""By command and by what the help page calls it."""
