"""What a document has named so far: the repository, the files, the folder."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from srcmap.cite.nouns import Place
    from srcmap.cite.page import Page


class Known(NamedTuple):
    """A file that the document has named."""

    at: int
    block: int
    options: tuple[Place, ...]
    pin: str | None
    pinned: Literal["", "pin", "branch", "unknown"]
    also: bool


class Named:
    """The memory of one reading, from the top of the document to where it has come."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.repo: str | None = None
        """The repository named last."""
        self.files: list[Known] = []
        self.folder: Place | None = None
        self.folder_at = 0

    def note_folder(self, options: tuple[Place, ...], at: int) -> None:
        """Remember a folder, if it is known which."""
        self.folder = options[0] if len(options) == 1 else None
        self.folder_at = at

    def like(self, path: str) -> Place | None:
        """Find a file that the document has named before and that no pin has either."""
        for known in reversed(self.files):
            for place in known.options:
                if place.path == path or place.path.endswith("/" + path):
                    return place
        return None

    def in_paragraph(self, at: int) -> list[Known]:
        """List the files that the paragraph has named so far, the last first."""
        block = self._page.block_at(at)
        return [known for known in reversed(self.files) if known.block == block]

    def is_beside(self, at: int) -> bool:
        """Whether the file named last stands just before, in the same paragraph."""
        if not self.files or len(self.files[-1].options) != 1:
            return False
        last = self.files[-1]
        return at - last.at < 300 and last.block == self._page.block_at(at)
