"""What a tag or branch of a remote repository means today, by `git ls-remote`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from srcmap.checkout.gitrun import GitFailed, explain, quiet_git, run_git
from srcmap.errors import CheckoutError, UsageError
from srcmap.lock.read import check_commit, check_ref, check_url

if TYPE_CHECKING:
    from collections.abc import Sequence

_HEX = re.compile(r"[0-9a-fA-F]{4,40}")


class Resolved(NamedTuple):
    """What was asked for, in full."""

    commit: str
    ref: str | None
    """None for a commit that was given as such."""
    also: str | None = None
    """Another ref of the same short name, which was not taken."""


def remote_refs(url: str, refs: Sequence[str]) -> dict[str, str]:
    """Those of the full ref names that the remote has, with their commits.

    For an annotated tag that is the commit which it names, not the tag object.
    Raises CheckoutError when the remote cannot be asked.
    """
    if wrong := check_url(url):
        raise CheckoutError(f"'{url}': {wrong}", slug="source")
    patterns = [pattern for ref in refs for pattern in (ref, f"{ref}^{{}}")]
    try:
        with quiet_git():
            listed = run_git(["ls-remote", "--quiet", "--", url, *patterns])
    except GitFailed as failed:
        raise CheckoutError(
            f"{url}: cannot be asked: {explain(failed.said)}",
            slug="unreachable",
            hint="check the network and the URL; git's url.<base>.insteadOf leads to a mirror",
        ) from failed
    return _peeled(listed, set(refs))


def resolve(url: str, asked: str) -> Resolved:
    """Find the commit that a tag, a branch, a full ref name or 40 hexadecimal digits mean.

    UsageError when it is none of these, an abbreviated id among them.
    """
    if check_commit(asked) is None:
        return Resolved(asked, None)
    if wrong := check_ref(asked):
        raise UsageError(f"'{asked}': {wrong}", slug="ref")
    names = [asked] if asked.startswith("refs/") else [f"refs/tags/{asked}", f"refs/heads/{asked}"]
    found = remote_refs(url, names)
    if found:
        ref, *others = [name for name in names if name in found]
        return Resolved(found[ref], ref, others[0] if others else None)
    if _HEX.fullmatch(asked):
        raise UsageError(
            f"'{asked}' is an abbreviated id, which can come to mean another commit",
            slug="ref",
            hint="give all 40 digits",
        )
    raise UsageError(f"{url} has no tag and no branch '{asked}'", slug="ref")


def _peeled(listed: str, wanted: set[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in listed.splitlines():
        commit, _, name = line.partition("\t")
        ref = name.removesuffix("^{}")
        # ls-remote matches the ends of names; and the peeled line comes after the tag's own.
        if ref in wanted and check_commit(commit) is None:
            found[ref] = commit
    return found
