"""The models say the chapter's numbers, refuse nonsense, and print what they computed."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kernels.models import devices, kvcache, onchip, roofline, rounding, splits, traffic
from kernels.models.__main__ import main
from kernels.models.errors import ModelError

ROOT = Path(__file__).resolve().parents[2]
MODELS = ("traffic", "roofline", "onchip", "splits", "kvcache", "rounding", "devices")


# -- traffic -----------------------------------------------------------------------------------


def test_traffic_of_the_chapter() -> None:
    naive = traffic.naive(8192, 8192, 128)
    fused = traffic.fused(8192, 8192, 128, 128)
    assert naive.scores == 268_435_456
    assert naive.tensors == 4_194_304
    assert naive.total == 272_629_760
    assert fused.scores == 0
    assert fused.total == 136_314_880
    assert f"{traffic.ratio(8192, 8192, 128, 128):.2f}" == "2.00"


def test_fused_reads_keys_once_for_each_block_and_the_rest_once() -> None:
    fused = traffic.fused(8192, 8192, 128, 128)
    assert fused.total == 8192 * 128 * (1 + 64 + 64 + 1)
    assert traffic.fused(129, 8, 4, 128).total == 2 * 129 * 4 + 2 * 2 * 8 * 4


@pytest.mark.parametrize("keys", [1, 1000, 131072])
def test_decoding_gains_nothing(keys: int) -> None:
    """What is left of the ratio is the scores of one row: 2 / d."""
    ratio = traffic.ratio(1, keys, 128, 128)
    assert 1 <= ratio <= 1 + 2 / 128
    assert round(ratio) == 1


def test_traffic_agrees_with_a_count_of_accesses() -> None:
    """Walk through both kernels and count, instead of multiplying."""
    queries, keys, dim, block = 5, 7, 3, 2
    counted = queries * dim + keys * dim  # Q, K
    counted += sum(4 for _ in range(queries) for _ in range(keys))  # S out, S in, P out, P in
    counted += keys * dim + queries * dim  # V, O
    assert traffic.naive(queries, keys, dim).total == counted
    walked = 0
    for start in range(0, queries, block):
        rows = min(block, queries - start)
        walked += rows * dim * 2 + 2 * keys * dim
    assert traffic.fused(queries, keys, dim, block).total == walked


# -- roofline ----------------------------------------------------------------------------------


def test_intensity_and_the_roof() -> None:
    h200 = devices.device("h200")
    found = roofline.points(8192, 8192, 128, 128, "float16", h200)
    work = 4 * 8192 * 8192 * 128
    assert found["naive"].intensity == pytest.approx(work / (2 * 272_629_760))
    assert found["fused"].intensity == pytest.approx(work / (2 * 136_314_880))
    assert found["naive"].limit == found["fused"].limit == "memory"
    least = found["each tensor once"]
    assert (least.limit, least.reachable) == ("compute", h200.tflops.value)
    assert least.intensity == pytest.approx(8192 / 2)


def test_roof_bends_at_the_ridge() -> None:
    a100 = devices.device("A100")
    below = roofline.point(100, 1, a100)
    assert below.reachable == pytest.approx(100 * a100.bandwidth.value / 1e3)
    assert below.seconds == pytest.approx(1 / (a100.bandwidth.value * 1e9))
    above = roofline.point(1000, 1, a100)
    assert above.reachable == a100.tflops.value
    assert below.intensity < a100.ridge < above.intensity


def test_decoding_is_bound_by_memory_on_every_device() -> None:
    for device in devices.devices():
        found = roofline.points(1, 8192, 128, 128, "float16", device)
        assert {p.limit for p in found.values()} == {"memory"}


def test_every_number_of_a_device_names_its_source() -> None:
    for device in devices.devices():
        for quoted in (device.tflops, device.bandwidth, device.processors, device.shared):
            assert quoted.value > 0
            assert any(who in quoted.source for who in ("NVIDIA", "CUDA"))


# -- on-chip memory ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("stages", "shared", "whole"), [(1, 96, 128), (2, 160, 192), (3, 224, 256)]
)
def test_on_chip_budget_of_the_chapter(stages: int, shared: int, whole: int) -> None:
    found = onchip.budget(128, 128, 128, stages, "float16")
    assert found.shared == shared * 1024
    assert found.output == 32 * 1024
    assert found.with_output == whole * 1024


def test_table_says_what_fits() -> None:
    rows = onchip.table(128, 128, 128, 4, "float16", "h100").rows
    assert [row[-1] for row in rows] == ["yes", "yes", "with the tile over another buffer", "no"]


# -- splits ------------------------------------------------------------------------------------

DECODE = {"batch": 1, "heads": 32, "queries": 1, "keys": 131072, "dim": 128, "block_m": 64}


def test_splits_multiply_programs_and_not_reads() -> None:
    one = splits.split(1, processors=132, **DECODE)
    four = splits.split(4, processors=132, **DECODE)
    assert (one.programs, four.programs) == (32, 128)
    assert (one.waves, four.waves) == (1, 1)
    assert four.busy == 4 * one.busy == pytest.approx(128 / 132)
    assert (one.keys, four.keys) == (131072, 32768)
    assert (one.partial, four.partial) == (0, 2 * 4 * 32 * 129)


def test_a_wave_more_than_fits_costs_a_wave() -> None:
    assert splits.split(5, processors=132, **DECODE).waves == 2


# -- KV cache ----------------------------------------------------------------------------------


def test_cache_shrinks_by_the_groups() -> None:
    sizes: dict[str, Any] = {"layers": 32, "batch": 1, "keys": 131072, "dim": 128}
    whole = kvcache.cache_bytes(kv_heads=32, **sizes)
    assert whole == 64 << 30
    for groups in (2, 8, 32):
        heads = kvcache.kv_heads(32, groups)
        assert kvcache.cache_bytes(kv_heads=heads, **sizes) * groups == whole


def test_cache_of_odd_heads_and_of_a_latent() -> None:
    assert kvcache.sharings(6) == (1, 2, 6)
    assert kvcache.sharings(7) == (1, 7)
    assert kvcache.latent_bytes(layers=1, batch=1, keys=1, latent=512, rope=64) == 1152


# -- rounding ----------------------------------------------------------------------------------

ROW: dict[str, Any] = {"keys": 4096, "dim": 64, "largest": 20.0}


def test_narrow_rounds_to_nearest_even() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="the bfloat16 that ours is checked against")
    x = np.random.default_rng(0).standard_normal(10000) * 100
    x = np.concatenate([x, [0.0, 1 + 2**-8, 1 + 3 * 2**-8, -3.0]])
    want = x.astype(np.float32).astype(ml_dtypes.bfloat16).astype(np.float64)
    assert (rounding.narrow(x, "bfloat16") == want).all()
    assert (rounding.narrow(x, "float16") == x.astype(np.float16)).all()


@pytest.mark.parametrize("count", [1, 3, 64])
def test_merging_is_exact_but_for_rounding(count: int) -> None:
    assert rounding.merge_error(count, "float64", "float64", **ROW) < 2**-45


def test_a_narrow_lse_hurts_more_than_narrow_parts() -> None:
    seeds = range(8)
    parts = [rounding.merge_error(16, "float32", "float16", **ROW, seed=s) for s in seeds]
    lse = [rounding.merge_error(16, "float16", "float32", **ROW, seed=s) for s in seeds]
    assert np.median(lse) > 4 * np.median(parts)


def test_a_rounded_sum_gets_worse_with_every_tile() -> None:
    few, many = (rounding.sum_error(n, "bfloat16", dim=256) for n in (4, 64))
    assert many > few > 0
    merged = rounding.merge_error(64, "float32", "bfloat16", keys=4096, dim=256, largest=4.0)
    assert merged < many


# -- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: traffic.naive(0, 1, 1), "queries must be a whole number of at least 1, not 0"),
        (
            lambda: traffic.fused(1, 1, 1, -2),
            "block_m must be a whole number of at least 1, not -2",
        ),
        (lambda: traffic.naive(1, 1, True), "dim must be a whole number of at least 1, not True"),
        (lambda: devices.device("h1"), "no device is called 'h1'; the table has a100, h100, h200"),
        (
            lambda: onchip.budget(1, 1, 1, 1, "int3"),
            "no type is called 'int3'; known are float32, float16, bfloat16, float8",
        ),
        (
            lambda: kvcache.kv_heads(6, 4),
            "6 heads cannot share K and V by 4: the rest has none",
        ),
        (
            lambda: rounding.merge_error(9, "float32", "float32", keys=8, dim=1, largest=1.0),
            "9 splits of 8 keys leave some without any",
        ),
        (
            lambda: rounding.narrow([1.0], "float8"),
            "no type is called 'float8'; known are float64, float32, float16, bfloat16",
        ),
    ],
)
def test_refusals_name_the_argument(call: Any, message: str) -> None:
    with pytest.raises(ModelError) as caught:
        call()
    assert str(caught.value) == message


# -- the command -------------------------------------------------------------------------------

QUICK = {"rounding": ("--splits", "4", "--keys", "256", "--dim", "8")}


@pytest.mark.parametrize("name", MODELS)
def test_command_prints_text_and_json(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked = [name, *QUICK.get(name, ())]
    assert main(asked) == 0
    text = capsys.readouterr()
    assert main([*asked, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["format"], found["model"], text.err) == (1, name, "")
    assert text.out.startswith(found["title"] + "\n")
    assert len(found["rows"]) >= 3
    assert all(column in text.out for column in found["rows"][0])


def test_command_prints_the_chapter(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traffic"]) == 0
    out = capsys.readouterr().out
    for number in ("268,435,456", "4,194,304", "272,629,760", "136,314,880", "2.00"):
        assert number in out


def test_command_refuses_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["traffic", "--keys", "0"]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert seen.err == "error: keys must be a whole number of at least 1, not 0\n"


def test_plot_without_matplotlib_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["traffic", "--plot", str(tmp_path / "x.png")]) == 2
    seen = capsys.readouterr()
    assert seen.err == (
        "error: a plot needs matplotlib, which is not installed here; pip install matplotlib\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(
    importlib.util.find_spec("matplotlib") is None, reason="matplotlib is not installed"
)
@pytest.mark.parametrize("name", MODELS[:-1])
def test_plot_writes_a_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"{name}.svg"
    assert main([name, *QUICK.get(name, ()), "--plot", str(path)]) == 0
    assert path.read_text(encoding="utf-8").startswith("<?xml")
    assert main([name, *QUICK.get(name, ()), "--plot", str(tmp_path / "x.txt")]) == 2
    assert "must end in one of" in capsys.readouterr().err


BARE = """
import sys
sys.modules["numpy"] = None
from kernels.models.__main__ import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("name", MODELS)
def test_all_models_but_one_need_no_numpy(name: str) -> None:
    argv = [sys.executable, "-c", BARE, name]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    if name == "rounding":
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == "error: this model needs NumPy; pip install numpy\n"
    else:
        assert (done.returncode, done.stderr) == (0, "")
