"""Handmade pages for the golden tests: every kind of row, wide characters, hostile source text."""

from __future__ import annotations

from srcmap.model import Lines
from srcmap.render.interface import (
    Belonging,
    Block,
    CodeLine,
    Excerpt,
    ListedVariant,
    Place,
    ReadFile,
    ReadKernel,
    Remark,
    Row,
    ShowPage,
    VariantList,
    VariantPage,
    WherePage,
)

PATH = "examples/attention_sink/example_mha_sink_fwd_bhsd.py"
URL = "https://github.com/tile-ai/tilelang/blob/" + "0123456789" * 4 + "/" + PATH


def place(first: int, last: int, *, linked: bool = True) -> Place:
    lines = Lines(first, last)
    return Place(path=PATH, lines=lines, url=f"{URL}#L{first}-L{last}" if linked else None)


def _say(lang: str, en: str, zh: str) -> str:
    return zh if lang == "zh" else en


CODE = (
    CodeLine(number=98, text="for i in T.Parallel(block_M):", roles=(), chosen=False),
    CodeLine(number=99, text="\tlogsum[i] += T.exp2(sinks[i] - m[i])", roles=("sink",)),
    CodeLine(number=100, text="    # [bold]not markup[/bold] \x1b[31mnot red\x1b[0m 注释\u202e"),
    CodeLine(number=101, text="    acc[i] /= logsum[i]", roles=("normalise", "store")),
)


def rows(lang: str) -> tuple[Row, ...]:
    return (
        Row(
            concept="sink-epilogue",
            site="",
            status="found",
            what=_say(
                lang,
                "Adds exp(sink - m) to the denominator: a key that takes weight and gives none.",
                "把 exp(sink - m) 加进分母：一个只分走权重、不贡献 value 的 key。",
            ),
            place=place(125, 126),
            own=True,
            ours=(Place(path="kernels/sink/tilelang_kernel.py", lines=Lines(40, 41)),),
            tested=_say(lang, "diff test passed", "对比测试通过"),
        ),
        Row(
            concept="mask-value",
            site="branch=causal",
            status="found",
            what=_say(lang, "What a hidden score is set to.", "被遮住的分数设成什么。"),
            place=place(98, 98),
            detail="-inf",
            unsure=_say(lang, "(likely)", "（较有把握）"),
        ),
        Row(
            concept="kv-loop",
            site="",
            status="ambiguous",
            what="",
            candidates=(place(86, 86), place(112, 112)),
            reason=_say(lang, "two loops of equal rank", "有两个同等的循环"),
        ),
        Row(
            concept="kv-head",
            site="",
            status="missing",
            what="",
            reason=_say(lang, "No statement does this.", "没有语句做这件事。"),
            candidates=(place(60, 60),),
        ),
        Row(
            concept="boundary-mask",
            site="",
            status="absent",
            what="",
            reason=_say(
                lang,
                "Always causal: q >= k hides every key past the end of the sequence.",
                "始终因果：q >= k 已遮住所有越过序列末尾的 key，因此不需要单独的边界 mask。",
            ),
        ),
    )


def variant(lang: str) -> VariantPage:
    return VariantPage(
        id="sink",
        name=_say(lang, "Attention sink", "注意力汇"),
        summary=_say(
            lang,
            "One learned logit per head joins the denominator and no value. "
            "After the loop only one statement differs.",
            "每个头一个可学习的 logit，只进分母、没有 value。与基础版相比，循环之后只多一条语句。",
        ),
        facts=(
            (_say(lang, "made from", "源自"), "sliding-window"),
            (_say(lang, "also called", "又称"), "attention sink, 注意力汇, 注意力水槽"),
        ),
        blocks=(
            Block(
                repo="tilelang",
                pin="v0.1.14",
                path=PATH,
                rows=rows(lang),
                changed=_say(
                    lang,
                    "what changed against sliding-window: 2 places (+ sink-load, sink-epilogue)",
                    "与 sliding-window 相比改了 2 处（+ sink-load, sink-epilogue）",
                ),
                measured=(
                    _say(
                        lang,
                        "kernels/sink/tilelang_kernel.py: agrees with upstream on NVIDIA H200, "
                        "2026-11-29 (41 tests).",
                        "kernels/sink/tilelang_kernel.py 在 NVIDIA H200 上与上游一致"
                        "（2026-11-29，41 个测试）。",
                    ),
                    _say(
                        lang,
                        "On NVIDIA H200 it is 1.16 times as fast as upstream as shipped "
                        "(1.13 to 1.18 over 2 shapes, 2026-11-29).",
                        "在 NVIDIA H200 上，速度是上游原配置的 1.16 倍"
                        "（2 种形状，1.13 到 1.18；2026-11-29）。",
                    ),
                ),
            ),
            Block(
                repo="tilelang",
                pin="v0.1.15",
                path="tilelang/language/reduce_op.py",
                rows=(),
                remarks=(_say(lang, "partial pin: only src/** is here", "部分锁定：只有 src/**"),),
            ),
        ),
        notes=(
            Remark(text=_say(lang, "The sink is a logit already.", "sink 本身就是 logit。")),
            Remark(
                text=_say(lang, "check_inf is live here.", "这里的 check_inf 真的执行。"),
                places=((place(106, 107), ""), (place(130, 131, linked=False), "tilelang v0.1.15")),
            ),
        ),
    )


def variants(lang: str) -> VariantList:
    sink = ListedVariant(
        id="sink",
        name=_say(lang, "Attention sink", "注意力汇"),
        summary=_say(lang, "One learned logit | per head.", "每个头一个可学习的 logit。"),
    )
    window = ListedVariant(
        id="sliding-window",
        name=_say(lang, "Sliding window attention", "滑动窗口注意力"),
        summary=_say(lang, "Only near keys.", "只看近处的 key。"),
    )
    heading = _say(lang, "Kernels: tilelang", "内核：tilelang")
    return VariantList(groups=((heading, (sink, window)),))


def where(lang: str) -> WherePage:
    found = Belonging(
        place=place(125, 126),
        concept="sink-epilogue",
        site="",
        what=_say(lang, "Adds exp(sink - m) to the denominator.", "把 exp(sink - m) 加进分母。"),
        variants=("sink", "sliding-window"),
        qualname="flashattn.main",
    )
    return WherePage(asked=f"{PATH}:120-130", groups=(("tilelang v0.1.14", (found,)),))


def show(lang: str) -> ShowPage:
    instead = _say(
        lang,
        "The code is not on this machine. `srcmap sync tilelang@v0.1.14` brings it.",
        "本机没有这份代码。`srcmap sync tilelang@v0.1.14` 可以取回。",
    )
    return ShowPage(
        title="sink sink-epilogue",
        what=_say(lang, "Adds exp(sink - m) to the denominator.", "把 exp(sink - m) 加进分母。"),
        excerpts=(
            Excerpt(place=place(99, 101), title="tilelang v0.1.14", lines=CODE),
            Excerpt(place=place(99, 101, linked=False), title="", instead=instead),
        ),
    )


def anatomy(lang: str) -> ReadFile:
    kernel = ReadKernel(
        title="flashattn.main",
        code=CODE,
        rows=rows(lang),
        unread=(f"{PATH}:44  T.sync_grid",),
        proofs=((f"{PATH}:125-126", (f"{PATH}:79-80  sink", f"{PATH}:99  exp")),),
    )
    return ReadFile(path=PATH, title="python", kernels=(kernel,), problems=("ERROR 12-14",))


PAGES = {
    "variant": variant,
    "variants": variants,
    "where": where,
    "show": show,
    "anatomy": anatomy,
}
