"""Choosing on the host: what chooses for a kernel counts, what only looks like it does not."""

from __future__ import annotations

import pytest

from tests.anatomy.little import nvidia, read

# The lines that a choice is expected on end with `#!`.
TAILS = {
    "a helper that chooses for a kernel": """
def pick(scores, n):  #!
    best = torch.topk(scores, n, dim=-1)  #!
    return best.indices  #!


def run(q, k, v, scores):
    chosen = pick(scores, 8)
    kernel = build(1, 2, 3, 4)
    return kernel(q, k, v, chosen)
""",
    "an orchestrator chooses in a statement": """
def run(q, k, v, scores):
    chosen = scores.topk(8, dim=-1).indices  #!
    return build(1, 2, 3, 4)(q, k, v, chosen)
""",
    "through other names": """
def run(q, k, v, scores):
    values, chosen = torch.topk(  #!
        scores, 8  #!
    )  #!
    ordered = chosen.sort().values
    kernel = build(1, 2, 3, 4)
    kernel(q, k, v, table=ordered)
""",
    "out of a kernel that scores": """
def run(q, k, v):
    scores = build(1, 2, 3, 4)(q, k, v)
    return torch.topk(scores, 8).indices  #!
""",
    "out of what a kernel has written": """
def run(q, k, v, out):
    build(1, 2, 3, 4)
    kernel = build(1, 2, 3, 4)
    kernel(q, k, v, out)
    return out.topk(8)  #!
""",
    # what must not count
    "a router of experts": """
def route(x, gate):
    weights, experts = torch.topk(gate(x).softmax(-1), 2)
    return weights, experts


def run(q, k, v, x, gate):
    w, e = route(x, gate)
    return build(1, 2, 3, 4)(q, k, v)
""",
    "a router's statement": """
def run(q, k, v, x):
    w, e = torch.topk(x, 2)
    out = build(1, 2, 3, 4)(q, k, v)
    return out, w, e
""",
    "a golden function": """
def golden(q, k, v, n):
    scores = q @ k.T
    chosen = scores.topk(n).indices
    return scores.gather(-1, chosen).softmax(-1) @ v
""",
    "a driver that draws its inputs": """
def main():
    q = torch.randn(1, 2, 3, 4)
    k = torch.randn(1, 2, 3, 4)
    chosen = torch.randn(8, 8).topk(2).indices
    build(1, 2, 3, 4)(q, k, q, chosen)
""",
    "no choice": """
def run(q, k, v, scores):
    chosen = scores.argmax(-1)
    return build(1, 2, 3, 4)(q, k, v, chosen)
""",
    "a parameter called topk": """
def run(q, k, v, topk):
    return build(1, 2, 3, topk)(q, k, v)
""",
}


@pytest.mark.parametrize("name", TAILS)
def test_choices_on_the_host(name: str) -> None:
    source = nvidia(tail=TAILS[name])
    wanted = [n for n, line in enumerate(source.split("\n"), 1) if line.endswith("#!")]
    found = [
        line
        for kernel in read(source.replace("  #!", "")).kernels
        for site in kernel.sites
        if site.concept == "top-k"
        for line in range(site.lines.first, site.lines.last + 1)
    ]
    assert found == wanted


def test_a_choice_belongs_to_the_file() -> None:
    name = "a helper that chooses for a kernel"
    reading = read(nvidia(tail=TAILS[name].replace("  #!", "")))
    whole = reading.kernels[-1]
    assert (whole.kind, whole.qualname) == ("file", "kernel.py")
    (site,) = whole.sites
    assert (site.label, site.qualname) == ("host", "pick")
    assert [premise.note.key for premise in site.proof] == ["roles.host-choice"]


def test_two_choices_are_numbered() -> None:
    tail = """
def run(q, k, v, scores):
    chosen = scores.topk(8).indices
    again = chosen.topk(4).indices
    return build(1, 2, 3, 4)(q, k, v, chosen, again)
"""
    labels = [site.label for site in read(nvidia(tail=tail)).kernels[-1].sites]
    assert labels == ["host n=1", "host n=2"]


def test_without_a_kernel_that_attends_nothing_is_chosen_for_it() -> None:
    source = nvidia(exponential="T.print(s)", tail=TAILS["an orchestrator chooses in a statement"])
    assert [kernel.kind for kernel in read(source).kernels] == ["other"]


def test_the_kernel_may_stand_in_a_neighbour() -> None:
    source = (
        "import torch\nimport tilelang\nfrom near import run as attend\n\n\ndef go(q, k, scores):\n"
    )
    source += "    chosen = scores.topk(4).indices\n    return attend(q, k, chosen)\n"
    near = nvidia(tail="\ndef run(q, k, chosen):\n    return build(1, 2, 3, 4)(q, k, chosen)\n")
    assert read(source).kernels == ()
    (whole,) = read(source, near=near).kernels
    assert [(site.concept, site.lines.first) for site in whole.sites] == [("top-k", 7)]
