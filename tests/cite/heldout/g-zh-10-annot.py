# -*- coding: utf-8 -*-
"""在线 softmax 的 numpy 参考实现（kernelbook 配套代码）。

对照 tilelang v0.1.14 的 ``examples/flash_attention/example_mha_fwd_bhsd.py`` 写成，
分块循环一一对应。缩放因子那一行是
``examples/flash_attention/example_mha_fwd_bhsd.py:24``::

    scale = (1.0 / dim) ** 0.5 * 1.44269504  # log2(e)

用法：``python -m ref --port 8000:9000 --shape 2:8``，开始于 12:00。
"""
import numpy as np

LOG2E = 1.44269504  # 与 example_mha_fwd_bhsd.py:24 的 scale 同源


def row_max(s, m_prev):
    """运行最大值，对应同文件的 第 77–81 行。"""
    return np.maximum(m_prev, s.max(axis=1))


def rescale(m_prev, m, scale):
    """重缩放因子，三处写法相同：
    上游 ``examples/flash_attention/example_mha_fwd_bhsd.py:82-83``；
    varlen ``examples/flash_attention/example_gqa_fwd_varlen.py:103-104``；
    NSA ``examples/deepseek_nsa/example_tilelang_nsa_fwd.py:98-99``。
    """
    return np.exp2((m_prev - m) * scale)  # c 落在 0:1 之间


def split_merge(o_parts, lse_parts):
    """split-KV 的合并。

    * ``lse_max_local``：examples/flash_decoding/example_mha_inference.py:137
    * ``scale_local``：同文件 :149
    * 加权求和 ``o_accum_local[i, j] += po_local[i, j] * scale_local[i]``：同文件 :140-141

    GQA 版的 combine 在 examples/flash_decoding/example_gqa_decode.py:161-188。
    """
    m = lse_parts.max(axis=0)
    # 见 https://github.com/tile-ai/tilelang/blob/v0.1.14/examples/flash_decoding/example_mha_inference.py#L138-L143 的 lse_logsum_local
    lse = np.log2(np.exp2(lse_parts - m).sum(axis=0)) + m
    w = np.exp2(lse_parts - lse)
    table = {"a:3": 1, "b": [4, 5][0:1]}  # 字符串不是引用
    return (o_parts * w[..., None]).sum(axis=0), table["b"]


class Paged:
    """分页 KV（昇腾写法）。

    tilelang-ascend 的块表查询：
    examples/flash_attention/paged_flash_attn_bhsd.py:94，写作 ``bidx = block_table[bz, k]``。
    归一化在同文件 :137-138，分母在同文件 :116-117。
    """

    def load(self, table, b, k):
        # 未核对：examples/flash_attention/paged_flash_attn_bhsd.py:210-215
        # 反了：examples/flash_attention/paged_flash_attn_bhsd.py:96-94
        # 上限 1:2，阶段 3:1
        return table[b][k]
