"""Cosmetic mutations give no alarm, one changed literal in a loop bound always gives `changed`."""

from __future__ import annotations

import ast
import random
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from srcmap.checkout import find_checkout
from srcmap.lock import find_project, read_locks
from srcmap.parse import rewrite
from tests.drift.world import KERNEL, judge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from srcmap.checkout import Checkout


CALM = ("same", "moved", "cosmetic")


class Source(NamedTuple):
    """A Python file to mutate."""

    name: str
    text: str


def own_sources() -> list[Source]:
    """Give this project's own modules: real code, and no upstream's."""
    package = Path(__file__).parents[2] / "srcmap"
    names = ("digest.py", "locate.py", "model.py", "cache.py", "i18n.py", "parse/spans.py",
             "lock/read.py", "lock/write.py", "checkout/staging.py", "mapfile.py")  # fmt: skip
    files = [Source(name, (package / name).read_text("utf-8")) for name in names]
    return [Source("kernel.py", KERNEL), *files]


def comments(text: str, chance: random.Random) -> str:
    lines = {n: ["# a remark"] for n in _statements(text) if chance.random() < 0.4}
    return rewrite.insert_lines(text, lines).source


def blanks(text: str, chance: random.Random) -> str:
    lines = {n: [""] for n in _statements(text) if chance.random() < 0.3}
    return rewrite.insert_lines(text, lines).source


def trailing(text: str, chance: random.Random) -> str:
    rows = text.split("\n")
    for n in _simple(text):
        if chance.random() < 0.5:
            rows[n - 1] += "  # noted"
    return "\n".join(rows)


def renamed(text: str, chance: random.Random) -> str:
    return rewrite.rename_locals(text, lambda name, n: f"{name}_x{n}").source


def reflowed(text: str, chance: random.Random) -> str:
    import black

    width = chance.choice((60, 72, 120))
    return black.format_str(text, mode=black.Mode(line_length=width))


MUTATIONS: dict[str, Callable[[str, random.Random], str]] = {
    "comments": comments, "blanks": blanks, "trailing": trailing, "renamed": renamed,
    "reflowed": reflowed,
}  # fmt: skip


@cache
def _tree(text: str) -> ast.Module:
    return ast.parse(text)


def _statements(text: str) -> list[int]:
    """List the first lines of statements within functions, where a line may be put before."""
    found = set()
    for node in ast.walk(_tree(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            found |= {s.lineno for s in node.body[1:] if not getattr(s, "decorator_list", None)}
    return sorted(found)


def _simple(text: str) -> list[int]:
    """List the lines that hold one whole simple statement."""
    return [
        node.lineno
        for node in ast.walk(_tree(text))
        if isinstance(node, (ast.Assign, ast.Return, ast.Expr, ast.AugAssign))
        and node.lineno == node.end_lineno
    ]


def _ranges(text: str, chance: random.Random, count: int) -> Iterator[tuple[int, int]]:
    """Draw whole statements: what somebody would cite."""
    spans = sorted(
        {
            (node.lineno, node.end_lineno or node.lineno)
            for node in ast.walk(_tree(text))
            if isinstance(node, (ast.Assign, ast.Return, ast.For, ast.If, ast.AugAssign, ast.With))
        }
    )
    return iter(chance.sample(spans, min(count, len(spans))))


def alarms(sources: list[Source], per_file: int, seed: int) -> tuple[int, list[str]]:
    chance = random.Random(seed)
    checked, alarmed = 0, []
    for source in sources:
        for name, mutate in MUTATIONS.items():
            try:
                new = mutate(source.text, chance)
            except rewrite.CannotRewriteError:
                continue
            for first, last in _ranges(source.text, chance, per_file):
                answer = judge({"f.py": source.text}, {"f.py": new}, "f.py", first, last)
                checked += 1
                if answer.verdict not in CALM:
                    alarmed.append(f"{source.name}:{first}-{last} {name}: {answer.verdict} "
                                   f"{answer.what}")  # fmt: skip
    return checked, alarmed


def test_cosmetic_mutations_give_no_alarm() -> None:
    checked, alarmed = alarms(own_sources(), per_file=5, seed=5)
    assert checked >= 200
    assert not alarmed


def _bounds(text: str) -> list[tuple[int, str, str]]:
    """List loops with a number in their bound: the line, and the line with another number."""
    found = []
    rows = text.split("\n")
    for node in ast.walk(_tree(text)):
        if not isinstance(node, ast.For):
            continue
        for part in ast.walk(node.iter):
            if isinstance(part, ast.Constant) and type(part.value) is int:
                row = rows[part.lineno - 1]
                new = row[: part.col_offset] + str(part.value + 1) + row[part.end_col_offset :]
                found.append((part.lineno, row, new))
    return found


def seen_literals(sources: list[Source]) -> tuple[int, list[str]]:
    checked, missed = 0, []
    for source in sources:
        for line, _, new in _bounds(source.text):
            rows = source.text.split("\n")
            rows[line - 1] = new
            answer = judge({"f.py": source.text}, {"f.py": "\n".join(rows)}, "f.py", line, line)
            checked += 1
            if answer.verdict != "changed":
                missed.append(f"{source.name}:{line}: {answer.verdict}")
    return checked, missed


def _loops() -> list[Source]:
    """Give kernels of our own with loops of every form."""
    forms = ("range({n})", "range(0, {n}, 2)", "pipelined({n}, num_stages={m})",
             "serial({n})", "parallel(4, {n})", "unroll({m})")  # fmt: skip
    sources = []
    for number in range(12):
        rows = [f"def kernel_{number}(tile):"]
        for n, form in enumerate(forms):
            rows += [f"    for i{n} in {form.format(n=8 * number + n, m=n + 1)}:",
                     f"        step(tile, i{n})"]  # fmt: skip
        sources.append(Source(f"loops_{number}.py", "\n".join(rows) + "\n"))
    return sources


def test_a_literal_in_a_loop_bound_is_always_seen() -> None:
    checked, missed = seen_literals([*_loops(), Source("kernel.py", KERNEL)])
    assert checked >= 102
    assert not missed


# -- on the real kernels ---------------------------------------------------------------------


FOLDERS = ("examples/attention_sink/", "examples/flash_attention/")


def upstream_sources(folders: tuple[str, ...] = FOLDERS, most: int = 12) -> list[Source]:
    root = Path(__file__).parents[2]
    lock = next(lock for lock in read_locks(root / "vendor_locks") if lock.name == "tilelang")
    checkout = find_checkout(lock, lock.current_pin, find_project(Path(__file__)))
    if checkout is None:
        pytest.skip("tilelang is not synced")
    return [Source(p, checkout.read(p).decode("utf-8")) for p in _kernels(checkout, folders, most)]


def _kernels(checkout: Checkout, folders: tuple[str, ...], most: int) -> list[str]:
    paths = [
        p for p in checkout.paths()
        if p.startswith(folders)
        and p.endswith(".py") and "test_" not in p
    ]  # fmt: skip
    return paths[:most]


@pytest.mark.pins
def test_cosmetic_mutations_of_upstream_give_no_alarm() -> None:
    checked, alarmed = alarms(upstream_sources(), per_file=4, seed=55)
    assert checked >= 200
    assert not alarmed


@pytest.mark.pins
def test_literals_in_upstream_loops_are_always_seen() -> None:
    checked, missed = seen_literals(upstream_sources(("examples/",), 160))
    assert checked >= 30
    assert not missed
