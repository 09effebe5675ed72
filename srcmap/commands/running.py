"""What `run`, `trace` and `verify` share: what a target means, and outcomes in words."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from srcmap import i18n
from srcmap.catalogue import Variant, resolve
from srcmap.checkout import find_checkout
from srcmap.commands import collect
from srcmap.engines.caselist import listed
from srcmap.engines.jobs import Limits
from srcmap.errors import SrcmapError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from srcmap.catalogue import Catalogue
    from srcmap.engines.jobs import Comparison, Failure, Found, Outcome, Summary
    from srcmap.lock import Lock, Pin


class EngineName(str, Enum):
    """What `--engine` accepts."""

    interpreter = "interpreter"
    tilelang_cpu = "tilelang-cpu"
    cuda = "cuda"


EngineOption = Annotated[EngineName, typer.Option("--engine", help="run.engine")]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", min=0, help="run.seed")]
TimeoutOption = Annotated[
    float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="run.timeout")
]
MemoryOption = Annotated[
    float, typer.Option("--memory", metavar="GIB", min=0.25, help="run.memory")
]


class Target(NamedTuple):
    """One file to run, and what is known of it."""

    repo: str
    pin: str
    root: Path
    path: str
    function: str
    case: str
    """Its case, if it has one."""
    variant: str = ""


def limits(timeout: float, memory: float) -> Limits:
    """Return what a child may use."""
    return Limits(seconds=timeout, memory=int(memory * (1 << 30)))


def target_of(
    name: str,
    catalogue: Catalogue,
    locks: Sequence[Lock],
    project: Path | None,
    repo: str | None,
    version: str | None,
    lang: str,
) -> Target:
    """Return what `FILE[::FUNCTION]` or a variant means; UsageError when nothing does."""
    path, _, function = name.partition("::")
    here = Path(path)
    if path.endswith(".py") and here.is_file():
        return _of_file(here.resolve(), function, locks, project)
    if path.endswith(".py"):
        return _of_pinned(path, function, collect.chosen_pins(locks, repo, version), project, lang)
    variant = resolve(catalogue, path)
    if not isinstance(variant, Variant):
        raise UsageError(
            i18n.text("run.no-target", lang, name=name),
            slug="no-such-variant",
            hint=i18n.text("variant.see-list", lang),
        )
    return _of_variant(variant, collect.pins_of(variant, locks, repo, version, lang), project, lang)


def _of_file(path: Path, function: str, locks: Sequence[Lock], project: Path | None) -> Target:
    """Return a file of the disk: of a checkout if it lies in one."""
    for lock in locks:
        for pin in lock.pins:
            checkout = find_checkout(lock, pin, project)
            if checkout is not None and path.is_relative_to(Path(checkout.root).resolve()):
                root = Path(checkout.root).resolve()
                inside = path.relative_to(root).as_posix()
                row = listed(lock.name, inside)
                return Target(
                    lock.name, pin.version, root, inside, function, row.case if row else ""
                )
    dialect = "tilelang-ascend" if b"is_npu" in path.read_bytes() else "tilelang"
    return Target(dialect, "", path.parent, path.name, function, "")


def _of_pinned(
    path: str, function: str, pins: Sequence[tuple[Lock, Pin]], project: Path | None, lang: str
) -> Target:
    for lock, pin in pins:
        checkout = find_checkout(lock, pin, project)
        if checkout is not None and (Path(checkout.root) / path).is_file():
            row = listed(lock.name, path)
            root = Path(checkout.root)
            return Target(lock.name, pin.version, root, path, function, row.case if row else "")
    raise UsageError(i18n.text("run.no-file", lang, path=path), slug="no-such-place")


def _of_variant(
    variant: Variant, pins: Sequence[tuple[Lock, Pin]], project: Path | None, lang: str
) -> Target:
    """Return the first file of a variant that has a case and is here."""
    missing = []
    for lock, pin in pins:
        checkout = find_checkout(lock, pin, project)
        if checkout is None:
            missing.append(f"{lock.name}@{pin.version}")
            continue
        root = Path(checkout.root)
        for request in variant.files:
            row = listed(lock.name, request.path)
            if request.repo == lock.name and row is not None and (root / request.path).is_file():
                return Target(lock.name, pin.version, root, request.path, "", row.case, variant.id)
    if missing:
        raise SrcmapError(
            i18n.text("run.no-checkout", lang, pin=missing[0]),
            slug="checkout",
            hint=f"srcmap sync {missing[0]}",
        )
    raise SrcmapError(i18n.text("run.no-case", lang, path=variant.id), slug="no-case")


# -- words ---------------------------------------------------------------------------------------


def reason_text(reason: str, lang: str, **facts: str) -> str:
    """Return a reason in words: some are keys of the texts, others words of an engine."""
    return i18n.text(reason, lang, **facts) if i18n.known(reason, lang) else reason


def number(value: float | None) -> str:
    """Return a number as people read it; `nan` for one that is not there."""
    if value is None:
        return "nan"
    return f"{value:.3g}" if value == 0 or 0.01 <= abs(value) < 10000 else f"{value:.2e}"


def array_line(array: Summary, lang: str) -> str:
    """Say an array: type, shape, range, and what is not a number in it."""
    shape = ", ".join(map(str, array.shape))
    words = [array.name, f"{array.dtype}[{shape}]"]
    if array.low is not None:
        spread = i18n.text(
            "run.range",
            lang,
            low=number(array.low),
            high=number(array.high),
            mean=number(array.mean),
        )
        words.append(spread)
    if array.nan:
        words.append(i18n.text("run.nan", lang, count=array.nan))
    if array.infinite:
        words.append(i18n.text("run.infinite", lang, count=array.infinite))
    return "  ".join(words)


def comparison_line(found: Comparison, lang: str, key: str = "run.compared") -> str:
    """Say how far an output is from the float64 reference, and where first."""
    facts = {"error": number(found.error), "ratio": number(found.ratio), "by": found.by}
    line = i18n.text(key, lang, output=found.output, **facts)
    if not found.bad:
        return line
    place = ", ".join(map(str, found.where))
    bad = i18n.text(
        "run.first-bad",
        lang,
        bad=found.bad,
        total=found.total,
        where=place,
        got=number(found.got),
        want=number(found.want),
        allowed=number(found.allowed),
    )
    return f"{line}{bad}"


def finding_line(found: Found, lang: str) -> str:
    """Say what was seen, where."""
    what = i18n.text(
        f"run.finding.{found.kind}",
        lang,
        buffer=found.buffer,
        count=found.count,
        where=", ".join(map(str, found.where)),
        detail=found.detail,
    )
    block = ", ".join(map(str, found.block))
    place = f"{found.path}:{found.line}" if found.line else found.path
    end = i18n.text("run.in-block", lang, block=block) if found.block else ""
    return f"{place}  {what}{end}".strip()


def failure_line(failure: Failure, lang: str) -> str:
    """Say why a kernel stopped."""
    place = f"{failure.path}:{failure.line}: " if failure.path else ""
    key = f"run.failure.{failure.kind}"
    return place + i18n.text(key, lang, message=failure.message, operation=failure.operation)


def worst(outcomes: Sequence[Outcome]) -> int:
    """Return the exit code: 1 when a check fails, 3 when nothing could be judged."""
    states = {outcome.state for outcome in outcomes}
    if any(o.failure and o.failure.kind in ("unsupported", "needs") for o in outcomes):
        return 3
    if "failed" in states:
        return 1
    return 0 if states & {"passed", "diverges", "ran"} else 3
