"""FileAnatomy and what the catalogue asks -> Found, Missing or Ambiguous. Nothing is guessed.

Kernels are chosen by what they do (their kind, the concepts they have), never by their name:
upstream calls 746 functions `main`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

from srcmap.model import Ambiguity, KernelAnatomy, Note, Site

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from srcmap.catalogue import FileRequest
    from srcmap.model import FileAnatomy


class Found(msgspec.Struct, frozen=True):
    """The places that do it, in the order of the file."""

    sites: tuple[Site, ...]


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """It is not there, why, and what comes nearest."""

    reason: Note
    near: tuple[Site, ...] = ()
    judged: bool = True
    """False: something that could matter was not understood, so nothing is claimed."""


class Ambiguous(msgspec.Struct, frozen=True, kw_only=True):
    """Several places of equal rank where one was expected; best first."""

    reason: Note
    candidates: tuple[Site, ...]


Answer: TypeAlias = "Found | Missing | Ambiguous"

_KIN = {
    "check-inf": ("check-inf-disabled",),
    "causal-mask": ("window-mask", "padding-mask"),
    "window-mask": ("causal-mask",),
    "boundary-mask": ("padding-mask", "causal-mask", "window-mask"),
    "padding-mask": ("boundary-mask",),
    "block-table": ("block-index",),
    "block-table-param": ("block-indices-param",),
    "paged-load": ("gather",),
    "block-index": ("block-table", "block-mask"),
    "block-indices-param": ("block-table-param", "block-mask-param"),
    "gather": ("paged-load",),
    "block-mask": ("block-index",),
    "empty-row": ("normalise",),
    "epilogue-store": ("partial-output",),
    "partial-output": ("epilogue-store",),
    "window-start": ("loop-range",),
    "loop-range": ("kv-loop", "split-range"),
}
"""What a reader may have meant instead."""


def selected_kernels(anatomy: FileAnatomy, request: FileRequest) -> tuple[KernelAnatomy, ...]:
    """Select the kernels of the file that the variant is about.

    A file's own entry (library definitions, documents, host code) has the kind `file`.
    """
    return tuple(k for k in anatomy.kernels if k.kind in request.kernels and _fits(k, request))


def _fits(kernel: KernelAnatomy, request: FileRequest) -> bool:
    has = {site.concept for site in kernel.sites}
    return has.issuperset(request.having) and has.isdisjoint(request.without)


def locate(anatomy: FileAnatomy, request: FileRequest, concept: str) -> Answer:
    """Say where the selected kernels of the file do `concept`."""
    kernels = selected_kernels(anatomy, request)
    sites = [s for k in kernels for s in k.sites if s.concept == concept]
    mine = _distinct(s for s in sites if _in_branch(s, request, concept))
    if mine:
        return Found(mine)
    doubts = [a for k in kernels for a in k.ambiguities if a.concept == concept]
    if doubts:
        return _ambiguous(doubts)
    near = _distinct([*_elsewhere(anatomy, kernels, concept), *sites, *_kin(kernels, concept)])
    return _missing(anatomy, kernels, concept, near, other_branch=bool(sites))


def _in_branch(site: Site, request: FileRequest, concept: str) -> bool:
    """Whether a site belongs to the arm that the variant is; most sites belong to every arm."""
    if not request.branch:
        return True
    branch = facets(site.label).get("branch")
    if branch is not None:
        return branch == request.branch
    return all(lack.concept != concept for lack in request.lacks)


def facets(label: str) -> dict[str, str]:
    """`branch=causal operand=K` -> its parts."""
    parts = (part.partition("=") for part in label.split())
    return {key: value for key, _, value in parts if value}


def _distinct(sites: Iterable[Site]) -> tuple[Site, ...]:
    """One of each: two inlinings of one macro give the same place twice."""
    return tuple({(s.concept, s.label, s.lines): s for s in sites}.values())


def _ambiguous(doubts: Sequence[Ambiguity]) -> Ambiguous:
    candidates = _distinct(site for doubt in doubts for site in doubt.candidates)
    return Ambiguous(reason=doubts[0].reason, candidates=candidates)


def _elsewhere(
    anatomy: FileAnatomy, kernels: Sequence[KernelAnatomy], concept: str
) -> tuple[Site, ...]:
    chosen = {id(kernel) for kernel in kernels}
    others = (k for k in anatomy.kernels if id(k) not in chosen)
    return tuple(s for k in others for s in k.sites if s.concept == concept)


def _kin(kernels: Sequence[KernelAnatomy], concept: str) -> tuple[Site, ...]:
    kin = _KIN.get(concept, ())
    return tuple(s for k in kernels for s in k.sites if s.concept in kin)


def _missing(
    anatomy: FileAnatomy,
    kernels: Sequence[KernelAnatomy],
    concept: str,
    near: tuple[Site, ...],
    *,
    other_branch: bool,
) -> Missing:
    if not kernels:
        kinds = ", ".join(sorted({k.kind for k in anatomy.kernels})) or "-"
        return Missing(reason=Note("maps.no-kernel", {"kinds": kinds}), near=near)
    if other_branch:
        return Missing(reason=Note("maps.other-branch"), near=near)
    absences = [a for k in kernels for a in k.absences if a.concept == concept]
    for absence in sorted(absences, key=lambda a: a.judged):
        return Missing(reason=absence.reason, near=near, judged=absence.judged)
    unread = sorted({u.name for k in kernels for u in k.unread})
    if unread:
        note = Note("maps.unread-calls", {"calls": ", ".join(unread)})
        return Missing(reason=note, near=near, judged=False)
    return Missing(reason=Note("maps.nothing-does-it"), near=near)
