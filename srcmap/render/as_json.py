"""Values to JSON: versioned, keys in a fixed order, indented so that people can read it too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping


def document(name: str, content: Mapping[str, Any], version: int = 1) -> str:
    """Return the JSON of `content` under `"format": "<name>/<version>"`."""
    whole = {"format": f"{name}/{version}", **content}
    raw = msgspec.json.encode(whole, enc_hook=str)
    return msgspec.json.format(raw, indent=2).decode()
