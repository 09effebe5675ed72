"""What the diff test last said of a file, for the pages of variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from srcmap import i18n
from srcmap.verify.home import home

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from srcmap.mapfile import Entry
    from srcmap.verify.kept import Shown


class Tested:
    """The kept results of a project, read once."""

    def __init__(self, project: Path | None) -> None:
        self._project = project
        self._results: dict[tuple[str, str, str], list[Shown]] = {}
        if project is None or not home(project).exists():
            return
        from srcmap.verify.kept import load

        for result in load(project):
            key = (result.repo, result.pin, result.path)
            self._results.setdefault(key, []).append(result)

    def remark(self, repo: str, pin: str, entries: Sequence[Entry], lang: str) -> tuple[str, ...]:
        """Say the state of the file of these entries; nothing when it never ran."""
        if not entries:
            return ()
        path, blob = entries[0].path, entries[0].blob
        found = self._results.get((repo, pin, path), [])
        said = [f"{r.engine} {i18n.text(f'run.state.{self._state(r, blob)}', lang)}" for r in found]
        if not said:
            return ()
        joined = i18n.text("verify.comma", lang).join(said)
        return (i18n.text("verify.tested", lang, states=joined),)

    def as_json(self, repo: str, pin: str, path: str, blob: str) -> list[dict[str, Any]] | None:
        """Return engine, state and largest error of each result; None when it never ran."""
        found = self._results.get((repo, pin, path))
        return None if found is None else [_facts(r, self._state(r, blob)) for r in found]

    def _state(self, result: Shown, blob: str) -> str:
        """Return the state, or that it is stale: upstream, ours or the method has changed."""
        from srcmap.verify import kept

        ours = None
        if result.ours:
            folders = kept.our_folders(self._project, result.ours_variants)
            ours = kept.ours_digest(folders)
        stale = bool(result.upstream) and kept.is_stale(result, blob, ours)
        return "stale" if stale else result.state


def _facts(result: Shown, state: str) -> dict[str, Any]:
    errors = [c.error for c in result.checks if c.compared and c.error is not None]
    ratios = [c.ratio for c in result.checks if c.compared and c.ratio is not None]
    return {
        "engine": result.engine,
        "state": state,
        "reason": result.reason,
        "checks": len(result.checks),
        "error": max(errors, default=None),
        "of_budget": max(ratios, default=None),
    }
