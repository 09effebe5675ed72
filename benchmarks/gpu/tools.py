"""Runs NVIDIA's tools on processes: finds them, ends them in time, keeps what they said."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from benchmarks.gpu.upstream import ROOT

PLACES = ("/usr/local/cuda/bin", "/opt/nvidia/nsight-compute/*", "/usr/local/cuda/*")


class Said(NamedTuple):
    """What a process wrote, and how it ended: its exit code, or None when it was ended."""

    text: str
    code: int | None


def find(name: str) -> str | None:
    """Return a tool of CUDA's by its name; None when it is not installed."""
    found = shutil.which(name)
    if found:
        return found
    for place in PLACES:
        for folder in sorted(Path("/").glob(place.lstrip("/")), reverse=True):
            if (folder / name).is_file():
                return str(folder / name)
    return None


def one(*words: str) -> list[str]:
    """Return the command that does something of `benchmarks.gpu.one`."""
    return [sys.executable, "-m", "benchmarks.gpu.one", *words]


def run(command: list[str], seconds: float, log: Path | None = None) -> Said:
    """Run a command in the repository; after `seconds` it and what it started are ended.

    What it wrote is added to `log`: a tool's words are worth keeping where time on a GPU is short.
    """
    said = _run(command, seconds)
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(command)}\n{said.text}\nexit code {said.code}\n")
    return said


def _run(command: list[str], seconds: float) -> Said:
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        command,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    ) as process:
        try:
            text, _ = process.communicate(timeout=max(1.0, seconds))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            text, _ = process.communicate()
            return Said(text, None)
    return Said(text, process.returncode)


def last_words(said: Said) -> str:
    """Return why a process ended badly, in a line."""
    if said.code is None:
        return "it did not end in time"
    lines = [line.strip() for line in said.text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "ERROR" in line]
    return f"exit code {said.code}: {(errors or lines or ['nothing was said'])[-1]}"[:200]
