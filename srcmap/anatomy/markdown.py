"""What a document says about attention kernels: bytes in, a FileAnatomy out.

Four concepts, each one function over the blocks of the document: `data-movement-table`,
`workspace-section`, `no-nesting-note` and `vendor-performance`. They rest on the structure
(tables, sections, paragraphs, lists) and on what cells and sentences say, in English and in
Chinese; never on a file's name, a section's number or the wording of one edition.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePosixPath

from msgspec.structs import replace

from srcmap.model import Absence, FileAnatomy, KernelAnatomy, Lines, Note, Premise, Site
from srcmap.parse.markdown import (
    Bullets,
    Document,
    Heading,
    Prose,
    Table,
    parse_document,
    spoken,
)
from srcmap.parse.treesitter import problems_of, whole


def read_markdown(data: bytes, path: str) -> FileAnatomy:
    """Read one Markdown file; any bytes will do."""
    document = parse_document(data)
    sites = [site for find in CONCEPTS.values() for site in find(document)]
    found = {site.concept for site in sites}
    kernel = KernelAnatomy(
        qualname=PurePosixPath(path).name,
        kind="file",
        lines=whole(data),
        sites=tuple(sorted(sites, key=lambda site: (site.lines, site.concept, site.label))),
        absences=tuple(
            Absence(concept=concept, reason=Note(f"trees.no-{concept}"))
            for concept in CONCEPTS
            if concept not in found
        ),
    )
    problems = problems_of(data, document.parsed)
    return FileAnatomy(path=path, language="markdown", kernels=(kernel,), problems=problems)


# data-movement-table: cells that are pairs of memories

MEMORY = re.compile(
    r"(GM|L1|L0|L0A|L0B|L0C|UB|BT|FB|L2|global memory|unified buffer|全局内存|统一缓冲区?)"
    r"( ?(buffer|memory|缓冲区?))?( ?[(（].*[)）])?",
    re.IGNORECASE,
)
ARROW = re.compile(r"\s*(?:->|=>|→|⇒|➜|➔|-->|—>)\s*")


def find_movement_tables(document: Document) -> list[Site]:
    """Find tables whose rows name the memory that data leaves and the memory that it enters."""
    sites = []
    for table in document.tables:
        pairs = [pair for row in table.rows if (pair := _memory_pair(row))]
        if len(set(pairs)) >= 3 and len(pairs) * 8 >= len(table.rows) * 7:
            told = ", ".join(f"{src} -> {dst}" for src, dst in dict.fromkeys(pairs))
            premise = Note("trees.rows-are-moves", {"count": str(len(pairs)), "moves": told})
            sites.append(_site(document, "data-movement-table", table.lines, premise, told))
    return _numbered(sites)


def _memory_pair(row: list[str]) -> tuple[str, str] | None:
    """Source and destination of a row: two cells that are memories, or `GM -> L1` in one."""
    memories = [cell for cell in row if _is_memory(cell)]
    if len(memories) >= 2:
        return memories[0], memories[1]
    for cell in row:
        ends = ARROW.split(cell)
        if len(ends) == 2 and _is_memory(ends[0]) and _is_memory(ends[1]):
            return ends[0], ends[1]
    return None


def _is_memory(cell: str) -> bool:
    names = re.split(r"\s+or\s+|\s*[/,、或]\s*", cell)
    return all(MEMORY.fullmatch(name) for name in names)


# workspace-section: how the compiler takes the detour through global memory off the user's hands

WORKSPACE = re.compile(r"work[ -]?space|工作区|工作空间", re.IGNORECASE)
CROSS_CORE_MOVE = re.compile(
    r"l0c_to_ub|ub_to_l1|\bL0C\s*(?:→|->|to|到)\s*UB\b|\bUB\s*(?:→|->|to|到)\s*L1\b", re.IGNORECASE
)
GLOBAL_MEMORY = re.compile(r"_to_gm|gm_to_|global memory|全局内存|(?<![A-Za-z])GM(?![A-Za-z])")
BY_COMPILER = re.compile(r"compil|\bpass\b|automat|编译|自动|Pass", re.IGNORECASE)
DETOUR = (
    ("cross-core-move", CROSS_CORE_MOVE),
    ("global-memory", GLOBAL_MEMORY),
    ("by-compiler", BY_COMPILER),
)


def find_workspace_sections(document: Document) -> list[Site]:
    """Find sections on workspaces that tell how the compiler reroutes a copy between cores."""
    sites: list[Site] = []
    for heading in document.headings:
        lines = document.section(heading)
        inside = bool(sites) and lines.last <= sites[-1].lines.last
        if inside or not WORKSPACE.search(heading.title):
            continue
        text = document.text(lines)
        told = [(name, match.group()) for name, sign in DETOUR if (match := sign.search(text))]
        if len(told) == len(DETOUR):
            premise = Note("trees.section-on-workspaces", {"title": heading.title, **dict(told)})
            sites.append(_site(document, "workspace-section", lines, premise))
    return _numbered(sites)


# no-nesting-note: a sentence that says that pipelined loops may not be nested

PIPELINE = re.compile(r"pipelin|流水", re.IGNORECASE)
_WORDS = r"(?:[^.;:。；]|\.(?=\w))"
_NOT = r"(?:not|n[o']t|never|cannot)"
_MUST_NOT = rf"(?:(?:can|must|may|should|do|does|could) ?{_NOT}|cannot|don't|can't|never|avoid)"
_ALLOWED = r"(?:supported|allowed|permitted|possible)"
FORBIDDEN_NESTING = re.compile(
    "|".join(
        (
            rf"{_NOT} support\w*{_WORDS}{{0,30}}\bnest",
            rf"{_MUST_NOT} (?:be |ever |use |write |place |put |create )*nest",
            rf"{_MUST_NOT} {_WORDS}{{0,60}}\b(?:inside|within|in) another",
            rf"\bnest\w*\b{_WORDS}{{0,50}}(?:{_NOT} {_ALLOWED}|forbidden|prohibited|disallowed)",
            r"\bno (?:\w+ )?nest",
            r"(?:不支持|不能|不可|不允许|不得|不要|不应|禁止|严禁|避免|无法|切勿|请勿)[^。；\n]{0,30}(?:嵌套|nest)",
            r"嵌套[^。；，\n]{0,12}(?:不支持|不允许|不可用|不被支持|禁止|无效)",
        )
    ),
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"(?<=[。！？!?])|(?<=\.)\s|(?<=[；;])")


def find_no_nesting_notes(document: Document) -> list[Site]:
    """Find paragraphs, list items and headings that forbid a pipelined loop in another."""
    sites: list[Site] = []
    for block in document.blocks:
        if isinstance(block, Prose) and (sentence := _forbids_nesting(document, block)):
            lines = block.lines if block.item else _with_heading(document, block.lines)
        elif isinstance(block, Heading) and (sentence := _heading_forbids(document, block)):
            lines = document.section(block)
        else:
            continue
        if not sites or lines.first > sites[-1].lines.last:
            premise = Note("trees.says-no-nesting", {"line": str(block.lines.first)})
            sites.append(_site(document, "no-nesting-note", lines, premise, sentence))
    return _numbered(sites)


def _forbids_nesting(document: Document, block: Prose) -> str:
    """Give the sentence of a paragraph that forbids nesting pipelines, else nothing."""
    if not FORBIDDEN_NESTING.search(block.text):
        return ""
    words = spoken(document.text(block.lines))
    for sentence in SENTENCE_END.split(words):
        if PIPELINE.search(sentence) and FORBIDDEN_NESTING.search(sentence):
            return sentence.strip()
    return ""


def _heading_forbids(document: Document, heading: Heading) -> str:
    """Give the title of a heading that forbids nesting, under one that is on pipelines."""
    if not FORBIDDEN_NESTING.search(heading.title):
        return ""
    titles = " ".join(outer.title for outer in document.path(heading.lines.first))
    return heading.title if PIPELINE.search(titles) else ""


# vendor-performance: measured times or ratios of attention kernels against another implementation

ATTENTION = re.compile(r"attention|注意力|flash[ _-]?attn|\bSDPA\b|\bMLA\b|\bFA\b", re.IGNORECASE)
TILELANG = re.compile(r"tile-?lang", re.IGNORECASE)
RIVAL = re.compile(
    r"ascend ?c\b|torch|sdpa|triton|cutlass|cublas|cudnn|flash-?attn|flash-?attention|\bfa-?[234]\b"
    r"|flash-?mla|flash-?infer|aclnn|\bcann\b|native|原生|baseline|基线|reference|官方",
    re.IGNORECASE,
)
_NUMBER = r"[<>~≈≤≥]?\s*[-+]?\d+(?:,\d{3})*(?:\.\d+)?"
_UNIT = r"(?:%|％|x|×|倍|us|µs|μs|u|ms|ns|s|[TG]FLOP/?s|[TG]B/s)"
MEASURED = re.compile(rf"\D{{0,16}}{_NUMBER}\s*{_UNIT}(?![a-z]).*", re.IGNORECASE)
BARE_NUMBER = re.compile(_NUMBER)
GAIN = re.compile(rf"{_NUMBER}\s*(?:%|％|x\b|×|倍)", re.IGNORECASE)
PERFORMANCE_WORD = re.compile(
    r"\b(?:time|latency|duration|speed-?up|tflops?|throughput|bandwidth|perf\w*|us|ms)\b"
    r"|耗时|时间|时延|性能|加速|吞吐|带宽",
    re.IGNORECASE,
)
TICK = re.compile(r"[√×✓✔✗✘✅❌xXyYnN-]|yes|no|是|否", re.IGNORECASE)


def find_vendor_performance(document: Document) -> list[Site]:
    """Find tables that compare measured attention kernels, with the gains told right after."""
    if not ATTENTION.search(document.text(whole(document.parsed.data))):
        return []
    sites = []
    for table in document.tables:
        if _is_ablation(table):
            premise = Note("trees.table-of-optimisations", {"columns": str(len(table.header))})
            site = _site(document, "vendor-performance", table.lines, premise)
            sites.append(replace(site, label="part=ablation"))
        elif rivals := _rivals(table):
            lines = _with_gains(document, _with_lead(document, table.lines))
            premise = Note("trees.table-of-measurements", {"rivals": ", ".join(rivals)})
            sites.append(_site(document, "vendor-performance", lines, premise))
    return _plain_first(sites)


def _rivals(table: Table) -> list[str]:
    """Whom a table measures TileLang against; nobody when it measures nothing."""
    labels = table.header + [row[0] for row in table.rows if row]
    named = [label for label in labels if RIVAL.search(label)]
    if not named or not any(TILELANG.search(label) for label in labels):
        return []
    measured = [_is_measured(title, cells) for title, cells in _columns(table)]
    return list(dict.fromkeys(named)) if any(measured) else []


def _columns(table: Table) -> list[tuple[str, list[str]]]:
    """Title and filled cells of each column."""
    return [
        (title, [row[index] for row in table.rows if index < len(row) and row[index]])
        for index, title in enumerate(table.header)
    ]


def _is_measured(title: str, cells: list[str]) -> bool:
    """Most cells are numbers with a unit of time or rate, or numbers under a title that says so."""
    units = sum(bool(MEASURED.fullmatch(cell)) for cell in cells)
    numbers = sum(bool(BARE_NUMBER.fullmatch(cell)) for cell in cells)
    by_title = numbers if PERFORMANCE_WORD.search(title) else 0
    return bool(cells) and 2 * max(units, by_title) > len(cells)


def _is_ablation(table: Table) -> bool:
    """Columns of ticks, one per optimisation, and one of what each combination measured."""
    columns = _columns(table)
    ticked = sum(
        bool(cells) and all(TICK.fullmatch(cell) for cell in cells) for _, cells in columns
    )
    measured = any(
        PERFORMANCE_WORD.search(title) and _is_measured(title, cells) for title, cells in columns
    )
    return ticked >= 3 and measured


def _with_gains(document: Document, lines: Lines) -> Lines:
    """Take in the list of what each optimisation gained, when only titles and prose part them."""
    after = next((b for b in document.lists if b.lines.first > lines.last), None)
    if after is None or not _is_gains(after):
        return lines
    between = [b for b in document.blocks if lines.last < b.lines.first < after.lines.first]
    if all(isinstance(block, Heading | Prose) for block in between):
        return Lines(lines.first, after.lines.last)
    return lines


def _is_gains(bullets: Bullets) -> bool:
    gains = sum(bool(GAIN.search(item)) for item in bullets.items)
    return gains >= 3 and gains * 2 > len(bullets.items)


# shared by the concepts


def _with_lead(document: Document, lines: Lines) -> Lines:
    """Take in the paragraph that stands right on top of a block, else the heading if it is next."""
    above = document.before(lines.first)
    if isinstance(above, Prose) and above.lines.last == lines.first - 1:
        return Lines(above.lines.first, lines.last)
    return _with_heading(document, lines)


def _with_heading(document: Document, lines: Lines) -> Lines:
    """Take in the heading of a section that begins with this block."""
    above = document.before(lines.first)
    return Lines(above.lines.first, lines.last) if isinstance(above, Heading) else lines


def _site(document: Document, concept: str, lines: Lines, note: Note, detail: str = "") -> Site:
    confidence, doubts = document.parsed.trust(lines)
    path = document.path(lines.first)
    above = document.before(lines.first)
    led = isinstance(above, Prose) and above.lines.first >= (path[-1].lines.last if path else 0)
    return Site(
        concept=concept,
        label="",
        lines=lines,
        context=Lines(above.lines.first, lines.last) if above and led else lines,
        qualname=" > ".join(heading.title for heading in path),
        confidence=confidence,
        detail=detail,
        proof=(Premise(note=note, lines=lines), *doubts),
    )


def _numbered(sites: list[Site]) -> list[Site]:
    """Tell several places apart by number; the first in the document stays plain."""
    return [replace(site, label=f"nth={n}") if n > 1 else site for n, site in enumerate(sites, 1)]


def _plain_first(sites: list[Site]) -> list[Site]:
    """Give numbers to the comparisons; a lone table of optimisations needs no label."""
    compared = _numbered([site for site in sites if not site.label])
    rest = [site for site in sites if site.label]
    if not compared:
        return _numbered([replace(site, label="") for site in rest])
    return compared + rest


Finder = Callable[[Document], list[Site]]

CONCEPTS: dict[str, Finder] = {
    "data-movement-table": find_movement_tables,
    "workspace-section": find_workspace_sections,
    "no-nesting-note": find_no_nesting_notes,
    "vendor-performance": find_vendor_performance,
}
