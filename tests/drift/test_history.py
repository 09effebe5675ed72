"""Commits in, where they carried lines out; forwards for drift, backwards for history."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from srcmap.checkout.nouns import NotThere
from srcmap.checkout.objects import Objects
from srcmap.drift.history import History, pull_request, read_patch
from srcmap.drift.past import life
from srcmap.drift.text import Text
from srcmap.model import Lines
from tests.checkout.world import Upstream
from tests.drift.world import KERNEL, judge

if TYPE_CHECKING:
    from pathlib import Path

PATH = "kernels/attention.py"
ROWS = KERNEL.split("\n")


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    return Upstream(tmp_path / "upstream")


def followed(upstream: Upstream, old: str, new: str) -> History:
    with Objects(upstream.path) as objects:
        return History(objects.history(old, new))


def test_lines_are_carried_through_commits(upstream: Upstream) -> None:
    old = upstream.commit({PATH: KERNEL.encode()})
    upstream.commit({PATH: ("# above\n" + KERNEL).encode()})
    new = upstream.commit({PATH: ("# above\n# more\n" + KERNEL).encode()})
    trail = followed(upstream, old, new).follow(Text(PATH, KERNEL.encode()), Lines(19, 21))
    assert (trail.path, trail.lines) == (PATH, Lines(21, 23))


def test_renames_are_followed(upstream: Upstream) -> None:
    old = upstream.commit({PATH: KERNEL.encode()})
    upstream.git("mv", PATH, "kernels/other.py")
    new = upstream.commit()
    trail = followed(upstream, old, new).follow(Text(PATH, KERNEL.encode()), Lines(19, 21))
    assert (trail.path, trail.lines) == ("kernels/other.py", Lines(19, 21))


def test_a_removal_names_its_commit(upstream: Upstream) -> None:
    old = upstream.commit({PATH: KERNEL.encode()})
    gone = "\n".join([*ROWS[:24], *ROWS[25:]])
    new = upstream.commit({PATH: gone.encode()}, "Drop the total (#123)")
    history = followed(upstream, old, new)
    answer = judge({PATH: KERNEL}, {PATH: gone}, PATH, 25, 25, history)
    assert (answer.verdict, answer.grade) == ("removed", "proven")
    note = next(n for n in answer.reason if n.key == "drift.removed-by")
    assert note.args["subject"] == "Drop the total (#123)"
    assert note.args["commit"] == new[:10]


def test_a_move_to_another_file_needs_one_commit_that_makes_it(upstream: Upstream) -> None:
    rest = "\n".join([*ROWS[:9], *ROWS[29:]])
    moved = "import helper\n\n\n" + "\n".join(ROWS[9:28]) + "\n"
    old_files = {PATH: KERNEL, "kernels/parts.py": "import helper\n"}
    old = upstream.commit({p: t.encode() for p, t in old_files.items()})
    new_files = {PATH: rest, "kernels/parts.py": moved}
    new = upstream.commit({p: t.encode() for p, t in new_files.items()})
    answer = judge(old_files, new_files, PATH, 19, 21, followed(upstream, old, new))
    assert (answer.verdict, answer.grade) == ("moved-file", "proven")
    assert "history" in answer.methods


def test_agreement_is_what_proves_a_change(upstream: Upstream) -> None:
    changed = KERNEL.replace("num_stages=2", "num_stages=3")
    old = upstream.commit({PATH: KERNEL.encode()})
    new = upstream.commit({PATH: changed.encode()})
    answer = judge({PATH: KERNEL}, {PATH: changed}, PATH, 16, 16, followed(upstream, old, new))
    assert (answer.verdict, answer.grade) == ("changed", "proven")


def test_the_life_of_lines(upstream: Upstream) -> None:
    upstream.commit({PATH: KERNEL.encode()}, "Add the kernel (#1)")
    upstream.commit({PATH: ("# above\n" + KERNEL).encode()}, "Say more (#2)")
    changed = "# above\n" + KERNEL.replace("num_stages=2", "num_stages=3")
    upstream.commit({PATH: changed.encode()}, "Another stage (#3)")
    upstream.git("mv", PATH, "kernels/other.py")
    last = upstream.commit(message="Rename (#4)")
    with Objects(upstream.path) as objects:
        commits = objects.file_history(last, "kernels/other.py")
    steps = life(commits, "kernels/other.py", Lines(17, 17))
    assert [(s.what, s.pull) for s in steps] == [
        ("renamed", "4"), ("changed", "3"), ("moved", "2"), ("introduced", "1"),
    ]  # fmt: skip


def test_lines_that_were_shifted_within_their_file(upstream: Upstream) -> None:
    upstream.commit({PATH: KERNEL.encode()}, "Add the kernel")
    below = "\n".join([*ROWS[:9], *ROWS[29:33], "", "", *ROWS[9:28], ""])
    last = upstream.commit({PATH: below.encode()}, "Main first")
    with Objects(upstream.path) as objects:
        commits = objects.file_history(last, PATH)
    steps = life(commits, PATH, Lines(31, 31))
    assert steps[-1].what == "introduced"
    assert steps[-1].commit.subject == "Add the kernel"


def test_a_shallow_clone_is_no_history(upstream: Upstream, tmp_path: Path) -> None:
    old = upstream.commit({PATH: KERNEL.encode()})
    new = upstream.commit({PATH: b"x = 1\n"})
    shallow = tmp_path / "shallow"
    upstream.git("clone", "--quiet", "--depth=1", upstream.url, str(shallow))
    with Objects(shallow) as objects, pytest.raises(NotThere):
        objects.history(old, new)


def test_a_blobless_clone_is_no_history(upstream: Upstream, tmp_path: Path) -> None:
    upstream.git("config", "uploadpack.allowFilter", "true")
    old = upstream.commit({PATH: KERNEL.encode()})
    new = upstream.commit({PATH: ("# above\n" + KERNEL).encode()})
    bare = tmp_path / "blobless.git"
    upstream.git("clone", "--quiet", "--bare", "--filter=blob:none", upstream.url, str(bare))
    with Objects(bare) as objects, pytest.raises(NotThere):
        objects.history(old, new)


def test_two_branches_have_no_history_between_them(upstream: Upstream) -> None:
    upstream.commit({PATH: KERNEL.encode()})
    upstream.git("checkout", "--quiet", "-b", "side")
    side = upstream.commit({PATH: b"y = 2\n"})
    upstream.git("checkout", "--quiet", "main")
    main = upstream.commit({PATH: b"x = 1\n"})
    with Objects(upstream.path) as objects, pytest.raises(NotThere, match="two branches"):
        objects.history(side, main)


PATCH = """\
diff --git "a/docs/\\345\\256\\211 b.md" "b/docs/\\345\\256\\211 b.md"
index 1..2 100644
--- "a/docs/\\345\\256\\211 b.md"
+++ "b/docs/\\345\\256\\211 b.md"
@@ -2 +2,2 @@ heading
--- a line that looks like a header
+++ another
+more
diff --git a/old.py b/new.py
similarity index 100%
rename from old.py
rename to new.py
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-x
"""


def test_a_patch_is_read() -> None:
    named, renamed, gone = read_patch(PATCH)
    assert (named.old_path, named.new_path) == ("docs/安 b.md", "docs/安 b.md")
    assert named.hunks[0].removed == ["-- a line that looks like a header"]
    assert named.hunks[0].added == ["++ another", "more"]
    assert (renamed.old_path, renamed.new_path, renamed.hunks) == ("old.py", "new.py", [])
    assert (gone.old_path, gone.new_path) == ("gone.py", None)


@pytest.mark.parametrize(
    ("subject", "number"),
    [
        ("[Fix] A thing (#2323)", "2323"),
        ("Revert (#1) (#22)", "22"),
        ("Merge pull request #7 from x/y", "7"),
        ("!8 nothing", ""),
        ("See merge request !9", "9"),
    ],
)
def test_pull_requests_are_read_off_subjects(subject: str, number: str) -> None:
    assert pull_request(subject) == number
