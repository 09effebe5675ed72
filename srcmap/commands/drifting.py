"""What the commands about bumps share: a report said in one language, as a page or as findings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from srcmap import i18n
from srcmap.drift.nouns import VERDICTS
from srcmap.render.drift_pages import DriftPage, DriftRow
from srcmap.render.findings import Finding, Level
from srcmap.render.links import permalink

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from srcmap.drift.nouns import Answer, Item, Report, Spot

QUIET = frozenset({"same", "moved"})
"""Verdicts that are counted and not listed."""
NEEDS_A_PERSON = frozenset({"changed", "removed", "ambiguous", "unjudged"})


def page(report: Report, lang: str, *, everything: bool = False) -> DriftPage:
    """Say a report as a page."""
    names = {"repo": report.repo, "old": report.old.name, "new": report.new.name}
    counts = report.counts
    proven = dict.fromkeys(VERDICTS, 0)
    for item in report.items:
        proven[item.answer.verdict] += item.answer.grade == "proven"
    shown = [v for v in VERDICTS if counts[v] and (everything or v not in QUIET)]
    return DriftPage(
        title=i18n.text("drift.title", lang, **names),
        summary=tuple(
            (v, counts[v], proven[v], i18n.text(f"drift.means.{v}", lang))
            for v in VERDICTS
            if counts[v]
        ),
        head=_titles(("verdict", "count", "proven", "means"), lang),
        groups=tuple((v, _rows(report, v, lang)) for v in shown),
        documents=broken_documents(report, lang),
        documents_title=i18n.text("drift.documents", lang),
        remarks=tuple(i18n.say(note, lang) for note in report.notes),
        row_head=_titles(("subject", "old", "new", "facts", "details"), lang),
    )


def _titles(names: Iterable[str], lang: str) -> tuple[str, ...]:
    return tuple(i18n.text(f"drift.head.{name}", lang) for name in names)


def _rows(report: Report, verdict: str, lang: str) -> tuple[DriftRow, ...]:
    mine = [i for i in report.items if i.answer.verdict == verdict]
    if verdict != "unjudged":
        return tuple(_row(report, i, lang) for i in mine)
    by_reason: dict[str, list[Item]] = {}
    for item in mine:
        key = item.answer.reason[0].key if item.answer.reason else ""
        by_reason.setdefault(key, []).append(item)
    return tuple(row for items in by_reason.values() for row in _few(report, items, lang))


_SHOWN = 5
"""Items that are shown when many could not be judged for one reason; JSON has them all."""


def _few(report: Report, items: Sequence[Item], lang: str) -> list[DriftRow]:
    rows = [_row(report, item, lang) for item in items[:_SHOWN]]
    if len(items) > _SHOWN:
        more = i18n.text("drift.more", lang, count=len(items) - _SHOWN)
        rows.append(
            DriftRow(
                subject=more, old="", new="", verdict="unjudged", grade="", methods="",
                similarity="",
            )
        )  # fmt: skip
    return rows


def _row(report: Report, item: Item, lang: str) -> DriftRow:
    answer = item.answer
    fresh = answer.verdict == "new"
    return DriftRow(
        subject=item.subject,
        old="" if fresh else str(answer.old),
        new=str(answer.new) if answer.new is not None else "",
        old_url=None if fresh else _url(report, answer.old, report.old.commit),
        new_url=_url(report, answer.new, report.new.commit),
        verdict=answer.verdict,
        grade=i18n.text(f"drift.grade.{answer.grade}", lang) if answer.grade else "",
        methods=_methods(answer, lang),
        similarity=f"{answer.similarity:.2f}" if 0 < answer.similarity < 1 else "",
        details=tuple(details(answer, lang)),
    )


def _url(report: Report, spot: Spot | None, commit: str | None) -> str | None:
    return permalink(report.url, commit, spot.path, spot.lines) if spot is not None else None


def _methods(answer: Answer, lang: str) -> str:
    for_it = " + ".join(i18n.text(f"drift.method.{m}", lang) for m in answer.methods)
    if not answer.against:
        return for_it
    others = " + ".join(i18n.text(f"drift.method.{m}", lang) for m in answer.against)
    said = i18n.text("drift.against", lang, methods=others)
    return ", ".join(part for part in (for_it, said) if part)


def details(answer: Answer, lang: str) -> list[str]:
    """Say what differs, why, and what comes near."""
    said = list(answer.what)
    said += [i18n.say(note, lang) for note in answer.reason]
    if answer.candidates:
        places = ", ".join(f"{g.spot} ({g.score:.2f})" for g in answer.candidates[:3])
        said.append(i18n.text("drift.near", lang, places=places))
    return said


def broken_documents(report: Report, lang: str) -> tuple[str, ...]:
    """Name the documents that need a person, with how many of their citations do."""
    counted: dict[str, list[int]] = {}
    for item in report.items:
        if item.kind == "citation":
            path = item.document.rpartition(":")[0]
            counts = counted.setdefault(path, [0, 0])
            counts[0] += item.answer.verdict in NEEDS_A_PERSON
            counts[1] += 1
    return tuple(
        i18n.text("drift.document", lang, path=path, broken=broken, all=total)
        for path, (broken, total) in sorted(counted.items())
        if broken
    )


# -- for machines ---------------------------------------------------------------------------


def as_plain(report: Report, lang: str) -> dict[str, Any]:
    """Return the report as JSON has it."""
    return {
        "repo": report.repo,
        "old": {"version": report.old.name, "commit": report.old.commit,
                "source": report.old.source},
        "new": {"version": report.new.name, "commit": report.new.commit,
                "source": report.new.source},
        "counts": report.counts,
        "proven": sum(i.answer.grade == "proven" for i in report.items),
        "notes": [i18n.say(note, lang) for note in report.notes],
        "entries": [_plain_item(item, lang) for item in report.items],
    }  # fmt: skip


def _plain_item(item: Item, lang: str) -> dict[str, Any]:
    answer = item.answer
    fresh = answer.verdict == "new"
    return {
        "kind": item.kind,
        "variant": item.variant or None,
        "concept": item.concept or None,
        "site": item.site,
        "document": item.document or None,
        "old": None if fresh else _plain_spot(answer.old),
        "new": _plain_spot(answer.new),
        "verdict": answer.verdict,
        "grade": answer.grade or None,
        "methods": list(answer.methods),
        "against": list(answer.against),
        "similarity": answer.similarity,
        "what": list(answer.what),
        "candidates": [{**_spot(g.spot), "score": g.score} for g in answer.candidates],
        "reason": [{"key": n.key, "args": n.args, "text": i18n.say(n, lang)}
                   for n in answer.reason],
    }  # fmt: skip


def _spot(spot: Spot) -> dict[str, Any]:
    return {"path": spot.path, "lines": [spot.lines.first, spot.lines.last]}


def _plain_spot(spot: Spot | None) -> dict[str, Any] | None:
    return _spot(spot) if spot is not None else None


def findings(report: Report, failing: frozenset[str], lang: str) -> list[Finding]:
    """Return every item as a finding; only those whose verdict fails are errors."""
    return [_finding(report, item, failing, lang) for item in report.items]


def _finding(report: Report, item: Item, failing: frozenset[str], lang: str) -> Finding:
    answer = item.answer
    path, _, line = item.document.rpartition(":") if item.document else ("", "", "")
    lines = [_headline(item, lang), *details(answer, lang)]
    return Finding(
        rule=f"drift/{answer.verdict}",
        level=_level(answer.verdict, failing),
        message="\n".join(lines),
        # A location is in the lock's hands: the bump happens there.
        path=path or f"vendor_locks/{report.repo}.toml",
        line=int(line) if line.isdigit() else 1,
        name=f"{item.subject} {answer.old}" if item.kind != "lines" else str(answer.old),
        group=item.variant or path or report.repo,
    )


def _level(verdict: str, failing: frozenset[str]) -> Level:
    if verdict in failing:
        return "error"
    if verdict == "unjudged":
        return "warning"
    return "note" if verdict in NEEDS_A_PERSON else "ok"


def _headline(item: Item, lang: str) -> str:
    answer = item.answer
    means = i18n.text(f"drift.means.{answer.verdict}", lang)
    places = " -> ".join(str(s) for s in (answer.old, answer.new) if s is not None)
    return f"{item.subject}: {answer.verdict} ({means}): {places}"


def rules(lang: str) -> dict[str, str]:
    """Say what each rule of the findings is."""
    return {f"drift/{v}": i18n.text(f"drift.means.{v}", lang) for v in VERDICTS}


def code(report: Report, failing: Sequence[str] | frozenset[str]) -> int:
    """Return 1 when a verdict fails, 3 when something or everything could not be judged, else 0."""
    counts = report.counts
    if any(counts[v] for v in failing):
        return 1
    return 3 if not report.items or counts["unjudged"] else 0
