"""Findings to JUnit XML, which every CI shows as tests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape, quoteattr

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.render.findings import Finding

# What XML 1.0 cannot hold, even escaped.
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")


def junit(suite: str, findings: Sequence[Finding]) -> str:
    """Return one test case for each finding; errors and warnings fail, notes pass."""
    failures = sum(f.level in ("error", "warning") for f in findings)
    skipped = sum(f.level == "skipped" for f in findings)
    counts = f'tests="{len(findings)}" failures="{failures}" skipped="{skipped}" errors="0"'
    cases = "\n".join(map(_case, findings))
    head = f'<testsuite name={_attribute(suite)} {counts} time="0">'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<testsuites {counts} time="0">\n{head}\n{cases}\n</testsuite>\n</testsuites>'
    )


def _case(finding: Finding) -> str:
    group = finding.group or finding.path
    head = (
        f"  <testcase name={_attribute(finding.called)} classname={_attribute(group)}"
        f' file={_attribute(finding.path)} line="{finding.line}" time="0"'
    )
    first = finding.message.split("\n", 1)[0]
    if finding.level in ("error", "warning"):
        kind = _attribute(finding.rule)
        body = (
            f"<failure type={kind} message={_attribute(first)}>{_text(finding.message)}</failure>"
        )
    elif finding.level == "skipped":
        body = f"<skipped message={_attribute(first)}/>"
    else:
        return f"{head}/>"
    return f"{head}>\n    {body}\n  </testcase>"


def _text(text: str) -> str:
    return escape(_FORBIDDEN.sub("\ufffd", text))


def _attribute(text: str) -> str:
    return quoteattr(_FORBIDDEN.sub("\ufffd", text).replace("\n", " "))
