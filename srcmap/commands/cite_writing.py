"""`srcmap cite record|fix`: write down what is right, repair what is proven wrong."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from srcmap import i18n
from srcmap.commands.options import Lang  # typer reads it at run time  # noqa: TC001
from srcmap.errors import SrcmapError, UsageError
from srcmap.model import Note

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.cite.audit import Audited, Task
    from srcmap.cite.fix import Change
    from srcmap.cite.nouns import Candidate, Judged
    from srcmap.commands.citing import Setup

_Files = Annotated[
    Optional[list[Path]],  # noqa: UP045
    typer.Argument(metavar="[FILE|FOLDER]...", help="cite.help.files", show_default=False),
]
_Pins = Annotated[
    Optional[list[str]],  # noqa: UP045
    typer.Option("--pin", metavar="REPO@VERSION", help="cite.help.pin", show_default=False),
]


def register(group: typer.Typer) -> None:
    """Add `record` and `fix` to the group."""

    @group.command("record", help="cite.help.record", epilog="cite.examples.record")
    def record(files: _Files = None, pin: _Pins = None, lang: Lang = None) -> int:  # noqa: ARG001
        return run_record(files or [], pins=pin or [], lang=i18n.language())

    @group.command("fix", help="cite.help.fix", epilog="cite.examples.fix")
    def fix(
        files: _Files = None,
        pin: _Pins = None,
        dry_run: Annotated[bool, typer.Option("--dry-run", help="cite.help.dry-run")] = False,
        interactive: Annotated[
            bool, typer.Option("--interactive", help="cite.help.interactive")
        ] = False,
        lang: Lang = None,  # noqa: ARG001
    ) -> int:
        return run_fix(files or [], pins=pin or [], dry_run=dry_run, interactive=interactive,
                       lang=i18n.language())  # fmt: skip


def _written(path: Path, data: bytes) -> None:
    """Put a file in place whole or not at all."""
    import os
    import tempfile

    path = path.resolve()
    try:
        mode = path.stat().st_mode if path.exists() else None
        with tempfile.NamedTemporaryFile(
            dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as out:
            out.write(data)
        if mode is not None:
            Path(out.name).chmod(mode & 0o7777)
        else:
            Path(out.name).chmod(0o666 & ~_umask())
        os.replace(out.name, path)  # noqa: PTH105
    except OSError as error:
        raise SrcmapError(f"{path}: cannot be written: {error.strerror}", slug="disk") from error


def _umask() -> int:
    import os

    found = os.umask(0)
    os.umask(found)
    return found


# -- record ----------------------------------------------------------------------------------


def run_record(
    files: Sequence[Path],
    *,
    pins: Sequence[str] = (),
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Write `srcmap.cites.toml` beside the documents; 1 when faults were left out of it."""
    from srcmap.cite.audit import audit
    from srcmap.cite.nouns import BAD
    from srcmap.cite.record import FILE, read_record
    from srcmap.commands.citing import chosen_documents, setup, task, tell

    found = setup(start)
    paths = chosen_documents(files, found)
    folders: dict[Path, dict[str, list[Judged]]] = {}
    total = faults = 0
    for (path, _), audited in zip(paths, audit(task(found, pins), paths), strict=True):
        _stop_at(audited)
        folders.setdefault(path.parent, {})[path.name] = list(audited.judged)
        total += len(audited.judged)
        faults += sum(one.verdict in BAD for one in audited.judged)
    if not total:
        tell(Note("cite.none", {"documents": str(len(paths))}), lang)
        return 3
    for folder, documents in folders.items():
        old = read_record(folder / FILE)
        new = old.renewed(documents)
        if new.encode() != old.encode() or not (folder / FILE).exists():
            _written(folder / FILE, new.encode())
        args = {"file": str(folder / FILE), "count": str(len(new.entries))}
        tell(Note("cite.recorded", args), lang)
    if faults:
        tell(Note("cite.not-recorded", {"count": str(faults)}), lang)
    return 1 if faults else 0


def _stop_at(audited: Audited) -> None:
    if audited.problem is not None:
        message = f"{audited.document}: cannot be read: {audited.problem}"
        raise SrcmapError(message, slug="disk")


# -- fix -------------------------------------------------------------------------------------


def run_fix(
    files: Sequence[Path],
    *,
    pins: Sequence[str] = (),
    dry_run: bool = False,
    interactive: bool = False,
    lang: str = "en",
    start: Path | None = None,
) -> int:
    """Repair documents; 1 while faults are left, 3 when nothing was read."""
    from srcmap.cite.audit import Auditor
    from srcmap.commands.citing import chosen_documents, setup, task, tell

    if interactive and (dry_run or not sys.stdin.isatty()):
        raise UsageError("--interactive needs a terminal and no --dry-run", slug="usage")
    found = setup(start)
    work = task(found, pins)
    fixer = _Fixer(found, work, Auditor(work), lang, interactive=interactive)
    total = 0
    for path, shown in chosen_documents(files, found):
        total += fixer.fix(path, shown, dry_run=dry_run)
    if not total:
        tell(Note("cite.none", {"documents": "0"}), lang)
        return 3
    tell(Note("cite.mended", {"count": str(fixer.mended), "left": str(fixer.left)}), lang)
    return 1 if fixer.left else 0


class _Fixer:
    """Mends one document after the other."""

    def __init__(
        self, found: Setup, work: Task, auditor: object, lang: str, *, interactive: bool
    ) -> None:
        from srcmap.cite.audit import Auditor

        assert isinstance(auditor, Auditor)  # noqa: S101
        self._found, self._work, self._auditor = found, work, auditor
        self._lang, self._interactive = lang, interactive
        self.mended = self.left = 0

    def fix(self, path: Path, shown: str, *, dry_run: bool) -> int:
        """Mend one document and give how many citations it has."""
        from srcmap.cite.fix import apply, patch

        try:
            data = path.read_bytes()
        except OSError as error:
            raise SrcmapError(f"{path}: cannot be read: {error.strerror}", slug="disk") from error
        judged = list(self._auditor.judged(data, shown, path))
        found: list[Change] = []
        for one in judged:
            found.extend(self._mended(one, data))
        after = apply(data, found)
        if after != data and dry_run:
            from srcmap.commands.citing import known_name

            sys.stdout.buffer.write(patch(known_name(path, self._found.project), data, after))
            sys.stdout.buffer.flush()
        elif after != data:
            _written(path, after)
        return len(judged)

    def _mended(self, judged: Judged, data: bytes) -> list[Change]:
        from srcmap.cite.fix import changes, proven
        from srcmap.cite.nouns import BAD

        right = proven(judged)
        if right is None and self._interactive and judged.verdict in BAD:
            right = self._asked(judged)
        if judged.verdict in BAD and right is None:
            self.left += 1
            return []
        commit = self._commit(judged)
        lines = right.lines if right else None
        found = changes(judged, lines, commit, data)
        if found:
            self.mended += 1
        elif judged.verdict in BAD:
            self.left += 1
        return found

    def _commit(self, judged: Judged) -> str | None:
        """Give the commit that a link may name now: that of the pin where its lines were proven."""
        forced = judged.judged_at and judged.judged_at.partition("@")[0] in self._work.pins
        proven = judged.verdict == "ok" or judged.verdict in ("off", "out-of-range", "blank")
        if not forced or not proven or "other-pin" not in judged.flags:
            return None
        repo, _, version = (judged.judged_at or "").partition("@")
        lock = next((lock for lock in self._found.locks if lock.name == repo), None)
        pin = lock.find(version) if lock else None
        return pin.commit if pin else None

    def _asked(self, judged: Judged) -> Candidate | None:
        """Show the candidates as code and ask which it is."""
        from srcmap.commands.citing import shown
        from srcmap.render import cite_text
        from srcmap.render.console import console_for, emit

        choices = [c for c in judged.candidates
                   if c.lines and c.path == judged.citation.target.path]  # fmt: skip
        if not choices:
            return None
        page = shown(judged, self._lang)
        emit(cite_text.citation(page, console_for(sys.stderr, self._lang)), sys.stderr)
        for number, candidate in enumerate(choices, 1):
            emit(f"  [{number}] {candidate.path}:{candidate.lines}", sys.stderr)
            emit("\n".join(self._code(judged, candidate)), sys.stderr)
        answer = input(i18n.text("cite.ask", self._lang, count=len(choices))).strip()
        chosen = int(answer) if answer.isdigit() else 0
        return choices[chosen - 1] if 0 < chosen <= len(choices) else None

    def _code(self, judged: Judged, candidate: Candidate) -> list[str]:
        from srcmap.render.layout import visible

        repo, _, version = (judged.judged_at or "").partition("@")
        tree = self._auditor.shelf.tree(repo, version)
        text = self._auditor.shelf.file(tree, candidate.path) if tree else None
        if text is None or candidate.lines is None:
            return []
        last = min(candidate.lines.last, candidate.lines.first + 11)
        return [f"      {n:>5}  {visible(text.lines[n - 1])}"
                for n in range(candidate.lines.first, last + 1) if n <= text.size]  # fmt: skip
