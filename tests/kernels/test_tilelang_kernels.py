"""Our TileLang kernels without a GPU: the interpreter runs them; the table of tilings."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kernels import launch

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
SMALL = {
    "mha": "batch=1,heads=2,seq_q=100,seq_kv=130,dim=64,causal=True,block_n=64",
    "gqa": "batch=1,heads=4,kv_heads=2,seq_q=100,seq_kv=130,dim=64,causal=True,block_n=64",
    "window": "batch=1,heads=2,seq_q=130,seq_kv=200,dim=64,window_size=20,block_n=64",
    "sink": "batch=1,heads=4,kv_heads=2,seq_q=130,seq_kv=200,dim=64,window_size=20,block_n=64",
    "decode": "batch=2,heads=8,kv_heads=2,seq_kv=230,dim=64,masked=True,splits=3",
}


@pytest.mark.parametrize("variant", SMALL)
def test_the_interpreter_runs_them(variant: str) -> None:
    file = f"kernels/{variant}/tilelang_kernel.py::{variant}_forward"
    done = subprocess.run(
        [sys.executable, "-m", "srcmap", "run", file, "--shape", SMALL[variant]],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert " ran " in done.stdout, done.stdout + done.stderr
    assert "output 0" in done.stdout


def test_the_table_has_one_row_for_a_key() -> None:
    chosen = ("tiling", "shape", "sweep")
    keys = [tuple((n, v) for n, v in row.items() if n not in chosen) for row in launch.table()]
    assert len(keys) == len(set(keys))
    for row in launch.table():
        assert all(isinstance(value, int) for value in row["tiling"].values()), row
        assert (ROOT / row["sweep"]).is_file()


ROWS = [
    {"variant": "x", "device": "GPU", "dim": 64, "causal": True, "tiling": {"block_m": 192}},
    {"variant": "x", "device": "GPU", "dim": 64, "causal": False, "tiling": {"block_n": 96}},
    {"variant": "x", "device": "GPU", "dim": 128, "tiling": {"stages": 3}},
]


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ({"dim": 64, "causal": True}, launch.Tiling(block_m=192)),
        ({"causal": False, "dim": 64}, launch.Tiling(block_n=96)),
        ({"dim": 128}, launch.Tiling(stages=3)),
    ],
)
def test_a_tiling_is_found_by_its_key(
    monkeypatch: pytest.MonkeyPatch, key: dict[str, object], expected: launch.Tiling
) -> None:
    monkeypatch.setattr(launch, "table", lambda: ROWS)
    launch._tuned.cache_clear()
    assert launch.tuned("x", "GPU", launch.Tiling(), **key) == expected
    launch._tuned.cache_clear()


@pytest.mark.parametrize("key", [{"dim": 96}, {"dim": 128, "causal": True}, {"window": None}])
def test_a_key_that_is_not_in_the_table_gets_the_default(
    monkeypatch: pytest.MonkeyPatch, key: dict[str, object]
) -> None:
    monkeypatch.setattr(launch, "table", lambda: ROWS)
    launch._tuned.cache_clear()
    default = launch.Splitting(programs=7)
    with pytest.warns(UserWarning, match="there are some for GPU"):
        assert launch.tuned("x", "GPU", default, **key) is default
    launch._tuned.cache_clear()


def test_an_unknown_device_gets_the_default_and_a_message() -> None:
    with pytest.warns(UserWarning, match="no tiling of mha was measured on Some GPU"):
        assert launch.tiling_for("mha", "Some GPU", 64, False) == launch.HIGH
    with pytest.warns(UserWarning, match="for splits 3, window None"):
        launch.tuned("mha", "Some GPU", launch.Splitting(), window=None, splits=3)


@pytest.mark.parametrize(
    ("groups", "residents", "copying", "expected"),
    [
        (2, 1, 24, 240),  # 168 each to begin with, of which the copying ones leave 144
        (3, 1, 24, 160),
        (4, 1, 24, 112),
        (1, 1, 24, 240),  # 472 are left, and 255 is the most that a thread can have
        (1, 3, 24, 136),
        (2, 1, 40, 232),
    ],
)
def test_registers(groups: int, residents: int, copying: int, expected: int) -> None:
    found = launch.registers(groups, residents, copying)
    assert found == expected
    assert residents * 128 * (groups * found + copying) <= 65536


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"block_m": 256}, r"tiling.block_m is 256, and may be \(128, 192\)"),
        ({"block_m": 64}, r"tiling.block_m is 64, and may be \(128, 192\)"),
        ({"block_n": 100}, "tiling.block_n is 100, and may be 16, 32 and so on to 256"),
        ({"block_n": 0}, "tiling.block_n is 0, and may be"),
        ({"stages": 0}, "tiling.stages is 0, and has to be a whole number, 1 or more"),
        ({"head_group": 1.5}, "tiling.head_group is 1.5, and has to be a whole number"),
    ],
)
def test_a_number_that_no_kernel_can_be_cut_by_is_named(wrong: dict[str, Any], said: str) -> None:
    """Four warp groups would wait for ever for registers that there are not."""
    with pytest.raises(ValueError, match=said):
        launch.Tiling(**wrong)


class Cut(NamedTuple):
    groups: int = 1
    lag: int = 0
    whole: bool = False


def test_a_kernels_own_tiling_is_checked() -> None:
    launch.check_cut(Cut(whole=0), Cut, lag=(0, 1, 2))  # type: ignore[arg-type]
    assert launch.Tiling(turns=0).turns == 0  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"tiling.lag is 3, and may be \(0, 1, 2\)"):
        launch.check_cut(Cut(lag=3), Cut, lag=(0, 1, 2))
    with pytest.raises(ValueError, match=r"tiling.lag is 0, and has to be"):
        launch.check_cut(Cut(), Cut)
    with pytest.raises(TypeError, match=r"tiling is a dict: kernels.launch.Tiling is"):
        launch.check_cut({"block_m": 128}, launch.Tiling)


def launchers() -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the public functions of our kernels that take a tiling."""
    for file in sorted(ROOT.glob("kernels/*/tilelang_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
                names = [argument.arg for argument in node.args.kwonlyargs]
                if "tiling" in names:
                    yield f"{file.parent.name}/{file.stem}.{node.name}", node


LAUNCHERS = dict(launchers())
UNHARMED = {"block_sparse/tilelang_kernel.attention"}
"""None of its numbers makes it wait: `launch.registers` and the compiler refuse wrong ones."""


@pytest.mark.parametrize("name", sorted(LAUNCHERS.keys() - UNHARMED))
def test_every_launcher_checks_the_tiling_that_it_is_given(name: str) -> None:
    """Or it takes one of `launch`'s, which cannot be made of wrong numbers."""
    node = LAUNCHERS[name]
    given = next(a for a in node.args.kwonlyargs if a.arg == "tiling")
    asked = ast.unparse(given.annotation) if given.annotation else ""
    assert "launch." in asked or "launch.check_cut(tiling, " in ast.unparse(node)


def test_there_are_launchers() -> None:
    assert len(LAUNCHERS) >= 19
    assert LAUNCHERS.keys() > UNHARMED
    with pytest.raises(ValueError, match=r"tiling\.residents is 0"):
        launch.registers(1, 0)
