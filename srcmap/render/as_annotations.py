"""Findings to GitHub's workflow commands, which become annotations of a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from srcmap.render.findings import Finding

_COMMANDS = {"error": "error", "warning": "warning", "note": "notice"}


def workflow_commands(findings: Iterable[Finding]) -> str:
    """Return one line for each finding that is no `ok` and not skipped."""
    return "\n".join(_line(f) for f in findings if f.level in _COMMANDS)


def _line(finding: Finding) -> str:
    place = f"file={_value(finding.path)},line={finding.line},endLine={finding.end}"
    head = f"{place},title={_value(finding.rule)}"
    return f"::{_COMMANDS[finding.level]} {head}::{_text(finding.message)}"


def _text(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _value(text: str) -> str:
    return _text(text).replace(":", "%3A").replace(",", "%2C")
