"""Several files at once: killed at any point, the project is as before or as after."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest

from srcmap.drift import transaction
from srcmap.errors import SrcmapError


class Killed(BaseException):
    """The process ends here."""


FILES = ("vendor_locks/tiny.toml", ".srcmap/maps/tiny-v2.json", "docs/a.md", "report.md")


def project_of(folder: Path) -> Path:
    for name in FILES[:3]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"old " + name.encode())
    (folder / ".srcmap").mkdir(exist_ok=True)
    return folder


def planned(project: Path) -> tuple[dict[Path, bytes], dict[Path, bytes | None]]:
    files = {project / name: b"new " + name.encode() for name in FILES}
    before = {p: p.read_bytes() if p.exists() else None for p in files}
    return files, before


def state(project: Path) -> dict[str, bytes]:
    return {
        p.relative_to(project).as_posix(): p.read_bytes()
        for p in sorted(project.rglob("*"))
        if p.is_file() and not p.name.endswith(".lock")
    }


def test_all_files_are_written(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    with transaction.alone(project):
        transaction.commit(project, *planned(project))
    assert state(project) == {name: b"new " + name.encode() for name in sorted(FILES)}


@pytest.mark.parametrize("call", range(1, 14))
def test_killed_at_any_step(tmp_path: Path, call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every write, rename and removal is a step; the process ends before one of them."""
    project = project_of(tmp_path)
    before, after = state(project), {name: b"new " + name.encode() for name in sorted(FILES)}
    count = 0

    def killing(real: Any) -> Any:
        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal count
            count += 1
            if count == call:
                raise Killed
            return real(*arguments, **options)

        return step

    files, known = planned(project)
    with monkeypatch.context() as patch:
        patch.setattr(tempfile, "mkstemp", killing(tempfile.mkstemp))
        patch.setattr(Path, "replace", killing(Path.replace))
        patch.setattr(Path, "unlink", killing(Path.unlink))
        patch.setattr(transaction, "_clear", lambda *_: None)  # a dead process clears nothing
        try:
            with transaction.alone(project):
                transaction.commit(project, files, known)
        except Killed:
            pass
    with transaction.alone(project):
        said = transaction.recover(project)
    found = state(project)
    assert found in (before, after), said
    assert (said == "finished") <= (found == after)
    with transaction.alone(project):
        assert transaction.recover(project) == ""


def test_an_edit_meanwhile_stops_it(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    files, before = planned(project)
    (project / "docs/a.md").write_bytes(b"somebody's words")
    with transaction.alone(project), pytest.raises(SrcmapError, match="somebody else"):
        transaction.commit(project, files, before)
    assert state(project)["vendor_locks/tiny.toml"].startswith(b"old")


def test_two_at_once_are_refused(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    with (
        transaction.alone(project),
        pytest.raises(SrcmapError, match="under way"),
        transaction.alone(project),
    ):
        pass


def test_line_ends_and_modes_are_kept(tmp_path: Path) -> None:
    project = project_of(tmp_path)
    script = project / "docs/a.md"
    script.chmod(0o755)
    with transaction.alone(project):
        transaction.commit(project, {script: b"a\r\nb"}, {script: script.read_bytes()})
    assert script.read_bytes() == b"a\r\nb"
    assert script.stat().st_mode & 0o777 == 0o755
