"""What kernel engineers call the concepts of the catalogue, besides its own names.

`ALSO` are names that mean one thing wherever they stand. `SHORT` are words of every sentence:
they name a concept as a cell of a table or right beside a citation, and elsewhere they can only
agree. `SPELLINGS` multiplies both by the ways in which their parts are written.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

SPELLINGS: tuple[tuple[str, ...], ...] = (
    ("isation", "ization"),
    ("掩码", "mask", "遮罩", "掩膜", "掩蔽", "蒙版"),
    ("重标度", "重缩放", "再缩放", "重新缩放", "rescale", "重定标"),
    ("矩阵乘", "GEMM", "matmul", "矩阵乘法", "gemm 调用", "矩阵乘积"),
    ("kernel", "内核", "核函数"),
    ("滑动窗口", "滑窗", "窗口"),
    ("起点", "起始", "开头", "下界", "下限", "起始位置"),
    ("上界", "上限", "终点", "范围", "边界", "终止条件"),
    ("下标", "索引", "编号", "序号"),
    ("页表", "块表", "block table", "page table", "block_table"),
    ("lse", "LSE", "log-sum-exp", "logsumexp"),
    ("product", "matmul", "GEMM", "matrix product", "matrix multiplication"),
    ("maximum", "max"),
    ("look-up", "lookup", "access"),
    ("参数", "形参", "入参", "实参"),
    ("部分", "局部", "partial", "分片"),
    ("输出", "output"),
    ("softmax 的", "softmax"),
)
"""A name with the first spelling is tried with the others too."""

ALSO: dict[str, tuple[str, ...]] = {
    "softmax-scale": (
        "softmax scaling factor", "softmax scaling", "scale of the softmax", "1/sqrt(d) factor",
        "scaling factor of the softmax", "scale factor of the softmax", "attention scale",
        "softmax 的缩放因子", "softmax 的缩放系数", "softmax 的 scale", "注意力缩放因子",
        "缩放因子 scale", "scale 因子", "1/√d", "1/sqrt(d)", "softmax 温度", "softmax temperature",
        "scaling constant", "attention scaling", "注意力缩放", "缩放常数",
    ),
    "kv-head-count": (
        "KV head count", "count of KV heads", "number of key/value heads", "number of K/V heads",
        "KV 头的个数", "KV 头个数", "KV 头数量", "KV 头的数量", "KV 头的数目", "键值头数",
        "K/V 头数", "KV heads", "KV head 数", "KV head 数量", "K/V head 数", "num_kv_heads",
    ),
    "query-offset": (
        "causal offset", "offset of the queries", "offset of the query", "diagonal offset",
        "offset of the diagonal", "offset of the causal diagonal", "right alignment", "past length",
        "query 的偏移", "查询偏移", "因果偏移", "对角线偏移", "因果对角线的偏移", "因果对角线偏移",
        "右对齐偏移", "对角线的平移", "对角线平移", "q 偏移", "query 偏移量", "diagonal shift",
        "query shift", "shift of the diagonal", "历史长度", "query 的平移", "past_len 偏移",
        "过去长度", "历史偏移",
    ),
    "mask-param": (
        "mask parameter", "mask argument", "mask tensor parameter", "掩码参数", "掩码输入",
    ),
    "block-table-param": (
        "page table parameter", "block table parameter", "page table argument", "block table input",
        "block table argument", "页表参数", "页表输入", "页表这个参数", "页表张量参数",
    ),
    "block-indices-param": (
        "indices input", "index tensor parameter", "indices parameter", "block indices parameter",
        "块索引参数", "索引张量参数", "稀疏索引参数", "稀疏索引输入", "indices 参数",
    ),
    "block-mask-param": (
        "block mask parameter", "block mask argument", "block mask tensor", "块掩码参数",
        "块掩码输入", "块级掩码参数", "块稀疏掩码参数",
    ),
    "workspace-param": (
        "workspace parameters", "workspace arguments", "workspace buffers in the signature",
        "workspace tensors", "workspace 参数", "workspace 张量参数", "工作区参数", "workspace 张量",
        "three workspaces", "workspace buffers", "三个 workspace", "workspace 缓冲",
    ),
    "kernel-grid": (
        "launch grid", "grid of the kernel", "kernel header", "grid dimensions", "grid of programs",
        "launch header", "kernel 网格", "启动网格", "网格维度", "grid 划分", "grid 维度",
        "发射网格", "线程块网格", "grid 的划分", "网格的划分", "网格大小", "grid 大小",
        "launch 网格", "kernel 的网格", "thread block layout", "grid layout", "grid definition",
        "kernel 启动", "grid 定义", "grid 设置", "网格配置", "网格定义", "启动配置",
    ),
    "cu-seqlens": (
        "sequence boundaries", "sample bounds", "bounds of the sample", "per-sample bounds",
        "start and length of the sample", "lengths from the prefix sums", "序列边界的读取",
        "start and end of a sample", "start and end of each sample",
        "样本起止", "样本的起止", "序列的起止", "起止位置", "序列起点与长度", "sequence offsets",
        "sample boundaries", "start and end of the sample", "sequence starts and ends",
        "start and end of each sequence", "序列边界", "样本边界", "起止下标", "序列起止下标",
        "前缀和读取", "前缀和的读取", "样本起止下标",
    ),
    "kv-head": (
        "KV head index", "index of the KV head", "KV head of the query head", "KV head mapping",
        "head mapping", "GQA head mapping", "GQA mapping", "head group mapping", "KV 头下标",
        "KV 头的下标", "KV 头号", "KV 头映射", "KV 头的映射", "KV 头的选择", "头映射", "头的映射",
        "GQA 映射", "GQA 头映射", "所属的 KV 头", "对应的 KV 头", "head index of K/V",
        "K/V head index", "KV head of the group", "KV head 下标", "KV head 索引", "K/V 头下标",
    ),
    "split-range": (
        "split range", "range of a split", "range of the split", "key range of the split",
        "keys of a split", "keys of one split", "keys of the split", "split's key range",
        "split 的 key 区间", "split 区间", "split 的区间", "split 的 key 范围", "split 的键区间",
        "每个 split 的 key 范围", "split 读取的区间", "split 的范围", "切分区间", "分片区间",
        "切分范围", "分片范围", "split 的切分", "per-split range", "keys per split", "split slice",
        "slice of the split", "split boundaries", "keys that one split reads",
        "keys that a split reads", "keys that each split reads", "keys read by one split",
        "keys each split reads", "一个 split 读的 key", "每个 split 读的 key", "split 读取的 key",
    ),
    "tmem-alloc": (
        "TMEM allocation", "allocation of tensor memory", "allocation of TMEM", "分配 TMEM",
        "TMEM 的分配", "张量内存分配", "张量内存的分配", "分配张量内存",
    ),
    "cube-scope": (
        "Cube side", "Cube half", "Cube part", "Cube section", "Cube block", "Cube core scope",
        "Cube 侧", "Cube 部分", "Cube 作用域", "Cube 半边", "Cube scope", "Cube 那一段",
        "Cube 一侧", "Cube 核的代码", "C scope", "Cube 核部分", "Cube 那段", "Cube 那半",
    ),
    "vector-scope": (
        "Vector side", "Vector half", "Vector part", "Vector section", "Vector block",
        "Vector core scope", "Vector 侧", "Vector 部分", "Vector 作用域", "Vector 半边",
        "Vector scope", "Vector 那一段", "Vector 一侧", "Vector 核的代码", "V scope",
        "Vector 核部分", "Vector 那段", "Vector 那半",
    ),
    "state-init": (
        "state init", "initial state", "initialisation of the state", "state initialization",
        "initialisation of the accumulators", "initialisation of the running state",
        "accumulator initialisation", "running state initialisation", "initial values of the state",
        "initialisation of the softmax state", "initial fills", "fills before the loop", "初始状态",
        "状态的初始化", "初始化状态", "初始化累加器", "累加器初始化", "累加器的初始化",
        "三个状态的初始化", "状态量初始化", "状态量的初始化", "状态变量初始化", "循环前的初始化",
        "softmax 状态初始化", "softmax 状态的初始化", "状态初值", "初值设置", "三个初值",
        "累加器清零", "state reset", "zeroing of the accumulators", "zeroing the accumulators",
        "accumulators are cleared", "accumulators are zeroed", "accumulators are initialised",
        "clearing of the accumulators", "状态初始值", "初始填充", "状态清零", "累加量的初始化",
        "累加量初始化", "清零与置负无穷",
    ),
    "sink-load": (
        "load of the sink", "load of the sinks", "sink loading", "loading of the sink",
        "loading the sink", "reading the sink", "sink logit load", "load of the sink logit",
        "sink 读取", "sink 的读取", "加载 sink", "sink 加载", "sink 的加载", "读 sink", "读入 sink",
        "sink logit 的读取", "sink logit 读取", "载入 sink", "sink read", "read of the sink",
        "sink logits load", "sink logits read", "sink 读入", "sink logits 的读取", "sink 值的读取",
    ),
    "loop-range": (
        "loop range", "loop bound", "loop bounds", "loop limit", "upper bound of the loop",
        "loop extent", "upper loop bound", "trip count", "causal crop", "causal cropping",
        "cropping of the loop", "number of iterations", "number of key blocks",
        "how far the loop over keys runs", "how far the loop runs", "where the loop ends",
        "循环到哪里为止", "循环到哪里结束", "循环在哪里结束",
        "循环到哪一块", "循环到哪块", "循环的终点", "循环终点",
        "where the loop stops", "循环的上界", "循环次数", "key 循环的上界", "KV 循环的上界",
        "迭代次数", "因果裁剪", "因果裁块", "循环裁剪", "循环上界的裁剪", "key 循环上界",
        "iteration count", "number of KV blocks", "number of K/V blocks", "causal early exit",
        "causal truncation", "end of the loop range", "因果截断", "循环块数", "迭代块数",
        "遍历的块数", "循环的块数",
    ),
    "window-start": (
        "where the loop starts", "where the loop begins", "where the loop over keys starts",
        "where the loop over keys begins", "where the loop over the keys starts", "the loop starts",
        "the loop begins", "循环从哪里开始", "循环从哪块开始", "循环从哪一块开始", "循环的起始块",
        "循环从哪个块开始", "循环在滑动窗口下的起点", "循环的第一块", "first block that is visited",
        "first block of keys", "loop's start", "start of the key loop",
        "window start", "start of the window", "loop start", "start of the loop",
        "first block of the window", "lower bound of the loop", "lower loop bound",
        "start block of the window", "滑动窗口起点", "滑动窗口的起点", "循环起点", "循环的起点",
        "滑动窗口循环起点", "滑动窗口下的循环起点", "first block of the loop",
        "first visible block", "first key block", "start block", "起始块", "窗口左边界",
        "第一个可见块", "滑窗左边界", "起始 key 块",
    ),
    "kv-loop": (
        "loop over the keys", "KV loop", "loop over key blocks", "loop over the key blocks",
        "loop over KV blocks", "loop over the KV blocks", "key/value loop", "K/V loop", "key loop",
        "main loop", "pipelined loop", "loop over K blocks", "kv block loop", "KV 循环", "K/V 循环",
        "key 块循环", "KV 块循环", "key 块的循环", "KV 块的循环", "主循环", "流水循环",
        "流水线循环", "流水化循环", "遍历 key 的循环", "遍历 KV 的循环", "键块循环", "loop over KV",
        "inner loop", "loop over K/V blocks", "loop over blocks of keys",
        "loop over key/value blocks", "loop over the blocks of keys", "loop over K/V",
        "KV block loop", "内层循环", "遍历 K/V 的循环", "遍历 KV 块的循环", "遍历 key 块的循环",
        "遍历 key 块", "K/V 块循环",
    ),
    "block-table": (
        "page table look-up", "block table look-up", "look-up of the page", "page index look-up",
        "look-up in the page table", "look-up in the block table", "physical page", "页表查询",
        "查询页表", "页表查找", "页号查询", "页表的查询", "页表的读取", "页表读取", "物理页号",
        "物理块号", "查物理页", "读页表", "查一次页表", "页号查找", "table look-up", "页号的查找",
        "块号查询", "页表下标",
    ),
    "paged-load": (
        "load of the page", "load from the page", "paged copy", "paged K load", "paged KV load",
        "copy of the page", "按页读取", "按页搬运", "分页加载", "分页读取", "分页拷贝", "按页拷贝",
        "按页的加载", "分页搬运", "paged K/V load", "K load from the page", "分页的加载",
        "从页里加载",
    ),
    "block-index": (
        "index look-up", "block index look-up", "sparse index read", "read of the block index",
        "read of the index", "索引查询", "读取索引", "读取块索引", "块索引的读取", "索引的读取",
        "读取稀疏索引", "稀疏索引的读取", "查索引", "index read", "索引读取", "块索引读取",
    ),
    "gather": (
        "gather load", "gather of the keys", "gather of K", "gather of KV", "indexed load",
        "gathering of the keys", "索引加载", "按索引读取", "按索引搬运", "gather 加载",
        "gather 搬运", "离散加载", "离散搬运", "离散读取", "gathers the keys",
        "gather of the tokens",
    ),
    "block-mask": (
        "load of the block mask", "block mask read", "读取块掩码", "块掩码加载", "块掩码的加载",
        "块掩码读取", "块掩码的读取", "加载块掩码",
    ),
    "block-skip": (
        "skip of a block", "skip test", "block skipping", "skipping of a block",
        "test that skips a block", "skipping a block", "test that skips the block", "跳块",
        "跳过块", "块跳过", "跳过判断", "整块跳过", "跳块判断", "跳过整块的判断", "跳过一块",
        "block is skipped", "skips the block",
    ),
    "mask-load": (
        "load of the mask", "mask loading", "loading of the mask", "掩码加载", "掩码的加载",
        "加载掩码", "读取掩码", "掩码读取", "掩码的读取",
    ),
    "causal-mask": (
        "causal masking", "causal test", "causal condition", "causal branch", "mask of the causal",
        "lower-triangular mask", "causal 掩码", "因果掩码", "因果屏蔽", "因果判断", "因果条件",
        "因果分支", "下三角掩码", "因果性掩码", "masking of future keys", "future mask",
        "causal diagonal mask", "遮住未来",
    ),
    "window-mask": (
        "sliding window mask", "window masking", "windowed mask", "window test", "window condition",
        "window branch", "local mask", "sliding mask", "滑动窗口掩码", "滑动窗口屏蔽",
        "滑动窗口判断", "局部窗口掩码", "windowed causal mask", "causal window mask",
        "sliding causal mask", "window and causal mask", "causal and window mask",
        "带窗口的因果掩码",
    ),
    "boundary-mask": (
        "bounds mask", "out-of-range mask", "out-of-bounds mask", "tail mask", "boundary masking",
        "boundary check", "bounds check", "boundary test", "key boundary mask", "边界掩码",
        "尾块掩码", "尾部掩码", "越界掩码", "末尾掩码", "序列末尾掩码", "边界检查", "越界检查",
        "边界判断", "key 边界掩码", "边界屏蔽", "end-of-sequence mask", "tail masking",
        "out-of-range keys", "mask of the tail", "key bound check", "sequence end mask", "越界屏蔽",
        "尾部屏蔽", "尾部检查", "序列尾部掩码", "长度掩码",
    ),
    "padding-mask": (
        "padding masking", "padding test", "varlen mask", "padded rows mask", "padding 掩码",
        "填充掩码", "补齐掩码", "padding 判断", "变长掩码", "padding 屏蔽", "pad mask",
        "causal and padding mask", "padded row mask", "row padding mask",
    ),
    "mask-value": (
        "masked value", "value of the mask", "value of hidden scores", "value of a hidden score",
        "fill value of the mask", "masking value", "value that hides", "掩码值", "掩码取值",
        "掩码的取值", "屏蔽值", "遮蔽值", "掩码填充值", "被遮住的取值", "mask constant",
        "constant of the mask", "fill constant of the mask", "掩码常数", "屏蔽常数",
    ),
    "mask-after-exp": (
        "post-exp mask", "masking after the exponential", "mask after exp", "指数之后的掩码",
        "指数后的掩码", "exp 之后的掩码", "指数之后乘掩码",
    ),
    "qk-gemm": (
        "QK product", "QK^T product", "Q·K^T product", "QK gemm", "first product",
        "first gemm call", "score product", "scores product", "product of Q and K",
        "product of queries and keys", "Q @ K^T", "Q·Kᵀ 矩阵乘", "QKᵀ 矩阵乘", "QK 矩阵乘",
        "第一个矩阵乘", "第一处矩阵乘", "第一次矩阵乘", "分数矩阵乘", "Q 与 K 的矩阵乘",
        "Q 和 K 的矩阵乘", "Q K 矩阵乘", "第一步矩阵乘", "score computation", "scores gemm",
        "computation of the scores", "分数计算", "得分计算", "分数的计算", "得分矩阵乘",
    ),
    "pv-gemm": (
        "PV product", "P·V product", "second product", "second gemm call", "product of P and V",
        "product with V", "P @ V", "PV gemm", "P·V 矩阵乘", "第二个矩阵乘", "第二处矩阵乘",
        "第二次矩阵乘", "P 与 V 的矩阵乘", "P 和 V 的矩阵乘", "P V 矩阵乘", "第二步矩阵乘",
        "output product", "output gemm", "gemm with V", "与 V 相乘", "乘 V",
    ),
    "barrier-wait": (
        "barrier wait", "mbarrier wait", "wait on the barrier", "wait for the barrier", "等待屏障",
        "屏障等待", "等 barrier", "等待 barrier", "barrier 等待", "等待 mbarrier",
    ),
    "row-max": (
        "maximum is updated", "maximum is merged", "running maximum is updated",
        "row maximum", "online softmax maximum", "maximum of the online softmax", "maximum update",
        "update of the maximum", "update of the running maximum", "row-wise maximum",
        "running row maximum", "maximum of each row", "maximum merge", "行最大值", "逐行最大值",
        "在线 softmax 的最大值", "online softmax 的最大值", "在线 softmax 最大值", "最大值更新",
        "最大值的更新", "更新最大值", "最大值合并", "最大值递推", "最大值的递推", "运行最大值更新",
        "每行最大值", "滚动最大值", "运行时最大值", "行最大",
    ),
    "check-inf": (
        "check_inf", "inf check", "check for infinity", "check of infinity", "infinity guard",
        "-inf check", "minus-infinity check", "guard against NaN", "无穷检查", "inf 检查",
        "负无穷检查", "无穷大检查", "-inf 检查", "inf 保护", "负无穷保护", "-inf guard",
        "NaN guard", "NaN protection", "minus infinity guard", "NaN 防护", "NaN 保护", "防 NaN",
    ),
    "check-inf-disabled": (
        "disabled check_inf", "commented-out check_inf", "check_inf is there only as a comment",
        "disabled infinity check", "commented-out infinity check", "check_inf in comments",
        "注释掉的 check_inf", "禁用的 check_inf", "停用的 check_inf", "被注释的 check_inf",
        "check_inf 注释", "check_inf 被注释掉", "注释里的 check_inf", "注释形式的 check_inf",
        "被注释掉的无穷检查", "关闭的 check_inf",
    ),
    "rescale-factor": (
        "rescaling factor", "rescale coefficient", "correction factor", "rescaling coefficient",
        "重标度因子", "重标度系数", "重标度的因子", "缩放修正因子", "校正因子", "重标度因子 c",
        "scaling factor of the old state", "factor of the rescale", "decay factor",
        "factor for the old state", "修正因子", "缩放修正", "衰减因子", "旧状态的缩放因子",
    ),
    "probability": (
        "unnormalised probabilities", "unnormalised probability", "probability computation",
        "unnormalized probabilities", "exponentials of the scores", "exponential of the scores",
        "unnormalized probability", "softmax numerator", "numerator of the softmax", "未归一化概率",
        "未归一化的概率", "概率计算", "计算概率", "概率的计算", "分数的指数", "求概率",
        "概率这一步", "概率那一步", "softmax 分子", "exponentiation",
        "exponentiation of the scores", "exp of the scores", "exp 计算", "指数计算", "求指数",
        "取指数",
    ),
    "row-sum": (
        "sum of the row", "row-wise sum", "sum of each row", "sum of the probabilities",
        "block row sum", "逐行求和", "按行求和", "概率求和", "概率的行和", "概率之和", "块内行和",
        "行求和", "本块行和", "这一块的行和", "block sum", "sum reduction", "sum of the block",
        "row reduction", "行和归约", "求和归约", "概率行和",
    ),
    "denominator": (
        "denominator is updated", "running sum is updated", "sum is updated",
        "update of the denominator", "running denominator", "denominator recurrence",
        "softmax denominator", "denominator of the softmax", "running sum", "update of the sum",
        "sum update", "running sum update", "denominator accumulation", "denominator recursion",
        "分母更新", "更新分母", "分母的更新", "分母的递推", "运行分母", "分母累加", "分母的累加",
        "softmax 分母", "softmax 的分母", "分母累积", "运行和", "分母的递推式", "递推分母",
        "分母迭代", "logsum update", "update of logsum", "l update", "分母合并",
    ),
    "acc-rescale": (
        "accumulator is multiplied by the rescale factor", "accumulator is multiplied",
        "accumulator times the rescale factor", "multiplies the accumulator", "累加器乘以",
        "累加器乘重标度因子", "累加器乘以重标度因子", "累加器乘上重标度因子", "给累加器乘",
        "accumulator is rescaled", "accumulators are rescaled", "output is rescaled",
        "累加器被重标度",
        "accumulator rescaling", "rescale of the accumulator", "rescaling of the accumulator",
        "accumulator scaling", "output rescale", "output rescaling", "rescaling of the output",
        "rescale of the output", "rescaling the accumulator", "acc rescale", "acc_o rescale",
        "累加器重标度", "累加器的重标度", "重标度累加器", "累加器缩放", "累加器的缩放",
        "缩放累加器", "输出重标度", "输出的重标度", "输出累加器重标度", "O 的重标度",
        "累加器重标度一步", "输出缩放", "acc_o 的重标度", "acc_o 重标度", "acc_o 缩放",
        "scaling of the accumulator", "scaling the accumulator", "累加器乘因子",
    ),
    "workspace-write": (
        "write to the workspace", "store to the workspace", "writing of the workspace",
        "写入 workspace", "workspace 写入", "写回 workspace", "写到 workspace", "workspace 的写入",
        "写进 workspace", "write to workspace", "workspace store", "store to workspace",
        "writes to the workspace",
    ),
    "workspace-read": (
        "read from the workspace", "load from the workspace", "reading of the workspace",
        "读取 workspace", "workspace 读取", "从 workspace 读", "workspace 的读取", "读回 workspace",
        "read from workspace", "workspace load", "load from workspace", "reads from the workspace",
    ),
    "cross-flag-set": (
        "cross flag set", "set of the cross flag", "setting of the cross-core flag",
        "设置跨核 flag", "设置跨核标志", "跨核标志置位", "置跨核标志", "跨核 flag 置位",
        "发出跨核 flag", "置位跨核标志", "flag set", "置 flag", "设置 flag", "跨核置位",
        "置跨核信号",
    ),
    "cross-flag-wait": (
        "cross flag wait", "wait for the cross flag", "wait on the cross-core flag",
        "wait for the cross-core flag", "等待跨核 flag", "等待跨核标志", "等跨核标志",
        "跨核 flag 等待", "flag wait", "等 flag", "等待 flag", "跨核等待", "等跨核信号",
    ),
    "sink-epilogue": (
        "sink epilogue", "sink term", "addition of the sink", "sink contribution",
        "sink added to the denominator", "sink's contribution", "sink in the sum", "sink 项",
        "sink 加进分母", "sink 并入分母", "sink 贡献", "sink 的贡献", "sink 加到分母",
        "sink 进入分母", "加上 sink", "分母加 sink", "sink 计入", "sink 收尾", "sink correction",
        "adding the sink", "adds the sink", "sink update", "sink logit in the denominator",
        "sink 加入分母", "sink 修正", "加入 sink", "sink 的加入", "sink 的处理", "sink 并入",
        "sink 累加",
    ),
    "normalise": (
        "divided by the denominator", "divided by the row sum", "output is divided",
        "output is normalised", "result is normalised", "accumulator is divided",
        "final division", "final normalisation", "division by the denominator", "last division",
        "normalisation of the output", "output normalisation", "division by the row sum",
        "最后的归一化", "最终归一化", "输出归一化", "输出的归一化", "除以分母", "末尾归一化",
        "末尾的归一化", "最后的除法", "最后一次除法", "归一化输出", "最后归一化", "归一化这一步",
        "归一化除法", "O / l", "final scaling", "dividing by the denominator",
        "divides by the denominator", "除以 l", "最后一步除法",
    ),
    "empty-row": (
        "empty rows", "fully masked rows", "fully masked row", "all-masked rows",
        "rows without keys", "全被遮住的行", "全遮行", "全 mask 行", "全部被遮住的行",
        "完全被掩码的行", "看不见任何 key 的行", "空行的处理", "处理空行", "rows that see nothing",
        "row that sees nothing", "rows without visible keys", "fully masked", "全掩码行",
        "看不到任何 key 的行", "什么也看不见的行", "整行都看不见",
    ),
    "epilogue-store": (
        "store of the output", "output write-back", "write-back of the output", "epilogue store",
        "final store", "store of the result", "writing of the output", "output copy",
        "copy to the output", "write of the output", "输出写回", "输出的写回", "写回结果",
        "结果写回", "写出输出", "输出存储", "回写输出", "输出回写", "写回全局内存", "写回到输出",
        "最后的写回", "收尾写回", "output write", "final copy", "final copies", "result write",
        "output stores", "copies of the output", "copy of the result", "写出结果", "结果写出",
        "输出写出", "输出拷贝", "结果拷回",
    ),
    "varlen-guard": (
        "varlen guard",
        "guarded store", "guarded write", "write guard", "store guard", "guard of the store",
        "guarded write-back", "写回保护", "写回的保护", "写回守卫", "带保护的写回", "行保护",
        "写回 guard", "写回的 guard", "row check", "rows guard", "guard of the rows",
        "guarded copy", "valid row check", "行数保护", "有效行判断", "越界行保护", "行守卫",
    ),
    "partial-lse": (
        "lse of the split", "lse of a split", "split lse", "partial lse", "partial log-sum-exp",
        "部分 lse", "部分的 lse", "split 的 lse", "每个 split 的 lse", "写出 lse", "写 lse",
        "lse 写出", "lse 的写出", "per-split lse", "lse per split", "split log-sum-exp",
    ),
    "partial-output": (
        "partial outputs", "partial result", "partial O", "output of the split", "部分输出",
        "部分结果", "split 的输出", "split 的部分输出", "per-split output", "per-split outputs",
        "output per split", "每个 split 的输出", "分片输出",
    ),
    "combine": (
        "combine 段", "combine 阶段", "combine 内核", "combine stage", "combine step",
        "combine pass", "combining kernel", "merge kernel", "merging kernel", "second kernel",
        "combine function", "合并 kernel", "归并 kernel", "combine 函数", "combine 步骤",
        "合并阶段", "第二个 kernel", "reduction kernel", "combination kernel", "combine macro",
        "combine 宏", "归约 kernel", "合并 macro", "规约内核", "第二阶段",
    ),
    "combine-max": (
        "maximum lse", "largest lse", "maximum of the lse", "maximum of the partial lse",
        "lse 的最大值", "lse 最大值", "最大 lse", "最大的 lse", "lse max", "max over the splits",
        "maximum over the splits",
    ),
    "combine-logsumexp": (
        "joint lse", "global lse", "combined lse", "global log-sum-exp", "combined log-sum-exp",
        "全局 lse", "合并后的 lse", "总 lse", "合并 lse", "联合 lse", "整体 lse",
    ),
    "combine-weights": (
        "split weight", "weights of the splits", "weight of each split", "weight of a split",
        "weight of the split", "combine weights", "split 权重", "split 的权重", "每个 split 的权重",
        "合并权重", "合并的权重", "各分片权重", "per-split weight", "per-split weights",
    ),
    "combine-accumulate": (
        "weighted sum", "weighted accumulation", "weighted sum of the partial outputs",
        "weighted sum of the outputs", "加权和", "加权累加", "加权求和", "按权重累加",
        "accumulation of the splits", "weighted average", "accumulation of the partial outputs",
        "加权平均", "加权累计",
    ),
    "top-k": (
        "topk selection", "top-k 选取", "选 top-k", "topk 选择", "top-k 挑选", "选块",
        "block selection", "selection of the blocks",
    ),
    "workspace-rewrite": (
        "rewrite table", "replacement table", "copy replacement table", "table of rewrites",
        "workspace table", "改写表", "替换表", "拷贝替换表", "转换表", "改写映射表", "映射表",
        "rewriting table", "改写规则表",
    ),
    "pass-registration": (
        "registration of the pass", "registers the pass", "registered as a pass", "pass 的注册",
        "注册 pass", "注册该 pass", "注册这个 pass", "pass 注册处",
    ),
    "warp-policy": (
        "warp partition policy", "warp partitioning", "warp partition", "warp 策略", "warp 划分",
        "warp 分配策略", "warp 的划分", "warp 分配", "warp distribution", "warp assignment",
    ),
    "reduce-clear": ("clear semantics", "semantics of clear", "clear 语义", "clear 的语义"),
    "infinity-lowering": (
        "infinity lowering", "lowering of T.infinity", "lowering of the infinity",
        "T.infinity 的 lowering", "infinity 的降级", "infinity 的下降", "无穷的 lowering",
    ),
    "gemm-async-note": ("asynchronous gemm note", "异步 gemm 说明", "异步 gemm 的说明"),
    "tmem-docstring": (
        "tensor memory rules", "TMEM rules", "rules of TMEM", "TMEM 的约束", "TMEM 分配规则",
        "TMEM 规则", "张量内存的约束", "张量内存约束", "TMEM 限制", "allocation rules",
        "column rule", "分配规则", "列数约束", "列数规则",
    ),
    "data-movement-table": (
        "data movement table", "data path table", "table of data movements", "数据搬运表", "搬运表",
        "数据通路表", "搬运关系的表", "搬运通路表", "memory hierarchy table",
        "table of memory paths",
    ),
}  # fmt: skip

SHORT: dict[str, tuple[str, ...]] = {
    "softmax-scale": ("scale", "scaling factor", "缩放因子", "缩放系数", "缩放"),
    "query-offset": ("offset", "偏移", "偏移量", "右对齐"),
    "kernel-grid": ("grid", "网格", "launch"),
    "cu-seqlens": ("prefix sums", "前缀和", "序列长度", "lengths"),
    "kv-head": ("KV head", "KV 头"),
    "split-range": ("split",),
    "state-init": ("初始化", "initialisation", "init", "初值", "清零"),
    "loop-range": ("上界", "upper bound", "loop end"),
    "window-start": ("lower bound",),
    "kv-loop": ("循环",),
    "block-table": ("look-up", "查表", "页表"),
    "gather": ("gather",),
    "block-index": ("sparse index", "稀疏索引", "块索引"),
    "block-mask": ("block mask", "块掩码"),
    "causal-mask": ("causal", "因果"),
    "window-mask": ("window", "滑动窗口"),
    "boundary-mask": ("bounds", "边界"),
    "padding-mask": ("padding",),
    "qk-gemm": ("QK^T", "QKᵀ", "QK", "Q·Kᵀ", "Q·K^T", "S = QK^T", "first gemm", "scores"),
    "pv-gemm": ("PV", "P·V", "P V", "second gemm"),
    "row-max": ("maximum", "最大值", "行最大", "max"),
    "rescale-factor": ("rescale", "rescaling", "重标度"),
    "acc-rescale": ("rescale", "rescaling", "重标度"),
    "probability": (
        "probability", "probabilities", "概率", "指数", "exponential", "exponentials", "exp",
    ),
    "row-sum": ("行和", "row sum", "求和"),
    "denominator": ("denominator", "分母", "normaliser"),
    "normalise": ("归一化", "normalisation", "normalise", "division"),
    "empty-row": ("空行", "empty row", "empty rows"),
    "epilogue-store": ("写回", "epilogue", "write-back", "store"),
    "partial-lse": ("lse", "log-sum-exp"),
    "combine-logsumexp": ("lse", "log-sum-exp"),
    "combine": ("combine", "合并"),
    "pass-registration": ("registration", "注册"),
    "infinity-lowering": ("infinity",),
    "block-table-param": ("block table", "page table", "页表", "块表"),
    "kv-head-count": ("KV heads",),
    "block-skip": ("skip", "跳过"),
    "combine-weights": ("权重", "weights"),
    "paged-load": ("K load",),
    "partial-output": ("部分输出",),
    "mask-value": ("-inf", "填充值"),
    "check-inf": ("NaN guard",),
}  # fmt: skip
"""A word of two concepts must be elsewhere for both before it disagrees."""

HANDED_IN: dict[str, tuple[str, ...]] = {
    "block-table-param": ("block table", "page table", "块表", "页表", "block_table"),
    "block-indices-param": ("block indices", "sparse indices", "块索引", "稀疏索引"),
    "block-mask-param": ("block mask", "块掩码"),
    "workspace-param": ("workspace", "workspaces", "工作区"),
}
"""What a kernel is given: the names of the tensors whose parameter lines these concepts are."""
_AS_PARAMETER = (
    "{} as an input", "{} as input", "{} as a parameter", "{} as an argument",
    "{} in the signature",
    "{} among the parameters", "{} is an input", "{} is a parameter", "{} is handed in",
    "parameter for the {}", "signature has the {}", "{}作为输入", "{}作为参数", "{}是输入",
    "{}是参数",
    "{}作为一个张量参数", "{}作为张量参数", "{}作为张量传", "{}作为一个张量传", "{}作为一个参数",
    "{}作为一个输入", "{} comes in as a tensor", "{} as a tensor", "{} as a tensor argument",
    "{} passed as a parameter", "{} passed in", "{} passed as an input",
    "{} comes in as a parameter", "{} comes in as an input", "{} is passed in", "{} are passed in",
    "{} are an input", "{} are a parameter", "{} are inputs", "{} are parameters",
    "{} are handed in", "{} is passed as a parameter", "{} is passed as an argument",
    "{} is an argument", "{} is one of the parameters", "{} is one of the inputs",
    "{} enters as a parameter", "{} enters as an argument",
    "{}以参数形式传入", "{}以参数的形式传入", "{}以参数传入", "{}以形参传入", "{}以输入的形式",
    "{}为输入", "{}为参数", "{}作为参数传入", "{}作参数", "{}当作参数", "{}当参数", "{}当输入",
    "{}从参数传入", "{}由参数传入", "{}从参数里", "{}从外面传", "{}传入", "{}传进来", "传入的{}",
    "输入的{}", "{}是一个参数", "{}是一个输入", "{}是入口参数", "{}是传入的", "{}由外部传入",
    "{}写在签名里", "签名里的{}", "签名中的{}", "参数里的{}", "参数列表里的{}", "{}形参",
    "{}这个参数",
)  # fmt: skip


def handed_in(concept: str) -> list[str]:
    """Give the ways to say that something is a parameter of the kernel."""
    return [way.format(name) for name in HANDED_IN.get(concept, ()) for way in _AS_PARAMETER]


_SIGNED = [
    (
        concept,
        re.compile(
            r"(?:\b(?:signature|parameter list|argument list|(?:extra|additional|new|more|three"
            r"|further) (?:parameters|arguments|inputs|tensors))\b|签名|参数表|参数列表|形参表)"
            rf"[^.;。；:：|\n]{{0,20}}(?:\n[^.;。；:：|\n]{{0,20}})?[^.;。；:：|\n]{{0,40}}?"
            rf"(?P<name>(?<![A-Za-z_])(?:{'|'.join(names)})(?:es|s)?(?![A-Za-z_]))",
            re.IGNORECASE,
        ),
    )
    for concept, names in HANDED_IN.items()
]


def signed(text: str) -> Iterator[tuple[int, int, str]]:
    """Yield the tensors that a text says to stand in the signature, and their concepts."""
    for concept, pattern in _SIGNED:
        for match in pattern.finditer(text):
            yield *match.span("name"), concept


def spelled(name: str) -> set[str]:
    """Give a name in all its spellings."""
    found = {name}
    for first, *others in SPELLINGS:
        for one in [known for known in found if first in known]:
            found.update(one.replace(first, other) for other in others)
    return found
