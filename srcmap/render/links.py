"""Permalinks: where the lines of a pin stand on its host, and links that a terminal can follow."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from srcmap.model import Lines

# The one table from host to template. `{lines}` is the fragment of one line or of a run.
_TEMPLATES = {
    "github.com": ("{url}/blob/{commit}/{path}{plain}{lines}", "#L{first}", "#L{first}-L{last}"),
    "gitee.com": ("{url}/blob/{commit}/{path}{plain}{lines}", "#L{first}", "#L{first}-L{last}"),
    "gitcode.com": ("{url}/blob/{commit}/{path}{plain}{lines}", "#L{first}", "#L{first}-L{last}"),
    "gitlab.com": ("{url}/-/blob/{commit}/{path}{plain}{lines}", "#L{first}", "#L{first}-{last}"),
    "codeberg.org": (
        "{url}/src/commit/{commit}/{path}{plain}{lines}",
        "#L{first}",
        "#L{first}-L{last}",
    ),
}
_SAFE = frozenset(
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"  # RFC 3986 and the slash
)
# These are shown rendered, without line numbers, unless the plain text is asked for.
_RENDERED = (".md", ".markdown", ".rst", ".ipynb")


def permalink(url: str, commit: str | None, path: str, lines: Lines | None) -> str | None:
    """Name the page of these lines at this commit; None for an unknown host or an unknown commit.

    A tag or branch is no substitute for the commit: the page under it changes.
    """
    url = url.removesuffix("/").removesuffix(".git")
    template = _TEMPLATES.get(_host(url))
    if template is None or not commit:
        return None
    page, one, run = template
    fragment = ""
    if lines is not None:
        form = one if lines.first == lines.last else run
        fragment = form.format(first=lines.first, last=lines.last)
    plain = "?plain=1" if fragment and path.lower().endswith(_RENDERED) else ""
    return page.format(url=url, commit=commit, path=_quoted(path), plain=plain, lines=fragment)


def _quoted(path: str) -> str:
    """Percent-encode a path. urllib's own takes 2 ms to import, at each start."""
    if _SAFE.issuperset(path):
        return path
    return "".join(
        char if char in _SAFE else "".join(f"%{byte:02X}" for byte in char.encode(errors="replace"))
        for char in path
    )


def _host(url: str) -> str:
    scheme, separator, rest = url.partition("://")
    return rest.partition("/")[0].lower() if separator and scheme in ("https", "http") else ""
