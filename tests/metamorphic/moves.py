"""The moves under which anatomy must not change its mind, each from (source, reading, seed)."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable

import black

from srcmap.model import FileAnatomy, Site
from srcmap.parse import rewrite
from srcmap.parse.rewrite import Pair, Rewritten

Move = Callable[[str, FileAnatomy, int], Rewritten]

# A file that imports tilelang too, under other names, and has a function of the same shape.
OTHER = '''\
"""Some other file."""
import functools

import numpy as np
import torch
from tilelang import language as T_other

scale, K, block_N = 3, None, 7


@functools.lru_cache
def softmax(scores, lengths=()):
    peak = scores.max(-1, keepdims=True)
    weight = np.exp(scores - peak)
    return weight / weight.sum(-1, keepdims=True)


def reference(q, k, v):
    for n in range(len(k)):
        scores = q @ k[n].T
        if n > 3:
            scores = torch.where(scores > 0, scores, -float("inf"))
        q = softmax(scores) @ v[n]
    return T_other.exp2(q)
'''


def _rename(source: str, reading: FileAnatomy, seed: int) -> Rewritten:
    return rewrite.rename_locals(source, everything=True)


def _rename_runnable(source: str, reading: FileAnatomy, seed: int) -> Rewritten:
    return rewrite.rename_locals(source, lambda _, n: f"acc_s_max_K_{n}")


def _rename_definitions(source: str, reading: FileAnatomy, seed: int) -> Rewritten:
    return rewrite.rename_definitions(source)


def _permute(source: str, reading: FileAnatomy, seed: int) -> Rewritten:
    """Give each variable the name of another one, so that every name lies."""
    names = sorted(rewrite.local_names(source))
    turned = names[1 + seed % max(1, len(names) - 1) :]
    others = dict(zip(names, turned + names[: len(names) - len(turned)], strict=True))
    return rewrite.rename_locals(source, lambda name, _: others.get(name, name), everything=True)


def _alias(source: str, reading: FileAnatomy, seed: int) -> Rewritten:
    return rewrite.rename_alias(source, "torch_nn_functional")


def _black(width: int) -> Move:
    def move(source: str, reading: FileAnatomy, seed: int) -> Rewritten:
        mode = black.Mode(line_length=width)
        return rewrite.reformat(source, lambda text: black.format_str(text, mode=mode))

    return move


def _comments(source: str, reading: FileAnatomy, seed: int) -> Rewritten:
    """Put commented-out code from elsewhere in the file, and lies, before statements."""
    chance = random.Random(seed)
    lies = ["the running maximum", "causal mask: q >= k", "for k in T.Pipelined(0, 4):", "", "}"]
    texts = [*_code_lines(source, reading), *lies]

    def comment(_: int) -> list[str]:
        return [chance.choice(texts) for _ in range(chance.choice([0, 1, 1, 3]))]

    return rewrite.comment_statements(source, comment)


def _code_lines(source: str, reading: FileAnatomy) -> list[str]:
    """The file's lines of code, except the check that is a concept even as a comment."""
    checks = [s.lines for s in _sites(reading) if s.concept.startswith("check-inf")]
    lines = enumerate(source.split("\n"), start=1)
    kept = [t.strip() for n, t in lines if not any(c.first <= n <= c.last for c in checks)]
    return [text for text in kept if text and text.isprintable()]


def _dead(made: Callable[[str, list[str]], list[str]]) -> Move:
    """Put copies of the kernels' own statements where they never run, or are only text."""
    return lambda source, _, seed: _with_copies(source, seed, made)


def _with_copies(source: str, seed: int, made: Callable[[str, list[str]], list[str]]) -> Rewritten:
    chance = random.Random(seed)
    lines, texts = source.split("\n"), dict[int, list[str]]()
    for statement in _kernel_statements(source):
        first, last = statement.lineno, statement.end_lineno or statement.lineno
        indent = " " * statement.col_offset
        copy = [line.rstrip("\r") for line in lines[first - 1 : last]]
        if lines[first - 1][: len(indent)] == indent and chance.random() < 0.3:
            texts[first] = made(indent, copy)
    return rewrite.insert_lines(source, texts)


def _never(indent: str, copy: list[str]) -> list[str]:
    return [f"{indent}if False:", *(f"    {line}" if line.strip() else line for line in copy)]


def _text(indent: str, copy: list[str]) -> list[str]:
    quotes = 3 * "'"
    if any(quotes in line or "\\" in line for line in copy):
        return []
    return [indent + quotes, *copy, indent + quotes]


def _kernel_statements(source: str) -> list[ast.stmt]:
    """The statements of kernels that can be copied line by line."""
    return [
        statement
        for kernel in ast.walk(ast.parse(source))
        if isinstance(kernel, ast.With) and "Kernel(" in ast.unparse(kernel.items[0])
        for statement in ast.walk(kernel)
        if isinstance(statement, (ast.Assign, ast.AugAssign, ast.For))
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call))
    ]


def _swap(source: str, reading: FileAnatomy, seed: int) -> Rewritten:
    """Exchange as many neighbours as do not overlap, in a random order."""
    pairs = [p for p in rewrite.independent_pairs(source) if _keeps_sites(p, _sites(reading))]
    random.Random(seed).shuffle(pairs)
    chosen, taken = list[Pair](), set[int]()
    for pair in pairs:
        lines = set(range(pair.first.first, pair.second.last + 1))
        if not lines & taken:
            taken |= lines
            chosen.append(pair)
    return rewrite.swap(source, chosen)


def _keeps_sites(pair: Pair, sites: list[Site]) -> bool:
    """Whether no run of several statements would be torn apart or added to.

    A span is a run of neighbours, so an exchange may change it by right; what is exchanged here
    lies in one and the same span, or is a span of its own with no twin nearby, or is in none.
    """
    for site in sites:
        both = site.lines.first <= pair.first.first and pair.second.last <= site.lines.last
        alone = site.lines in (pair.first, pair.second)
        if not both and (_near(site, pair, 0) and not alone):
            return False
        if alone and any(
            s.concept == site.concept and _near(s, pair, 4) for s in sites if s != site
        ):
            return False
    return True


def _near(site: Site, pair: Pair, lines: int) -> bool:
    """Whether a site touches the pair, or comes within some lines of it."""
    first, last = pair.first.first - lines, pair.second.last + lines
    return site.lines.first <= last and first <= site.lines.last


def _wrap(source: str, reading: FileAnatomy, seed: int) -> Rewritten:
    return rewrite.wrap(source, "enclosing")


def _append(source: str, reading: FileAnatomy, seed: int) -> Rewritten:
    return rewrite.append_to(OTHER, source)


def _sites(reading: FileAnatomy) -> list[Site]:
    return [site for kernel in reading.kernels for site in kernel.sites]


MOVES: dict[str, Move] = {
    "rename": _rename,
    "rename-runnable": _rename_runnable,
    "rename-definitions": _rename_definitions,
    "permute-names": _permute,
    "alias": _alias,
    "black-60": _black(60),
    "black-120": _black(120),
    "comments": _comments,
    "dead-code": _dead(_never),
    "dead-text": _dead(_text),
    "swap": _swap,
    "wrap": _wrap,
    "append": _append,
}

# Comments keep the old names, so what stands in them is not compared after these.
RENAMING = {"rename", "rename-runnable", "rename-definitions", "permute-names", "alias"}
