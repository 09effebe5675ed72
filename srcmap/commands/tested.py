"""What the diff test last said of a file, for the pages of variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from srcmap import i18n
from srcmap.verify import results as kept

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from srcmap.mapfile import Entry
    from srcmap.verify.results import Result


class Tested:
    """The kept results of a project, read once."""

    def __init__(self, project: Path | None) -> None:
        self._results: dict[tuple[str, str, str], list[Result]] = {}
        for result in kept.load(project):
            key = (result.repo, result.pin, result.path)
            self._results.setdefault(key, []).append(result)

    def remark(self, repo: str, pin: str, entries: Sequence[Entry], lang: str) -> tuple[str, ...]:
        """Say the state of the file of these entries; nothing when it never ran."""
        if not entries:
            return ()
        path, blob = entries[0].path, entries[0].blob
        found = self._results.get((repo, pin, path), [])
        said = [f"{r.engine} {i18n.text(f'run.state.{_state(r, blob)}', lang)}" for r in found]
        if not said:
            return ()
        joined = i18n.text("verify.comma", lang).join(said)
        return (i18n.text("verify.tested", lang, states=joined),)

    def as_json(self, repo: str, pin: str, path: str, blob: str) -> list[dict[str, Any]] | None:
        """Return engine, state and largest error of each result; None when it never ran."""
        found = self._results.get((repo, pin, path))
        return None if found is None else [_facts(result, blob) for result in found]


def _state(result: Result, blob: str) -> str:
    return "stale" if result.upstream and kept.is_stale(result, blob) else result.state


def _facts(result: Result, blob: str) -> dict[str, Any]:
    errors = [c.error for c in result.checks if c.compared and c.error is not None]
    ratios = [c.ratio for c in result.checks if c.compared and c.ratio is not None]
    return {
        "engine": result.engine,
        "state": _state(result, blob),
        "reason": result.reason,
        "checks": len(result.checks),
        "error": max(errors, default=None),
        "of_budget": max(ratios, default=None),
    }
