"""Lock files: strict to read, kept as they are when written."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from srcmap.errors import LockError, UsageError
from srcmap.lock import (
    Pin,
    find_project,
    known_locks,
    pick,
    read_lock,
    read_locks,
    shipped_locks,
)
from srcmap.lock.nouns import matches
from srcmap.lock.read import check_ref, check_url, parse_lock
from srcmap.lock.write import add_pin, new_lock

FILE = Path("vendor_locks/kernels.toml")
COMMIT, OTHER = "a" * 40, "b" * 40

GOOD = f"""\
format = "1.0"

[repo]
name = "kernels"  # ours
url = "https://example.org/kernels"
current = "v1"

# The one that the book cites.
[[pin]]
version = "v1"
commit = "{COMMIT}"
requested = "v1"

[[pin.archive]]
kind = "sdist"
project = "kernels"
file = "kernels-1.tar.gz"
sha256 = "{"0" * 64}"
"""

WHEEL = f"""\
format = "1.0"
[repo]
name = "kernels"
url = "https://example.org/kernels"
current = "v2"
[[pin]]
version = "v2"
requested = "v2"  # not resolved yet
[[pin.archive]]
kind = "wheel"
project = "kernels"
file = "kernels-2.whl"
sha256 = "{"1" * 64}"
covers = {{ "src/**" = "kernels/src/**" }}
"""


def test_a_good_file_is_read_whole() -> None:
    lock = parse_lock(GOOD.encode(), FILE)
    assert (lock.name, lock.current_pin.commit, lock.licence) == ("kernels", COMMIT, "")
    assert lock.current_pin.archives[0].file == "kernels-1.tar.gz"
    assert not lock.current_pin.partial


def test_a_wheel_alone_is_partial_and_says_what_it_covers() -> None:
    pin = parse_lock(WHEEL.encode(), FILE).current_pin
    assert pin.partial
    assert pin.covers == ("src/**",)


BAD = [
    (
        "licence",
        'name = "kernels"',
        'name = "kernels"\nlicense = "MIT"',
        "'repo.license': unknown key",
    ),
    ("top", 'format = "1.0"', 'format = "1.0"\nmore = 1', "'more': unknown key"),
    (
        "pin-key",
        'requested = "v1"',
        'requested = "v1"\nbranch = "x"',
        "'pin[0].branch': unknown key",
    ),
    (
        "archive-key",
        'kind = "sdist"',
        'kind = "sdist"\nsize = 3',
        "'pin[0].archive[0].size': unknown key",
    ),
    (
        "newer",
        'format = "1.0"',
        'format = "2.0"',
        "'format': format 2.0 is newer than this srcmap, which reads 1.0: upgrade srcmap",
    ),
    ("format", 'format = "1.0"', 'format = "one"', "'format': expected a version such as '1.0'"),
    ("no-format", 'format = "1.0"', "", "'format': is missing"),
    ("format-type", 'format = "1.0"', "format = 1.0", "'format': expected a string, found float"),
    (
        "abbreviated",
        COMMIT,
        "a" * 7,
        "found an abbreviated id, which can come to mean another commit: 'aaaaaaa'",
    ),
    ("upper", COMMIT, "A" * 40, "'pin[0].commit': expected 40 lower-case hexadecimal digits"),
    ("branch-as-commit", COMMIT, "main", "'pin[0].commit': expected 40 lower-case"),
    ("sha256", "0" * 64, "0" * 63, "'pin[0].archive[0].sha256': expected 64 lower-case"),
    ("url", "https://example.org/kernels", "ext::sh -c id", "'repo.url': URLs of the form"),
    (
        "url-option",
        "https://example.org/kernels",
        "--upload-pack=x",
        "'repo.url': a URL that begins",
    ),
    ("name", 'name = "kernels"', 'name = "other"', "'repo.name': expected the name of the file"),
    ("name-path", 'name = "kernels"', 'name = "../x"', "'repo.name': expected letters"),
    ("version", 'version = "v1"', 'version = "a/b"', "'pin[0].version': expected letters"),
    ("current", 'current = "v1"', 'current = "v9"', "'repo.current': no pin has the version 'v9'"),
    ("requested", 'requested = "v1"', 'requested = "-x"', "'pin[0].requested': a name that begins"),
    ("kind", 'kind = "sdist"', 'kind = "egg"', "'pin[0].archive[0].kind': expected sdist or wheel"),
    ("file", "kernels-1.tar.gz", "../kernels-1.tar.gz", "'pin[0].archive[0].file': expected the"),
    (
        "wheel",
        'kind = "sdist"',
        'kind = "wheel"',
        "'pin[0].archive[0].covers': is missing: a wheel is never the whole repository",
    ),
    ("repo", "[repo]", "[repository]", "'repo': is missing"),
    ("pin-type", "[[pin]]", "[pin]", "'pin': expected a list of tables, found dict"),
    ("twin-key", 'requested = "v1"', 'requested = "v1"\nrequested = "v2"', "is not TOML"),
]


@pytest.mark.parametrize(("old", "new", "said"), [row[1:] for row in BAD], ids=[r[0] for r in BAD])
def test_what_is_wrong_is_named_with_file_and_key(old: str, new: str, said: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new, 1)
    text = text.replace("[[pin.archive]]", "[[pin.archive]]" if "[[pin]]" in text else "[[x]]")
    with pytest.raises(LockError) as caught:
        parse_lock(text.encode(), FILE)
    assert caught.value.message.startswith(f"{FILE}: ")
    assert said in caught.value.message
    assert caught.value.exit_code == 3


def second(version: str, commit: str) -> str:
    return f'{GOOD}\n[[pin]]\nversion = "{version}"\ncommit = "{commit}"\nrequested = "x"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (second("v1", OTHER), "'pin': two pins have the same version: 'v1'"),
        (second("V1", OTHER), "'pin': two pins have the same version: 'v1'"),
        (second("v2", COMMIT), f"'pin': two pins have the same commit: '{COMMIT}'"),
        (GOOD.split("# The one", maxsplit=1)[0], "'pin': expected at least one pin"),
    ],
    ids=["version", "version-by-case", "commit", "none"],
)
def test_duplicates_and_emptiness(text: str, said: str) -> None:
    with pytest.raises(LockError, match=re.escape(said)):
        parse_lock(text.encode(), FILE)


def test_not_utf8_not_there_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(LockError, match="is not UTF-8"):
        parse_lock(b'format = "\xff"', FILE)
    with pytest.raises(LockError, match="cannot be read: No such file"):
        read_lock(tmp_path / "none.toml")
    (tmp_path / "folder.toml").mkdir()
    with pytest.raises(LockError, match="cannot be read"):
        read_locks(tmp_path)


def test_no_folder_is_no_locks(tmp_path: Path) -> None:
    assert read_locks(tmp_path / "none") == ()


@pytest.mark.parametrize(
    "url",
    [
        "https://example.org/a",
        "ssh://git@example.org/a",
        "git@example.org:a/b.git",
        "file:///srv/a",
        "/srv/a",
    ],
)
def test_urls_that_git_may_have(url: str) -> None:
    assert check_url(url) is None


@pytest.mark.parametrize(
    "url",
    ["ext::sh -c id", "fd::3", "-u", "--upload-pack=id", "helper::https://x", "", "a b", "../a"],
)
def test_urls_that_git_must_not_have(url: str) -> None:
    assert check_url(url) is not None


@pytest.mark.parametrize(
    "ref", ["-x", "", "a..b", "a b", "a^", "a~1", "a:b", "*", "@{u}", "a.lock"]
)
def test_refs_that_git_must_not_have(ref: str) -> None:
    assert check_ref(ref) is not None


def test_patterns() -> None:
    assert matches("src/a.py", ("src/**",))
    assert not matches("srcs/a.py", ("src/**",))
    assert matches("PKG-INFO", ("PKG-INFO",))
    assert not matches("docs/PKG-INFO", ("PKG-INFO",))


# -- finding ---------------------------------------------------------------------------------


def test_the_nearest_project_counts(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert find_project(inner) is None or not str(find_project(inner)).startswith(str(tmp_path))
    (tmp_path / ".srcmap.toml").touch()
    assert find_project(inner) == tmp_path
    (tmp_path / "a" / "vendor_locks").mkdir()
    assert find_project(inner) == tmp_path / "a"


def test_a_project_replaces_a_shipped_lock_and_adds_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "vendor_locks"
    folder.mkdir()
    (folder / "kernels.toml").write_text(GOOD)
    assert [lock.name for lock in known_locks(tmp_path)] == [
        "kernels",
        "tilelang",
        "tilelang-ascend",
    ]
    (folder / "tilelang.toml").write_text(GOOD.replace('name = "kernels"', 'name = "tilelang"'))
    replaced = {lock.name: lock for lock in known_locks(tmp_path)}["tilelang"]
    assert replaced.path == folder / "tilelang.toml"


def test_pick() -> None:
    locks = shipped_locks()
    assert pick(locks, "tilelang")[1].version == "v0.1.14"
    assert pick(locks, "tilelang-ascend@95acbd7")[1].commit is not None
    with pytest.raises(UsageError) as caught:
        pick(locks, "tilelan")
    assert caught.value.hint == "did you mean tilelang, tilelang-ascend?"
    with pytest.raises(UsageError, match=r"tilelang has no pin 'v9'"):
        pick(locks, "tilelang@v9")


def test_the_shipped_pins() -> None:
    pins = {f"{k.name}@{p.version}": p for k in shipped_locks() for p in k.pins}
    assert [name for name, pin in pins.items() if pin.partial] == ["tilelang@v0.1.15"]
    assert pins["tilelang@v0.1.15"].covers == ("src/**", "tilelang/**")
    assert len(pins) == 5


# -- writing ---------------------------------------------------------------------------------


def added(tmp_path: Path, text: str, pin: Pin, *, current: bool = False) -> str:
    path = tmp_path / FILE.name
    add_pin(path, text, pin, current=current)
    return path.read_bytes().decode()


def test_a_new_pin_leaves_the_rest_as_it_was(tmp_path: Path) -> None:
    pin = Pin(version="v2", requested="v2", ref="refs/tags/v2", commit=OTHER)
    text = added(tmp_path, GOOD, pin)
    assert text.startswith(GOOD)
    assert parse_lock(text.encode(), FILE).find("v2") == pin
    assert [path.name for path in tmp_path.iterdir()] == [FILE.name]


def test_the_current_pin_is_moved_on_request(tmp_path: Path) -> None:
    pin = Pin(version="v2", requested="v2", commit=OTHER)
    text = added(tmp_path, GOOD, pin, current=True)
    assert 'current = "v2"' in text
    assert "# The one that the book cites." in text


def test_a_partial_pin_learns_its_commit(tmp_path: Path) -> None:
    pin = Pin(version="v2", requested="v2", ref="refs/tags/v2", commit=OTHER)
    text = added(tmp_path, WHEEL, pin)
    found = parse_lock(text.encode(), FILE).current_pin
    assert (found.commit, found.partial) == (OTHER, False)
    assert found.archives[0].covers == (("src/**", "kernels/src/**"),)
    assert "# not resolved yet" in text


def test_line_ends_are_kept(tmp_path: Path) -> None:
    pin = Pin(version="v2", requested="v2", commit=OTHER)
    text = added(tmp_path, GOOD.replace("\n", "\r\n"), pin)
    assert text.startswith(GOOD.replace("\n", "\r\n"))


def test_nothing_unreadable_is_ever_written(tmp_path: Path) -> None:
    path = tmp_path / FILE.name
    path.write_text(GOOD)
    with pytest.raises(LockError):
        add_pin(path, GOOD, Pin(version="v2", requested="v2", commit=COMMIT))
    assert path.read_text() == GOOD


LABELS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,20}", fullmatch=True).filter(
    lambda label: not label.endswith(".")
)
REFS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._/+-]{0,20}", fullmatch=True).filter(
    lambda ref: check_ref(ref) is None
)
COMMITS = st.from_regex(r"[0-9a-f]{40}", fullmatch=True)
PINS = st.builds(
    Pin,
    version=LABELS,
    requested=REFS,
    ref=st.none() | REFS.map("refs/tags/{}".format),
    commit=COMMITS,
    tree=st.none() | COMMITS,
)


@given(
    pins=st.lists(
        PINS, min_size=1, max_size=5, unique_by=(lambda p: p.version.casefold(), lambda p: p.commit)
    )
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_written_is_what_is_read(tmp_path: Path, pins: list[Pin]) -> None:
    path = tmp_path / FILE.name
    first, *others = pins
    lock = new_lock(path, name="kernels", url="https://example.org/k", pin=first)
    for pin in others:
        lock = add_pin(path, path.read_text(encoding="utf-8"), pin)
    assert lock == read_lock(path)
    assert lock.pins == tuple(pins)


def test_nouns_are_frozen() -> None:
    with pytest.raises(AttributeError):
        shipped_locks()[0].pins[0].version = "x"  # type: ignore[misc]
