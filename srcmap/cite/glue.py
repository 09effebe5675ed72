"""The words that may stand between what is named and the citation that gives its place."""

from __future__ import annotations

import re

_THINGS = (
    "branch branches block blocks loop loops statement statements assignment assignments"
    " parameter parameters argument arguments call calls function functions class classes"
    " method methods helper helpers macro macros comment comments variable variables constant"
    " constants arm arms guard guards test tests expression expressions definition"
    " definitions line lines step steps code part kernel scope header update entry row body"
    " itself field member flag option buffer buffers tensor fragment alias attribute"
    " decorator overload signature default note docstring message sentence table section"
    " paragraph top bottom head first second third fourth fifth sixth seventh eighth last"
    " upstream"
)
_ARTICLES = "a an the this that its whole entire two three four both named called all one"
_PLACING = (
    "is are was were be being at in on from see here also both the of same file document"
    " under via stand stands sit sits live lives found located defined declared written set"
    " computed come comes can which that it its they begin begins start starts open opens"
    " appear appears follow follows happen happens occur occurs done called given shown line"
    " lines L respectively only just now first around near there allocated used using cf"
    " starting beginning ending e.g. i.e. namely source location place found has have"
)
_WIDE_THINGS = (
    "这个 那个 该 整个 整块 整段 这块 那块 这段 那段 这一 那一 这 那 一 的 分支 循环 语句"
    " 赋值 形参 参数 行 句 段 处 步 块 调用 函数 类 宏 注释 变量 常量 定义 声明 代码 部分"
    " 步骤 实现 计算 读取 更新 写入 写回 初始化 拷贝 搬运 加载 分配 取值 检查 归约 求和 合并"
    " 相乘 方法 算子 字段 成员 判断 条件 内核 本身 头部 那里 这里 表达式 缓冲 缓冲区 张量"
    " 属性 装饰器 签名 默认值 说明 文档 原文 原话 一节 表格 全部 都是 两者 二者 三者"
    " 保存 备份 顶部 底部 开头 末尾 上游 手工 手动 显式 自动 指定 设定 给定 我记得 记得 大概 大约"
    " 好像 应该 应当 可能 似乎"
)
_WIDE_PLACING = (
    "同文件 同一文件 同一份文件 同一个文件 同一文档 同文档 该文件 本文件 参见 详见 参看 请看"
    " 可见 见 位于 处于 写在 就在 定义在 声明在 出现在 落在 放在 存在 出现于 定义于 声明于"
    " 实现于 记成 记为 记作 写成 标成 标为 写作 标注为 误记为 误写成 说成"
    " 分别 依次 也 都 就 则 正 在 由 于 是 为 被 自 从 来自 出自 即 对应 对应于 第 位置"
    " 源码 出处 来源 行号 例如 比如 如 里 中 对照 参照 哪里 哪儿 何处"
)
_PASSIVE = (
    r"(?:is|are|was|were|be|been|gets?)\s+(?:\w+ly\s+)?[a-z]+\s+"
    r"(?:in|at|on|from|within|inside|near|by)\b"
)
"""Such as "is raised in"."""
_COUNTED = r"[两三四五六几一][个处次条行段句]"
_LITERAL = r"(?:-?\d[\d.e]*|True|False|None)"
_VALUE = (
    rf"(?:默认值?|缺省值?|初值|取值)(?:是|为)?\s?[`]?{_LITERAL}[`]?\s?"
    rf"|(?:'s\s|with\s(?:a|the)\s)?default(?:\svalue)?(?:\sof|\sis|\s=)?\s`?{_LITERAL}`?"
    rf"|=\s?`?{_LITERAL}\b`?"
)
"""A value that is said of what is named."""
_REMARK = (
    r"[(（](?!\s?(?:not?|never|un|不|没|非|未|无|仅|除))[^()（）\n:：]{1,24}[)）]"
    r"(?=\s?[:：—–,，-]|\s(?:is|at|in)\b|[在见位])"
)
"""Brackets behind what is named that say something else of it."""
_RANK = r"第\s?[一二三四五六七八九十\d]{1,2}\s?(?:个|条|项)"
_BELIEVED = (
    r"\bI\s(?:think|believe|guess)\b|\bif\sI\s(?:remember|recall)(?:\s(?:rightly|right|correctly|well))?\b"
    r"|\b(?:probably|presumably|roughly|about)\b"
)
_NEXT_TO_IT = (
    r"(?<![,，\s])\s(?:right|just|directly|immediately)\s(?:below|above|after|before|under|behind)"
    r"\s(?:it|that|this|them)\b|(?:就在|紧接在?|紧跟在?|紧挨在?)(?:它|其)?的?(?:下面|后面|上面|前面|下方|上方)"
)
_DOES_THAT = (
    r"(?:就是|正是)(?:干|做|管)这个的|\bdoes\s(?:just|exactly|precisely)?\s?(?:that|this)\b"
)
_BETWEEN = f"{_RANK}|{_BELIEVED}|{_NEXT_TO_IT}|{_DOES_THAT}"
"""What may be said between without a claim about the place: ranks, doubts, "does just that"."""
_OWNER = r"[A-Za-z][\w-]*['’]s(?=\s)|[A-Za-z][\w-]*\s?的(?=\s?[`\[(A-Za-z])"
"""Whose file it is."""
_MARK = (
    r"[\s`*\\'\"“”‘’(（\[\]【{}<>|:：&–—~_→⇒=-]|:\w+:(?=`)"
    r"|\\(?:path|texttt|url|href|verb|nolinkurl|code|file|footnote)\*?"
)


def _any(*lists: str) -> str:
    words = " ".join(lists).split(" ")
    return "|".join(re.escape(word) for word in sorted(words, key=len, reverse=True))


GLUE = re.compile(
    rf"(?:{_MARK}|[,，]|{_PASSIVE}|(?:{_any(_THINGS, _ARTICLES, _PLACING)})(?![A-Za-z0-9_])"
    rf"|{_COUNTED}|{_BETWEEN}|{_VALUE}|{_REMARK}|{_OWNER}"
    rf"|{_any(_WIDE_THINGS, _WIDE_PLACING)}){{0,40}}\Z"
)
"""Between what is named and its citation."""
JOIN = re.compile(
    r"[\s`*\\|]*(?:[,，、/&+]|\band\b|\bor\b|与|和|及|以及|\bto\b|到|至|或)"
    r"[\s`*\\|]*(?:and\s)?\\?(?:verb|texttt|code)?\W{0,3}"
)
"""Between two that are named together."""
TOGETHER = re.compile(
    r"[\s`*\\}\])）]*(?:[,，、/&+]|\band\b|\bor\b|与|和|及|以及)?[\s`*\\]*(?:and\s)?"
    r"(?:第|(?:on |at |in )?(?:lines?|行)\s|[(（\[]|:\w+:`|\\\w+\{)*[\s`*]*"
)
"""Between two citations that go together."""
NOT = re.compile(
    r"(?:而不是|而非|不是|没有|不用|不|\b(?:instead of|rather than|not|no|without|unlike|never))"
    r"\s?\Z"
)
"""What is named behind these is not meant."""
_IS = (
    "is are does has holds contains computes performs implements shows gives handles covers updates"
    " applies for lies sits stands comes produces builds makes writes sets"
)
_WIDE_IS = (
    "负责 完成 做 做了 实现 实现了 计算 算 处理 是 为 给出 执行 进行 更新 对应 属于 包含 讲的是 的"
    " 写的是 算的是 做的是 得到 产生 写出"
)
SAYS = re.compile(
    r"[\s`*}\\)\]]*行?(?:[:：—–(（\[|→=-]+\s*|[,，]?\s?(?:that is|i\.e\.|namely|which"
    r" (?:is|does|holds|computes)|where|(?=the\s)|也就是|即|就是)[,，]?\s?)?"
    rf"(?:\s?(?:{_any(_IS)}|carries out|you (?:can )?(?:find|see)|we (?:find|see))\s"
    rf"|(?:[这那]?(?:几|一|两)?[行处段句])?(?:就|正|才)?(?:{_any(_WIDE_IS)}))?"
    r"[\s`*|]*(?:(?:the|its|a|an|this|that)\s)?[\s`*]*\Z"
)
"""From a citation to the concept that it is said to be."""
_SHOWS = (
    "define set hold have are read assign declare compute call load store defines sets holds has is"
    " reads assigns declares computes calls loads stores adds says contains shows"
)
_WIDE_SHOWS = "的 是 有 读 写着 写的是 说 写道 定义 声明 调用 定义了 声明了 调用了 设置 给出"
BEHIND = re.compile(
    r"[`*\s}\\)）\]|]*行?(?:[(（\[]|(?<=\|)|(?<=\|\s)|[:：—–]+"
    rf"|\b(?:{_any(_SHOWS)}|there is|we (?:read|find|see))\b"
    rf"|的?(?:注释|原文|内容|代码|文档|说明)(?:是|为|写道|说)?|{_any(_WIDE_SHOWS)})"
    r"\s?[:：]?\s?(?:the\s)?\\?(?:verb|texttt)?"
)
"""From a citation to what is named behind it."""
