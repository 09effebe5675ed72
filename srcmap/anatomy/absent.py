"""What a kernel does not do, with the premise that failed; not judged where a call is unknown."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from srcmap.model import Absence, Note

if TYPE_CHECKING:
    from srcmap.anatomy.concepts.base import Kernel

ATTENTION = (
    "softmax-scale", "query-offset", "loop-range", "window-start", "causal-mask", "window-mask",
    "boundary-mask", "padding-mask", "mask-param", "mask-load", "mask-value", "mask-after-exp",
    "row-max", "check-inf", "rescale-factor", "denominator", "acc-rescale", "normalise",
    "empty-row", "sink-load", "sink-epilogue", "epilogue-store", "kv-head-count", "kv-head",
    "cu-seqlens", "varlen-guard", "split-range", "partial-lse", "partial-output",
    "block-table-param", "block-table", "paged-load", "block-indices-param", "block-index",
    "gather", "block-mask-param", "block-mask", "block-skip", "state-init", "kv-loop", "qk-gemm",
    "pv-gemm", "row-sum", "probability",
)  # fmt: skip
INDEXER = (
    "kv-loop", "qk-gemm", "boundary-mask", "mask-value", "block-indices-param", "block-index",
    "gather", "block-table-param", "block-table", "paged-load", "top-k",
)  # fmt: skip
ASCEND = (
    "workspace-param", "workspace-write", "workspace-read", "cube-scope", "vector-scope",
    "cross-flag-set", "cross-flag-wait",
)  # fmt: skip
NVIDIA = ("tmem-alloc", "barrier-wait")
COMBINE = ("combine", "combine-max", "combine-logsumexp", "combine-weights", "combine-accumulate")
NO_SOFTMAX = (
    "probability", "row-max", "rescale-factor", "row-sum", "denominator", "acc-rescale",
    "normalise", "pv-gemm",
)  # fmt: skip

SOFTMAX_ROLES = {
    "score", "max", "nmax", "s-m", "m-m", "prob", "rescale", "rowsum", "denom", "acc", "norm",
    "lse",
}  # fmt: skip


STATE = {
    "state-init", "row-max", "rescale-factor", "probability", "row-sum", "denominator",
    "acc-rescale", "normalise", "empty-row", "sink-epilogue", "epilogue-store", "partial-lse",
}  # fmt: skip
"""What rests on the running maximum and sum being followed from block to block."""


def absences(kernel: Kernel, have: set[str]) -> tuple[Absence, ...]:
    """Concepts that could be here by the kernel's class and are not; `have` are those found."""
    doubts = _Doubts(touched_by_unread(kernel), _loses_the_state(kernel))
    return tuple(
        doubts.of(concept) or Absence(concept=concept, reason=_reason(kernel, concept))
        for concept in _possible(kernel)
        if concept not in have
    )


class _Doubts(NamedTuple):
    """Why an absence is not judged."""

    calls: list[str]
    """Unknown calls that touch the chain."""
    loses_state: bool
    """The state was not followed, as when tiles share memory by address."""

    def of(self, concept: str) -> Absence | None:
        if self.calls:
            why = Note("roles.not-judged", {"calls": ", ".join(self.calls)})
        elif self.loses_state and concept in STATE:
            why = Note("roles.not-followed")
        else:
            return None
        return Absence(concept=concept, reason=why, judged=False)


def _loses_the_state(kernel: Kernel) -> bool:
    """Probabilities that no key loop holds, or that nothing rescales or divides.

    More was done than was seen: a loop was taken for another, or tiles share memory by address.
    """
    facts = kernel.facts
    if not facts.events("PROB"):
        return False
    in_loop = facts.events("PROB", in_loop=True)
    return not in_loop or not facts.events("RESCALE", "ACC-RESCALE", "NORM")


def touched_by_unread(kernel: Kernel) -> list[str]:
    """Calls that no row of the table knows and that touch a tile of the chain, if there is one."""
    chain = kernel.facts.tiles_with(*SOFTMAX_ROLES)
    unread = kernel.reading.unread.values()
    return sorted({call.name for call in unread if not chain or chain & set(call.buffers)})


def _possible(kernel: Kernel) -> tuple[str, ...]:
    dialect = ASCEND if kernel.context.is_ascend else NVIDIA
    match kernel.facts.kernel_class:
        case "attention":
            split = COMBINE if kernel.facts.handed_on else ()
            return (*ATTENTION, *dialect, *split)
        case "indexer":
            return (*INDEXER, *dialect, *NO_SOFTMAX)
    return ()


def _reason(kernel: Kernel, concept: str) -> Note:
    if kernel.facts.kernel_class == "indexer" and concept in NO_SOFTMAX:
        return Note("roles.absent-no-softmax")
    return Note(f"roles.absent-{concept}")
