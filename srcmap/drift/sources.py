"""What a person calls a version in, the tree that is meant out; and where its history is."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from srcmap.checkout import find_checkout
from srcmap.checkout.nouns import NotThere
from srcmap.drift.history import History
from srcmap.drift.nouns import Version
from srcmap.drift.sides import CheckoutSide, CommitSide, FolderSide
from srcmap.errors import CheckoutError, UsageError
from srcmap.model import Note

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from srcmap.checkout.objects import Objects
    from srcmap.drift.sides import Side
    from srcmap.lock import Lock, Pin


class Tree(NamedTuple):
    """A version that was found."""

    version: Version
    pin: Pin | None
    """Its pin, where it is one."""
    side: Side | None
    """Its files; None: only its map is here."""


def _clone_folder(lock: Lock, asked: str | None) -> Path | None:
    """Name the clone that a person named, else the one that git's own configuration leads to."""
    from srcmap.checkout.objects import clone_of, is_clone

    if asked == "none":
        return None
    if asked is not None:
        folder = Path(asked).expanduser()
        if not is_clone(folder):
            raise CheckoutError(f"--history '{asked}': is no git repository", slug="source")
        return folder
    found = clone_of(lock.url)
    return found if found is not None and is_clone(found) else None


@contextmanager
def open_clone(lock: Lock, asked: str | None = None) -> Iterator[Objects | None]:
    """Open a clone of a repository for a while; None: there is none on this disk."""
    folder = _clone_folder(lock, asked)
    if folder is None:
        yield None
        return
    from srcmap.checkout.objects import Objects

    with Objects(folder) as objects:
        yield objects


class Sources:
    """Finds versions of one repository. Use as a context manager: clones are borrowed."""

    def __init__(self, lock: Lock, project: Path | None, clone: str | None = None) -> None:
        self._lock = lock
        self._project = project
        self._asked = clone
        self._stack = ExitStack()
        self._objects: Objects | None = None
        self._looked = False

    def __enter__(self) -> Sources:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def find(self, name: str) -> Tree:
        """Find a pin, a tag, a commit, or a folder. UsageError, with advice, for what is none."""
        pin = self._pin(name)
        if pin is not None:
            return self._pinned(pin)
        folder = Path(name).expanduser()
        if folder.is_dir():
            version = Version(name=name, commit=None, source="folder")
            return Tree(version, None, FolderSide(folder, label=name))
        found = self._in_clone(name)
        if found is not None:
            return found
        known = ", ".join(p.version for p in self._lock.pins)
        hint = f"pinned are: {known}; a tag or commit needs a clone: --history PATH-TO-CLONE"
        message = f"'{name}' is no pin, tag or commit of {self._lock.name} here, and no folder"
        raise UsageError(message, slug="no-such-pin", hint=hint)

    def _pin(self, name: str) -> Pin | None:
        exact = self._lock.find(name)
        if exact is not None:
            return exact
        asked = f"v{name}"
        return self._lock.find(asked) or next(
            (p for p in self._lock.pins if p.commit == name), None
        )

    def _pinned(self, pin: Pin) -> Tree:
        checkout = find_checkout(self._lock, pin, self._project)
        if checkout is not None:
            version = Version(name=pin.version, commit=pin.commit, source="checkout")
            return Tree(version, pin, CheckoutSide(checkout))
        objects = self._clone()
        if objects is not None and pin.commit is not None:
            try:
                objects.tree(pin.commit)
            except NotThere:
                objects = None
        if objects is None or pin.commit is None:
            return Tree(Version(name=pin.version, commit=pin.commit, source="map"), pin, None)
        side = CommitSide(objects, pin.commit, pin.version, self._lock.leave_out)
        return Tree(Version(name=pin.version, commit=pin.commit, source="clone"), pin, side)

    def _in_clone(self, name: str) -> Tree | None:
        objects = self._clone()
        commit = objects.resolve(name) if objects is not None else None
        if objects is None or commit is None:
            return None
        side = CommitSide(objects, commit, name, self._lock.leave_out)
        return Tree(Version(name=name, commit=commit, source="clone"), None, side)

    def _clone(self) -> Objects | None:
        """Open the clone that was named, or the one that git's own configuration leads to."""
        if not self._looked:
            self._looked = True
            folder = _clone_folder(self._lock, self._asked)
            if folder is not None:
                from srcmap.checkout.objects import Objects

                self._objects = self._stack.enter_context(Objects(folder))
        return self._objects

    def history(self, old: Tree, new: Tree) -> History | Note:
        """Give the commits between two versions, or say why they cannot be had."""
        first, last = old.version.commit, new.version.commit
        if first is None or last is None:
            return Note("drift.history.no-commit")
        objects = self._clone()
        if objects is None:
            return Note("drift.history.no-clone", {"url": self._lock.url})
        try:
            commits = objects.history(first, last)
        except NotThere as missing:
            args = {"clone": str(objects.clone), "why": missing.why, "url": self._lock.url}
            return Note("drift.history.incomplete", args)
        return History(commits)
