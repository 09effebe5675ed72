"""Trees out of strings, and the judge on them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.checkout import blob_id
from srcmap.drift.judge import Judge
from srcmap.drift.nouns import Answer, Spot
from srcmap.drift.trees import Trees
from srcmap.model import Lines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from srcmap.drift.history import History


class MemorySide:
    """A tree that is a dictionary."""

    def __init__(self, files: Mapping[str, str | bytes], label: str = "tree") -> None:
        self._files = {p: t.encode() if isinstance(t, str) else t for p, t in files.items()}
        self.label = label
        self.commit: str | None = None
        self.partial = False
        self.blobs = {path: blob_id(data) for path, data in self._files.items()}

    def read(self, path: str) -> bytes:
        return self._files[path]


def trees(old: Mapping[str, str | bytes], new: Mapping[str, str | bytes]) -> Trees:
    return Trees(MemorySide(old, "old"), MemorySide(new, "new"))


def judge(
    old: Mapping[str, str | bytes],
    new: Mapping[str, str | bytes],
    path: str,
    first: int,
    last: int,
    history: History | None = None,
) -> Answer:
    spot = Spot(path=path, lines=Lines(first, last))
    return Judge(trees(old, new), history).judge(spot)


KERNEL = '''\
"""A kernel of our own, for tests of drift."""
import helper


def reference(q, k):
    scores = q @ k
    return scores.softmax(-1)


def kernel(Q, K, V, Output, block_M, block_N, num_stages):
    """Attention, block by block."""
    shared_q = alloc((block_M, 64))
    shared_k = alloc((block_N, 64))
    scores = alloc((block_M, block_N))
    copy(Q[0], shared_q)
    for step in pipelined(ceildiv(1024, block_N), num_stages=2):
        copy(K[step * block_N], shared_k)
        clear(scores)
        gemm(shared_q, shared_k, scores, transpose_B=True)
        previous = maximum.copy()
        maximum = reduce_max(scores, axis=1)
        rescale = exp2(previous * 0.125 - maximum * 0.125)
        for row, column in parallel(block_M, block_N):
            scores[row, column] = exp2(scores[row, column] * 0.125 - maximum[row] * 0.125)
        total = total * rescale + reduce_sum(scores, axis=1)
        output = output * rescale
        gemm(scores, V[step * block_N], output)
    copy(output / total, Output[0])


def main():
    run(kernel, heads=8)
    print("done")
'''
"""Lines 10 to 28 are the kernel."""
