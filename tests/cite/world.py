"""Two small pinned repositories of our own, with checkouts and a map, and no network."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from srcmap.checkout.nouns import Entry as TreeEntry
from srcmap.checkout.nouns import Manifest, blob_id, dump_manifest
from srcmap.mapfile import FORMAT, Entry, SourceMap, encode
from srcmap.model import Lines

if TYPE_CHECKING:
    from pathlib import Path

V1, V2 = "1" * 40, "2" * 39 + "a"
NPU = "abc1234" + "5" * 33

FWD = '''\
"""Forward attention, tiled."""

import tiny.language as T


def forward(batch, heads, seq_q, seq_kv, dim, is_causal, block_Q=64, block_K=64):
    scale = (1.0 / dim) ** 0.5 * 1.44269505  # log2(e)
    past_len = seq_kv - seq_q
    assert past_len >= 0, "more queries than keys"

    @T.prim_func
    def main(Q, K, V, Output):
        with T.Kernel(T.ceildiv(seq_q, block_Q), heads, batch) as (bx, by, bz):
            acc_s = T.alloc_fragment([block_Q, block_K], "float32")
            acc_o = T.alloc_fragment([block_Q, dim], "float32")
            logsum = T.alloc_fragment([block_Q], "float32")
            T.fill(acc_o, 0)
            T.fill(logsum, 0)

            loop_range = (
                T.min(T.ceildiv(seq_kv, block_K), T.ceildiv((bx + 1) * block_Q, block_K))
                if is_causal
                else T.ceildiv(seq_kv, block_K)
            )

            for k in T.Pipelined(loop_range, num_stages=3):
                T.copy(K[bz, by, k * block_K : (k + 1) * block_K, :], K_shared)
                if is_causal:
                    for i, j in T.Parallel(block_Q, block_K):
                        q_idx = bx * block_Q + i + past_len
                        k_idx = k * block_K + j
                        acc_s[i, j] = T.if_then_else(q_idx >= k_idx, 0, -T.infinity("float32"))
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True)
                # check_inf: a row that saw nothing keeps its maximum at minus infinity
                for i in T.Parallel(block_Q):
                    scores_max[i] = T.if_then_else(scores_max[i] == -T.infinity("float32"), 0, scores_max[i])
                for i in T.Parallel(block_Q):
                    scores_decay[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(block_Q, dim):
                    acc_o[i, j] *= scores_decay[i]

            for i, j in T.Parallel(block_Q, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, Output[bz, by, bx * block_Q : (bx + 1) * block_Q, :])

    return main


def run_regression():
    return forward(8, 32, 4096, 4096, 128, False, block_Q=128, block_K=128)
'''  # noqa: E501
"""Lines that the corpus cites: forward 6-47, scale 7, loop_range 20-24, causal mask 28-32."""

SPLIT = '''\
"""Decoding with the keys split among programs."""


def split_kernel(num_split):
    for i in range(num_split):
        logsum[i] = log2(logsum[i]) + scores_max[i] * scale
        glse[i] = logsum[i]


# combine
def combine_kernel(num_split):
    lse_max = reduce_max(lse_local)
    for k in range(num_split):
        lse_logsum += exp2(lse_local[k] - lse_max)
    for k in range(num_split):
        o_accum += po_local[k] * scale_local[k]
    return o_accum
'''

REDUCE = '''\
"""Reductions."""


def reduce_max(buffer, out, dim=-1, clear=True):
    """Reduce to the maximum.

    clear : bool
        When this is True, each row of out begins at -inf and not at zeroes.
    """
    return _reduce(buffer, out, "max", dim, clear)


def reduce_sum(buffer, out, dim=-1, clear=True):
    """Reduce to the sum.

    clear : bool
        When this is True, every row of out begins at zero before the sums.
    """
    return _reduce(buffer, out, "sum", dim, clear)
'''

MATH = """\
// Lowering of intrinsics.
#include "math.h"

PrimExpr infinity_op(PrimExpr args) {
  const CallNode *call = args.as<CallNode>();
  if (call->dtype.is_float()) {
    return FloatImm(call->dtype, std::numeric_limits<float>::infinity());
  }
  LOG(FATAL) << "Cannot decide infinity for type";
}

TVM_REGISTER_OP("tiny.infinity").set_num_inputs(1);
"""

GUIDE = """\
# Tiny Guide

## 1 Start

Install it and be happy with what you have got.

## 2 Kernels

### 2.1 Copies

| src | dst | how |
|---|---|---|
| GM | L1 | by the copy engine |
| L1 | L0A | the left matrix of Cube |
| L0C | GM | the only way out |

### 2.2 Loops

Pipelines must not be nested, because the buffers of the inner one would be shared.

## 3 Performance

Hide short pipelines behind long ones.
"""

MANUAL = """\
# 编程手册

## 一、概述

这里说明整体思路。

## 二、原语

### 2.1 搬运

数据从 GM 搬到 L1。

### 2.2 同步

#### 2.2.1 核间同步

用 flag 在两类核之间同步，先置位再等待。

## 三、限制

重要：流水不可嵌套使用。
"""

V1_FWD = FWD.replace("    past_len", "    heads_per_group = 4\n    past_len")
TREES = {
    ("tiny", "v1", V1): {
        "examples/attn/fwd.py": V1_FWD,
        "examples/attn/old_name.py": SPLIT,
        "tiny/ops/reduce.py": REDUCE,
        "docs/Tiny Guide.md": GUIDE,
    },
    ("tiny", "v2", V2): {
        "README.md": "# tiny\n\nA tiny project.\n",
        "examples/attn/README.md": "# Attention\n\nSee the kernels.\n",
        "examples/attn/fwd.py": FWD,
        "examples/attn/fwd_varlen.py": FWD.replace("past_len", "offset").replace("0, -T", "1, -T"),
        "examples/attn/util.py": "def helper():\n    return 1\n",
        "examples/decode/split.py": SPLIT,
        "examples/decode/util.py": "def helper():\n    return 2\n",
        "tiny/ops/reduce.py": REDUCE,
        "tiny/ops/gemm.py": "def gemm(a, b):\n    return a @ b\n\n\n\ndef gemm_v2(a, b):\n    return b\n",  # noqa: E501
        "src/op/math.cc": MATH,
        "docs/Tiny Guide.md": GUIDE,
        "docs/指南.md": MANUAL,
    },
    ("tiny", "v3", None): {"tiny/ops/reduce.py": "# of v3\n\n\n" + REDUCE},
    ("tiny-npu", "abc1234", NPU): {
        "examples/attn/paged.py": SPLIT,
        "examples/attn/README.md": "# NPU\n",
        "npu/pass.cc": MATH.replace("infinity", "workspace"),
        "docs/手册.md": MANUAL,
    },
}
LOCKS = {
    "tiny": f"""\
format = "1.0"
[repo]
name = "tiny"
url = "https://github.com/example/tiny"
licence = "MIT"
current = "v2"
[[pin]]
version = "v1"
commit = "{V1}"
requested = "v1"
ref = "refs/tags/v1"
[[pin]]
version = "v2"
commit = "{V2}"
requested = "v2"
ref = "refs/tags/v2"
[[pin]]
version = "v3"
requested = "v3"
ref = "refs/tags/v3"
[[pin.archive]]
kind = "wheel"
project = "tiny"
file = "tiny-3-py3-none-any.whl"
sha256 = "{"ab" * 32}"
covers = {{ "tiny/**" = "tiny/**" }}
""",
    "tiny-npu": f"""\
format = "1.0"
[repo]
name = "tiny-npu"
url = "https://github.com/example/tiny-npu"
licence = "MIT"
current = "abc1234"
[[pin]]
version = "abc1234"
commit = "{NPU}"
requested = "npu_main"
ref = "refs/heads/npu_main"
""",
}
CONCEPTS = {
    "examples/attn/fwd.py": {
        "softmax-scale": (7, 7), "loop-range": (20, 24), "kv-loop": (26, 26),
        "causal-mask": (29, 32), "check-inf": (35, 36), "rescale-factor": (37, 38),
        "acc-rescale": (39, 40), "normalise": (42, 43),
    },
    "examples/decode/split.py": {"combine": (11, 17), "partial-lse": (6, 7)},
    "tiny/ops/reduce.py": {"reduce-clear": (4, 10)},
    "src/op/math.cc": {"infinity-lowering": (4, 12)},
}  # fmt: skip
SETTINGS = """\
[cite]
own = ["code/**"]
[cite.repos]
"小仓库" = "tiny"
[cite.named]
"编程手册" = { repo = "tiny-npu", path = "docs/手册.md" }
"Tiny Guide" = { repo = "tiny", path = "docs/Tiny Guide.md" }
"""


def build(folder: Path) -> Path:
    """Write the project into `folder` and return it."""
    for name, text in LOCKS.items():
        _write(folder / "vendor_locks" / f"{name}.toml", text)
    _write(folder / ".srcmap.toml", SETTINGS)
    for (repo, version, commit), files in TREES.items():
        _checkout(folder / "_vendor", repo, version, commit, files)
    maps = folder / ".srcmap" / "maps"
    maps.mkdir(parents=True)
    (maps / "tiny-v2.json").write_bytes(encode(_map()))
    return folder


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())


def _checkout(
    vendor: Path, repo: str, version: str, commit: str | None, files: dict[str, str]
) -> None:
    entries = []
    for path, text in sorted(files.items()):
        _write(vendor / f"{repo}-{version}" / path, text)
        entries.append(TreeEntry(path, "100644", blob_id(text.encode())))
    manifest = Manifest(
        repo=repo,
        version=version,
        commit=commit,
        tree=None,
        source="git" if commit else "tiny-3-py3-none-any.whl",
        sha256=None if commit else "ab" * 32,
        partial=commit is None,
        covers=() if commit else ("tiny/**",),
        left_out=(),
        entries=tuple(entries),
    )
    own = vendor / ".srcmap"
    own.mkdir(parents=True, exist_ok=True)
    (own / f"{repo}-{version}.json").write_bytes(dump_manifest(manifest))


def _map() -> SourceMap:
    files = TREES["tiny", "v2", V2]
    entries = [
        Entry(
            variant="tiny", concept=concept, site="", repo="tiny", pin="v2", commit=V2, path=path,
            lines=Lines(*lines), context=Lines(*lines), qualname="", status="found",
            digest=_digest(files[path], *lines),
        )
        for path, concepts in CONCEPTS.items()
        for concept, lines in concepts.items()
    ]  # fmt: skip
    return SourceMap(
        format=FORMAT, repo="tiny", pin="v2", commit=V2, url="https://github.com/example/tiny",
        partial=False, counts={}, problems=(), entries=tuple(entries),
    )  # fmt: skip


def _digest(text: str, first: int, last: int) -> str:
    return hashlib.sha256("\n".join(text.split("\n")[first - 1 : last]).encode()).hexdigest()
