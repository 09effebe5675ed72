"""`srcmap run`, `trace` and `verify` in process, on pins that are here."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from srcmap.cli import run
from srcmap.commands.run import pairs
from srcmap.commands.running import comparison_line
from srcmap.engines.child import run_jobs
from srcmap.engines.jobs import Job
from srcmap.errors import UsageError
from srcmap.render.console import Console
from srcmap.render.trace_html import trace_html
from srcmap.render.trace_pages import TraceLine, TracePage, Value
from srcmap.render.trace_text import trace_text

ROOT = Path(__file__).resolve().parents[2]
needs = pytest.mark.skipif(find_spec("numpy") is None, reason="needs the extra run")

KERNEL = """\
import tilelang
import tilelang.language as T

@tilelang.jit(out_idx=[1])
def make(n=8):
    @T.prim_func
    def main(A: T.Tensor([n], "float32"), B: T.Tensor([n], "float32")):
        with T.Kernel(1) as bx:
            OPERATION
    return main
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is no project."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_pairs_are_cut_at_commas_between_them() -> None:
    assert pairs(["a=1,b=float16[2,3]", "c=(1, 2)"], "--shape", "en") == {
        "a": "1",
        "b": "float16[2,3]",
        "c": "(1, 2)",
    }
    with pytest.raises(UsageError, match="expected NAME=VALUE"):
        pairs(["oops"], "--shape", "en")


@needs
def test_any_file_runs_on_made_up_inputs(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "tiny.py").write_text(KERNEL.replace("OPERATION", "T.copy(A, B)"), encoding="utf-8")
    assert (
        run(["run", "tiny.py::make", "--shape", "n=5", "--input", "A=arange", "--lang", "en"]) == 0
    )
    out = capsys.readouterr().out
    assert "A  float32[5]  0 .. 4, mean 2" in out
    assert "output 0  float32[5]  0 .. 4, mean 2" in out


@needs
def test_an_unknown_operation_is_exit_3_with_its_place(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "tiny.py").write_text(KERNEL.replace("OPERATION", "T.wobble(A)"), encoding="utf-8")
    assert run(["run", "tiny.py", "--lang", "en"]) == 3
    assert "tiny.py:9: operation T.wobble is not known" in capsys.readouterr().out


@needs
def test_a_name_that_is_nothing_is_a_usage_error(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["run", "no-such-thing", "--lang", "en"]) == 2
    assert "is no variant and no file" in capsys.readouterr().err


def page() -> TracePage:
    """Return a trace of three iterations, with text that must be escaped."""
    values = [
        Value(line=2, buffer="m", step=None, text="-inf", number=float("-inf"), values=("-inf",)),
        *(
            Value(
                line=3, buffer="m", step=n, text=str(n * 10), number=n * 10.0, values=(str(n * 10),)
            )
            for n in range(3)
        ),
        Value(line=4, buffer="out", step=-1, text="[1, 2]  2", values=("1", "2"), shape=(2,)),
    ]
    lines = [
        TraceLine(number=1, text="for k in T.Pipelined(n):"),
        TraceLine(number=2, text="    fill(m, '</script><b>&')"),
        TraceLine(number=3, text="    m[i] = T.max(m[i], p[i])", concept="row-max"),
        TraceLine(number=4, text="copy(o, out)"),
    ]
    return TracePage(
        title="tiny <one>",
        path="a.py",
        check="one",
        row=3,
        block=(0, 1),
        steps=("4", "5", "6"),
        lines=tuple(lines),
        values=tuple(values),
    )


def test_a_trace_as_text_has_values_beside_lines() -> None:
    text = trace_text(page(), 1, Console(lang="en"))
    assert "row 3, block (0, 1), iteration 5 (of 4 to 6)" in text
    assert "    3      m[i] = T.max(m[i], p[i])\n       = m: 10  [row-max]" in text
    assert "out" not in text.split("copy(o, out)")[1].split("over the")[0].replace("copy", "")
    assert text.endswith("4  0\n5  10\n6  20")


def test_a_trace_as_html_holds_nothing_that_ends_its_script() -> None:
    html = trace_html(page(), 1, "en")
    assert html.count("</script>") == 2
    assert "&lt;/script&gt;&lt;b&gt;&amp;" in html
    assert "http" not in html
    assert "tiny &lt;one&gt;" in html


def chromium() -> str | None:
    return next(
        filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
    )


DRIVE = """
<script>
addEventListener('load', () => {
  const slider = document.getElementById('step');
  const cell = n => document.querySelector(`tr[data-line="${n}"] .values`).textContent;
  const seen = [[slider.value, cell(2), cell(3), cell(4)]];
  for (const step of [0, 2]) {
    slider.value = step;
    slider.dispatchEvent(new Event('input'));
    seen.push([slider.value, cell(2), cell(3), cell(4), document.getElementById('name').value]);
  }
  document.querySelectorAll('.over tbody tr')[1].click();
  seen.push([slider.value, cell(3)]);
  document.title = JSON.stringify(seen);
});
</script>
"""


@pytest.mark.skipif(chromium() is None, reason="needs chromium")
def test_the_slider_moves_the_values_in_a_real_browser(tmp_path: Path) -> None:
    html = trace_html(page(), 1, "en")
    (tmp_path / "trace.html").write_text(
        html.replace("</body>", DRIVE + "</body>"), encoding="utf-8"
    )
    argv = [
        *(str(chromium()), "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic"),
        *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
        *(
            "--disable-sync",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--virtual-time-budget=4000",
        ),
        *("--dump-dom", (tmp_path / "trace.html").as_uri()),
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    title = done.stdout.split("<title>")[1].split("</title>")[0]
    seen: Any = json.loads(title)
    assert seen == [
        ["1", "m = -inf", "m = 10", ""],
        ["0", "m = -inf", "m = 0", "", "4"],
        ["2", "m = -inf", "m = 20", "out = [1, 2]  2", "6"],
        ["1", "m = 10"],
    ]


# -- on the pins -----------------------------------------------------------------------------------


def has_pin(name: str) -> bool:
    return (ROOT / "_vendor" / name).is_dir()


on_pin = [
    pytest.mark.pins,
    needs,
    pytest.mark.skipif(not has_pin("tilelang-v0.1.14"), reason="tilelang@v0.1.14 is not here"),
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own whose checkouts are those of this clone."""
    shutil.copytree(ROOT / "vendor_locks", tmp_path / "vendor_locks")
    (tmp_path / "_vendor").symlink_to(ROOT / "_vendor", target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


class TestOnAPin:
    """The commands on a real pin."""

    pytestmark = on_pin

    def test_verify_keeps_what_variant_shows(
        self, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        junit = project / "verify.xml"
        argv = ["verify", "sink", "--repo", "tilelang", "--no-theirs", "--junit", str(junit)]
        assert run([*argv, "--lang", "en"]) == 0
        assert "passed" in capsys.readouterr().out
        suite = ET.parse(junit).getroot()[0]  # noqa: S314 - written by the command above
        assert (suite.get("failures"), suite.get("skipped")) == ("0", "0")
        assert run(["variant", "sink", "--lang", "en"]) == 0
        assert "Diff test against float64: interpreter passed." in capsys.readouterr().out
        assert run(["variant", "sink", "--format", "json"]) == 0
        entries = json.loads(capsys.readouterr().out)["entries"]
        states = {t["state"] for e in entries for t in e["diff_test"] or []}
        assert states == {"passed"}
        assert run(["verify", "sink", "--repo", "tilelang", "--kept", "--lang", "en"]) == 0

    def test_a_changed_upstream_fails_with_its_first_bad_coordinate(self) -> None:
        root = ROOT / "_vendor" / "tilelang-v0.1.14"
        path = "examples/flash_attention/example_mha_fwd_bhsd.py"
        text = (root / path).read_text(encoding="utf-8")
        job = Job(
            kind="check",
            repo="tilelang",
            root=str(root),
            path=path,
            case="tilelang:flash_attention/example_mha_fwd_bhsd",
            source=text.replace("acc_o[i, j] *= scores_scale[i]", "pass"),
        )
        failed = [o for o in run_jobs([job]) if o.state == "failed"]
        assert failed
        line = comparison_line(failed[0].compared[0], "en")
        assert "outside, first at [" in line

    def test_trace_writes_text_json_and_html(
        self, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        argv = ["trace", "sink", "--check", "window 64", "--row", "200"]
        assert run([*argv, "--block", "3", "--lang", "en"]) == 0
        out = capsys.readouterr().out
        assert "row 200" in out
        for wanted in ("scores_max:", "scores_scale:", "logsum:", "acc_s:", "[sink-epilogue]"):
            assert wanted in out
        assert run([*argv, "--format", "json"]) == 0
        trace = json.loads(capsys.readouterr().out)["trace"]
        assert trace["steps"] == ["2", "3"]
        assert run([*argv, "--format", "html", "--output", "sink.html"]) == 0
        assert '<input id="step"' in (project / "sink.html").read_text(encoding="utf-8")

    @pytest.mark.usefixtures("project")
    def test_a_row_that_the_first_check_lacks_is_looked_for(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["trace", "sink", "--row", "200", "--lang", "en"]) == 0
        assert "row 200" in capsys.readouterr().out
        assert run(["trace", "sink", "--row", "9999", "--lang", "en"]) == 2
        assert "no check has it; the rows are 0 to 255" in capsys.readouterr().err

    @pytest.mark.usefixtures("project")
    def test_tensors_are_called_as_the_kernel_calls_them(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["run", "sink", "--lang", "en"]) == 0
        said = capsys.readouterr()
        assert "  Sinks  float16[2]" in said.out
        assert "  output 0 Output  float16[1, 2, 128, 64]" in said.out
        assert "checks passed" in said.err

    @pytest.mark.usefixtures("project")
    @pytest.mark.parametrize(
        ("variant", "shown"), [("causal", "causal 2x1x128"), ("sliding-window", "window 64")]
    )
    def test_the_traced_check_shows_the_variant(
        self, variant: str, shown: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        assert run(["trace", variant, "--lang", "en"]) == 0
        assert shown in capsys.readouterr().out.split("\n")[0]

    @pytest.mark.usefixtures("project")
    @pytest.mark.skipif(not has_pin("tilelang-ascend-95acbd7"), reason="not here")
    def test_iterations_are_those_of_the_main_loop(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Cube and Vectors call it differently, and other loops go over rows of a tile."""
        assert run(["trace", "asc-mha", "--format", "json"]) == 0
        trace = json.loads(capsys.readouterr().out)["trace"]
        assert trace["steps"] == ["0", "1"]
        at = {(v["role"], v["buffer"], v["step"]) for v in trace["values"]}
        assert {("Cube", "k_l1", 1), ("Vector 1", "sumexp", 1), ("Vector 1", "Output", -1)} <= at

    @pytest.mark.usefixtures("project")
    def test_mutants_are_told_in_words(self, capsys: pytest.CaptureFixture[str]) -> None:
        argv = ["verify", "mha-varlen", "--mutate", "--repo", "tilelang"]
        assert run([*argv, "--lang", "en"]) == 0
        said = capsys.readouterr()
        assert "state-init: left out\n      noticed by " in said.out
        assert "\n      equivalent: the mask differs only in rows" in said.out
        assert " of all " in said.err
        assert "are proven to compute the same, and of the other" in said.err
        assert run(["verify", "asc-sink", "--mutate", "--lang", "en"]) == 3
        assert "asc-sink: no located statement" in capsys.readouterr().err

    def test_what_is_kept_may_be_stale(
        self, project: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        argv = ["verify", "mha-bhsd", "--repo", "tilelang", "--lang", "en"]
        assert run([*argv, "--no-theirs"]) == 0
        capsys.readouterr()
        results = project / ".srcmap" / "results" / "verify.json"
        kept = json.loads(results.read_text(encoding="utf-8"))
        for result in kept["results"]:
            result["method"] = "another"
        results.write_text(json.dumps(kept), encoding="utf-8")
        assert run([*argv, "--kept"]) == 3
        said = capsys.readouterr()
        assert " stale " in said.out
        assert "1 results are stale" in said.err

    @pytest.mark.usefixtures("project")
    def test_trace_follows_the_definition(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The traced denominator of the last block is that of the softmax, by the traced scores."""
        import math

        assert run(["trace", "mha-bhsd", "--check", "full 1x2x100", "--format", "json"]) == 0
        values = json.loads(capsys.readouterr().out)["trace"]["values"]
        named = {(v["buffer"], v["step"]): v for v in values}
        top = named["scores_max", 1]["number"]
        before = named["scores_max", 0]["number"]
        factor = named["scores_scale", 1]["number"]
        scale = 64**-0.5 * math.log2(math.e)
        assert factor == pytest.approx(2 ** ((before - top) * scale), rel=1e-4)
        total = named["logsum", 0]["number"] * factor + named["scores_sum", 1]["number"]
        assert named["logsum", 1]["number"] == pytest.approx(total, rel=1e-4)

    @pytest.mark.usefixtures("project")
    def test_mutants_of_the_sink_are_noticed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["verify", "sink", "--mutate", "--repo", "tilelang", "--format", "json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        verdicts, counts = answer["mutants"], answer["counts"]
        noticed = [v for v in verdicts if v["noticed_by"]]
        assert len(noticed) >= 0.95 * len(verdicts)
        assert all(v["noticed_by"] or v["proven"] for v in verdicts)
        assert counts["noticed"] == len(noticed)
        assert counts["rest"] == len(verdicts) - counts["proven"]
        assert counts["open"] == 0
        concepts = {v["concept"] for v in noticed}
        assert {"causal-mask", "check-inf", "acc-rescale", "sink-epilogue"} <= concepts

    def test_a_script_is_answered_like_the_command_line(self, project: Path) -> None:
        argv = [sys.executable, "-m", "srcmap", "run", "asc-mha", "--format", "json"]
        environ = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(project)}
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=environ)
        if not has_pin("tilelang-ascend-95acbd7"):
            assert done.returncode == 3
            return
        outcomes = json.loads(done.stdout)["outcomes"]
        assert {o["state"] for o in outcomes} == {"passed"}
