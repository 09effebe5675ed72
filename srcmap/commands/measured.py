"""What real hardware said of our kernels, in sentences, for the pages of variants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from srcmap import i18n
from srcmap.hardware import seen

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from srcmap.commands.collect import PinEntries
    from srcmap.hardware import Hardware, Speed, Tests
    from srcmap.render.interface import Block


def with_hardware(block: Block, blob: str, variant: str, project: Path | None, lang: str) -> Block:
    """Return a block that says what holds; what is stale, failed or unfinished is a warning."""
    good, bad = list(block.measured), list(block.remarks)
    for found in seen(project, variant, block.repo, block.path, blob):
        if found.tests is not None:
            fine = found.tests.state == "agrees"
            (good if fine else bad).append(_tests(found, found.tests, lang))
        if found.speed is not None:
            (bad if found.speed.stale else good).append(_speed(found, found.speed, lang))
    return msgspec.structs.replace(block, measured=tuple(good), remarks=tuple(bad))


def as_json(
    variant: str, found: Sequence[PinEntries], project: Path | None
) -> list[dict[str, Any]]:
    """Return what is kept of each file of a variant, one object for a file and device."""
    files: dict[tuple[str, str, str], str] = {}
    for lock, pin, entries in found:
        for entry in entries:
            files.setdefault((lock.name, pin.version, entry.path), entry.blob)
    return [
        {"repo": repo, "pin": pin, "path": path, **msgspec.to_builtins(one)}
        for (repo, pin, path), blob in files.items()
        for one in seen(project, variant, repo, path, blob)
    ]


def _tests(found: Hardware, tests: Tests, lang: str) -> str:
    return i18n.text(
        f"variant.hw.{tests.state}",
        lang,
        ours=_list(found.ours, lang),
        device=found.device,
        date=tests.date,
        passed=tests.passed,
        failed=tests.failed,
        skipped=tests.skipped,
        unfinished=tests.unfinished,
        total=tests.passed + tests.failed + tests.skipped + tests.unfinished,
        changed=_list(tests.changed, lang),
    )


def _speed(found: Hardware, speed: Speed, lang: str) -> str:
    key = "speed-stale" if speed.stale else "speed" if speed.shapes > 1 else "speed-one"
    return i18n.text(
        f"variant.hw.{key}",
        lang,
        device=found.device,
        date=speed.date,
        shapes=speed.shapes,
        median=f"{speed.median:.2f}",
        least=f"{speed.least:.2f}",
        most=f"{speed.most:.2f}",
        changed=_list(speed.changed, lang),
    )


def _list(names: Sequence[str], lang: str) -> str:
    return i18n.text("verify.comma", lang).join(names)
