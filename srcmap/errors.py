"""The errors that stop a command; what is merely bad news is a value, not an exception."""

from __future__ import annotations


class SrcmapError(Exception):
    """Something srcmap could not do.

    `message` says what was expected, what was found and where.
    `slug` names the section of `docs/errors.md` about it.
    `hint` says what to do next.
    `exit_code` is 3 (could not judge) unless a child says otherwise.
    """

    exit_code = 3

    def __init__(self, message: str, *, slug: str, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.slug = slug
        self.hint = hint


class UsageError(SrcmapError):
    """The command was called with something that it cannot mean."""

    exit_code = 2


class LockError(SrcmapError):
    """A lock file is not what a lock file must be."""


class CheckoutError(SrcmapError):
    """A pin could not be brought here, or what came is not the pin."""


class ParseError(SrcmapError):
    """A file could not be read as the language that its name promises."""


class CatalogueError(SrcmapError):
    """A variant file, a map or a data file is not well formed."""
