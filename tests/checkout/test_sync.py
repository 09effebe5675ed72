"""A good tree or none: repeated, interrupted, killed, concurrent and edited."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest

from srcmap.checkout import bring, find_checkout, publish, store, sync
from srcmap.checkout.check import check_checkout
from srcmap.checkout.nouns import Silent, load_manifest
from srcmap.errors import CheckoutError
from tests.checkout.world import lock_of

if TYPE_CHECKING:
    from srcmap.model import Note
    from tests.checkout.world import Upstream


class Watcher(Silent):
    def __init__(self) -> None:
        self.notes: list[Note] = []

    def tell(self, note: Note) -> None:
        self.notes.append(note)


def test_again_is_nothing_new(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    assert bring.sync(lock, pin, project).fresh
    shutil.rmtree(upstream.path)
    assert not bring.sync(lock, pin, project).fresh


def test_without_a_project_it_goes_to_the_cache(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    root = sync(lock, pin, None).root
    assert root == Path(os.environ["SRCMAP_CACHE"], "vendor", "kernels-v1")
    found = find_checkout(lock, pin, project)
    assert found is not None
    assert found.root == root


def test_the_folder_is_ignored_by_git(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    subprocess.run(["git", "init", "-q", str(project)], check=True)
    sync(lock, pin, project)
    status = ["git", "-C", str(project), "status", "--porcelain", "-uall"]
    assert subprocess.run(status, check=True, capture_output=True).stdout == b""


def test_a_pin_that_means_another_commit_now(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    sync(lock, pin, project)
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"2"}))
    assert find_checkout(lock, pin, project) is None
    assert sync(lock, pin, project).read("a.py") == b"2"
    assert not (project / "_vendor/.srcmap/edited").exists()


def test_edits_survive_a_new_commit(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    (sync(lock, pin, project).root / "a.py").write_bytes(b"mine")
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"2"}))
    assert sync(lock, pin, project).read("a.py") == b"2"
    assert (project / "_vendor/.srcmap/edited/kernels-v1.1/a.py").read_bytes() == b"mine"


def test_somebody_elses_folder_is_left_alone(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    mine = project / "_vendor" / "kernels-v1" / "mine.py"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(CheckoutError, match="is there already, and srcmap did not put it there"):
        sync(lock, pin, project)
    assert mine.read_text() == "mine"


def test_two_pins_of_one_folder_name(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    sync(lock, pin, project)
    other = msgspec.structs.replace(pin, version="els-v1")
    twin = msgspec.structs.replace(lock, name="kern")
    place = store.Place(project / "_vendor", twin, other)
    assert place.tree.name == "kern-els-v1"
    short = msgspec.structs.replace(lock, name="k-x"), msgspec.structs.replace(pin, version="1")
    long = msgspec.structs.replace(lock, name="k"), msgspec.structs.replace(pin, version="x-1")
    sync(*short, project)
    assert find_checkout(*long, project) is None
    with pytest.raises(CheckoutError, match="is there already"):
        sync(*long, project)


# -- check -----------------------------------------------------------------------------------


def test_check_names_what_changed(upstream: Upstream, project: Path) -> None:
    files = {"a.py": b"1", "b/注 意.py": b"2", "c.py": b"3", "d.py": b"4"}
    lock, pin = lock_of(upstream.url, upstream.commit(files))
    checkout = sync(lock, pin, project)
    assert check_checkout(checkout).changes == ()
    (checkout.root / "a.py").write_bytes(b"1 ")
    (checkout.root / "b/注 意.py").unlink()
    (checkout.root / "c.py").unlink()
    (checkout.root / "c.py").symlink_to("d.py")
    (checkout.root / "new").mkdir()
    (checkout.root / "new/e.py").touch()
    (checkout.root / "loop").symlink_to(".")
    found = check_checkout(checkout)
    assert found.checked == 4
    assert found.edited == ("a.py", "c.py")
    assert found.missing == ("b/注 意.py",)
    assert found.extra == ("loop", "new/e.py")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root can read everything")
def test_check_with_a_file_that_cannot_be_read(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    checkout = sync(lock, pin, project)
    (checkout.root / "a.py").chmod(0)
    assert check_checkout(checkout).unreadable == ("a.py",)


def test_edits_are_kept_aside_and_the_tree_is_good_again(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    watcher = Watcher()
    for number in (1, 2):
        checkout = sync(lock, pin, project, watcher)
        (checkout.root / "a.py").write_bytes(b"mine")
        assert sync(lock, pin, project, watcher).read("a.py") == b"1"
        kept = project / f"_vendor/.srcmap/edited/kernels-v1.{number}/a.py"
        assert kept.read_bytes() == b"mine"
    assert [note.key for note in watcher.notes] == ["pins.kept-edits"] * 2


def test_a_lost_file_comes_back(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    (sync(lock, pin, project).root / "a.py").unlink()
    assert sync(lock, pin, project).read("a.py") == b"1"
    assert not (project / "_vendor/.srcmap/edited").exists()


def test_reading_a_file_that_is_gone(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    checkout = sync(lock, pin, project)
    with pytest.raises(CheckoutError) as caught:
        checkout.read("b.py")
    assert caught.value.hint == "srcmap sync kernels@v1"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"format": 99}', b'{"format": 1}', b"\xff"])
def test_a_damaged_manifest_is_no_checkout(upstream: Upstream, project: Path, data: bytes) -> None:
    assert load_manifest(data) is None
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    sync(lock, pin, project)
    (project / "_vendor/.srcmap/kernels-v1.json").write_bytes(data)
    assert find_checkout(lock, pin, project) is None
    assert sync(lock, pin, project).read("a.py") == b"1"
    assert (project / "_vendor/.srcmap/edited/kernels-v1.1/a.py").exists()


# -- interruptions ---------------------------------------------------------------------------

SYNC = """
import sys, time
from pathlib import Path
from srcmap.checkout import bring, store, gitsource
from tests.checkout.world import lock_of
slow = sys.argv[4] if len(sys.argv) > 4 else ""
class Watch(bring.Silent):
    def step(self, what, subject):
        if what == slow: wait()
def wait():
    print("waiting", flush=True)
    time.sleep(60)
if slow == "rename":
    real = Path.rename
    def rename(self, target):
        if self.name == "tree": wait()
        return real(self, target)
    Path.rename = rename
lock, pin = lock_of(sys.argv[1], sys.argv[2])
print(bring.sync(lock, pin, Path(sys.argv[3]), Watch()).fresh)
"""


def start(*arguments: str) -> subprocess.Popen[str]:
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, "-c", SYNC, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=root,
        env={**os.environ, "PYTHONPATH": str(root)},
    )


def leftovers(project: Path) -> list[str]:
    own = project / "_vendor" / ".srcmap"
    return sorted(path.name for path in own.iterdir() if path.is_dir())


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("where", ["fetch", "unpack", "rename"])
@pytest.mark.parametrize("before", [False, True], ids=["new", "over-an-old-one"])
def test_killed_half_way(
    upstream: Upstream, project: Path, how: signal.Signals, where: str, before: bool
) -> None:
    old = upstream.commit({"a.py": b"old"})
    if before:
        sync(*lock_of(upstream.url, old), project)
    commit = upstream.commit({"a.py": b"new"})
    process = start(upstream.url, commit, str(project), where)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n", process.stderr and process.stderr.read()
    process.send_signal(how)
    process.communicate(timeout=30)
    lock, pin = lock_of(upstream.url, commit)
    assert find_checkout(lock, pin, project) is None
    tree = project / "_vendor" / "kernels-v1"
    assert not tree.exists() or [path.name for path in tree.iterdir()] == ["a.py"]
    assert sync(lock, pin, project).read("a.py") == b"new"
    assert leftovers(project) == []


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_two_at_once(upstream: Upstream, project: Path) -> None:
    commit = upstream.commit({f"{number}.py": b"1" for number in range(200)})
    both = [start(upstream.url, commit, str(project)) for _ in range(2)]
    said = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert sorted(out for out, _ in said) == ["False\n", "True\n"]
    assert not check_checkout(sync(*lock_of(upstream.url, commit), project)).changes
    assert leftovers(project) == []


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
def test_the_second_takes_over_when_the_first_is_killed(upstream: Upstream, project: Path) -> None:
    commit = upstream.commit({"a.py": b"1"})
    first = start(upstream.url, commit, str(project), "unpack")
    assert first.stdout is not None
    first.stdout.readline()
    second = start(upstream.url, commit, str(project))
    time.sleep(0.5)
    assert second.poll() is None
    first.kill()
    first.communicate()
    assert second.communicate(timeout=30)[0] == "True\n"
    assert leftovers(project) == []


def test_a_sweep_spares_other_pins(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    other = project / "_vendor/.srcmap/kernels-v1.010~abc"
    other.mkdir(parents=True)
    (project / "_vendor/.srcmap/kernels-v1~abc").mkdir()
    sync(lock, pin, project)
    assert leftovers(project) == [other.name]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root can write everywhere")
def test_a_folder_that_cannot_be_written(upstream: Upstream, project: Path) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))
    project.chmod(0o500)
    try:
        with pytest.raises(CheckoutError, match="cannot be written: Permission denied"):
            sync(lock, pin, project)
    finally:
        project.chmod(0o700)


def test_a_disk_that_is_full_at_the_end(
    upstream: Upstream, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock, pin = lock_of(upstream.url, upstream.commit({"a.py": b"1"}))

    def full(manifest: object) -> bytes:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(publish, "dump_manifest", full)
    with pytest.raises(CheckoutError, match="No space left on device") as caught:
        sync(lock, pin, project)
    assert caught.value.slug == "disk"
    assert leftovers(project) == []
