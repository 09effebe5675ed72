"""What runs: one call of a kernel, its blocks, the roles inside a block, and how they wait.

A role is a group of threads that goes its own way (a warp group; on Ascend the Cube or one of the
two Vectors). A block with one role runs as plain Python. With several, each role is a Python thread
and exactly one holds the baton; a role that has to wait hands it on, and when nobody can go on,
that is a deadlock, told with who waits for what.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from srcmap.engines.interpreter.findings import Findings

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


Clock = dict[Any, int]
"""Up to which time each actor (a role, or what runs beside one) is known to be over."""


def join(clock: Clock, more: Clock) -> None:
    """Take over what is known to be over."""
    for actor, time in more.items():
        if clock.get(actor, 0) < time:
            clock[actor] = time


class KernelError(Exception):
    """The kernel asked for something that cannot be done; `operation` names what."""

    def __init__(self, message: str, operation: str = "") -> None:
        super().__init__(message)
        self.operation = operation


class UnsupportedError(KernelError):
    """An operation that the interpreter does not have."""


class DeadlockError(KernelError):
    """Every role waits for another."""


class SplitError(Exception):
    """Threads of one role part: the block starts anew with these thread numbers.

    At a branch they go different ways; `abreast`, they run the same statements and wait for
    different barriers, and together they still are one group for whatever the block shares.
    """

    def __init__(self, bounds: Sequence[int], *, abreast: bool = False) -> None:
        super().__init__(bounds)
        self.bounds = tuple(bounds)
        self.abreast = abreast


class _StoppedError(Exception):
    """Another role failed; this one ends."""


class Role:
    """A group of threads that runs the block's program with its own registers."""

    def __init__(self, name: str, first: int, last: int) -> None:
        self.name = name
        self.first = first
        """Its first thread."""
        self.last = last
        """One past its last thread."""
        self.mask: Any = None
        """Where the branch that is taken now holds, an array over lanes; None: everywhere."""
        self.rank = 0
        """Dimensions of the parallel statement that runs now."""
        self.axis = 0
        self.loops: list[Any] = []
        """Values of the loops that run now, outermost first; filled when somebody watches."""
        self.loads: list[Any] = []
        """What the statement has read so far, to tell where a NaN was born."""
        self.allocated = 0
        self.waits: tuple[Callable[[], bool], str] | None = None
        self.done = False
        self.core = ""
        """On Ascend: `C` for the Cube, `V` for a Vector."""
        self.vid = 0
        """Which of the two Vectors."""
        self.beside: tuple[Role, ...] = (self,)
        """The roles that run the same statements abreast, itself among them."""
        self.alone = 0
        """How many branches it is in that are not taken by all of them."""
        self.parted = 0
        """How many branches it is in that depend on the thread."""
        self.clock: Clock = {self: 1}
        self.pipes: dict[str, Any] = {}
        """What it starts and does not wait for at once, by kind; see `traffic`."""
        self.flight: Any = None
        """The operation that runs beside it and whose reads and writes are under way."""
        self.turn = threading.Semaphore(0)

    @property
    def threads(self) -> int:
        return self.last - self.first

    def released(self) -> Clock:
        """Return what others learn from it now; what it does from here on is later."""
        known = dict(self.clock)
        self.clock[self] += 1
        return known


class _Meeting:
    """Roles abreast meet: each brings something, and goes on when all have."""

    def __init__(self) -> None:
        self.brought: list[Any] = []
        self.times = 0
        self.clock: Clock = {}
        self.result: Any = None


class Block:
    """One block of the grid: what its roles share."""

    def __init__(self, index: tuple[int, ...], roles: list[Role]) -> None:
        self.index = index
        self.roles = roles
        self.shared: dict[int, Any] = {}
        """Allocations that all roles see, by order."""
        self.counters: dict[Any, Any] = {}
        """Flags and barriers that are known by number."""
        self.barriers: list[Any] = []
        self.meetings: dict[int, _Meeting] = {}
        self.failure: BaseException | None = None


class Run:
    """One call of a kernel."""

    def __init__(self, findings: Findings, watcher: Any = None) -> None:
        self.findings = findings
        self.watcher = watcher
        """Told of every store, when there is one."""
        self.block: Block = Block((), [])
        self.role: Role = Role("host", 0, 1)
        self.relaxed: Callable[[], bool] | None = None
        """Asked when nobody can go on: whether something may be let through after all."""
        self.on_stall: list[Callable[[], bool]] = []
        self.globals_shared: dict[Any, Any] = {}
        self.arguments: list[Any] = []
        """What the kernel was called with."""
        self.moving_from = ""
        """The memory that the copy under way reads from; empty outside copies."""

    def note(self, kind: str, buffer: str, **facts: Any) -> None:
        self.findings.add(kind, buffer, block=self.block.index, **facts)

    # -- roles ---------------------------------------------------------------------------------

    def run_block(self, block: Block, program: Callable[[Role], None]) -> None:
        """Run the program in every role of a block."""
        self.block = block
        if len(block.roles) == 1:
            self.role = block.roles[0]
            program(self.role)
            return
        threads = [
            threading.Thread(target=self._run_role, args=(role, program), daemon=True)
            for role in block.roles
        ]
        for thread in threads:
            thread.start()
        self.role = block.roles[0]
        block.roles[0].turn.release()
        for thread in threads:
            thread.join()
        if block.failure is not None:
            raise block.failure

    def _run_role(self, role: Role, program: Callable[[Role], None]) -> None:
        role.turn.acquire()
        try:
            if self.block.failure is None:
                program(role)
        except _StoppedError:
            pass
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits for the block
            self.block.failure = self.block.failure or error
        role.done = True
        self._hand_on()

    def wait_until(self, ready: Callable[[], bool], what: str) -> None:
        """Let the others go on until `ready` holds. DeadlockError when nobody can."""
        role = self.role
        if ready():
            return
        role.waits = (ready, what)
        if len(self.block.roles) == 1:
            if not self._stalled():
                self._deadlock()
            role.waits = None
            return
        self._hand_on()
        role.turn.acquire()
        role.waits = None
        if self.block.failure is not None:
            raise _StoppedError

    def meet(self, value: Any, result: Callable[[list[Any]], Any]) -> Any:
        """Wait for the roles abreast; the last to come makes the result of what all brought."""
        role = self.role
        meeting = self.block.meetings.setdefault(role.beside[0].first, _Meeting())
        times = meeting.times
        meeting.brought.append(value)
        join(meeting.clock, role.released())
        if len(meeting.brought) == len(role.beside):
            join(role.clock, meeting.clock)
            brought, meeting.brought = meeting.brought, []
            meeting.result = result(brought)
            meeting.times += 1
        else:
            self.wait_until(lambda: meeting.times > times, "the warp groups beside it")
        join(role.clock, meeting.clock)
        return meeting.result

    def together(self, action: Callable[[], Any]) -> Any:
        """Do once what roles abreast do as one group: write what the block shares."""
        if len(self.role.beside) == 1 or self.role.alone:
            return action()
        return self.meet(None, lambda _: self.apart(action))

    def apart(self, action: Callable[[], Any]) -> Any:
        """Do what is this role's alone, whoever runs abreast."""
        role = self.role
        role.alone += 1
        try:
            return action()
        finally:
            role.alone -= 1

    def _hand_on(self) -> None:
        following = self._next_role()
        if following is None and not all(role.done for role in self.block.roles):
            if self.block.failure is None and self._stalled():
                following = self._next_role()
            if following is None:
                following = self._fail()
        if following is not None:
            self.role = following
            following.turn.release()

    def _next_role(self) -> Role | None:
        roles = self.block.roles
        start = roles.index(self.role) + 1 if self.role in roles else 0
        for role in roles[start:] + roles[:start]:
            if role.done:
                continue
            if self.block.failure is not None or role.waits is None or role.waits[0]():
                return role
        return None

    def _stalled(self) -> bool:
        return any(free() for free in self.on_stall)

    def _fail(self) -> Role | None:
        try:
            self._deadlock()
        except DeadlockError as error:
            self.block.failure = self.block.failure or error
        return self._next_role()

    def _deadlock(self) -> None:
        waiting = [f"{r.name} waits for {r.waits[1]}" for r in self.block.roles if r.waits]
        ended = [f"{r.name} has ended" for r in self.block.roles if r.done]
        text = "; ".join(waiting + ended)
        self.note("deadlock", "", detail=text)
        raise DeadlockError(f"deadlock in block {self.block.index}: {text}")


class _Here:
    """The run of this process: one at a time, so that looking it up costs nothing."""

    run: Run = Run(Findings())


here = _Here()
