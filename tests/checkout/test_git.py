"""Pins out of real git repositories: the exact commit, byte for byte, whoever owns it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from srcmap.checkout import find_checkout, sync
from srcmap.checkout.bring import sync as bring
from srcmap.checkout.gitrun import GitFailed, explain, quiet_git, run_git, scrubbed
from srcmap.errors import CheckoutError
from tests.checkout.world import Upstream, lock_of

NAMES = {
    "kernels/注意力 v1.py": b"x = 1\n",
    "crlf.py": b"a = 1\r\nb = 2\r\n",
    "no-newline.py": b"a = 1",
    "tab\there.py": b"t = 1\n",
    "README.md": b"big\n",
    "readme.md": b"small\n",
    ".gitattributes": b"*.py text eol=lf\n*.bin filter=lfs\n",
    "weights.bin": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
}


def test_every_byte_arrives(upstream: Upstream, project: Path) -> None:
    upstream.git("config", "core.autocrlf", "false")
    upstream.git("config", "filter.lfs.clean", "cat")
    raw = {**NAMES, ".gitattributes": b"*.bin filter=lfs\n"}
    commit = upstream.commit(raw)
    lock, pin = lock_of(upstream.url, commit, tree=upstream.git("rev-parse", "HEAD^{tree}"))
    checkout = sync(lock, pin, project)
    assert checkout.root == project / "_vendor" / "kernels-v1"
    assert set(checkout.paths()) == set(raw)
    assert {path: checkout.read(path) for path in raw} == raw
    listed = upstream.git("ls-tree", "-r", "-z", "HEAD").split("\0")
    theirs = {line.partition("\t")[2]: line.split()[2] for line in listed if line}
    assert {path: checkout.blob_id(path) for path in raw} == theirs
    assert sorted(path.name for path in project.joinpath("_vendor").iterdir()) == [
        ".gitignore",
        ".srcmap",
        "kernels-v1",
    ]
    assert not (checkout.root / ".git").exists()


def test_only_what_is_wanted_comes(upstream: Upstream, project: Path) -> None:
    commit = upstream.commit({"src/a.py": b"1", "3rdparty/big.c": b"2", "3rdparty/x/y.c": b"3"})
    for allowed in ("true", "false"):
        upstream.git("config", "uploadpack.allowFilter", allowed)
        lock, pin = lock_of(upstream.url, commit, leave_out=("3rdparty/**",))
        checkout = sync(lock, pin, project, source=upstream.url)
        assert checkout.paths() == ("src/a.py",)
        assert checkout.manifest.left_out == ("3rdparty/**",)


def test_history_and_submodules_stay_away(upstream: Upstream, project: Path) -> None:
    first = upstream.commit({"a.py": b"1"})
    upstream.git("update-index", "--add", "--cacheinfo", f"160000,{first},sub")
    upstream.git("commit", "-q", "-m", "sub")
    commit = upstream.git("rev-parse", "HEAD")
    lock, pin = lock_of(upstream.url, commit)
    assert sync(lock, pin, project).paths() == ("a.py",)


def test_a_commit_that_no_branch_has(upstream: Upstream, project: Path) -> None:
    upstream.commit({"a.py": b"1"})
    lost = upstream.commit({"a.py": b"2"})
    upstream.git("reset", "-q", "--hard", "HEAD~1")
    lock, pin = lock_of(upstream.url, lost)
    assert sync(lock, pin, project).read("a.py") == b"2"


def test_a_commit_that_is_not_there(upstream: Upstream, project: Path) -> None:
    upstream.commit({"a.py": b"1"})
    lock, pin = lock_of(upstream.url, "f" * 40)
    with pytest.raises(CheckoutError) as caught:
        sync(lock, pin, project)
    assert caught.value.message == (
        "kernels@v1 could not be fetched.\n"
        f"  git, {upstream.url}: that repository does not have the commit"
    )
    assert caught.value.hint is not None
    assert "srcmap sync kernels@v1 --from" in caught.value.hint
    assert not (project / "_vendor" / "kernels-v1").exists()


def test_a_repository_that_is_not_there(tmp_path: Path, project: Path) -> None:
    lock, pin = lock_of((tmp_path / "none").as_uri(), "f" * 40)
    with pytest.raises(CheckoutError, match="there is no git repository"):
        sync(lock, pin, project)


def test_the_tree_of_the_lock_is_compared(upstream: Upstream, project: Path) -> None:
    commit = upstream.commit({"a.py": b"1"})
    lock, pin = lock_of(upstream.url, commit, tree="0" * 40)
    with pytest.raises(CheckoutError, match="the lock says 0000"):
        sync(lock, pin, project)
    assert find_checkout(lock, pin, project) is None


def test_cited_blobs_are_compared(upstream: Upstream, project: Path) -> None:
    commit = upstream.commit({"a.py": b"1"})
    lock, pin = lock_of(upstream.url, commit)
    blob = upstream.git("rev-parse", "HEAD:a.py")
    assert sync(lock, pin, project, cited={"a.py": blob})
    for cited in ({"a.py": "0" * 40}, {"gone.py": blob}):
        with pytest.raises(CheckoutError, match="the map cites"):
            sync(lock, pin, project, source=upstream.url, cited=cited)
        assert find_checkout(lock, pin, project) is not None  # the good one from before


def test_insteadof_of_the_user_leads_to_a_mirror(upstream: Upstream, project: Path) -> None:
    commit = upstream.commit({"a.py": b"1"})
    config = Path(os.environ["HOME"], ".gitconfig")
    config.write_text(f'[url "{upstream.url}"]\n\tinsteadOf = https://invalid.example/kernels\n')
    lock, pin = lock_of("https://invalid.example/kernels", commit)
    assert sync(lock, pin, project).read("a.py") == b"1"


@pytest.mark.parametrize(
    "url", ["ext::sh -c 'touch {marker}'", "--upload-pack=touch {marker}", "fd::17"]
)
def test_urls_that_run_programs(tmp_path: Path, project: Path, url: str) -> None:
    marker = tmp_path / "marker"
    lock, pin = lock_of("https://invalid.example/k", "f" * 40)
    with pytest.raises(CheckoutError) as caught:
        sync(lock, pin, project, source=url.format(marker=marker))
    assert caught.value.slug == "source"
    assert not marker.exists()


def test_not_even_by_insteadof(tmp_path: Path, project: Path) -> None:
    marker = tmp_path / "marker"
    config = Path(os.environ["HOME"], ".gitconfig")
    config.write_text(
        f'[url "ext::sh -c touch% {marker} #"]\n\tinsteadOf = https://invalid.example/\n'
        '[protocol "ext"]\n\tallow = always\n'
    )
    lock, pin = lock_of("https://invalid.example/k", "f" * 40)
    with pytest.raises(CheckoutError, match="could not be fetched"):
        sync(lock, pin, project)
    assert not marker.exists()


# -- existing clones -------------------------------------------------------------------------


def test_hooks_and_configuration_of_a_clone_have_no_say(
    upstream: Upstream, project: Path, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.py": b"1\r\n"})
    marker = tmp_path / "marker"
    hook = upstream.path / ".git/hooks/post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch {marker}\n")
    hook.chmod(0o755)
    for key, value in {
        "core.fsmonitor": f"touch {marker}",
        "core.sshCommand": f"touch {marker}",
        "remote.origin.uploadpack": f"touch {marker}",
        "uploadpack.packObjectsHook": f"touch {marker}",
        "core.autocrlf": "input",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::touch {marker}",
    }.items():
        upstream.git("config", key, value)
    lock, pin = lock_of("https://invalid.example/k", commit)
    for source in (str(upstream.path), upstream.url):
        assert sync(lock, pin, project, source=source).read("a.py") == b"1\r\n"
        assert not marker.exists()


def test_worktrees_bare_clones_and_alternates(
    upstream: Upstream, project: Path, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.py": b"1"})
    upstream.git("worktree", "add", "-q", "--detach", str(tmp_path / "worktree"))
    upstream.git("clone", "-q", "--bare", ".", str(tmp_path / "bare"))
    upstream.git("clone", "-q", "--shared", ".", str(tmp_path / "shared"))
    lock, pin = lock_of("https://invalid.example/k", commit)
    for name in ("worktree", "bare", "shared"):
        arrival = bring(lock, pin, project, source=str(tmp_path / name))
        assert arrival.fresh
        assert arrival.checkout.manifest.commit == commit


def test_a_shallow_clone_that_lacks_the_commit(
    upstream: Upstream, project: Path, tmp_path: Path
) -> None:
    first = upstream.commit({"a.py": b"1"})
    upstream.commit({"a.py": b"2"})
    clone = tmp_path / "shallow"
    upstream.git("clone", "-q", "--depth=1", upstream.url, str(clone))
    lock, pin = lock_of(upstream.url, first)
    with pytest.raises(CheckoutError) as caught:
        sync(lock, pin, project, source=str(clone))
    assert caught.value.message == (
        f"{clone}: lacks what kernels@v1 needs: commit {first} is missing"
    )
    command = caught.value.hint
    assert command == (
        f"git -C {clone} fetch --refetch --no-filter --depth=1 {upstream.url} {first}"
    )
    subprocess.run(command.split(), check=True, capture_output=True)
    assert sync(lock, pin, project, source=str(clone)).read("a.py") == b"1"


def test_a_blobless_clone_that_lacks_a_file(
    upstream: Upstream, project: Path, tmp_path: Path
) -> None:
    upstream.git("config", "uploadpack.allowFilter", "true")
    upstream.git("config", "uploadpack.allowAnySHA1InWant", "true")
    commit = upstream.commit({"a.py": b"1"})
    clone = tmp_path / "blobless"
    upstream.git("clone", "-q", "--filter=blob:none", "--no-checkout", upstream.url, str(clone))
    lock, pin = lock_of(upstream.url, commit)
    with pytest.raises(CheckoutError, match=r"blob \w+ is missing") as caught:
        sync(lock, pin, project, source=str(clone))
    assert caught.value.exit_code == 3
    assert caught.value.hint is not None
    subprocess.run(caught.value.hint.split(), check=True, capture_output=True)
    assert sync(lock, pin, project, source=str(clone)).read("a.py") == b"1"


def test_a_folder_that_is_no_clone(tmp_path: Path, project: Path) -> None:
    (tmp_path / "plain").mkdir()
    lock, pin = lock_of("https://invalid.example/k", "f" * 40)
    with pytest.raises(CheckoutError, match="is neither a git repository nor an archive"):
        sync(lock, pin, project, source=str(tmp_path / "plain"))


# -- hostile trees ---------------------------------------------------------------------------

FORGED = [
    ([("100644", "../x", b"1")], "leads out of the tree"),
    ([("100644", ".git", b"1")], "would write into a .git folder"),
    ([("120000", "out", b"/etc/passwd")], "is a link out of the tree"),
    ([("120000", "out", b"../../x")], "is a link out of the tree"),
    ([("100644", "a", b"1"), ("100644", "a", b"2")], "is there twice"),
]


@pytest.mark.parametrize(("entries", "why"), FORGED)
def test_trees_that_lead_elsewhere(
    upstream: Upstream, project: Path, entries: list[tuple[str, str, bytes]], why: str
) -> None:
    upstream.commit({"a.py": b"1"})
    commit = upstream.forged(entries)
    lock, pin = lock_of("https://invalid.example/k", commit)
    with pytest.raises(CheckoutError, match=why):
        sync(lock, pin, project, source=str(upstream.path))
    assert not (project / "_vendor" / "kernels-v1").exists()
    assert not (project / "_vendor" / "x").exists()


def test_a_cycle_of_links(upstream: Upstream, project: Path) -> None:
    upstream.commit({"a.py": b"1"})
    commit = upstream.forged(
        [("100644", "a.py", b"1"), ("120000", "b", b"c"), ("120000", "c", b"b")]
    )
    lock, pin = lock_of(upstream.url, commit)
    checkout = sync(lock, pin, project)
    assert checkout.paths() == ("a.py",)
    assert not bring(lock, pin, project).fresh  # the check does not run in circles


def test_a_damaged_object_is_noticed(upstream: Upstream, project: Path) -> None:
    commit = upstream.commit({"a.py": b"1"})
    blob = upstream.git("rev-parse", "HEAD:a.py")
    other = upstream.git("hash-object", "-w", "--stdin", stdin=b"2")
    objects = upstream.path / ".git" / "objects"
    good = objects / blob[:2] / blob[2:]
    good.chmod(0o644)
    good.write_bytes((objects / other[:2] / other[2:]).read_bytes())
    lock, pin = lock_of(upstream.url, commit)
    with pytest.raises(CheckoutError):
        sync(lock, pin, project, source=str(upstream.path))
    assert not (project / "_vendor" / "kernels-v1").exists()


# -- the environment -------------------------------------------------------------------------


def test_variables_that_redirect_git_are_dropped() -> None:
    given = {
        "GIT_DIR": "/x",
        "GIT_WORK_TREE": "/x",
        "GIT_INDEX_FILE": "/x",
        "GIT_CONFIG_PARAMETERS": "'core.hooksPath=/x'",
        "GIT_SSL_CAINFO": "/ca",
        "GIT_SSH_COMMAND": "ssh -v",
        "GIT_CONFIG_GLOBAL": "/config",
        "GIT_ASKPASS": "/ask",
        "HTTPS_PROXY": "http://proxy",
        "PATH": "/bin",
    }
    kept = scrubbed(given)
    assert kept["GIT_ASKPASS"] == ""
    assert kept["GIT_TERMINAL_PROMPT"] == "0"
    same = {"GIT_SSL_CAINFO", "GIT_SSH_COMMAND", "GIT_CONFIG_GLOBAL", "HTTPS_PROXY", "PATH"}
    assert {name: kept[name] for name in same} == {name: given[name] for name in same}
    assert not kept.keys() & {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_PARAMETERS"}


def test_a_sync_inside_a_hook_of_another_repository(
    upstream: Upstream, project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    commit = upstream.commit({"a.py": b"1"})
    other = Upstream(tmp_path / "other")
    other.commit({"b.py": b"2"})
    before = other.git("status", "--porcelain")
    monkeypatch.setenv("GIT_DIR", str(other.path / ".git"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other.path))
    lock, pin = lock_of(upstream.url, commit)
    assert sync(lock, pin, project).paths() == ("a.py",)
    assert os.environ["GIT_DIR"] == str(other.path / ".git")
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_WORK_TREE")
    assert other.git("status", "--porcelain") == before


def test_git_never_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = tmp_path / "asked"
    script = tmp_path / "ask.sh"
    script.write_text(f"#!/bin/sh\ntouch {asked}\necho secret\n")
    script.chmod(0o755)
    for name in ("GIT_ASKPASS", "SSH_ASKPASS"):
        monkeypatch.setenv(name, str(script))
    given = b"protocol=https\nhost=invalid.example\n\n"
    with quiet_git(), pytest.raises(GitFailed):
        run_git(["credential", "fill"], stdin=given)
    assert not asked.exists()


def test_where_git_is_missing(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    lock, pin = lock_of("https://invalid.example/k", "f" * 40)
    with pytest.raises(CheckoutError) as caught:
        sync(lock, pin, project)
    assert "'git' is not installed" in caught.value.message


def test_a_disk_that_is_full_while_git_fetches(
    project: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bin" / "git"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'fatal: write error: No space left on device' >&2\nexit 128\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
    lock, pin = lock_of("https://invalid.example/k", "f" * 40)
    with pytest.raises(CheckoutError, match="git cannot write: No space left on device") as caught:
        sync(lock, pin, project)
    assert caught.value.slug == "disk"


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        (
            "fatal: remote error: upload-pack: not our ref 0",
            "that repository does not have the commit",
        ),
        ("warning: x\nfatal: odd thing", "odd thing"),
        ("", "git failed without a word"),
    ],
)
def test_git_in_few_words(said: str, meaning: str) -> None:
    assert explain(said) == meaning


def test_looking_is_instant_and_imports_nothing_heavy() -> None:
    code = (
        "import sys, json; from srcmap.checkout import find_checkout, sync; "
        "from srcmap.lock import known_locks; known_locks(None); "
        "print(json.dumps([m for m in ('git', 'httpx', 'tomlkit', 'filelock', 'rich', 'ssl') "
        "if m in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert json.loads(done.stdout) == []
