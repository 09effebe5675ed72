"""The commands in process: exit codes, formats, and what is written where."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from srcmap.commands.cite import run_check, run_scan
from srcmap.commands.cite_tables import run_inject, run_table
from srcmap.commands.cite_writing import run_fix, run_record
from srcmap.errors import UsageError
from tests.cite.world import V1, V2, build


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    build(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SRCMAP_CACHE", str(tmp_path / "cache"))
    return tmp_path


GOOD = "The causal mask (`examples/attn/fwd.py:29-32`).\n"
BAD = "The causal mask (`examples/attn/fwd.py:20-24`).\n"


def doc(project: Path, text: str, name: str = "a.md") -> Path:
    path = project / name
    path.write_bytes(text.encode())
    return Path(name)


def answer(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


# -- scan and check --------------------------------------------------------------------------


def test_exit_codes(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_check([doc(project, GOOD)]) == 0
    assert run_check([doc(project, BAD)]) == 1
    assert run_check([doc(project, "Nothing at 12:30.\n")]) == 3
    assert "0 citations" in capsys.readouterr().err
    with pytest.raises(UsageError, match="no such file"):
        run_check([Path("not-there.md")])


def test_counts_are_always_printed(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_check([doc(project, GOOD)])
    assert "citations: 1" in answer(capsys)
    run_check([doc(project, GOOD)], format="annotations")
    assert "citations 1" in capsys.readouterr().err


def test_json_of_scan_and_check(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = doc(project, "\ufeff" + BAD)
    run_check([path], format="json")
    whole = json.loads(answer(capsys))
    assert whole["format"] == "srcmap-cite-check/1"
    assert whole["counts"]["citations"] == whole["counts"]["off"] == 1
    (one,) = whole["citations"]
    first, last = one["span"]
    assert (project / path).read_bytes()[first:last] == b"examples/attn/fwd.py:20-24"
    assert one["target"] == {
        "repo": "tiny", "pin": None, "path": "examples/attn/fwd.py", "lines": [20, 24], "section": None,  # noqa: E501
    }  # fmt: skip
    assert (one["verdict"], one["judged_at"], one["flags"]) == ("off", "tiny@v2", [])
    assert one["candidates"][0]["path"] == "examples/attn/fwd.py"
    assert one["candidates"][0]["lines"] == [29, 32]
    run_scan([path], format="json")
    whole = json.loads(answer(capsys))
    assert whole["format"] == "srcmap-cite-scan/1"
    assert "verdict" not in whole["citations"][0]


def test_sarif_holds_to_the_schema(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is in the dev extra")
    run_check([doc(project, BAD)], format="sarif")
    whole = json.loads(answer(capsys))
    schema = json.loads((Path(__file__).parent / "sarif-parts.schema.json").read_text("utf-8"))
    jsonschema.validate(whole, schema)
    (result,) = whole["runs"][0]["results"]
    assert result["ruleId"] == "cite/off"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "a.md"
    assert place["region"]["startLine"] == 1


def test_annotations_and_junit(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = doc(project, "中文\n" + BAD)
    run_check([path], format="annotations")
    assert answer(capsys).startswith("::error file=a.md,line=2,endLine=2,title=cite/off::off")
    run_check([path], format="junit")
    tree = ET.fromstring(answer(capsys))  # noqa: S314 - our own output
    assert tree.attrib["failures"] == "1"


def test_a_pin_that_is_asked_for_decides(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = doc(project, "`_vendor/tiny-v2/examples/attn/old_name.py:4` is `split_kernel`.\n")
    assert run_check([path]) == 1
    assert run_check([path], pins=["tiny@v1"], format="json") == 0
    capsys.readouterr()
    run_check([path], pins=["tiny@v1"], format="json")
    (one,) = json.loads(answer(capsys))["citations"]
    assert (one["verdict"], one["judged_at"], one["flags"]) == ("ok", "tiny@v1", ["other-pin"])


def test_the_baseline_is_a_ratchet(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = doc(project, BAD)
    run_check([path], format="baseline")
    entries = answer(capsys)
    settings = project / ".srcmap.toml"
    before = settings.read_text("utf-8")
    settings.write_text(before + entries, encoding="utf-8")
    assert run_check([path]) == 0
    doc(project, BAD + "\nThe loop end (`examples/attn/fwd.py:42`).\n")
    assert run_check([path]) == 1
    doc(project, GOOD)
    assert run_check([path]) == 1
    assert "the baseline lists a fault that is gone" in capsys.readouterr().err


def test_settings_name_the_bad_key(project: Path) -> None:
    (project / ".srcmap.toml").write_text("[cite]\nowned = []\n", encoding="utf-8")
    with pytest.raises(UsageError, match=r"cite\.owned: unknown key"):
        run_check([doc(project, GOOD)])


def test_documents_of_the_settings(project: Path) -> None:
    settings = project / ".srcmap.toml"
    settings.write_text('[cite]\ndocuments = ["docs/**"]\n', encoding="utf-8")
    (project / "docs").mkdir()
    doc(project, GOOD, "docs/x.md")
    doc(project, BAD, "other.md")
    assert run_check([]) == 0


# -- fix -------------------------------------------------------------------------------------

FIXES = [
    ("The causal mask (`examples/attn/fwd.py:20-24`).", "The causal mask (`examples/attn/fwd.py:29-32`)."),  # noqa: E501
    ("因果 mask（examples/attn/fwd.py 第 20–24 行）", "因果 mask（examples/attn/fwd.py 第 29–32 行）"),  # noqa: E501
    ("The causal mask: examples/attn/fwd.py#L20-L24.", "The causal mask: examples/attn/fwd.py#L29-L32."),  # noqa: E501
    ("softmax scale: `examples/attn/fwd.py:9`", "softmax scale: `examples/attn/fwd.py:7`"),
    ("`past_len = seq_kv - seq_q` (examples/attn/fwd.py:90)", "`past_len = seq_kv - seq_q` (examples/attn/fwd.py:8)"),  # noqa: E501
    ("Nothing to compare: `examples/attn/fwd.py:14`", "Nothing to compare: `examples/attn/fwd.py:14`"),  # noqa: E501
    ("Ambiguous: `util.py:1`, 12:30, x[20:24]", "Ambiguous: `util.py:1`, 12:30, x[20:24]"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after"), FIXES)
@pytest.mark.parametrize("frame", ["{}\n", "\ufeff标题\r\n\r\n{}\r\nend", "{}"])
def test_fix_touches_digits_alone(project: Path, before: str, after: str, frame: str) -> None:
    path = doc(project, frame.format(before))
    run_fix([path])
    assert (project / path).read_bytes() == frame.format(after).encode()


def test_fix_moves_a_link_to_another_pin_when_proven(project: Path) -> None:
    link = f"https://github.com/example/tiny/blob/{V1}/examples/attn/fwd.py"
    text = f"a {link}#L9\nb {link}#L8\nc {link}#L7\n"
    path = doc(project, text)
    run_fix([path], pins=["tiny@v2"])
    new = link.replace(V1, V2)
    # Line 8 of v1 is nowhere in v2: its old commit still works, and stays.
    assert (project / path).read_text("utf-8") == f"a {new}#L8\nb {link}#L8\nc {new}#L7\n"


@pytest.mark.parametrize("name", ["a.md", "a b.md", "文档.md"])
def test_the_patch_is_one_that_git_takes(
    project: Path, capfdbinary: pytest.CaptureFixture[bytes], name: str
) -> None:
    path = doc(project, "一\r\n" + BAD.replace("\n", "\r\n") + "last line, no newline", name)
    before = (project / path).read_bytes()
    assert run_fix([path], dry_run=True) == 0
    patch = capfdbinary.readouterr().out
    assert (project / path).read_bytes() == before
    subprocess.run(["git", "init", "-q"], check=True, cwd=project)
    subprocess.run(["git", "apply", "-"], input=patch, check=True, cwd=project)
    applied = (project / path).read_bytes()
    assert applied == before.replace(b"20-24", b"29-32")


# -- record ----------------------------------------------------------------------------------


def test_record_proves_sameness_later(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = doc(project, "Look at `examples/attn/fwd.py:14`.\n")
    assert run_record([path]) == 0
    run_check([path], format="json")
    assert json.loads(answer(capsys))["citations"][0]["verdict"] == "ok"
    kernel = project / "_vendor/tiny-v2/examples/attn/fwd.py"
    kernel.write_bytes(b"# one line more\n" + kernel.read_bytes())
    run_check([path], format="json")
    (one,) = json.loads(answer(capsys))["citations"]
    assert (one["verdict"], one["candidates"][0]["lines"]) == ("off", [15, 15])


def test_record_keeps_the_bytes_of_what_it_does_not_touch(project: Path) -> None:
    a = doc(project, GOOD + "`examples/attn/fwd.py:7`\n", "a.md")
    b = doc(project, GOOD, "b.md")
    run_record([a, b])
    record = project / "srcmap.cites.toml"
    text = record.read_text("utf-8")
    commented = text.replace("[[cite]]", "[[cite]]\n# kept by hand", 1) + "# the end\n"
    record.write_text(commented, encoding="utf-8")
    doc(project, GOOD + "`examples/attn/fwd.py:8`\n", "a.md")
    run_record([a])
    new = record.read_text("utf-8")
    assert "# kept by hand" in new
    assert new.endswith("# the end\n")
    assert "lines = [8, 8]" in new
    assert "lines = [7, 7]" not in new
    run_record([a, b])
    assert record.read_text("utf-8") == new


def test_record_leaves_faults_out(project: Path) -> None:
    assert run_record([doc(project, GOOD + BAD)]) == 1
    assert (project / "srcmap.cites.toml").read_text("utf-8").count("[[cite]]") == 1


# -- tables ----------------------------------------------------------------------------------


@pytest.fixture
def mapped(project: Path) -> Path:
    (project / "srcmap-variants").mkdir()
    (project / "srcmap-variants/tiny.toml").write_text(
        'format = 1\nid = "tiny"\nname = { en = "Tiny", zh = "小" }\n'
        'summary = { en = "Small.", zh = "小。" }\nown = ["causal-mask"]\nmust = ["causal-mask"]\n'
        '[[file]]\nrepo = "tiny"\npath = "examples/attn/fwd.py"\n',
        encoding="utf-8",
    )
    return project


@pytest.mark.parametrize("format_", ["markdown", "myst", "rst", "html", "latex", "csv", "json"])
@pytest.mark.parametrize("lang", ["en", "zh"])
def test_tables(mapped: Path, format_: str, lang: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        run_table(["tiny"], format=format_, lang=lang, columns="concept,name,location,digest") == 0
    )
    text = answer(capsys)
    assert "causal-mask" in text
    plain = text.replace("\\", "").replace("allowbreak{}", "")
    assert (
        f"https://github.com/example/tiny/blob/{V2}/examples/attn/fwd.py" in plain
        or format_ == "csv"
    )


def test_groups_and_unknown_columns(mapped: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_table(["tiny"], columns="location", group_by="concept")
    assert "**causal-mask**" in answer(capsys)
    with pytest.raises(UsageError, match="no column 'size'"):
        run_table(["tiny"], columns="size")


MARKED = {
    "a.md": "# T\n\n<!-- srcmap:table variant=tiny concept=causal-mask -->\nold\n<!-- /srcmap -->\nend",  # noqa: E501
    "b.md": "see <!-- srcmap:ref tiny/causal-mask --> there\n",
    "c.rst": "T\n=\n\n.. srcmap:table variant=tiny lang=zh\n\n.. /srcmap\n\nend\n",
    "d.tex": "a\n% srcmap:table variant=tiny\nold\n% /srcmap\nb\n",
    "e.html": "<p><!-- srcmap:ref tiny/check-inf -->x<!-- /srcmap --></p>\n",
    "f.rst": "T\n=\n\n.. srcmap:ref tiny/causal-mask\n\nend\n",
}


@pytest.mark.parametrize("name", MARKED)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_inject_is_idempotent_and_changes_nothing_else(
    mapped: Path, name: str, newline: str, capfd: pytest.CaptureFixture[str]
) -> None:
    text = "\ufeff" + MARKED[name].replace("\n", newline)
    path = doc(mapped, text, name)
    assert run_inject([path], check=True) == 1
    assert (mapped / path).read_bytes() == text.encode()
    assert run_inject([path]) == 0
    once = (mapped / path).read_bytes()
    assert b"fwd.py" in once
    assert run_inject([path], check=True) == 0
    run_inject([path])
    assert (mapped / path).read_bytes() == once
    assert outside(once.decode()) == outside(text)
    assert newline == "\n" or b"\n" not in once.replace(b"\r\n", b"")


def outside(text: str) -> list[str]:
    """Cut every block out, and every end that was written in."""
    block = r"(?:<!-- |\.\. |% )srcmap:\w+[^\n\r]*?(?: -->|(?=\r?\n))"
    end = r"(?:<!-- /srcmap -->|^[ \t]*(?:\.\.|%) /srcmap)"
    return re.split(rf"{block}(?:(?:(?!srcmap:).)*?{end})?", text, flags=re.DOTALL | re.MULTILINE)


def test_markers_that_are_only_shown_stay(mapped: Path) -> None:
    text = (
        "`<!-- srcmap:ref tiny/causal-mask -->`\n\n```\n<!-- srcmap:table variant=tiny -->\n```\n"
    )
    path = doc(mapped, text)
    assert run_inject([path]) == 3
    assert (mapped / path).read_text("utf-8") == text


@pytest.mark.parametrize(
    "text",
    ["<!-- srcmap:table variant=tiny -->\n", "<!-- srcmap:tabel x -->\n<!-- /srcmap -->\n",
     "<!-- srcmap:ref tiny/nothing -->\n", "<!-- srcmap:ref tiny -->\n"],
)  # fmt: skip
def test_markers_that_cannot_be_meant(mapped: Path, text: str) -> None:
    path = doc(mapped, text)
    with pytest.raises(UsageError):
        run_inject([path])
    assert (mapped / path).read_text("utf-8") == text


def test_many_documents_over_several_processes(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "many").mkdir()
    for number in range(260):
        doc(project, GOOD if number % 2 else BAD, f"many/{number:03}.md")
    assert run_check([Path("many")], format="json") == 1
    whole = msgspec.json.decode(answer(capsys))
    assert whole["counts"]["ok"] == whole["counts"]["off"] == 130
    names = [c["document"] for c in whole["citations"]]
    assert names == sorted(names)


def test_many_documents_are_remembered_and_noticed_when_they_change(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "many").mkdir()
    for number in range(130):
        doc(project, GOOD + f"\n`util{number}.py`\n", f"many/{number:03}.md")

    def counts() -> dict[str, int]:
        run_check([Path("many")], format="json")
        found: dict[str, int] = msgspec.json.decode(answer(capsys))["counts"]
        return {name: n for name, n in found.items() if n}

    first = counts()
    assert counts() == first
    doc(project, BAD, "many/007.md")
    assert counts() == {**first, "ok": 129, "off": 1}
    # A map that says otherwise is another world.
    maps = project / ".srcmap" / "maps" / "tiny-v2.json"
    maps.write_bytes(maps.read_bytes().replace(b"causal-mask", b"window-mask"))
    assert counts() != {**first, "ok": 129, "off": 1}


def test_lines_of_a_notebook_are_those_of_its_file(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cell = {"cell_type": "markdown", "metadata": {}, "source": ["# T\n", BAD]}
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4}, indent=1)
    path = doc(project, text, "n.ipynb")
    run_check([path], format="json")
    (one,) = json.loads(answer(capsys))["citations"]
    assert "20-24" in text.split("\n")[one["line"] - 1]
    run_fix([path])
    assert (project / path).read_text("utf-8") == text.replace("20-24", "29-32")
