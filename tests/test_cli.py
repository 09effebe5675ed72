"""The command line in process: stdout, stderr and exit codes, each apart."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from srcmap import cli, i18n
from srcmap.errors import LockError
from tests import world
from tests.metamorphic.kernels import PREFILL, unmarked

PATH = world.PATH


class Answer(NamedTuple):
    code: int
    out: str
    err: str


class Srcmap:
    """`srcmap`, in this process, in a small project."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *argv: str) -> Answer:
        self._capsys.readouterr()
        code = cli.run(argv)
        return Answer(code, *self._capsys.readouterr())


@pytest.fixture
def srcmap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Srcmap:
    monkeypatch.chdir(world.build(tmp_path))
    for name in ("COLUMNS", "LC_ALL", "LC_MESSAGES", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "en_US.UTF-8")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(i18n, "_chosen", ["en"])
    return Srcmap(capsys)


# -- the frame -------------------------------------------------------------------------------


def test_version(srcmap: Srcmap) -> None:
    assert srcmap("--version") == (0, "srcmap 0.1.0\n", "")


@pytest.mark.parametrize("lang", i18n.LANGUAGES)
def test_every_command_has_a_line_and_a_page(srcmap: Srcmap, lang: str) -> None:
    root = srcmap("--help", "--lang", lang)
    assert root.code == 0
    for name in cli.COMMANDS:
        line = i18n.text(f"cli.about.{name}", lang)
        assert line in root.out
        page = srcmap(name, "--help", "--lang", lang)
        assert page.code == 0
        assert i18n.text("cli.head.options", lang) in page.out
        assert ".help" not in page.out, "a help key that nobody has written a sentence for"


def test_no_command_prints_the_help(srcmap: Srcmap) -> None:
    assert srcmap() == srcmap("--help")


def test_the_language_follows_the_locale(srcmap: Srcmap, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LANG", "zh_CN.UTF-8")
    assert "用法：" in srcmap("--help").out
    assert "Usage:" in srcmap("--help", "--lang=en").out


@pytest.mark.parametrize(
    ("argv", "error", "hint"),
    [
        (["varian"], "no command is called varian", "did you mean `srcmap variant`?"),
        (["zzz"], "no command is called zzz", "`srcmap --help` lists the commands."),
        (["--bad"], "there is no option --bad", "`srcmap --help` says what can be asked."),
        (
            ["variant", "--formt", "json"],
            "there is no option --formt; near it: --format",
            "`srcmap variant --help` says what can be asked.",
        ),
        (["show", "sink"], "CONCEPT is missing", "`srcmap show --help` says what can be asked."),
        (
            ["variant", "a", "b"],
            "more arguments than can be used: b",
            "`srcmap variant --help` says what can be asked.",
        ),
    ],
)
def test_wrong_usage(srcmap: Srcmap, argv: list[str], error: str, hint: str) -> None:
    answer = srcmap(*argv)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.splitlines()[:2] == [f"error: {error}", f"hint: {hint}"]


@pytest.mark.parametrize("value", ["fr", ""])
def test_an_unknown_language_is_wrong_usage(srcmap: Srcmap, value: str) -> None:
    answer = srcmap("--lang", value)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: --lang")


def test_wrong_usage_in_chinese(srcmap: Srcmap) -> None:
    answer = srcmap("--lang", "zh", "variant", "--formt")
    assert answer.code == 2
    assert answer.err.splitlines() == [
        "错误：没有选项 --formt；相近的有：--format",
        "提示：`srcmap variant --help` 说明可以怎么用。",
    ]


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def fail(argv: list[str]) -> int:
        raise error

    monkeypatch.setattr(cli, "_dispatch", fail)


def test_an_error_has_a_hint_and_a_place_to_read_on(
    srcmap: Srcmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, LockError("x.toml: broken", slug="lock-file", hint="mend it"))
    assert srcmap("variant") == (
        3,
        "",
        "error: x.toml: broken\nhint: mend it\nmore: docs/errors.md#lock-file\n",
    )


def test_an_error_in_chinese_keeps_its_own_words(
    srcmap: Srcmap, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, LockError("x.toml: broken", slug="lock-file"))
    answer = srcmap("--lang", "zh", "variant")
    title = i18n.text("errors.lock-file", "zh")
    assert answer.err == f"错误：{title} x.toml: broken\n详见：docs/errors.md#lock-file\n"


def test_a_bug_is_told_and_logged(
    srcmap: Srcmap, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fail_with(monkeypatch, ZeroDivisionError("division by zero\nsecond line"))
    answer = srcmap("variant", "sink")
    assert answer.code == 4
    assert answer.out == ""
    first, second = answer.err.splitlines()
    assert first == "error: this is a bug in srcmap: ZeroDivisionError: division by zero"
    log = Path(second.removeprefix("hint: please report it with this log: "))
    text = log.read_text(encoding="utf-8")
    assert "srcmap 0.1.0" in text
    assert "arguments: ['variant', 'sink']" in text
    assert "Traceback (most recent call last)" in text
    assert "typer " in text


def test_a_bug_without_room_for_a_log_prints_the_traceback(
    srcmap: Srcmap, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where a folder should be")
    monkeypatch.setattr("srcmap.crash._folder", lambda: blocked)
    fail_with(monkeypatch, ZeroDivisionError("oops"))
    answer = srcmap("variant")
    assert answer.code == 4
    assert "Traceback (most recent call last)" in answer.err
    assert "no log could be written" in answer.err


def test_interrupted(srcmap: Srcmap, monkeypatch: pytest.MonkeyPatch) -> None:
    fail_with(monkeypatch, KeyboardInterrupt())
    assert srcmap("variant") == (130, "", "")


def test_a_reader_that_goes_away_is_no_error() -> None:
    code = (
        "import sys; from srcmap.render.console import emit\n"
        "emit('x' * 200000); emit('y' * 200000)\nsys.exit(7)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        assert child.stderr is not None
        child.stdout.read(10)
        child.stdout.close()
        assert child.stderr.read() == b""
    assert child.returncode == 7


@pytest.mark.skipif(sys.platform == "win32", reason="closing a stream is the shell's")
@pytest.mark.parametrize(("closed", "code"), [(">&-", 0), ("2>&-", 0)])
def test_a_closed_stream_is_no_error(closed: str, code: int, tmp_path: Path) -> None:
    argv = ["sh", "-c", f'"$0" -m srcmap variant {closed}', sys.executable]
    done = subprocess.run(argv, capture_output=True, cwd=tmp_path, check=False)
    assert (done.returncode, done.stderr) == (code, b"")


def test_an_encoding_without_chinese_does_not_stop_the_answer(tmp_path: Path) -> None:
    environ = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    argv = [sys.executable, "-m", "srcmap", "variant", "--lang", "zh"]
    done = subprocess.run(argv, env=environ, capture_output=True, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert b"sink" in done.stdout


# -- variant ---------------------------------------------------------------------------------


def test_the_list_has_every_variant_in_its_group(srcmap: Srcmap) -> None:
    answer = srcmap("variant")
    assert answer.code == 0
    assert "Kernels: tiny\n  tiny-sink" in answer.out
    assert "Kernels: tilelang\n" in answer.out


@pytest.mark.parametrize("name", ["tiny-sink", "little sink", "Tiny Sink", "小汇"])
def test_a_variant_by_any_name(srcmap: Srcmap, name: str) -> None:
    answer = srcmap("variant", name)
    assert answer.code == 0
    assert f"{PATH}:20-21  sink-epilogue" in answer.out


def test_a_page_says_what_is_absent_missing_and_ambiguous(srcmap: Srcmap) -> None:
    out = srcmap("variant", "tiny-sink").out
    assert "Not here, and why\n  kv-head  Every head has its own.\n" in out
    assert "Expected, and not found\n  row-max" in out
    assert f"{PATH}:9 " in out
    assert f"{PATH}:30\n" in out
    assert "(likely)" in out


def test_a_page_in_chinese(srcmap: Srcmap) -> None:
    out = srcmap("variant", "tiny-sink", "--lang", "zh").out
    assert out.startswith("tiny-sink  小汇\n  很小的汇。\n")
    assert "每个头各有一份。" in out


def test_a_near_miss_is_proposed(srcmap: Srcmap) -> None:
    answer = srcmap("variant", "snik")
    assert (answer.code, answer.out) == (2, "")
    assert "error: no variant is called snik" in answer.err
    assert "sink" in answer.err


def test_variant_as_json(srcmap: Srcmap) -> None:
    value = json.loads(srcmap("variant", "tiny-sink", "--format", "json").out)
    assert value["format"] == "srcmap-variant/1"
    assert value["variant"]["id"] == "tiny-sink"
    found = {e["concept"]: e for e in value["entries"] if e["status"] == "found"}
    assert found["sink-epilogue"]["lines"] == [20, 21]
    assert found["sink-epilogue"]["url"] == (
        f"https://github.com/example/tiny/blob/{world.COMMIT[::-1]}"
        "/kernels/tiny%20attention.py#L20-L21"
    )
    absent = next(e for e in value["entries"] if e["concept"] == "kv-head")
    assert absent["status"] == "absent"
    assert absent["reason"]["text"] == "No statement of the kernel does this."


def test_variant_as_markdown(srcmap: Srcmap) -> None:
    out = srcmap("variant", "tiny-sink", "--format", "markdown").out
    assert out.startswith("# `tiny-sink`: Tiny sink\n")
    assert f"[`{PATH}:20-21`](https://github.com/" in out


def test_a_partial_pin_says_so(srcmap: Srcmap) -> None:
    answer = srcmap("variant", "tiny-sink", "--pin", "v3")
    assert answer.code == 3
    assert "! partial pin: it holds only tiny/**" in answer.out
    assert "there is no map of tiny@v3" in answer.out


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--pin", "v9"], "nothing is pinned at 'v9'"),
        (["--pin", "tiny@v9"], "tiny has no pin 'v9'"),
        (["--repo", "tinny"], "no repository 'tinny' is pinned"),
        (["--repo", "tilelang"], "tiny-sink has nothing in tilelang"),
    ],
)
def test_a_pin_or_repository_that_is_not_there(
    srcmap: Srcmap, argv: list[str], message: str
) -> None:
    answer = srcmap("variant", "tiny-sink", *argv)
    assert answer.code == 2
    assert f"error: {message}" in answer.err


def test_without_a_checkout_the_command_that_brings_it(srcmap: Srcmap) -> None:
    answer = srcmap("variant", "tiny-sink", "--show")
    assert answer.code == 0
    assert "`srcmap sync tiny@v2` brings it." in answer.out


# -- where -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "place",
    [
        f"{PATH}:12",
        f"./{PATH}:12-13",
        f"{PATH}:12\u201313",
        f"{PATH}#L12-L13",
        "tiny attention.py:12",
        f"_vendor/tiny-v2/{PATH}:12",
        f"/somewhere/else/_vendor/tiny-v2/{PATH}:12",
        f"/home/me/.cache/srcmap/tiny-v2/{PATH}:12",
        f"/some/clone/{PATH}:12",
    ],
)
def test_where_takes_a_place_in_any_form(srcmap: Srcmap, place: str) -> None:
    answer = srcmap("where", place)
    assert answer.code == 0, answer.err
    assert "tiny v2\n" in answer.out
    assert f"{PATH}:10-14  causal-mask branch=causal  tiny-sink:" in answer.out
    assert "sink-epilogue" not in answer.out


def test_where_without_lines_lists_the_file(srcmap: Srcmap) -> None:
    answer = srcmap("where", PATH)
    assert answer.out.index(":10-14") < answer.out.index(":16-18") < answer.out.index(":20-21")


def test_where_nothing_is(srcmap: Srcmap) -> None:
    answer = srcmap("where", f"{PATH}:2")
    assert answer.code == 1
    assert answer.out == f"{PATH}:2 belongs to no concept of any variant.\n"


@pytest.mark.parametrize("place", [f"{PATH}:0", f"{PATH}:9-3"])
def test_where_lines_that_cannot_be(srcmap: Srcmap, place: str) -> None:
    answer = srcmap("where", place)
    assert answer.code == 2
    assert "lines are counted from 1" in answer.err


def test_where_a_file_that_no_map_has(srcmap: Srcmap) -> None:
    answer = srcmap("where", "tiny atention.py:3")
    assert answer.code == 2
    assert f"hint: did you mean {PATH}?" in answer.err


def test_where_as_json(srcmap: Srcmap) -> None:
    value = json.loads(srcmap("where", f"{PATH}:12", "--format", "json").out)
    assert value["format"] == "srcmap-where/1"
    assert value["asked"] == {"path": PATH, "lines": [12, 12]}
    assert [e["concept"] for e in value["entries"]] == ["causal-mask"]


# -- show ------------------------------------------------------------------------------------


def test_show_without_a_checkout(srcmap: Srcmap) -> None:
    answer = srcmap("show", "tiny-sink", "sink-epilogue")
    assert answer.code == 0
    assert f"{PATH}:20-21  tiny v2\n" in answer.out
    assert "`srcmap sync tiny@v2` brings it." in answer.out


def test_show_an_absent_concept(srcmap: Srcmap) -> None:
    answer = srcmap("show", "tiny-sink", "kv-head")
    assert answer.code == 1
    assert "tiny v2: not here. Every head has its own." in answer.out


def test_show_a_concept_that_nobody_asked_about(srcmap: Srcmap) -> None:
    assert srcmap("show", "tiny-sink", "top-k").code == 3


def test_show_a_near_miss(srcmap: Srcmap) -> None:
    answer = srcmap("show", "tiny-sink", "causal-msk")
    assert answer.code == 2
    assert "causal-mask" in answer.err


# -- anatomy ---------------------------------------------------------------------------------


def test_anatomy_of_nothing(srcmap: Srcmap) -> None:
    answer = srcmap("anatomy", "nowhere.py")
    assert (answer.code, answer.out) == (3, "")
    assert answer.err == (
        "error: nowhere.py: there is no such file\n"
        "read 0 of 1 files: 0 kernels, 0 locations; 1 not read\n"
    )


def test_anatomy_of_an_empty_folder(srcmap: Srcmap, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    answer = srcmap("anatomy", "empty")
    assert answer.code == 3
    assert "error: empty: no file in it that srcmap reads" in answer.err


KERNEL = unmarked(PREFILL)


def test_anatomy_names_what_statements_do(srcmap: Srcmap, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(KERNEL, encoding="utf-8")
    answer = srcmap("anatomy", "k.py")
    assert answer.code == 0
    assert answer.err.startswith("read 1 of 1 files: 1 kernels, ")
    code, _, table = answer.out.partition("What is where\n")
    text = KERNEL.splitlines()
    number = next(n for n, line in enumerate(text, start=1) if "T.Pipelined" in line)
    shown = next(line for line in code.splitlines() if line.split()[:1] == [str(number)])
    assert shown.split()[1] == "kv-loop"
    assert shown.endswith(f"| {text[number - 1]}")
    assert re.search(rf"^  k\.py:{number} +kv-loop  ", table, re.MULTILINE)


def test_anatomy_as_json(srcmap: Srcmap, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(KERNEL, encoding="utf-8")
    value = json.loads(srcmap("anatomy", "k.py", "--format", "json").out)
    assert value["format"] == "srcmap-anatomy/1"
    (kernel,) = value["kernels"]
    assert kernel["kind"] == "attention"
    for found in kernel["concepts"]:
        assert set(found) >= {"concept", "site", "lines"}
        first, last = found["lines"]
        assert 1 <= first <= last <= KERNEL.count("\n") + 1
    assert value["files"] == [{"path": "k.py", "read": True, "language": "python", "problems": []}]


def test_anatomy_says_why(srcmap: Srcmap, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(KERNEL, encoding="utf-8")
    answer = srcmap("anatomy", "k.py", "--why", "probability")
    assert answer.code == 0
    assert " because\n  - " in answer.out
    assert "qk-gemm  " not in answer.out


def test_anatomy_says_that_it_has_nothing_to_say(srcmap: Srcmap, tmp_path: Path) -> None:
    (tmp_path / "k.py").write_text(KERNEL, encoding="utf-8")
    answer = srcmap("anatomy", "k.py", "--why", "tmem-docstring")
    assert answer.code == 0
    assert "\n  tmem-docstring  " in answer.out


def test_anatomy_goes_on_after_a_file_that_cannot_be_read(srcmap: Srcmap, tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text(KERNEL, encoding="utf-8")
    (tmp_path / "bad.py").write_text("def f(:\n", encoding="utf-8")
    answer = srcmap("anatomy", ".")
    assert answer.code == 3
    assert "good.py  python" in answer.out
    assert "error: bad.py: " in answer.err
    assert "read 1 of 2 files" in answer.err
    assert answer.err.endswith("; 1 not read\n")


class FakeCheckout:
    """A checkout with one file, whatever is asked for."""

    def __init__(self, text: str) -> None:
        self._text = text

    def read(self, _: str) -> bytes:
        return self._text.encode()


@pytest.fixture
def checkout(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"line{number} = [bold]  # 第{number}行\n" for number in range(1, 41))
    monkeypatch.setattr("srcmap.checkout.find_checkout", lambda *_: FakeCheckout(text))


@pytest.mark.usefixtures("checkout")
def test_show_prints_the_code_with_its_surroundings(srcmap: Srcmap) -> None:
    answer = srcmap("show", "tiny-sink", "sink-epilogue", "--context", "1")
    assert answer.code == 0
    assert answer.out.splitlines()[-4:] == [
        "  19    line19 = [bold]  # 第19行",
        "  20  | line20 = [bold]  # 第20行",
        "  21  | line21 = [bold]  # 第21行",
        "  22    line22 = [bold]  # 第22行",
    ]


@pytest.mark.usefixtures("checkout")
def test_variant_shows_code_below_each_location(srcmap: Srcmap) -> None:
    lines = srcmap("variant", "tiny-sink", "--show").out.splitlines()
    place = next(i for i, line in enumerate(lines) if f"{PATH}:20-21" in line)
    assert lines[place + 1].endswith("| line20 = [bold]  # 第20行")


@pytest.mark.usefixtures("checkout")
def test_show_as_json_holds_the_lines(srcmap: Srcmap) -> None:
    value = json.loads(srcmap("show", "tiny-sink", "sink-epilogue", "--format", "json").out)
    (found,) = value["entries"]
    assert found["code"] == ["line20 = [bold]  # 第20行", "line21 = [bold]  # 第21行"]
