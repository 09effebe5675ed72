"""The page and the plot of the results are those of the JSON files."""

from __future__ import annotations

import importlib.util
import json
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.gpu import report, results

if TYPE_CHECKING:
    from pathlib import Path

TESTS = "srcmap-gpu-tests/1"
ADVICE = "python -m benchmarks.gpu --table --plot kernels/results/speed.svg"


def test_the_page_is_current() -> None:
    text = (results.RESULTS / "README.md").read_text(encoding="utf-8")
    assert text == report.current(), ADVICE


def test_the_plot_is_current() -> None:
    text = (results.RESULTS / "speed.svg").read_text(encoding="utf-8")
    assert report.stamp(report.load()) in text, ADVICE


def test_every_result_says_its_format() -> None:
    for file in results.RESULTS.glob("*.json"):
        assert json.loads(file.read_text(encoding="utf-8"))["format"] in (1, TESTS), file


def made(variant: str, *faster: float, **more: Any) -> dict[str, Any]:
    shapes: list[dict[str, Any]] = [
        {"shape": {"variant": variant, "batch": 1, "heads": 2, "seq": 64, "dim": 128,
                   "causal": number > 0, "window": None, "groups": 4},
         "ours_ms": 1.0, "ours_tflops": 300.4, "of_floor": 0.5, "wrong": {},
         "faster_than": {"upstream as shipped": ratio}}
        for number, ratio in enumerate(faster)
    ]  # fmt: skip
    about = dict.fromkeys(("date", "driver", "cuda", "torch", "tilelang"), "1")
    return {
        "variant": variant, "device": "GPU", "matrix_tflops": 600.0, "copy_tbs": 4.0,
        "shapes": shapes, **about, **more,
    }  # fmt: skip


def test_what_the_page_says() -> None:
    failed = {"shape": {"variant": "c", "seq": 5}, "wrong": {"ours": "off by 0.3 of its norm"}}
    many = [made("a", 1.0, 3.0), made("b", 0.5), made("c", shapes=[failed], missing=2)]
    text = report.page(many)
    assert "Over 2 variants, ours is 1.25 times as fast" in text
    assert "the least is 0.50 (b, 1x2x64x128, groups 4, not causal)." in text
    assert "| a | 1x2x64x128, groups 4, causal | 1.000 | 300 | 50% | 3.00 |  |  |  |\n" in text
    assert "Not measured: 2 more shapes of c" in text
    assert "Not in the table: c, 5: off by 0.3 of its norm" in text


def test_what_the_page_says_of_tests() -> None:
    files = {
        "test_a.py": {"errors": {"test_x": 0.9, "test_y": 1.4}},
        "test_a_more.py": {"errors": {"test_z": 1.0}},
    }
    counts = {"passed": 3, "failed": 0, "skipped": 1, "unfinished": 2, "missing": ["test_b.py"]}
    one = {"folder": "a", "device": "GPU", "date": "1", "files": files, **counts}
    text = report.page([made("a", 1.0)], [one, {**one, "files": {}}, {**one, "device": "other"}])
    assert text.count("| a | 1 | 3 | 0 | 1 | 3 | ") == 2
    assert "| a | 1 | 3 | 0 | 1 | 3 | 1.00 | 1.40 |\n" in text
    assert "| a | 1 | 3 | 0 | 1 | 3 |  |  |\n" in text


def test_what_the_page_says_of_checks() -> None:
    row = {"variant": "a", "check": "memcheck", "findings": 0, "first": "", "date": "1"}
    bad = {**row, "variant": "b", "findings": 2, "first": "Invalid read"}
    rows = [row, bad, {**bad, "variant": "c", "findings": None, "first": "late"}]
    text = report.page([made("a", 1.0)], sanitize={"gpu": rows, "other": [{**row, "check": "x"}]})
    assert (
        "`compute-sanitizer --tool memcheck` (1) has small calls of 3 variants, and finds" in text
    )
    assert text.endswith("nothing in 1.\n\n- b: 2 findings: Invalid read.\n- c: not run: late.\n")


def test_what_the_page_says_of_many_calls() -> None:
    row = {"variant": "a", "shape": 0, "calls": 300, "different": 0, "why": "", "date": "1"}
    more = {**row, "shape": 1, "calls": 200}
    page = report.page([made("a", 1.0)], soak={"gpu": [row, more]})
    assert "(1) has 2 shapes, large and small, of 1 variants. In 2, all of 200 calls or" in page
    hung = {**row, "variant": "b", "different": None, "why": "it did not end: call 50"}
    page = report.page([made("a", 1.0)], soak={"gpu": [row, hung]})
    assert "In 1, all of 300 calls or more ended, and gave what the first gave" in page
    assert page.endswith("\n\n- b, shape 0: it did not end: call 50.\n")


def test_what_the_page_says_of_counters() -> None:
    counted = {"ms": 2.0, "tensor": 79.8, "special": 41.2, "dram": None, "issue": 40.0}
    row = {"variant": "a", "shape": 0, "who": "ours", **counted}
    short = {**row, "ms": 0.1, "tensor": 1.0}
    theirs = {**row, "who": "upstream", "tensor": 64.2}
    broken = {"variant": "b", "shape": 0, "who": "", "wrong": "it did not end"}
    page = report.page([made("a", 1.0)], profile={"gpu": [short, row, theirs, broken]})
    assert (
        "| a | 1x2x64x128, groups 4, not causal | 80 / 64 | 41 / 41 | - / - | 40 / 40 |\n" in page
    )
    assert "| b |" not in page


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x-gpu.json").write_text('{"format": 99}')
    with pytest.raises(ValueError, match=r"x-gpu\.json has format 99"):
        report.load(tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("matplotlib") is None, reason="no matplotlib")
@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_plot_is_drawn_and_the_same_each_time(tmp_path: Path, kind: str) -> None:
    many = [made("a", 1.0, 3.0), made("b", 0.5)]
    files = [tmp_path / f"{name}.{kind}" for name in ("one", "two")]
    for file in files:
        report.draw(many, file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(files[0].read_bytes()) > 5000
