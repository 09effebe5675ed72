"""Runs NVIDIA's tools on processes: finds them, ends them in time, keeps what they said."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.gpu.results import RESULTS
from benchmarks.gpu.upstream import ROOT

STEP = "== "
"""How a line begins with which a process says that it goes on."""
START = 60.0
"""Seconds until the first of them: compilers are imported, CUDA begins."""
POLL = 0.1
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


def arguments(command: str, about: str | None, names: str = "VARIANT") -> argparse.ArgumentParser:
    """Return what the commands have in common that look at each of our kernels, and keep a table.

    `command`: behind `benchmarks.gpu.`; `names`: how help calls what they are asked about.
    """
    parser = argparse.ArgumentParser(prog=f"python -m benchmarks.gpu.{command}", description=about)
    parser.add_argument("variants", nargs="*", metavar=names, help="all, when none is named")
    parser.add_argument("--limit", type=float, default=420.0, metavar="SECONDS")
    parser.add_argument("--rest", action="store_true", help="only what is not known yet")
    parser.add_argument("--device", default="h200", help="the device's name in the file's")
    parser.add_argument("--out", type=Path, default=RESULTS)
    return parser


def one(*words: str) -> list[str]:
    """Return the command that does something of `benchmarks.gpu.one`."""
    return [sys.executable, "-m", "benchmarks.gpu.one", *words]


def run(
    command: list[str], seconds: float, log: Path | None = None, step: float = float("inf")
) -> Said:
    """Run a command in the repository; after `seconds` it and what it started are ended.

    So they are when no line that begins with STEP came for `step` seconds. What was written is
    added to `log`: a tool's words are worth keeping where time on a GPU is short.
    """
    said = _run(command, seconds, step)
    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"$ {' '.join(command)}\n{said.text}\nexit code {said.code}\n")
    return said


def _run(command: list[str], seconds: float, step: float) -> Said:
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    begun = time.monotonic()
    lines: list[str] = []
    ends = [begun + START + step]
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

        def listen() -> None:
            for line in process.stdout or ():
                lines.append(line)
                if line.startswith(STEP):
                    ends[0] = time.monotonic() + step

        listener = threading.Thread(target=listen)
        listener.start()
        until = begun + max(1.0, seconds)
        while (alive := listener.is_alive()) and time.monotonic() < min(until, ends[0]):
            listener.join(POLL)
        if alive:
            os.killpg(process.pid, signal.SIGKILL)
        listener.join()
        code = process.wait()
    return Said("".join(lines), None if alive else code)


def last_words(said: Said) -> str:
    """Return why a process ended badly, in a line."""
    if said.code is None:
        return "it did not end in time"
    lines = [line.strip() for line in said.text.splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line or "ERROR" in line]
    return f"exit code {said.code}: {(errors or lines or ['nothing was said'])[-1]}"[:200]
