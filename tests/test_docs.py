"""The documents say what the program does: help pages, slugs, fragments, links between pages."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from srcmap import cli, i18n

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PACKAGE = ROOT / "srcmap"
KINDS = ("feature", "bugfix", "doc", "removal", "misc")


def help_of(*argv: str) -> str:
    """Return a help page as an 80-column terminal shows it."""
    environ = {**os.environ, "COLUMNS": "80", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    argv = (sys.executable, "-m", "srcmap", *argv, "--help")
    return subprocess.run(
        argv, capture_output=True, encoding="utf-8", check=True, env=environ, cwd=ROOT
    ).stdout.rstrip()


def subcommands(page: str) -> list[str]:
    """Return the names in the section `Commands` of a help page."""
    section = re.search(r"^Commands\n((?:  .*\n?)+)", page, re.MULTILINE)
    return re.findall(r"^  ([a-z-]+)", section[1], re.MULTILINE) if section else []


def test_cli_page_is_current() -> None:
    path = DOCS / "cli.md"
    text = path.read_text(encoding="utf-8")
    head = text[: text.index("## `srcmap`")]
    parts = [head + "## `srcmap`\n\n```text\n" + help_of() + "\n```\n"]
    for name in cli.COMMANDS:
        page = help_of(name)
        parts.append(f"## `srcmap {name}`\n\n```text\n{page}\n```\n")
        for child in subcommands(page):
            page = help_of(name, child)
            parts.append(f"### `srcmap {name} {child}`\n\n```text\n{page}\n```\n")
    actual = "\n".join(parts)
    rejected = path.with_suffix(".md.actual")
    if actual == text:
        rejected.unlink(missing_ok=True)
        return
    rejected.write_text(actual, encoding="utf-8")
    pytest.fail(f"docs/cli.md lags behind; accept: mv {rejected} {path}", pytrace=False)


def slugs() -> set[str]:
    """Return every slug that the package gives to an error."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.keyword) and node.arg == "slug":
                found |= {
                    part.value
                    for part in ast.walk(node.value)
                    if isinstance(part, ast.Constant) and isinstance(part.value, str)
                }
    return found


def test_every_slug_has_its_section() -> None:
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert sections == sorted(slugs())


@pytest.mark.parametrize("lang", i18n.LANGUAGES)
def test_every_slug_has_its_sentence(lang: str) -> None:
    for slug in slugs():
        assert i18n.known(f"errors.{slug}", lang), slug


def test_fragments_are_one_line_of_a_known_kind() -> None:
    for path in (DOCS / "changes").iterdir():
        assert re.fullmatch(rf"[a-z0-9-]+\.({'|'.join(KINDS)})\.md", path.name), path.name
        assert path.read_text(encoding="utf-8").strip().count("\n") == 0, path.name


def test_decisions_are_numbered_without_a_gap() -> None:
    numbers = [int(path.name[:4]) for path in sorted((DOCS / "decisions").glob("*.md"))]
    assert numbers == list(range(1, len(numbers) + 1))


PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


@pytest.mark.parametrize("path", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pages_name_files_that_are_there(path: Path) -> None:
    text = re.sub(r"```.*?```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    for target in re.findall(r"\]\((?!https?:|#)([^)#]+)(?:#[^)]*)?\)", text):
        assert (path.parent / target).exists(), target
    for name in re.findall(r"`((?:docs|tests|benchmarks|vendor_locks)/[\w./-]+)`", text):
        assert (ROOT / name).exists(), name


def keys_in_code() -> set[str]:
    """Return the keys that the code says by a literal."""
    found = set()
    areas = {path.name.split(".")[0] for path in i18n.TEXT_FOLDER.glob("*.json")}
    pattern = re.compile(r"([a-z]+)\.[a-z][a-z0-9.-]*\Z")
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Call) and _says(node):
                for argument in (*node.args, *(k.value for k in node.keywords)):
                    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
                        match = pattern.match(argument.value)
                        if match and match[1] in areas:
                            found.add(argument.value)
    return found


def _says(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in ("Note", "text", "said", "say", "Option", "Argument", "command")


def test_what_the_code_says_has_a_sentence() -> None:
    silent = sorted(key for key in keys_in_code() if not i18n.known(key, "en"))
    assert not silent
