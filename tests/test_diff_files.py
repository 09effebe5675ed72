"""`srcmap diff FILE --base FILE`: strings first, then our ladder, then what people get wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from srcmap import cli, i18n
from srcmap.errors import ParseError
from srcmap.filediff import MODULE, Function, Reading, contrasted, functions, read
from srcmap.model import Lines
from tests.test_render import compare

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
STEPS = ("naive", "blocked", "pipelined", "aligned")
PAIRS = list(pairwise(STEPS))

BASE = '''
"""A file."""

import math


def attend(q, k, block=64):
    scale = 2
    # concept: qk-gemm
    s = dot(q, k)
    # concept: row-max
    m = s.max(axis=1)

    return s - m
'''


def _alone(name: str) -> bytes | None:
    """No file lies beside it."""
    return None


def reading(text: str, path: str = "a.py") -> Reading:
    return read(text.encode(), path, _alone)


def kinds(before: str, after: str) -> dict[str, str]:
    return {d.concept: d.kind for d in contrasted(reading(before), reading(after, "b.py"))}


def by_function(before: str, after: str) -> list[Function]:
    return functions(reading(before), reading(after, "b.py"))


# -- regions ---------------------------------------------------------------------------------


def test_a_file_against_itself_is_alike() -> None:
    assert kinds(BASE, BASE) == {"qk-gemm": "same", "row-max": "same"}
    assert by_function(BASE, BASE) == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("s = dot(q, k)", "s = dot(\n        q,\n        k,\n    )"),
        ("s = dot(q, k)", "s = dot(q, k)  # the scores"),
        ("    scale = 2\n", "\n    # why two\n    scale = 2\n\n"),
        ("    scale = 2\n", '    """Do it."""\n    scale = 2\n'),
        ("scale", "factor"),
        ('"""A file."""\n', ""),
        ("import math\n", "import math\nimport cmath\n"),
    ],
)
def test_layout_comments_and_names_are_no_difference(old: str, new: str) -> None:
    other = BASE.replace(old, new)
    assert other != BASE
    assert set(kinds(BASE, other).values()) == {"same"}
    assert by_function(BASE, other) == []


def test_locals_may_be_renamed_everywhere() -> None:
    other = BASE.replace("s = ", "scores = ").replace("s.max", "scores.max")
    other = other.replace("return s - m", "return scores - m")
    assert set(kinds(BASE, other).values()) == {"same"}
    assert by_function(BASE, other) == []


def test_a_region_on_one_side_is_added_or_dropped() -> None:
    other = BASE.replace("# concept: row-max", "# concept: row-sum")
    assert kinds(BASE, other) == {"qk-gemm": "same", "row-sum": "added", "row-max": "dropped"}


def test_a_statement_that_does_more_is_changed() -> None:
    other = BASE.replace("# concept: row-max", "# concept: row-max, row-sum")
    assert kinds(BASE, other) == {"qk-gemm": "same", "row-sum": "added", "row-max": "changed"}


def test_other_code_in_the_same_role_claims_no_more() -> None:
    assert kinds(BASE, BASE.replace(".max(", ".min("))["row-max"] == "rewritten"


def test_an_id_that_nobody_knows_is_compared_all_the_same() -> None:
    other = BASE.replace("row-max", "my-own-idea")
    assert kinds(BASE, other)["my-own-idea"] == "added"


def test_an_operator_inside_a_region_is_no_matter_of_its_function() -> None:
    assert by_function(BASE, BASE.replace(".max(", ".min(")) == []


# -- functions -------------------------------------------------------------------------------


def test_functions_come_and_go() -> None:
    other = BASE + "\n\ndef more():\n    return 1\n"
    assert [(f.name, f.kind, f.after) for f in by_function(BASE, other)] == [
        ("more", "added", (Lines(17, 18),))
    ]
    assert [(f.name, f.kind, f.before) for f in by_function(other, BASE)] == [
        ("more", "dropped", (Lines(17, 18),))
    ]


def test_parameters_come_go_and_change_their_default() -> None:
    other = BASE.replace("k, block=64", "v, *, block=128, **rest")
    (found,) = by_function(BASE, other)
    assert found.gained == ("v", "block=128", "**rest")
    assert found.lost == ("k", "block=64")
    assert not found.after


def test_statements_outside_regions_are_compared_one_by_one() -> None:
    other = BASE.replace("scale = 2", "scale = 3\n    if scale:\n        q = q + 1")
    (found,) = by_function(BASE, other)
    assert (found.name, found.kind) == ("attend", "changed")
    assert (found.after, found.before) == ((Lines(8, 10),), (Lines(8, 8),))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scale = 2\n    other = [1]", "other = [1]\n    scale = 2"),
        ("return s - m", "return m - s"),
        ("dot(q, k)", "dot(k, q)"),
    ],
)
def test_another_order_and_names_exchanged_are_said_of_the_function(old: str, new: str) -> None:
    before = BASE.replace("scale = 2", "scale = 2\n    other = [1]")
    (found,) = by_function(before, before.replace(old, new))
    assert (found.name, found.kind, found.rearranged) == ("attend", "changed", True)
    assert found.after == found.before == (Lines(7, 15),)


def test_one_of_two_alike_is_missed() -> None:
    before = BASE.replace("scale = 2", "scale = 2\n    other = 2")
    (found,) = by_function(before, BASE)
    assert (found.after, found.before) == ((), (Lines(9, 9),))


def test_methods_and_what_is_outside_functions() -> None:
    before = BASE + "\nLOG = 1\n\n\nclass A:\n    size = 1\n\n    def f(self):\n        return 1\n"
    after = before.replace("LOG = 1", "LOG = 2").replace("return 1", "return 2")
    found = by_function(before, after.replace("size = 1", "size = 3"))
    assert {f.name for f in found} == {MODULE, "A", "A.f"}


def test_every_kind_of_block_is_looked_into() -> None:
    body = """
    try:
        with q as k: a = 1
        while k:
            b = 1
        else:
            c = 1
    except ValueError:
        d = 1
    finally:
        e = 1
    return s - m
"""
    before = BASE.replace("\n    return s - m\n", body)
    for name in "abcde":
        (found,) = by_function(before, before.replace(f"{name} = 1", f"{name} = 2"))
        (run,) = found.after
        assert f"{name} = 1" in before.split("\n")[run.first - 1]


def test_what_does_not_parse_cannot_be_judged() -> None:
    with pytest.raises(ParseError):
        by_function(BASE, BASE + "\nx = (\n")


# -- kernels ---------------------------------------------------------------------------------

KERNEL = """
import tilelang.language as T

@T.prim_func
def main(Q: T.Tensor((64, 64), "float16"), K: T.Tensor((64, 64), "float16"),
         S: T.Tensor((64, 64), "float16")):
    with T.Kernel(1, threads=128) as bx:
        q = T.alloc_shared((64, 64), "float16")
        k = T.alloc_shared((64, 64), "float16")
        s = T.alloc_fragment((64, 64), "float")
        m = T.alloc_fragment((64,), "float")
        T.copy(Q, q)
        T.copy(K, k)
        T.clear(s)
        T.gemm(q, k, s, transpose_B=True)
        T.reduce_max(s, m, dim=1, clear=True)
        for i, j in T.Parallel(64, 64):
            s[i, j] = T.exp2(s[i, j] - m[i])
        T.copy(s, S)
"""


def test_kernels_are_compared_without_any_comment() -> None:
    before = reading(KERNEL)
    assert before.holds == "kernels"
    after = reading(KERNEL.replace("s[i, j] - m[i]", "s[i, j] * 2 - m[i]"), "b.py")
    found = {d.concept: d.kind for d in contrasted(before, after)}
    assert (found["row-max"], found["probability"]) == ("same", "rewritten")
    assert set(contrast_of(KERNEL.replace("bx", "by"))) == {"same"}


def contrast_of(text: str) -> list[str]:
    return [d.kind for d in contrasted(reading(KERNEL), reading(text, "b.py"))]


def test_a_kernel_goes_before_comments() -> None:
    assert (
        reading(
            KERNEL.replace("        T.clear", "        # concept: row-sum\n        T.clear")
        ).holds
        == "kernels"
    )


def test_between_kernels_and_regions_only_roles_are_compared() -> None:
    ours = BASE.replace("row-max", "kernel-grid")
    found = {d.concept: d.kind for d in contrasted(reading(KERNEL), reading(ours, "b.py"))}
    assert found["kernel-grid"] == "same"


# -- the command -----------------------------------------------------------------------------


@pytest.fixture
def srcmap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    shutil.copytree(ROOT / "kernels" / "mha" / "ladder", tmp_path / "ladder")
    (tmp_path / "vendor_locks").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in ("COLUMNS", "LC_ALL", "LC_MESSAGES", "FORCE_COLOR", "FORCE_HYPERLINK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    monkeypatch.setattr(i18n, "_chosen", ["en"])

    def run(*argv: str, columns: int | None = None) -> tuple[int, str, str]:
        if columns is not None:
            monkeypatch.setenv("COLUMNS", str(columns))
        capsys.readouterr()
        code = cli.run(["diff", *argv])
        return (code, *capsys.readouterr())

    return run


def step(before: str, after: str) -> list[str]:
    return [f"ladder/{after}.py", "--base", f"ladder/{before}.py"]


@pytest.mark.parametrize("lang", i18n.LANGUAGES)
@pytest.mark.parametrize("width", [80, 140, None])
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_the_ladder_in_text(
    srcmap: Callable[..., tuple[int, str, str]],
    pair: tuple[str, str],
    width: int | None,
    lang: str,
) -> None:
    code, out, _ = srcmap(*step(*pair), "--lang", lang, columns=width)
    assert code == 0
    compare(f"diff-files-{pair[1]}.{lang}.{width or 'pipe'}.txt", out.rstrip("\n"))


@pytest.mark.parametrize("lang", i18n.LANGUAGES)
def test_the_ladder_in_markdown(srcmap: Callable[..., tuple[int, str, str]], lang: str) -> None:
    code, out, _ = srcmap(*step("naive", "blocked"), "--lang", lang, "--format", "markdown")
    assert code == 0
    compare(f"diff-files-blocked.{lang}.md", out.rstrip("\n"))


IDEAS = {
    "blocked": (
        {"state-init", "kv-loop", "rescale-factor", "denominator", "acc-rescale"},
        {"row-sum", "pv-gemm"},
        {"attention": ["block_n=64"]},
    ),
    "pipelined": (set(), set(), {"attention": ["stages=2", "copies=None"]}),
    "aligned": (
        {"query-offset", "loop-range", "causal-mask", "boundary-mask", "mask-value"},
        set(),
        {"tile": [], "attention": ["causal=False"]},
    ),
}


@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_each_step_of_the_ladder_is_one_idea(
    srcmap: Callable[..., tuple[int, str, str]], pair: tuple[str, str]
) -> None:
    code, out, _ = srcmap(*step(*pair), "--format", "json")
    found = json.loads(out)
    assert (code, found["format"]) == (0, "srcmap-diff-files/1")
    assert found["after"] == {"path": f"ladder/{pair[1]}.py", "read_by": "regions"}
    added, changed, of_functions = IDEAS[pair[1]]
    by_kind: dict[str, set[str]] = {}
    for difference in found["differences"]:
        by_kind.setdefault(difference["kind"], set()).add(difference["concept"])
        assert difference["what"].keys() == {"en", "zh"}
    assert by_kind.get("added", set()) == added
    assert by_kind.get("changed", set()) == changed
    assert "dropped" not in by_kind
    assert found["changed"] == len(added | changed)
    assert {f["name"]: f["parameters"]["after"] for f in found["functions"]} == of_functions


def test_lines_in_json_are_those_of_the_files(srcmap: Callable[..., tuple[int, str, str]]) -> None:
    found = json.loads(srcmap(*step("pipelined", "aligned"), "--format", "json")[1])
    lines = Path("ladder/aligned.py").read_text().split("\n")
    (crop,) = (d for d in found["differences"] if d["concept"] == "loop-range")
    first, last = crop["after"][0]["lines"]
    assert "blocks = min(" in "\n".join(lines[first - 1 : last])
    bring = next(f for f in found["functions"] if f["name"] == "attention")
    told = "\n".join("\n".join(lines[a - 1 : b]) for a, b in bring["after"])
    assert "q_tile = tile(" in told


def test_a_file_that_is_the_same(srcmap: Callable[..., tuple[int, str, str]]) -> None:
    shutil.copy("ladder/naive.py", "copy.py")
    code, out, _ = srcmap("copy.py", "--base", "ladder/naive.py")
    assert code == 0
    assert "Nothing is added, changed or dropped." in out


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["ladder/none.py", "--base", "ladder/naive.py"], 2, "no file ladder/none.py"),
        (["ladder/naive.py", "--base", "ladder/none.py"], 2, "no file ladder/none.py"),
        (["ladder/", "--base", "ladder/naive.py"], 2, "is a folder"),
        (["sink", "--base", "ladder/naive.py"], 2, "ladder/naive.py is a file and sink is not"),
        (["ladder/naive.py", "--base", "sink"], 2, "ladder/naive.py is a file and sink is not"),
        (["ladder/naive.py"], 2, "no other file"),
        ([*step("naive", "blocked"), "--pin", "v0.1.14"], 2, "no pin"),
        (["ladder/__init__.py", "--base", "ladder/naive.py"], 3, "no region comments"),
        (["broken.py", "--base", "ladder/naive.py"], 3, "broken.py"),
    ],
)
def test_what_cannot_be_compared_is_said(
    srcmap: Callable[..., tuple[int, str, str]], argv: list[str], code: int, said: str
) -> None:
    Path("broken.py").write_text("# concept: row-max\nx = 1\ny = (\n")
    for lang in i18n.LANGUAGES:
        got, out, err = srcmap(*argv, "--lang", lang)
        assert (got, out) == (code, "")
        assert "Traceback" not in err
        if lang == "en":
            assert said in err


def test_variants_do_not_pay_for_files() -> None:
    script = (
        "import sys\nfrom srcmap.cli import run\nrun(['variant', 'sink'])\n"
        "print([m for m in sys.modules if 'filediff' in m or 'diff_files' in m], file=sys.stderr)"
    )
    argv = [sys.executable, "-c", script]
    done = subprocess.run(
        argv, capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ
    )
    assert done.stderr.strip().endswith("[]")
