"""Labels tell places of one concept apart by what the code does."""

from __future__ import annotations

import pytest

from tests.anatomy.little import ascend, nvidia, opened, sites
from tests.anatomy.test_concepts import BLACKWELL, BRANCHES, GROUPED_INLINE, PAGED, SPLIT
from tests.anatomy.test_flow import ROLES

LABELS = {
    "one place needs none": (nvidia(), "row-max", [""]),
    "operands": (GROUPED_INLINE, "kv-head", ["operand=K", "operand=V"]),
    "operands of a paged load": (PAGED, "paged-load", ["operand=K", "operand=V"]),
    "launches": (SPLIT, "kernel-grid", ["kernel=split", "kernel=combine"]),
    "the launch that splits": (SPLIT, "row-max", ["kernel=split"]),
    "the launch that combines is what its concepts say": (SPLIT, "combine-max", [""]),
    "builder's branch": (BRANCHES, "causal-mask", ["branch=causal"]),
    "and the other": (BRANCHES, "boundary-mask", ["branch=not-causal"]),
    "scopes": (ascend(), "kv-loop", ["scope=C", "scope=V"]),
    "scope of one concept": (ascend(), "qk-gemm", ["scope=C"]),
    "scopes themselves": (ascend(), "cube-scope", [""]),
    "what a workspace carries": (
        ascend(),
        "workspace-write",
        ["scope=C operand=S", "scope=C operand=O", "scope=V operand=P"],
    ),
    "numbers of flags": (
        ascend(),
        "cross-flag-set",
        ["scope=C flag=0", "scope=C flag=2", "scope=V flag=1", "scope=V flag=3"],
    ),
    "warp roles": (ROLES, "row-max", ["role=consumer"]),
    "ordinals come last": (BLACKWELL, "barrier-wait", ["n=1", "n=2"]),
    "two masks in one branch": (
        nvidia(
            mask="""
            for i, j in T.Parallel(bq, bk):
                s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, s[i, j], -1e9)
            T.clear(d)
            for i, j in T.Parallel(bq, bk):
                s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, s[i, j], -1e9)
            """
        ),
        "causal-mask",
        ["n=1", "n=2"],
    ),
    "a branch that no mask tells is not named": (
        nvidia(
            row_sum="""
            if causal:
                T.reduce_sum(s, d, dim=1)
            else:
                T.clear(m0)
                T.reduce_sum(s, d, dim=-1)
            """
        ),
        "row-sum",
        ["n=1", "n=2"],
    ),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels(name: str) -> None:
    source, concept, labels = LABELS[name]
    assert [site.label for site in sites(source, concept)] == labels


def test_labels_do_not_rest_on_names() -> None:
    """A branch called `causal` whose other arm masks is no causal branch."""
    source = nvidia(
        mask="""
        if causal:
            T.clear(d)
        else:
            for i, j in T.Parallel(bq, bk):
                s[i, j] = T.if_then_else(x * bq + i >= n * bk + j, s[i, j], -1e9)
        """
    )
    assert [site.label for site in sites(source, "causal-mask")] == [""]


@pytest.mark.parametrize("name", ["split", "ascend", "roles", "blackwell"])
def test_labels_of_one_concept_are_distinct(name: str) -> None:
    source = {"split": SPLIT, "ascend": ascend(), "roles": ROLES, "blackwell": BLACKWELL}[name]
    keys = [(site.concept, site.label) for site in sites(source)]
    assert len(keys) == len(set(keys))


def test_qualified_names_of_places() -> None:
    named = {site.concept: site.qualname for site in sites(nvidia(tail="x = 3"))}
    assert named["softmax-scale"] == "build"
    assert named["row-max"] == "build.main"


def test_every_place_has_a_proof_that_ends_in_its_kernel() -> None:
    for source in (nvidia(), ascend(), SPLIT):
        for site in sites(source):
            assert all(premise.note.key.startswith("roles.") for premise in site.proof)
    (probability,) = sites(nvidia(), "probability")
    kinds = {premise.note.key for premise in probability.proof}
    assert {
        "roles.event-qk",
        "roles.event-reduce-max",
        "roles.event-s-m",
        "roles.event-prob",
    } <= kinds
    assert opened(nvidia()).facts.kernel_class == "attention"
