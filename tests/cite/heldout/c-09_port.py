"""CPU port of the Ascend flash-attention kernels.

The layout follows tilelang-ascend at 95acbd7,
``examples/sparse_flash_attention/example_sparse_flash_attn.py``.
Started at 21:40; nothing here opens a port (the demo server uses 127.0.0.1:5000).
"""

import math

SCALE = {"a": 1, "b": 2}
WINDOW = slice(0, 64)


def scale(dim, tail_dim):
    """Return the softmax scale.

    Upstream says "ascend only support exp interface instead of exp2"
    (example_sparse_flash_attn.py:35) and computes
    ``sm_scale = (1.0 / (dim + tail_dim)) ** 0.5 if sm_scale is None else sm_scale``
    in line 36.
    """
    return (1.0 / (dim + tail_dim)) ** 0.5


def gather(kv, indices):
    """Collect the rows of one block.

    ``Indices[b_i, s_i, g_i, i_i * BI : i_i * BI + BI]`` is read at
    example_sparse_flash_attn.py:178; the rows themselves by
    ``T.copy(KV[b_i, indices_ub_[bi_i + vid * BI // 2], g_i, :D], kv_ub)``,
    example_sparse_flash_attn.py:183.
    """
    return [kv[i] for i in indices]


class State:
    # m_i starts at -(2.0**30), example_sparse_flash_attn.py:175
    m = -(2.0**30)
    # sumexp starts at zero, T.tile.fill(sumexp, 0.0): example_sparse_flash_attn.py:172
    total = 0.0

    def update(self, row):
        # running maximum: m_i[i] = T.max(m_i[i], m_i_prev[i]), same file :198-201
        old, self.m = self.m, max(self.m, max(row))
        # rescale factor: m_i_prev[i] = T.exp(m_i_prev[i]), same file :205-209
        alpha = math.exp(old - self.m)
        # T.reduce_sum(acc_s_ub, sumexp_i_ub, dim=-1) (same file, line 211)
        self.total = self.total * alpha + sum(math.exp(x - self.m) for x in row)
        return alpha


def developer(row):
    """The same in developer mode.

    Source: examples/developer_mode/flash_attn_bshd_developer.py.

    * row maximum, ``T.reduce_max(acc_s_ub, m_i, dim=-1)``: flash_attn_bshd_developer.py:90-91
    * rescale of the output, ``T.tile.mul(acc_o[h_i, :], acc_o[h_i, :], m_i_prev[h_i])``: :108-109
    * normalisation, ``T.tile.div(acc_o[h_i, :], acc_o[h_i, :], sumexp[h_i])``: :118-119
    * the product with V, ``T.gemm_v0(acc_s_l1, v_l1, acc_o_l0c, init=True)``: :103
    """
    return row[0:1]


def passes():
    """Names of the passes, in order.

    Pipelines: "Usage Restrictions",
    section 5.2 of examples/flash_attention/fa_opt/flash_attention_performance_optimization.md.

    LowerAndLegalize is https://github.com/tile-ai/tilelang-ascend/blob/95acbd7f7283f57f228aa4d016742ea165c03b84/tilelang/engine/phase.py#L49,
    AscendWorkspaceReduction runs at tilelang/engine/phase.py:72 and the
    last pass, AscendSyncInsert, at phase.py:111. See also
    phase.py:140-150 and src/transform/ascend_workspace_elimination.cc:532.
    """
    # still to be read: base.py:18
    # unrelated, _vendor/flash-linear-attention-v0.3.0/fla/ops/nsa/parallel.py:52
    return ["LowerAndLegalize", "OptimizeForTarget"]
