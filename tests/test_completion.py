"""Completion as shells ask for it, in the shells that are here; pager and width on a terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import shutil
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from srcmap import cli
from srcmap.commands import completion
from srcmap.completing import answers

ROOT = Path(__file__).resolve().parents[1]


def offered(*words: str) -> list[str]:
    return [answer.value for answer in answers(cli.build(), words)]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


# -- what is offered -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "some"),
    [
        ([""], {"variant", "diff", "map", "completion"}),
        (["variant", "si"], {"sink", "sink-gqa"}),
        (["diff", "sl"], {"sliding-window"}),
        (["diff", "sink", "--base", "mha-"], {"mha-bhsd", "mha-varlen"}),
        (["diff", "sink", "--base=mha-b"], {"--base=mha-bhsd", "--base=mha-bshd"}),
        (["show", "sink", "sink-"], {"sink-load", "sink-epilogue"}),
        (["concept", "check"], {"check-inf", "check-inf-disabled"}),
        (["variant", "sink", "--pin", ""], {"v0.1.14", "tilelang@v0.1.14"}),
        (["variant", "sink", "--repo", ""], {"tilelang", "tilelang-ascend"}),
        (["variant", "sink", "--format", "m"], {"markdown"}),
        (["--lang", "zh", "variant", "si"], {"sink"}),
        (["variant", "sink", "--"], {"--format", "--pin", "--width", "--no-pager", "--help"}),
        (["where", "examples/seer"], {"examples/seer_attention/block_sparse_attn_tilelang.py"}),
        (
            ["where", "block_sparse_attn_t"],
            {"examples/seer_attention/block_sparse_attn_tilelang.py"},
        ),
        (["map", ""], {"build", "check", "show"}),
        (["map", "check", "tilelang@"], {"tilelang@v0.1.13", "tilelang@v0.1.14"}),
        (["map", "show", "--pin", "tilelang-"], {"tilelang-ascend@95acbd7"}),
        (["drift", "tilelang", "v0.1.1"], {"v0.1.13", "v0.1.14"}),
        (["drift", "tilelang", "v0.1.13", ""], {"v0.1.14"}),
        (["completion", ""], {"bash", "zsh", "fish"}),
        (["show", "--", "sink", "sink-l"], {"sink-load"}),
    ],
)
def test_what_may_stand_there(words: list[str], some: set[str]) -> None:
    found = offered(*words)
    assert some <= set(found)
    assert len(set(found)) == len(found)


def test_behind_a_variant_only_its_concepts_are_offered() -> None:
    assert "tmem-alloc" not in offered("show", "sink", "")
    assert "tmem-alloc" in offered("show", "sm100-mha", "")


@pytest.mark.parametrize(
    "words", [["nonsense", ""], ["variant", "a", ""], ["show", "--context", ""], ["anatomy", ""]]
)
def test_where_nothing_is_known_nothing_is_offered(words: list[str]) -> None:
    assert offered(*words) == [] or words[0] == "nonsense"


# -- the shells ------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A folder with a `srcmap` that runs this one."""
    script = tmp_path / "bin" / "srcmap"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m srcmap "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return f"{script.parent}{os.pathsep}{os.environ['PATH']}"


def asked(shell: str, script: str, path: str) -> list[str]:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    environ = {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "LC_ALL": "C.UTF-8"}
    argv = [shell, *(["-f"] if shell == "zsh" else []), "-c", script]
    done = subprocess.run(argv, capture_output=True, encoding="utf-8", check=False, env=environ)
    assert not done.stderr
    return [line for line in done.stdout.splitlines() if line]


BASH = """
{script}
COMP_WORDBREAKS=$' \\t\\n"\\'><=;|&(:@'
COMP_LINE='{line}'; COMP_POINT=${{#COMP_LINE}}
_srcmap srcmap
printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("srcmap diff sl", ["sliding-window"]),
        ("srcmap show sink sink-", ["sink-load", "sink-epilogue"]),
        ("srcmap map check tilelang-ascend@95", ["95acbd7"]),
        ("srcmap variant --format=j", ["json"]),
        ("srcmap where docs/Tile", ["docs/TileLang-Ascend\\ Programming\\ Guide.md"]),
        ("srcmap where 'docs/Tile", []),
        ("srcmap compare asc-pag", ["asc-paged"]),
    ],
)
def test_bash(line: str, found: list[str], path: str) -> None:
    script = completion._SCRIPTS["bash"]
    quoted = line.replace("'", "'\\''")
    assert asked("bash", BASH.format(script=script, line=quoted), path) == found


ZSH = """
compdef() {{ : }}
_files() {{ print FILES }}
_describe() {{ print -l -- "${{(@P)2}}" }}
{script}
words=({words}); CURRENT=$#words
_srcmap
"""


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("srcmap diff sl", ["sliding-window:Sliding window attention"]),
        ("srcmap map check tilelang-ascend@95", ["tilelang-ascend@95acbd7"]),
        ("srcmap anatomy ''", ["FILES"]),
    ],
)
def test_zsh(words: str, found: list[str], path: str) -> None:
    script = completion._SCRIPTS["zsh"]
    assert asked("zsh", ZSH.format(script=script, words=words), path) == found


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("srcmap diff sl", ["sliding-window\tSliding window attention"]),
        ("srcmap show sink sink-l", ["sink-load\tsink load"]),
        ("srcmap map check tilelang-ascend@95", ["tilelang-ascend@95acbd7"]),
    ],
)
def test_fish(line: str, found: list[str], path: str, tmp_path: Path) -> None:
    script = tmp_path / "srcmap.fish"
    script.write_text(completion._SCRIPTS["fish"], encoding="utf-8")
    asks = f"source {script}; complete -C '{line}'"
    assert asked("fish", asks, path) == found


# -- a terminal ------------------------------------------------------------------------------


def on_a_terminal(rows: int, *argv: str, **environ: str) -> str:
    """Return what a terminal of so many rows and 100 columns shows."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 100, 0, 0))
    values = {**os.environ, "TERM": "xterm", "LC_ALL": "C.UTF-8", "NO_COLOR": "1", **environ}
    values["PYTHONPATH"] = str(ROOT)
    values.pop("COLUMNS", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "srcmap", *argv], stdin=slave, stdout=slave, env=values
    )
    os.close(slave)
    shown = bytearray()
    while True:
        try:
            piece = os.read(master, 65536)
        except OSError:  # Linux says so when the last writer has gone
            break
        if not piece:
            break
        shown += piece
    os.close(master)
    assert process.wait() == 0
    return shown.decode().replace("\r\n", "\n")


PAGER = {"PAGER": "sed s/^/page:/"}


def test_a_long_answer_goes_through_the_pager() -> None:
    shown = on_a_terminal(10, "variant", "sink", **PAGER)
    assert all(line.startswith("page:") for line in shown.splitlines())


@pytest.mark.parametrize(
    ("rows", "argv", "environ"),
    [
        (500, [], PAGER),
        (10, ["--no-pager"], PAGER),
        (10, [], {"PAGER": ""}),
        (10, [], {"PAGER": "cat"}),
        (10, [], {"PAGER": "no-such-program-here"}),
        (10, [], {**PAGER, "TERM": "dumb"}),
    ],
)
def test_no_pager_where_none_is_wanted(rows: int, argv: list[str], environ: dict[str, str]) -> None:
    shown = on_a_terminal(rows, "variant", "sink", *argv, **environ)
    assert shown.startswith("sink  Attention sink")


def test_no_pager_in_a_pipe() -> None:
    environ = {**os.environ, **PAGER, "PYTHONPATH": str(ROOT)}
    argv = [sys.executable, "-m", "srcmap", "variant", "sink"]
    shown = subprocess.run(argv, capture_output=True, encoding="utf-8", env=environ, check=True)
    assert "page:" not in shown.stdout


@pytest.mark.parametrize(
    "argv", [["--width", "60", "variant", "sink"], ["variant", "sink", "--width=60"]]
)
def test_the_width_can_be_asked_for(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*argv, "--lang", "en"]) == 0
    out = capsys.readouterr().out
    assert all(
        len(line) <= 60 for line in out.splitlines() if "examples/" not in line and line.isascii()
    )
    assert "\n  One learned logit per head joins the denominator and no\n" in out


@pytest.mark.parametrize("value", ["19", "0", "-5", "wide", "٣٠", ""])
def test_a_width_that_is_none(value: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["variant", "--width", value]) == 2
    out, err = capsys.readouterr()
    assert (out, "--width" in err) == ("", True)


def test_what_stands_behind_two_dashes_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    cli.run(["search", "--lang", "en", "--", "--no-pager", "--width", "5"])
    assert capsys.readouterr().out.splitlines()[0].endswith("for --no-pager --width 5")
