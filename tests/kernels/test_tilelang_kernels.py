"""Our TileLang kernels without a GPU: the interpreter runs them; the table of tilings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from kernels import launch

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
