"""How sure a finding is, and when several that cannot all be right are told as such."""

from __future__ import annotations

import json
from importlib import resources

import pytest

from tests.anatomy.little import ascend, nvidia, only
from tests.anatomy.test_concepts import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_closed_chains_are_sure_and_proved(name: str) -> None:
    kernel = only(FAMILIES[name])
    assert {site.confidence for site in kernel.sites} == {"high"}
    assert [site.concept for site in kernel.sites if not site.proof] == []
    assert kernel.ambiguities == ()


def test_a_tile_that_an_unknown_call_touches_is_doubtful() -> None:
    kernel = only(nvidia(mask="T.conjure(d)"))
    sure = {site.concept: site.confidence for site in kernel.sites}
    assert (sure["row-sum"], sure["normalise"], sure["qk-gemm"]) == ("low", "high", "high")


def test_two_scales_are_ambiguous() -> None:
    kernel = only(
        nvidia(
            builder="other = D**-0.25",
            scores="""
            T.gemm(q, k, s, transpose_B=True, clear_accum=True)
            for i, j in T.Parallel(bq, bk):
                s[i, j] = s[i, j] * other
            """,
        )
    )
    (ambiguity,) = kernel.ambiguities
    assert ambiguity.concept == "softmax-scale"
    assert len(ambiguity.candidates) == 2
    assert "softmax-scale" not in {site.concept for site in kernel.sites}
    assert "softmax-scale" not in {one.concept for one in kernel.absences}


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_every_premise_has_a_sentence(lang: str) -> None:
    folder = resources.files("srcmap") / "data" / "text"
    said = set(json.loads((folder / f"roles.{lang}.json").read_text("utf-8")))
    used = {
        note.key
        for source in (*FAMILIES.values(), ascend(), nvidia(mask="T.conjure(s)"))
        for site in only(source).sites
        for note in (premise.note for premise in site.proof)
    }
    assert used <= said
