"""Findings to SARIF 2.1.0, as GitHub's code scanning takes it."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from srcmap.render.findings import Finding

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_TOLD = ("error", "warning", "note")


def sarif(findings: Sequence[Finding], rules: Mapping[str, str], version: str) -> str:
    """Return the findings that are no `ok` and not skipped. `rules` says what each rule is."""
    told = [f for f in findings if f.level in _TOLD]
    names = sorted({*rules, *(f.rule for f in told)})
    driver = {
        "name": "srcmap",
        "version": version,
        "rules": [
            {"id": name, "shortDescription": {"text": rules.get(name, name)}} for name in names
        ],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(f, names.index(f.rule)) for f in told],
    }
    whole = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return msgspec.json.format(msgspec.json.encode(whole), indent=2).decode()


def _result(finding: Finding, rule: int) -> dict[str, Any]:
    region = {"startLine": max(finding.line, 1), "endLine": max(finding.end, 1)}
    place = {"artifactLocation": {"uri": _uri(finding.path)}, "region": region}
    mark = f"{finding.rule}\0{finding.path}\0{finding.called}"
    return {
        "ruleId": finding.rule,
        "ruleIndex": rule,
        "level": finding.level,
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": place}],
        # Not of the line: a finding that slides down a document is still the same one.
        "partialFingerprints": {"srcmap/v1": hashlib.sha256(mark.encode()).hexdigest()[:32]},
    }


def _uri(path: str) -> str:
    from urllib.parse import quote

    return quote(path.replace("\\", "/"))
