"""`srcmap drift`, `bump` and `history` in process, on a repository and a project of our own."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

from srcmap.cli import run
from tests.checkout.world import Upstream
from tests.drift.world import KERNEL

if TYPE_CHECKING:
    from pathlib import Path

PATH = "kernels/attention.py"
OTHER = "src/other.cc"
CPP = "int one() {\n  return first();\n}\n\nint two() {\n  return second();\n}\n"
CHANGED = "# above\n" + KERNEL.replace("num_stages=2", "num_stages=3")


class World:
    """Two tagged versions upstream, and a project that pins the first."""

    def __init__(self, folder: Path) -> None:
        self.upstream = Upstream(folder / "upstream")
        self.old = self.upstream.commit({PATH: KERNEL.encode(), OTHER: CPP.encode()}, "Begin (#1)")
        self.upstream.git("tag", "v1")
        self.new = self.upstream.commit({PATH: CHANGED.encode()}, "More stages (#2)")
        self.upstream.git("tag", "v2")
        self.project = folder / "project"
        (self.project / "vendor_locks").mkdir(parents=True)
        (self.project / "vendor_locks" / "tiny.toml").write_text(
            f'format = "1.0"\n[repo]\nname = "tiny"\nurl = "{self.upstream.url}"\n'
            f'current = "v1"\n[[pin]]\nversion = "v1"\ncommit = "{self.old}"\n'
            'requested = "v1"\nref = "refs/tags/v1"\n'
        )
        (self.project / "docs").mkdir()


@pytest.fixture
def world(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> World:
    home = tmp_path_factory.mktemp("home")
    for name in list(os.environ):
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.setenv("SRCMAP_CACHE", str(home / "cache"))
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    made = World(tmp_path)
    monkeypatch.chdir(made.project)
    return made


def answered(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    code = run(list(argv))
    out, err = capsys.readouterr()
    return code, out, err


def as_json(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, Any]]:
    code, out, err = answered(capsys, *argv, "--format", "json")
    assert out, err
    return code, json.loads(out)


LINES = ("--lines", f"{PATH}:16", "--lines", f"{PATH}:20-21", "--lines", f"{OTHER}:2")


def test_lines_between_two_tags_of_a_clone(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = as_json(capsys, "drift", "tiny", "v1", "v2", *LINES)
    assert code == 1
    assert found["format"] == "srcmap-drift/1"
    assert (found["old"]["commit"], found["new"]["commit"]) == (world.old, world.new)
    verdicts = [entry["verdict"] for entry in found["entries"]]
    assert verdicts == ["changed", "moved", "same"]
    first = found["entries"][0]
    assert first["old"] == {"path": PATH, "lines": [16, 16]}
    assert first["new"] == {"path": PATH, "lines": [17, 17]}
    assert (first["grade"], first["what"]) == ("proven", ["bound: 2 -> 3"])
    assert "history" in first["methods"]
    assert {"variant", "concept", "site", "similarity", "candidates", "reason"} <= set(first)
    assert found["counts"]["changed"] == 1


def test_json_is_the_same_twice(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    first = answered(capsys, "drift", "tiny", "v1", "v2", *LINES, "--format", "json")
    assert answered(capsys, "drift", "tiny", "v1", "v2", *LINES, "--format", "json") == first


def test_a_folder_is_a_version(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.upstream.write({PATH: (b"# local\n" + CHANGED.encode()).replace(b"\n", b"\r\n")})
    folder = str(world.upstream.path)
    code, found = as_json(capsys, "drift", "tiny", "v1", folder, "--lines", f"{PATH}:20-21")
    assert (code, found["entries"][0]["verdict"]) == (0, "moved")
    assert found["entries"][0]["new"]["lines"] == [22, 23]


def test_fail_on_chooses_the_exit_code(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("drift", "tiny", "v1", "v2", *LINES)
    assert answered(capsys, *argv)[0] == 1
    assert answered(capsys, *argv, "--fail-on", "removed")[0] == 0
    assert answered(capsys, *argv, "--fail-on", "none")[0] == 0
    code, _, err = answered(capsys, *argv, "--fail-on", "gone")
    assert (code, "no verdict" in err) == (2, True)


def test_what_cannot_be_judged_is_never_green(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = as_json(capsys, "drift", "tiny", "v1", "v2", "--lines", "nowhere.py:1-2")
    assert (code, found["entries"][0]["verdict"]) == (3, "unjudged")


def test_nothing_asked_is_not_green(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answered(capsys, "drift", "tiny", "v1", "v2")
    assert code == 3
    assert out.strip()


def test_without_trees_the_command_that_helps_is_named(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ("drift", "tiny", "v1", "v1", "--history", "none", "--lines", f"{PATH}:3")
    code, found = as_json(capsys, *argv)
    assert (code, found["entries"][0]["verdict"]) == (3, "unjudged")
    assert "srcmap sync tiny@v1" in found["entries"][0]["reason"][0]["text"]


def test_a_shallow_clone_says_what_it_lacks(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert answered(capsys, "sync", "tiny@v1")[0] == 0
    shallow = tmp_path / "shallow"
    world.upstream.git("clone", "--quiet", "--depth=1", world.upstream.url, str(shallow))
    argv = ("drift", "tiny", "v1", world.new, "--history", str(shallow), *LINES)
    code, found = as_json(capsys, *argv)
    assert code == 1
    assert any(str(shallow) in note for note in found["notes"])
    assert all("history" not in entry["methods"] for entry in found["entries"])


def test_a_blobless_clone_is_not_judged(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world.upstream.git("config", "uploadpack.allowFilter", "true")
    bare = tmp_path / "blobless.git"
    argv = ("clone", "--quiet", "--bare", "--filter=blob:none", world.upstream.url, str(bare))
    world.upstream.git(*argv)
    code, out, err = answered(capsys, "drift", "tiny", "v1", "v2", "--history", str(bare), *LINES)
    assert code == 3
    assert "fetch --refetch" in err + out


def test_lines_from_a_file(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    (world.project / "lines.txt").write_text(f"# cited\n{PATH}:16\n\n{PATH}:20-21\n")
    _, found = as_json(capsys, "drift", "tiny", "v1", "v2", "--lines", "@lines.txt")
    assert [e["verdict"] for e in found["entries"]] == ["changed", "moved"]
    assert answered(capsys, "drift", "tiny", "v1", "v2", "--lines", "a.py:9-3")[0] == 2
    assert answered(capsys, "drift", "tiny", "v1", "v2", "--lines", "@nowhere")[0] == 2
    assert answered(capsys, "drift", "tiny", "v1", "v99", *LINES)[0] == 2


def test_formats_for_ci(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    argv = ("drift", "tiny", "v1", "v2", *LINES)
    _, out, _ = answered(capsys, *argv, "--format", "sarif")
    results = json.loads(out)["runs"][0]["results"]
    assert [r["ruleId"] for r in results] == ["drift/changed"]
    place = results[0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "vendor_locks/tiny.toml"
    _, out, _ = answered(capsys, *argv, "--format", "annotations")
    assert out.startswith(
        "::error file=vendor_locks/tiny.toml,line=1,endLine=1,title=drift/changed"
    )
    assert out.count("\n") == 1, "a message of several lines is escaped"
    _, out, _ = answered(capsys, *argv, "--format", "junit")
    suite = ET.fromstring(out)  # noqa: S314 - our own output
    assert (suite.attrib["tests"], suite.attrib["failures"]) == ("3", "1")
    _, out, _ = answered(capsys, *argv, "--format", "markdown")
    assert "| `changed` | 1 | 1 |" in out


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_sentence_is_said(
    world: World, capsys: pytest.CaptureFixture[str], lang: str
) -> None:
    for argv in (("drift", "tiny", "v1", "v2", *LINES, "--all"), ("bump", "tiny", "v2")):
        _, out, err = answered(capsys, *argv, "--lang", lang)
        assert "drift." not in out + err
        assert "bump." not in out + err


# -- bump ------------------------------------------------------------------------------------

DOCUMENT = (
    "# A\r\n\r\nSee `tiny` `kernels/attention.py:20-21`, `kernels/attention.py:16`"
    " and `src/other.cc:2`.\r\nno newline at the end"
)


def test_bump_without_write_leaves_the_current_pin(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    (world.project / "docs/a.md").write_bytes(DOCUMENT.encode())
    answered(capsys, "sync", "tiny")
    code, _, err = answered(capsys, "bump", "tiny", "v2", "--docs", "docs")
    assert code == 1, err
    lock = (world.project / "vendor_locks/tiny.toml").read_text()
    assert 'current = "v1"' in lock
    assert world.new in lock
    assert (world.project / "docs/a.md").read_bytes() == DOCUMENT.encode()


def test_bump_writes_what_is_proven_and_lists_the_rest(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    document = world.project / "docs/a.md"
    document.write_bytes(DOCUMENT.encode())
    answered(capsys, "sync", "tiny")
    assert answered(capsys, "cite", "record", "docs/a.md")[0] == 0
    code, _, err = answered(capsys, "bump", "tiny", "v2", "--docs", "docs", "--write")
    assert code == 1, err
    wanted = DOCUMENT.replace("attention.py:20-21", "attention.py:21-22")
    assert document.read_bytes() == wanted.encode(), "digits, and no other byte"
    assert 'current = "v2"' in (world.project / "vendor_locks/tiny.toml").read_text()
    assert (world.project / ".srcmap/maps/tiny-v2.json").is_file()
    report = (world.project / "srcmap-bump-tiny-v2.md").read_text()
    assert "docs/a.md:3" in report
    record = (world.project / "docs/srcmap.cites.toml").read_text()
    assert record.count('pin = "tiny@v2"') == 2
    assert record.count('pin = "tiny@v1"') == 1, "what changed keeps its old pin"
    assert answered(capsys, "bump", "tiny", "v2", "--write")[0] == 0, "nothing more to do"


def test_an_interrupted_bump_is_finished_by_the_next(
    world: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from srcmap.drift import transaction

    (world.project / "docs/a.md").write_bytes(DOCUMENT.encode())
    answered(capsys, "sync", "tiny")
    with monkeypatch.context() as patch:
        patch.setattr(transaction, "_finish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        code, *_ = answered(capsys, "bump", "tiny", "v2", "--docs", "docs", "--write")
    assert code == 130
    assert 'current = "v1"' in (world.project / "vendor_locks/tiny.toml").read_text()
    code, _, err = answered(capsys, "bump", "tiny", "v2")
    assert (code, "finished" in err) == (0, True)
    assert 'current = "v2"' in (world.project / "vendor_locks/tiny.toml").read_text()
    assert b"attention.py:21-22" in (world.project / "docs/a.md").read_bytes()


def test_a_moved_tag_is_refused(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    answered(capsys, "bump", "tiny", "v2")
    world.upstream.commit({PATH: b"x = 1\n"})
    world.upstream.git("tag", "--force", "v3")
    answered(capsys, "bump", "tiny", "v3")
    third = world.upstream.commit({PATH: b"x = 2\n"})
    world.upstream.git("tag", "--force", "v3")
    code, _, err = answered(capsys, "bump", "tiny", third, "--as", "v3")
    assert code == 2
    assert "--as LABEL" in err


def test_submodules_and_links_are_passed_over(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    part = f"160000,{world.old},parts/module"
    world.upstream.git("update-index", "--add", "--cacheinfo", part)
    world.upstream.git("commit", "--quiet", "-m", "a submodule")
    world.upstream.git("tag", "v4")
    code, found = as_json(capsys, "drift", "tiny", "v1", "v4", "--lines", f"{OTHER}:2")
    assert (code, found["entries"][0]["verdict"]) == (0, "same")
