"""A small project of our own: a lock, a variant and a map, without network or pins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from srcmap.mapfile import FORMAT, Candidate, Entry, SourceMap, encode
from srcmap.model import Lines, Note

if TYPE_CHECKING:
    from pathlib import Path

COMMIT = "0123456789" * 4
PATH = "kernels/tiny attention.py"

LOCK = f"""\
format = "1.0"
[repo]
name = "tiny"
url = "https://github.com/example/tiny"
licence = "MIT"
current = "v2"
[[pin]]
version = "v1"
commit = "{COMMIT}"
requested = "v1"
ref = "refs/tags/v1"
[[pin]]
version = "v2"
commit = "{COMMIT[::-1]}"
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
"""

VARIANT = f"""\
format = 1
id = "tiny-sink"
name = {{ en = "Tiny sink", zh = "小汇" }}
summary = {{ en = "A sink that is tiny.", zh = "很小的汇。" }}
aliases.en = ["little sink"]
own = ["sink-epilogue"]
must = ["sink-epilogue", "kv-loop"]
may = ["causal-mask"]
lacks = [
    {{ concept = "kv-head", why = {{ en = "Every head has its own.", zh = "每个头各有一份。" }} }},
]
[[file]]
repo = "tiny"
path = "{PATH}"
"""


def entry(concept: str, lines: Lines | None = None, **more: object) -> Entry:
    """Return an entry of tiny v2; found when it has lines."""
    values: dict[str, object] = {
        "variant": "tiny-sink",
        "site": "",
        "repo": "tiny",
        "pin": "v2",
        "commit": COMMIT[::-1],
        "path": PATH,
        "context": lines,
        "qualname": "build.main",
        "status": "found" if lines else "absent",
        "reason": None if lines else Note("maps.nothing-does-it"),
    }
    return Entry(**{**values, "concept": concept, "lines": lines, **more})  # type: ignore[arg-type]


ENTRIES = (
    entry("causal-mask", Lines(10, 14), site="branch=causal"),
    entry("causal-mask", Lines(16, 18), site="branch=not-causal", confidence="medium"),
    entry("kv-head"),
    entry(
        "kv-loop",
        status="ambiguous",
        candidates=(
            Candidate(concept="kv-loop", site="", lines=Lines(9, 9), qualname="build.main"),
            Candidate(concept="kv-loop", site="", lines=Lines(30, 30), qualname="build.main"),
        ),
    ),
    entry("row-max", status="missing"),
    entry("sink-epilogue", Lines(20, 21)),
)


def build(folder: Path) -> Path:
    """Write the project into `folder` and return it."""
    files = {
        "vendor_locks/tiny.toml": LOCK,
        "srcmap-variants/tiny-sink.toml": VARIANT,
    }
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    source_map = SourceMap(
        format=FORMAT,
        repo="tiny",
        pin="v2",
        commit=COMMIT[::-1],
        url="https://github.com/example/tiny",
        partial=False,
        counts={},
        problems=(),
        entries=ENTRIES,
    )
    maps = folder / ".srcmap" / "maps"
    maps.mkdir(parents=True)
    (maps / "tiny-v2.json").write_bytes(encode(source_map))
    return folder
