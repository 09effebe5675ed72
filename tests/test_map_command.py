"""`srcmap map`: what it prints, what it writes, and its exit codes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from srcmap import checkout
from srcmap.commands import map as command
from srcmap.errors import SrcmapError, UsageError
from srcmap.model import FileAnatomy, KernelAnatomy, Lines, Site

if TYPE_CHECKING:
    from pathlib import Path

    from srcmap.lock import Lock, Pin

SOURCE = b"one\ntwo\nthree\n"

VARIANT = """
format = 1
id = "tiny"
name = { en = "Tiny", zh = "小" }
summary = { en = "A tiny one.", zh = "很小。" }
own = ["row-max"]
must = ["row-max"]
[[file]]
repo = "ours"
path = "a.py"
[[file]]
repo = "ours"
path = "b.py"
"""

LOCK = """
format = "1.0"
[repo]
name = "ours"
url = "https://code.example/ours"
licence = "MIT"
current = "v1"
[[pin]]
version = "v1"
commit = "{commit}"
requested = "v1"
"""


class Tree:
    def __init__(self, lock: Lock, pin: Pin, files: dict[str, bytes]) -> None:
        self.lock, self.pin, self.partial, self.files = lock, pin, False, files

    def paths(self) -> tuple[str, ...]:
        return tuple(sorted(self.files))

    def read(self, path: str) -> bytes:
        if not self.files[path]:
            raise PermissionError(13, "Permission denied")
        return self.files[path]


def anatomy_of(task: Any) -> FileAnatomy:
    line = task.data.split(b"\n").index(b"two") + 1
    site = Site(
        concept="row-max", label="", lines=Lines(line, line), context=Lines(line, line),
        qualname="f.main",
    )  # fmt: skip
    whole = KernelAnatomy(qualname="f.main", kind="attention", lines=Lines(1, 3), sites=(site,))
    return FileAnatomy(path=task.path, language="python", kernels=(whole,))


@pytest.fixture
def files() -> dict[str, bytes]:
    return {"a.py": SOURCE, "b.py": SOURCE}


@pytest.fixture
def project(tmp_path: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with one pin of its own and one variant; checkouts are made of `files`."""
    (tmp_path / "vendor_locks").mkdir()
    (tmp_path / "vendor_locks" / "ours.toml").write_text(LOCK.format(commit="c0ffee" * 6 + "c0de"))
    (tmp_path / "srcmap-variants").mkdir()
    (tmp_path / "srcmap-variants" / "tiny.toml").write_text(VARIANT, encoding="utf-8")
    monkeypatch.setenv("SRCMAP_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("srcmap.mapping._anatomy_of", anatomy_of)

    def find(lock: Lock, pin: Pin, _: Any) -> Tree | None:
        return Tree(lock, pin, files) if lock.name == "ours" and files else None

    monkeypatch.setattr(checkout, "find_checkout", find)
    return tmp_path


def lines_of(capsys: pytest.CaptureFixture[str]) -> list[str]:
    return capsys.readouterr().out.splitlines()


def kept(project: Path) -> Path:
    return project / ".srcmap" / "maps" / "ours-v1.json"


def test_a_project_s_map_is_built_beside_its_locks(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run_build(["ours"], start=project) == 0
    (line,) = lines_of(capsys)
    assert line.startswith(
        "ours@v1: 2 found, 0 absent, 0 missing, 0 ambiguous; "
        "files: 2 read, 0 unread, 0 not in the pin -> "
    )
    assert [p.name for p in kept(project).parent.iterdir()] == ["ours-v1.json"]


def test_building_twice_gives_the_same_bytes(project: Path) -> None:
    command.run_build(["ours@v1"], start=project)
    first = kept(project).read_bytes()
    command.run_build(["ours@v1"], start=project)
    assert kept(project).read_bytes() == first


def test_check_agrees_with_what_was_built(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command.run_build(["ours"], start=project)
    lines_of(capsys)
    assert command.run_check(["ours"], start=project) == 0
    assert lines_of(capsys) == ["ours@v1: 2 entries, all as kept."]


def test_check_names_what_moved(
    project: Path, files: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    command.run_build(["ours"], start=project)
    lines_of(capsys)
    files["a.py"] = b"zero\n" + SOURCE
    assert command.run_check(["ours"], start=project) == 1
    assert lines_of(capsys) == [
        "ours@v1: 1 entries differ from the kept map (- kept, + built, ~ changed):",
        "  ~ tiny  row-max  a.py:3  (lines 2 -> 3, context, blob)",
    ]


def test_check_in_chinese(
    project: Path, files: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    command.run_build(["ours"], start=project)
    lines_of(capsys)
    del files["b.py"]
    assert command.run_check(["ours"], start=project, lang="zh") == 1
    assert lines_of(capsys)[1] == (
        "  ~ tiny  row-max  b.py  [missing]  v1 没有这个文件，别处也没有它。"
        "  (lines 2 -> None, context, qualname f.main -> , status found -> missing, blob, "
        "digest, code_digest, form, reason)"
    )


def test_check_without_a_map_could_not_judge(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.run_check(["ours"], start=project) == 3
    assert "ours@v1: no map is kept" in capsys.readouterr().err


def test_check_without_a_checkout_could_not_judge(
    project: Path, files: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    command.run_build(["ours"], start=project)
    files.clear()
    assert command.run_check(["ours"], start=project) == 3
    assert "`srcmap sync ours@v1` brings it" in capsys.readouterr().err


def test_nothing_to_build_is_no_success(
    project: Path, files: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    files.clear()
    assert command.run_build(["ours"], start=project) == 3
    assert "No map was built" in capsys.readouterr().err


def test_an_unreadable_file_is_listed_and_the_rest_goes_on(
    project: Path, files: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    files["b.py"] = b""
    assert command.run_build(["ours"], start=project) == 1
    summary, problem = lines_of(capsys)
    assert "1 found, 0 absent, 1 missing, 0 ambiguous; files: 1 read, 1 unread" in summary
    assert problem.strip() == "b.py could not be read: [Errno 13] Permission denied"


def test_maps_can_be_written_elsewhere(project: Path, tmp_path: Path) -> None:
    assert command.run_build(["ours"], start=project, out=tmp_path / "out") == 0
    assert (tmp_path / "out" / "ours-v1.json").is_file()
    assert not kept(project).exists()


def test_show_prints_the_map(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.run_build(["ours"], start=project)
    lines_of(capsys)
    assert command.run_show("ours@v1", start=project) == 0
    title, first, second = lines_of(capsys)
    assert title.startswith("ours@v1 (")
    assert (first, second) == ("tiny  row-max  a.py:2", "tiny  row-max  b.py:2")


def test_show_json_is_the_map_itself(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command.run_build(["ours"], start=project)
    lines_of(capsys)
    assert command.run_show("ours", format="json", start=project) == 0
    out = capsys.readouterr().out
    assert out.encode() == kept(project).read_bytes()
    entry = msgspec.json.decode(out)["entries"][0]
    asked = {"variant", "concept", "site", "repo", "pin", "path", "lines", "context",
             "qualname", "status"}  # fmt: skip
    assert asked <= entry.keys()


def test_show_without_a_map_says_how_to_get_one(project: Path) -> None:
    with pytest.raises(SrcmapError, match="no map of ours@v1 is kept") as caught:
        command.run_show("ours@v1", start=project)
    assert caught.value.hint == "srcmap sync ours@v1, then srcmap map build ours@v1"


def test_an_unknown_pin_is_wrong_usage(project: Path) -> None:
    with pytest.raises(UsageError, match="no repository 'theirs' is pinned"):
        command.run_build(["theirs"], start=project)


def test_anatomies_are_read_once(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command.run_build(["ours"], start=project)

    def never(_: object) -> FileAnatomy:
        raise AssertionError("read again")

    monkeypatch.setattr("srcmap.mapping._anatomy_of", never)
    assert command.run_check(["ours"], start=project) == 0


def test_without_processes_one_process_reads_all(
    project: Path, files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: object) -> None:
        raise OSError("no semaphores here")

    monkeypatch.setattr("concurrent.futures.ProcessPoolExecutor", none)
    monkeypatch.setattr("srcmap.mapping._PAYS_FROM", 1)
    monkeypatch.setattr("srcmap.mapping.default_workers", lambda: 2)
    assert command.run_build(["ours"], start=project) == 0


def test_a_cache_that_cannot_be_written_changes_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (project / "in-the-way").write_text("x")
    monkeypatch.setenv("SRCMAP_CACHE", str(project / "in-the-way"))
    assert command.run_build(["ours"], start=project) == 0


@pytest.mark.parametrize(
    ("evidence", "code"),
    [
        ('concepts = ["row-max"]', 0),
        ('concepts = ["kv-loop"]', 1),
        ('evidence = [{ concept = "row-max", variant = "tiny", repo = "ours" }]', 0),
        ('evidence = [{ concept = "kv-loop", variant = "*" }]', 1),
        ('evidence = [{ concept = "kv-loop", repo = "theirs" }]', 0),
        ('evidence = [{ concept = "kv-loop", pin = "v0" }]', 0),
        ('evidence = [{ concept = "kv-loop", pin = "v1" }]', 1),
    ],
)
def test_check_reports_a_note_whose_evidence_is_gone(
    evidence: str, code: int, project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = f'[[note]]\nen = "It is so."\nzh = "就是这样。"\n{evidence}\n'
    path = project / "srcmap-variants" / "tiny.toml"
    path.write_text(VARIANT + note, encoding="utf-8")
    command.run_build(["ours"], start=project)
    lines_of(capsys)
    assert command.run_check(["ours"], start=project) == code
    same, *unproven = lines_of(capsys)
    assert same.endswith("as kept.")
    assert len(unproven) == code
    for line in unproven:
        assert line.startswith("ours@v1: tiny has a note whose evidence is gone: no kv-loop of ")
        assert line.endswith("Note: It is so.")


def test_evidence_of_nobody_is_no_variant_file(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    note = (
        '[[note]]\nen = "x"\nzh = "x"\nevidence = [{ concept = "row-max", variant = "nobody" }]\n'
    )
    path = project / "srcmap-variants" / "tiny.toml"
    path.write_text(VARIANT + note, encoding="utf-8")
    with pytest.raises(SrcmapError, match="note: no variant is called 'nobody'"):
        command.run_build(["ours"], start=project)
    assert not lines_of(capsys)
