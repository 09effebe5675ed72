"""The README keeps its word: its sessions are replayed, its two commands are what CI runs."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
ELIDED = "..."


def sessions() -> list[tuple[str, str]]:
    """Return each `$ command` of the console blocks with the output below it."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```$", README, re.DOTALL | re.MULTILINE):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            found.append((command, output.rstrip()))
    return found


def replay(command: str, folder: Path) -> str:
    """Run a `srcmap` command as an 80-column terminal would show it, outside any project."""
    argv = shlex.split(command)
    assert argv[0] == "srcmap", "a session shows srcmap and nothing else"
    environ = {**os.environ, "COLUMNS": "80", "LC_ALL": "C.UTF-8", "NO_COLOR": "1"}
    environ["XDG_CACHE_HOME"] = str(folder / "cache")
    argv = [sys.executable, "-m", "srcmap", *argv[1:]]
    done = subprocess.run(
        argv, capture_output=True, encoding="utf-8", env=environ, cwd=folder, check=False
    )
    return (done.stderr + done.stdout).rstrip()


def as_shown(actual: str, shown: str) -> str:
    """Leave out of `actual` what the README leaves out: the lines between its two ends."""
    if f"\n{ELIDED}\n" not in shown:
        return actual
    head, tail = (part.count("\n") + 1 for part in shown.split(f"\n{ELIDED}\n"))
    lines = actual.splitlines()
    return "\n".join([*lines[:head], ELIDED, *lines[-tail:]])


def test_the_sessions_are_what_happens(tmp_path: Path) -> None:
    text = README
    for command, shown in sessions():
        actual = as_shown(replay(command, tmp_path), shown)
        text = text.replace(f"$ {command}\n{shown}\n", f"$ {command}\n{actual}\n")
    rejected = ROOT / "README.md.actual"
    if text == README:
        rejected.unlink(missing_ok=True)
        return
    rejected.write_text(text, encoding="utf-8")
    lines = difflib.unified_diff(README.splitlines(), text.splitlines(), "README.md", "actual", "")
    pytest.fail("\n".join([*lines, "accept: mv README.md.actual README.md"]), pytrace=False)


def test_there_are_sessions() -> None:
    assert any(command == "srcmap variant sink" for command, _ in sessions())


def marked(name: str) -> str:
    """Return the one command between `<!-- name -->` and `<!-- end -->`."""
    match = re.search(rf"<!-- {name} -->\n+(.*?)\n+<!-- end -->", README, re.DOTALL)
    assert match is not None, f"the README has no {name}"
    (line,) = match[1].splitlines()
    return line.strip()


def test_the_first_command_answers() -> None:
    assert marked("the first command").endswith("&& .venv/bin/srcmap variant sink")


def test_the_second_command_is_what_ci_runs() -> None:
    command = marked("the test command")
    assert command.endswith("&& .venv/bin/python -m pytest")
    assert ".[dev]" in command
    assert "the test command" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def asked() -> list[str]:
    """Return the commands of the table that can be typed as they stand; `sync` is CI's to run."""
    table = "\n".join(line for line in README.splitlines() if line.startswith("|"))
    spans = re.findall(r"`(srcmap [^`]+)`", table)
    whole = [span for span in spans if not re.search(r"\b[A-Z]{4,}\b", span)]
    return [span for span in whole if span != "srcmap sync"]


NEED_PINS = {"show", "drift", "history", "verify", "trace"}


@pytest.mark.parametrize("command", asked())
def test_every_command_of_the_table_answers(command: str, tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "srcmap", *shlex.split(command)[1:]]
    environ = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "LC_ALL": "C.UTF-8"}
    done = subprocess.run(
        argv, capture_output=True, encoding="utf-8", env=environ, cwd=ROOT, check=False
    )
    if argv[3] in NEED_PINS and done.returncode == 3:  # it says what is not here, or why
        pytest.skip(f"not here: {(done.stderr or done.stdout).strip().splitlines()[-1]}")
    assert done.returncode in (0, 1), done.stderr
    assert done.stdout.strip()


def test_every_other_command_is_known() -> None:
    from srcmap.cli import COMMANDS

    for name in re.findall(r"`srcmap ([a-z]+)", README):
        assert name in COMMANDS
