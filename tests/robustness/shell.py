"""Running `srcmap` as people do: a process of its own, with limits that a test can set."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Answer(NamedTuple):
    """What one command said."""

    code: int
    out: str
    err: str

    def values(self) -> Any:
        return json.loads(self.out)


def srcmap(
    *words: str | Path,
    cwd: Path,
    stdout: Any = subprocess.PIPE,
    preexec: Callable[[], None] | None = None,
) -> Answer:
    """Run a command; half a minute or two gigabytes are too much, and fail the test."""

    def before() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
        if preexec is not None:
            preexec()

    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(cwd),
        "SRCMAP_CACHE": str(cwd / "cache"),
        "LANG": "C.UTF-8",
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    done = subprocess.run(
        [sys.executable, "-m", "srcmap", *map(str, words)],
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        timeout=30,
        check=False,
        preexec_fn=before,
        text=True,
        errors="replace",
    )
    return Answer(done.returncode, done.stdout or "", done.stderr)


def assert_plain(said: str, name: str) -> None:
    """Assert that a message names the thing, is short, and is no traceback."""
    lines = [line for line in said.splitlines() if name in line]
    assert lines, f"{name} is not named in:\n{said}"
    assert "Traceback" not in said
    assert all(len(line) < 400 for line in lines)
