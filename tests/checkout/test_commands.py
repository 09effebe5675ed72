"""`srcmap lock`, `srcmap sync` and `srcmap doctor`: what they print and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from srcmap.cli import run as srcmap
from srcmap.commands import doctor
from srcmap.commands import lock as lock_command
from srcmap.commands import sync as sync_command
from srcmap.errors import UsageError
from srcmap.lock import read_lock

if TYPE_CHECKING:
    from tests.checkout.world import Upstream

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _in_project(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project)
    monkeypatch.setenv("LC_ALL", "C")


def run(capsys: Capture, *argv: str) -> tuple[int, str, str]:
    code = srcmap(argv)
    said = capsys.readouterr()
    return code, said.out, said.err


def answer(capsys: Capture, *argv: str) -> tuple[int, Any]:
    code, out, _ = run(capsys, *argv, "--format", "json")
    return code, json.loads(out)


@pytest.fixture
def tagged(upstream: Upstream) -> Upstream:
    """`light` and the annotated `v1` on the first commit, `main` one further."""
    upstream.commit({"a.py": b"1"})
    upstream.git("tag", "light")
    upstream.git("-c", "user.name=A", "-c", "user.email=a@b", "tag", "-a", "v1", "-m", "one")
    upstream.commit({"a.py": b"2"})
    return upstream


def first(upstream: Upstream) -> str:
    return upstream.git("rev-parse", "v1^{commit}")


def add(upstream: Upstream, ref: str, *more: str) -> list[str]:
    return ["lock", "add", "kernels", ref, "--url", upstream.url, *more]


# -- lock add --------------------------------------------------------------------------------


@pytest.mark.parametrize(("ref", "version"), [("v1", "v1"), ("light", "light")])
def test_a_tag_is_pinned_at_its_commit(
    capsys: Capture, project: Path, tagged: Upstream, ref: str, version: str
) -> None:
    code, out, err = run(capsys, *add(tagged, ref))
    path = project / "vendor_locks" / "kernels.toml"
    assert (code, out) == (0, f"kernels@{version} is {first(tagged)}\n  {path}\n")
    assert err == f"Next: srcmap sync kernels@{version}\n"
    pin = read_lock(path).current_pin
    assert (pin.commit, pin.requested, pin.ref) == (first(tagged), ref, f"refs/tags/{ref}")
    # The tag object of an annotated tag is another id; it must not get in.
    assert tagged.git("rev-parse", "v1") not in path.read_text()


def test_a_branch_is_labelled_by_its_commit(
    capsys: Capture, project: Path, tagged: Upstream
) -> None:
    head = tagged.git("rev-parse", "main")
    code, out, err = run(capsys, *add(tagged, "main"))
    assert (code, out.split()[0]) == (0, f"kernels@{head[:7]}")
    assert "'main' is a branch: the pin stays at today's commit." in err


def test_a_commit_needs_no_network(capsys: Capture, project: Path) -> None:
    commit = "c" * 40
    url = "https://invalid.example/k"
    assert run(capsys, "lock", "add", "kernels", commit, "--url", url)[0] == 0
    pin = read_lock(project / "vendor_locks/kernels.toml").current_pin
    assert (pin.version, pin.commit, pin.ref) == ("ccccccc", commit, None)


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        ("gone", "has no tag and no branch 'gone'"),
        ("HEAD^{}", "no name that git allows"),
        ("v*", "no name that git allows"),
        ("", "no name that git allows"),
    ],
)
def test_refs_that_are_none(
    capsys: Capture, project: Path, tagged: Upstream, ref: str, said: str
) -> None:
    code, out, err = run(capsys, *add(tagged, ref))
    assert (code, out) == (2, "")
    assert said in err
    assert not (project / "vendor_locks/kernels.toml").exists()


def test_refs_that_look_like_options(
    capsys: Capture, project: Path, tagged: Upstream, tmp_path: Path
) -> None:
    marker = tmp_path / "marker"
    evil = f"--upload-pack=touch {marker}"
    code, _, err = run(capsys, "lock", "add", "--url", tagged.url, "--", "kernels", evil)
    assert code == 2
    assert "would be read as an option" in err
    for url in (evil, f"ext::touch {marker}"):
        code, _, err = run(capsys, "lock", "add", f"--url={url}", "kernels", "v1")
        assert code == 2
    assert not marker.exists()


def test_an_abbreviated_id_is_refused(capsys: Capture, tagged: Upstream) -> None:
    code, _, err = run(capsys, *add(tagged, first(tagged)[:10]))
    assert code == 2
    assert "is an abbreviated id, which can come to mean another commit" in err
    assert "give all 40 digits" in err


def test_a_tag_and_a_branch_of_one_name(capsys: Capture, project: Path, tagged: Upstream) -> None:
    tagged.git("branch", "light", "main")
    code, _, err = run(capsys, *add(tagged, "light"))
    assert code == 0
    assert "There is refs/heads/light too; refs/tags/light was taken." in err
    assert run(capsys, *add(tagged, "refs/heads/light"))[0] == 0
    pins = read_lock(project / "vendor_locks/kernels.toml").pins
    assert [pin.commit for pin in pins] == [first(tagged), tagged.git("rev-parse", "main")]


def test_a_label_that_is_taken(capsys: Capture, project: Path, tagged: Upstream) -> None:
    old = first(tagged)
    run(capsys, *add(tagged, "light"))
    tagged.git("tag", "--force", "light", "main")
    new = tagged.git("rev-parse", "main")
    code, out, err = run(capsys, *add(tagged, "light"))
    assert (code, out) == (
        1,
        f"kernels@light is pinned at {old}; now it is {new}. Nothing was written.\n",
    )
    assert "--replace" in err
    path = project / "vendor_locks/kernels.toml"
    assert read_lock(path).current_pin.commit == old
    assert run(capsys, *add(tagged, "light", "--replace"))[0] == 0
    assert read_lock(path).current_pin.commit == new


def test_adding_twice_changes_nothing(capsys: Capture, project: Path, tagged: Upstream) -> None:
    run(capsys, *add(tagged, "v1"))
    path = project / "vendor_locks/kernels.toml"
    before = path.read_text() + "# kept\n"
    path.write_text(before)
    assert run(capsys, "lock", "add", "kernels", "v1")[0] == 0
    assert path.read_text() == before


def test_a_second_pin_and_the_current_one(capsys: Capture, project: Path, tagged: Upstream) -> None:
    run(capsys, *add(tagged, "v1"))
    assert run(capsys, "lock", "add", "kernels", "main", "--as", "next", "--current")[0] == 0
    lock = read_lock(project / "vendor_locks/kernels.toml")
    assert (lock.current, [pin.version for pin in lock.pins]) == ("next", ["v1", "next"])


def test_names_and_addresses(capsys: Capture, tagged: Upstream) -> None:
    code, _, err = run(capsys, "lock", "add", "kernels", "v1")
    assert (code, "say where it is: srcmap lock add kernels --url URL REF" in err) == (2, True)
    run(capsys, *add(tagged, "v1"))
    code, _, err = run(capsys, "lock", "add", "kernels", "v1", "--url", "https://x.example/y")
    assert (code, "a fork needs a name of its own" in err) == (2, True)
    code, _, err = run(capsys, "lock", "add", "../x", "v1", "--url", tagged.url)
    assert (code, "expected letters, digits" in err) == (2, True)


def test_a_path_as_address(capsys: Capture, project: Path, tagged: Upstream) -> None:
    assert run(capsys, "lock", "add", "kernels", "v1", "--url", "../upstream")[0] == 0
    assert read_lock(project / "vendor_locks/kernels.toml").url == str(tagged.path)


def test_a_shipped_lock_is_copied_into_the_project(capsys: Capture, project: Path) -> None:
    code, found = answer(capsys, "lock", "add", "tilelang", "c" * 40, "--as", "mine")
    assert (code, found["state"], found["commit"]) == (0, "pinned", "c" * 40)
    text = (project / "vendor_locks/tilelang.toml").read_text()
    assert "# The commit of v0.1.15 is not known yet" in text
    assert [p["version"] for p in answer(capsys, "lock", "list")[1]["pins"]][:4] == [
        "v0.1.13",
        "v0.1.14",
        "v0.1.15",
        "mine",
    ]


def test_a_partial_pin_learns_its_commit(capsys: Capture, project: Path, tagged: Upstream) -> None:
    tagged.git("tag", "v0.1.15", "main")
    config = Path(os.environ["HOME"], ".gitconfig")
    config.write_text(f'[url "{tagged.url}"]\n\tinsteadOf = https://github.com/tile-ai/tilelang\n')
    _, found = answer(capsys, "lock", "check", "tilelang@v0.1.15")
    assert [pin["state"] for pin in found["pins"]] == ["known-now"]
    code, found = answer(capsys, "lock", "add", "tilelang", "v0.1.15")
    assert (code, found["partial"]) == (0, False)
    assert found["archives"][0]["kind"] == "wheel"


def test_an_unreachable_remote(capsys: Capture, tmp_path: Path) -> None:
    url = (tmp_path / "none").as_uri()
    code, out, err = run(capsys, "lock", "add", "kernels", "v1", "--url", url)
    assert (code, out) == (3, "")
    assert f"error: {url}: cannot be asked: there is no git repository" in err


# -- lock list, show, check ------------------------------------------------------------------


def test_list_and_show_say_partial(capsys: Capture) -> None:
    code, out, _ = run(capsys, "lock", "list")
    line = next(line for line in out.splitlines() if line.startswith("tilelang@v0.1.15"))
    assert code == 0
    assert line.split(maxsplit=1)[1].strip() == (
        "commit not known                          partial: only src/**, tilelang/**"
    )
    assert "partial: only" in run(capsys, "lock", "show", "tilelang@v0.1.15")[1]
    assert "不完整：只有" in run(capsys, "lock", "show", "tilelang@v0.1.15", "--lang", "zh")[1]
    assert answer(capsys, "lock", "show", "tilelang@v0.1.15")[1]["pins"][0]["partial"] is True


def states(capsys: Capture, *names: str) -> tuple[int, list[str]]:
    code, found = answer(capsys, "lock", "check", *names)
    return code, [pin["state"] for pin in found["pins"]]


def test_check_says_when_a_tag_moved(capsys: Capture, tagged: Upstream) -> None:
    run(capsys, *add(tagged, "v1"))
    run(capsys, *add(tagged, "main", "--as", "m"))
    run(capsys, "lock", "add", "kernels", "d" * 40, "--as", "d")
    assert states(capsys, "kernels") == (0, ["same", "same", "fixed"])
    tagged.commit({"a.py": b"3"})
    assert states(capsys, "kernels") == (0, ["same", "ahead", "fixed"])
    # An annotated tag that is made anew on the same commit has not moved.
    tagged.git(
        "-c", "user.name=B", "-c", "user.email=b@b", "tag", "-f", "-a", "v1", "-m", "x", "light"
    )
    assert states(capsys, "kernels@v1") == (0, ["same"])
    tagged.git(
        "-c", "user.name=B", "-c", "user.email=b@b", "tag", "-f", "-a", "v1", "-m", "x", "main"
    )
    assert states(capsys, "kernels") == (1, ["moved", "ahead", "fixed"])
    _, out, _ = run(capsys, "lock", "check", "kernels@v1")
    assert out.startswith("kernels@v1  refs/tags/v1 HAS MOVED: pinned ")
    tagged.git("tag", "-d", "v1")
    assert states(capsys, "kernels@v1") == (3, ["gone"])


def test_check_of_a_remote_that_is_gone(capsys: Capture, tagged: Upstream) -> None:
    run(capsys, *add(tagged, "v1"))
    tagged.path.rename(tagged.path.with_name("elsewhere"))
    assert states(capsys, "kernels") == (3, ["unreachable"])


def test_a_bad_lock_file_is_named(capsys: Capture, project: Path, tagged: Upstream) -> None:
    run(capsys, *add(tagged, "v1"))
    path = project / "vendor_locks/kernels.toml"
    path.write_text(path.read_text().replace(first(tagged), first(tagged)[:8]))
    code, out, err = run(capsys, "lock", "check")
    assert (code, out) == (3, "")
    assert f"error: {path}: 'pin[0].commit': expected 40 hexadecimal digits" in err


# -- sync ------------------------------------------------------------------------------------


def test_sync_says_what_it_brought(capsys: Capture, project: Path, tagged: Upstream) -> None:
    run(capsys, *add(tagged, "v1"))
    tree = project / "_vendor/kernels-v1"
    line = f"kernels@v1: 1 files from git, verified -> {tree}\n"
    assert run(capsys, "sync", "kernels") == (0, line, "")
    again = f"kernels@v1: 1 files, already here and unchanged -> {tree}\n"
    assert run(capsys, "sync", "kernels@v1") == (0, again, "")
    code, found = answer(capsys, "sync", "kernels")
    assert (code, found["pins"][0]["state"], found["pins"][0]["commit"]) == (
        0,
        "already",
        first(tagged),
    )


def test_sync_check(capsys: Capture, project: Path, tagged: Upstream) -> None:
    assert run(capsys, "sync", "--check")[0] == 3
    assert run(capsys, "sync", "--check", "tilelang")[0] == 3
    run(capsys, *add(tagged, "v1"))
    run(capsys, "sync", "kernels")
    assert run(capsys, "sync", "--check")[:2] == (
        0,
        "kernels@v1: 1 files, all as they were put there\n",
    )
    tree = project / "_vendor/kernels-v1"
    (tree / "a.py").write_text("edited")
    (tree / "more\x1b[31m.py").touch()
    code, out, _ = run(capsys, "sync", "--check")
    assert code == 1
    assert out.splitlines() == [
        "kernels@v1: 2 changes against 1 files",
        f"  edited  {tree}/a.py",
        f"  extra   {tree}/more\\x1b[31m.py",
    ]
    code, found = answer(capsys, "sync", "--check")
    assert (code, found["pins"][0]["edited"]) == (1, ["a.py"])


def test_sync_tells_of_each_failure_and_goes_on(
    capsys: Capture, project: Path, tagged: Upstream, tmp_path: Path
) -> None:
    gone = (tmp_path / "none").as_uri()
    run(capsys, "lock", "add", "absent", "c" * 40, "--url", gone)
    run(capsys, *add(tagged, "v1"))
    code, out, err = run(capsys, "sync", "absent", "kernels")
    assert code == 3
    assert out.startswith("kernels@v1: 1 files from git")
    assert "absent@ccccccc: failed: absent@ccccccc could not be fetched." in err
    assert "1 of 2 pins could not be brought" in err


def test_sync_usage(capsys: Capture) -> None:
    assert run(capsys, "sync", "--all", "tilelang")[0] == 2
    assert run(capsys, "sync", "--from", "x")[0] == 2
    code, _, err = run(capsys, "sync", "tilelong")
    assert (code, "did you mean tilelang" in err) == (2, True)


def test_progress_is_for_terminals(
    capsys: Capture, tagged: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(capsys, *add(tagged, "v1"))
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, out, err = run(capsys, "sync", "kernels")
    assert code == 0
    assert "\x1b" not in out
    assert "fetching kernels@v1" in err
    assert err.endswith("\r\x1b[K")


# -- doctor ----------------------------------------------------------------------------------


def test_doctor(capsys: Capture, tagged: Upstream) -> None:
    run(capsys, *add(tagged, "v1"))
    run(capsys, "sync", "kernels")
    code, found = answer(capsys, "doctor")
    assert code == 0
    pins = {pin["pin"]: pin for pin in found["pins"]}
    assert pins["kernels@v1"]["state"] == "complete"
    assert pins["tilelang@v0.1.15"]["covers"] == ["src/**", "tilelang/**"]
    assert pins["tilelang@v0.1.14"]["current"]
    assert {fact["state"] for fact in found["grammars"]} == {"ok"}
    assert [fact["name"] for fact in found["can_run"]] == [
        "numpy",
        "tilelang-cpu",
        "tilelang-cuda",
        "ascend",
    ]


@pytest.mark.parametrize("lang", ["en", "zh"])
def test_doctor_in_words(capsys: Capture, lang: str) -> None:
    code, out, _ = run(capsys, "doctor", "--lang", lang)
    assert code == 0
    assert "pins." not in out
    assert "tilelang@v0.1.15" in out


def test_doctor_without_git(tmp_path: Path) -> None:
    fact = doctor.git_fact({"PATH": str(tmp_path)})
    assert (fact.state, fact.why) == ("no", ("pins.doctor.no-git",))


def test_doctor_and_gpus(tmp_path: Path) -> None:
    assert doctor.nvidia_gpu({"PATH": ""}, tmp_path) is None
    (tmp_path / "nvidia0").touch()
    (tmp_path / "nvidiactl").touch()
    assert doctor.nvidia_gpu({"PATH": ""}, tmp_path) == "nvidia0"
    assert doctor.nvidia_gpu({"CUDA_VISIBLE_DEVICES": ""}, tmp_path) is None


def test_doctor_imports_nothing_heavy(project: Path) -> None:
    code = (
        "import sys; from srcmap.commands.doctor import examine; from pathlib import Path; "
        "examine(Path('.')); print([m for m in ('torch', 'tilelang', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


# -- texts -----------------------------------------------------------------------------------


def test_both_languages_say_the_same_things() -> None:
    from string import Formatter

    from srcmap.i18n import TEXT_FOLDER

    said = [
        json.loads((TEXT_FOLDER / f"pins.{lang}.json").read_text("utf-8")) for lang in ("en", "zh")
    ]
    assert said[0].keys() == said[1].keys()
    for key, english in said[0].items():
        fields = [
            {name for _, name, _, _ in Formatter().parse(text) if name}
            for text in (english, said[1][key])
        ]
        assert fields[0] == fields[1], key


def test_run_functions_take_plain_arguments(project: Path, tagged: Upstream) -> None:
    assert lock_command.run_add("kernels", "v1", url=tagged.url, start=project) == 0
    assert sync_command.run(["kernels"], start=project) == 0
    with pytest.raises(UsageError):
        sync_command.run(["nobody"], start=project)
