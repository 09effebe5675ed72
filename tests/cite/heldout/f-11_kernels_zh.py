# -*- coding: utf-8 -*-
"""注意力核的索引模块。

本模块只登记上游源码的位置，不含任何核。上游为 tilelang 0.1.14 与 tilelang-ascend 95acbd7。

- 线性注意力：``examples/linear_attention/example_linear_attn_fwd.py``
- 保持网络：``examples/linear_attention/example_retention_fwd.py:10-20``
- 昇腾上的因果线性注意力 ``linear_attention_ker``：``examples/linear_attention_and_rnn/linear_attention_causal.py:38-46``

配置文件是 ``configs/h200.yaml``，不要和上游的混淆。
"""

TABLE = {"mha": (64, 128), "gqa": (128, 64)}  # 比例 1:2
START = "09:45"
PORT = "127.0.0.1:8080"


def softmax_online(x):
    """在线 softmax 的参考实现。

    对照 examples/online_softmax/online_softmax.py:8 的 ``softmax_kernel``。昇腾版是
    examples/softmax/example_online_softmax.py。
    """
    return x[0:16]  # 切片


def topk(x, k):
    """选出最大的 k 个。

    上游的 ``tl_topk`` 在 examples/topk/example_topk.py:18，``ref_program`` 在同文件 :53。
    昇腾的接口 ``topk`` 在 tilelang/language/ascend_tile.py:419。
    ``gather_mask`` 的说明在 tilelang/language/ascend_tile.py:290-300。
    """
    # 第一轮桶的大小 SMEM_INPUT_SIZE 取 4096（examples/deepseek_v32/topk_selector.py:34）
    # BLOCK_SIZE 取 1024（同文件 :35）
    return sorted(x)[-k:]


def any_visible(mask):
    """一行里有没有可见的键。

    类似 ``any_of``，见 _vendor/tilelang-v0.1.14/tilelang/language/logical.py:12-48；``all_of`` 见
    _vendor/tilelang-v0.1.14/tilelang/language/logical.py:51-87。后者在旧笔记里写作
    _vendor/tilelang-v0.1.14/tilelang/language/logical.py:95。
    """
    return any(mask)


class Pipeline:
    """流水线参数。

    ``cross_interval`` 只有昇腾有：tilelang/language/pipeline.py:19。文档说
    “sync every iteration. When cross_interval=N, sync every N iterations.”
    （tilelang/language/pipeline.py:34）。说明文字见 docs/tutorials/t_pipelined.md:81-99 的 ``cross_interval`` 表。
    """

    # 注册入口 tl.transform.LoopUnswitching：src/transform/loop_unswitching.cc:660-662
    # 注册入口 tl.transform.AscendMemoryPlanning：src/transform/ascend_memory_planning.cc:905
    # 注册入口 tl.transform.HostLegalize：src/transform/ascend_host.cc:90
    # 区间写反：src/transform/ascend_combinecv.cc:883-880
    # 更名之前：src/transform/ascend_lower_parallel.cc:1882
    stages = 2


def backward():
    """反向。

    入口见 examples/attention_sink/example_gqa_sink_bwd_varlen.py 与 examples/flash_attention/example_gqa_bwd.py。
    两份分块稀疏的 Triton 写法同名，block_sparse_attn_triton.py 说的是哪一份要看上下文。
    """
    raise NotImplementedError
