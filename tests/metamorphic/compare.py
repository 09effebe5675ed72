"""Whether two readings of one program, before and after a rewrite, say the same."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.model import FileAnatomy, KernelAnatomy, Site
    from srcmap.parse.rewrite import Rewritten

# Comments are text, not code: renaming code leaves them behind, so a disabled check no longer
# speaks of the buffers around it.
_IN_COMMENTS = {"check-inf-disabled"}


# Twins are counted in the order of the file; what exchanges them exchanges their numbers.
_ORDINAL = re.compile(r" ?\bn=\d+")


def differences(
    before: FileAnatomy, after: FileAnatomy, done: Rewritten, *, comments: bool = True
) -> list[str]:
    """Say what the second reading lost or gained; nothing when it is the image of the first."""
    old, new = _sites(before, comments=comments), _sites(after, comments=comments)
    found = list[str]()
    for site in old:
        twin = next((s for s in new if _is_image(site, s, done)), None)
        if twin is None:
            image = done.lines.image(site.lines)
            found.append(f"lost {_told(site)}, expected at {image}; {_near(site, new)}")
        else:
            new.remove(twin)
    found += [f"gained {_told(site)}" for site in new]
    for name in ("kinds", "absences", "ambiguities", "unread"):
        a, b = _counts(before, name), _counts(after, name)
        if a != b:
            found.append(f"{name}: only before {dict(a - b)}, only after {dict(b - a)}")
    return found


def _sites(anatomy: FileAnatomy, *, comments: bool) -> list[Site]:
    every = [site for kernel in anatomy.kernels for site in kernel.sites]
    return [site for site in every if comments or site.concept not in _IN_COMMENTS]


def _is_image(old: Site, new: Site, done: Rewritten) -> bool:
    return (
        old.concept == new.concept
        and done.lines.agrees(old.lines, new.lines)
        and _same_words(old.label, new.label, done)
        and _same_words(old.detail, new.detail, done)
        and old.confidence == new.confidence
    )


def _same_words(old: str, new: str, done: Rewritten) -> bool:
    """Whether two labels are equal but for names that the rewrite gave."""
    a, b = (re.split(r"(\W+)", _ORDINAL.sub("", text)) for text in (old, new))
    return len(a) == len(b) and all(
        x == y or y in done.names.get(x, ()) for x, y in zip(a, b, strict=True)
    )


def _told(site: Site) -> str:
    return f"{site.concept} [{site.label}] {site.detail} {site.lines} ({site.confidence})"


def _near(site: Site, others: list[Site]) -> str:
    return "there: " + ("; ".join(_told(s) for s in others if s.concept == site.concept) or "-")


def _counts(anatomy: FileAnatomy, name: str) -> Counter[object]:
    return Counter(fact for kernel in anatomy.kernels for fact in _facts(kernel, name))


def _facts(kernel: KernelAnatomy, name: str) -> list[object]:
    if name == "kinds":
        return [kernel.kind]
    if name == "absences":
        return [(a.concept, a.judged) for a in kernel.absences if a.concept not in _IN_COMMENTS]
    if name == "ambiguities":
        return [(a.concept, len(a.candidates)) for a in kernel.ambiguities]
    return [call.name.rpartition(".")[2] for call in kernel.unread]
