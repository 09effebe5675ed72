"""Launching on Ascend: a Cube and two Vectors share each block, and how they hand data over.

Three ways (`mode`): with `T.Scope` the kernel itself says who does what, and flags order it. Where
the compiler splits, every core goes through the whole program and runs the statements that touch
its memories; a workspace element then passes from writer to reader and back, as the flags that the
compiler inserts make it. A kernel that does not see its Vectors (developer mode) runs as one.

Assumed and not confirmed on hardware: a flag of the Cube's is counted by each Vector, the Cube
waits for both Vectors, and sets are counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from srcmap.engines.interpreter.machine import Block, Role, Run, here
from srcmap.engines.interpreter.memory import GLOBAL, Buffer

if TYPE_CHECKING:
    from collections.abc import Sequence

CUBE_SCOPES = {"L1", "L0A", "L0B", "L0C"}
_CUBE_OPERATIONS = {"gemm_v0", "gemm", "mma", "gemm_v1"}


def core_of(kind: str, scopes: Sequence[str]) -> str:
    """Return the core that runs a statement; empty: every core does."""
    if kind in _CUBE_OPERATIONS:
        return "C"
    if kind.startswith(("tile.", "reduce_")):
        return "V"
    if CUBE_SCOPES & set(scopes):
        return "C"
    return "V" if "ub" in scopes else ""


class Handshake:
    """The flags around a workspace: what is written waits to be read, and the other way round."""

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.full = np.zeros(buffer.shape, dtype=bool)
        self.ever = np.zeros(buffer.shape, dtype=bool)
        self.writer = ""
        self.waiting: list[tuple[Role, str, Any]] = []
        self.let_through: Role | None = None

    def before_write(self, run: Run, cut: tuple[slice, ...]) -> None:
        """Wait until what is there has been read; then it counts as written."""
        self.writer = self.writer or run.role.core
        if run.role.core == self.writer:
            self._wait(run, "write", cut, lambda: not self.full[cut].any())
            self.full[cut] = True
        self.ever[cut] = True

    def before_read(self, run: Run, cut: tuple[slice, ...]) -> None:
        """Wait until it is written; then it may be written again."""
        if run.role.core == self.writer:
            return
        self._wait(run, "read", cut, lambda: bool(self.full[cut].all()))
        self.full[cut] = False

    def _wait(self, run: Run, what: str, cut: Any, ready: Any) -> None:
        role = run.role
        if ready():
            return
        entry = (role, what, cut)
        self.waiting.append(entry)
        run.wait_until(lambda: ready() or self.let_through is role, f"{self.buffer.name} to {what}")
        self.waiting.remove(entry)
        if self.let_through is role:
            self.let_through = None

    def relax(self) -> bool:
        """Nobody can go on: let one through that reads again, or writes what nobody reads."""
        for role, what, cut in self.waiting:
            if what == "write" or self.ever[cut].all():
                self.let_through = role
                here.run.note("stale-read", self.buffer.name, detail=what)
                return True
        return False


def launch(grid: Any, body: Any, mode: str) -> None:
    """Run the body for every block, in the roles that its mode asks for."""
    run = here.run
    for index in grid.blocks():
        if run.watcher is not None and not run.watcher.wants_block(index):
            continue
        block = Block(index, _roles() if mode != "whole" else [Role("core", 0, 1)])
        if mode == "split":
            _shake_hands(run)
        run.run_block(block, lambda role, i=index: _enter(run, role, i, body, mode))  # type: ignore[misc]
        _check_flags(run, block)


def _roles() -> list[Role]:
    roles = [Role("Cube", 0, 1), Role("Vector 0", 1, 2), Role("Vector 1", 2, 3)]
    for number, role in enumerate(roles):
        role.core = "V" if number else "C"
        role.vid = max(number - 1, 0)
    return roles


def _enter(run: Run, role: Role, index: tuple[int, ...], body: Any, mode: str) -> None:
    run.role = role
    with np.errstate(all="ignore"):  # each thread has its own
        body(index if mode == "whole" else (*index, role.vid))


def _shake_hands(run: Run) -> None:
    """Put flags around the workspaces of the call, fresh for each block."""
    run.on_stall = []
    for buffer in run.arguments:
        if isinstance(buffer, Buffer) and buffer.workspace and buffer.scope == GLOBAL:
            buffer.handshake = Handshake(buffer)
            run.on_stall.append(buffer.handshake.relax)


def _check_flags(run: Run, block: Block) -> None:
    for (kind, *rest), count in block.counters.items():
        if count:
            name = " ".join(map(str, (kind, *rest)))
            run.note("flag-left-set", name, count=count, detail=str(count))
