"""Barriers of NVIDIA blocks: counted arrivals, phases, waits; and waits that are never needed."""

from __future__ import annotations

from typing import Any

from srcmap.engines.interpreter.kernels import options
from srcmap.engines.interpreter.machine import Clock, here, join
from srcmap.engines.interpreter.memory import value_of
from srcmap.engines.interpreter.ops.matrix import committed
from srcmap.engines.interpreter.ops.registry import operation
from srcmap.engines.interpreter.threads import agreed
from srcmap.engines.interpreter.traffic import Flight, pipe, waited

_FILE = "tilelang/language/builtin.py"


class Phases:
    """Stands in clocks for the phases of a barrier: how many are known to have ended."""


class Barrier:
    """An mbarrier: a phase ends when as many arrivals came as it was made for."""

    def __init__(self, count: int, name: str) -> None:
        self.count = count
        self.name = name
        self.pending = count
        self.phase = 0
        self.gathered: Clock = {}
        """What those that arrived in this phase know to be over."""
        self.over: Clock = {}
        """What is over for who waited: that of all phases that have ended."""
        self.phases = Phases()

    def arrive(self, count: int, more: Clock | None = None) -> None:
        """Count arrivals; with `more`, once what that names is over."""
        self.pending -= count
        join(self.gathered, here.run.role.released())
        join(self.gathered, more or {})
        if self.pending < 0:
            here.run.note("barrier-over-arrived", self.name, count=-self.pending)
        if self.pending <= 0:
            self.phase += 1
            self.pending = self.count
            join(self.over, self.gathered)
            self.over[self.phases] = self.phase

    def copying(self, what: str) -> Flight:
        """Start a copy whose bytes end the phase that runs now."""
        actor = (self, "bytes")
        self.gathered[actor] = self.phase + 1
        return Flight(actor, self.phase + 1, dict(here.run.role.clock), what)

    def passed(self, parity: int) -> bool:
        """Whether the phase of this parity is over (`mbarrier.try_wait.parity`)."""
        return self.phase % 2 != parity % 2

    def early(self, clock: Clock) -> bool:
        """Whether a wait that passes now could have passed two phases ago.

        A parity does not tell a phase from the one before the last. Who knows this clock is safe
        when it has to come after the end of the last phase but one; usually it waited for that.
        """
        return self.phase - clock.get(self.phases, 0) > 1


class Barriers:
    """What `alloc_barrier` gives: one barrier or a list of them."""

    def __init__(self, counts: list[int]) -> None:
        self.items = [Barrier(count, f"barrier {n}") for n, count in enumerate(counts)]
        self.name = "?"

    def __getitem__(self, index: Any) -> Barrier:
        place = agreed(index[0] if isinstance(index, tuple) else index)
        found = self.items[place]
        found.name = f"{self.name}[{place}]"
        return found

    @property
    def over(self) -> Clock:
        """What is over for who waited for the first."""
        return self[0].over

    def arrive(self, count: int, more: Clock | None = None) -> None:
        """Arrive at the first."""
        self[0].arrive(count, more)

    def copying(self, what: str) -> Flight:
        """Start a copy that the first waits for."""
        return self[0].copying(what)

    def passed(self, parity: int) -> bool:
        """Ask the first."""
        return self[0].passed(parity)

    def early(self, clock: Clock) -> bool:
        """Ask the first."""
        return self[0].early(clock)


@operation(
    "alloc_barrier",
    "alloc_cluster_barrier",
    "create_list_of_mbarrier",
    defined_in="tilelang/language/allocate.py",
    collective=False,
)
def alloc_barrier(arrive_count: Any, *more: Any) -> Barriers:
    """Allocate barriers with the arrivals that end a phase of each."""
    role, block = here.run.role, here.run.block
    role.allocated += 1
    found = block.shared.get(role.allocated)
    if found is None:
        counts = arrive_count if isinstance(arrive_count, list | tuple) else [arrive_count, *more]
        found = Barriers([int(value_of(count)) for count in counts])
        block.shared[role.allocated] = found
    barriers: Barriers = found
    return barriers


@operation("barrier_arrive", "mbarrier_arrive", "ptx_arrive_barrier", defined_in=_FILE)
def barrier_arrive(mbarrier: Any, *_args: Any, **_options: Any) -> None:
    """Every thread of the role arrives."""
    mbarrier.arrive(here.run.role.threads)


@operation("cp_async_barrier_noinc", "ptx_cp_async_barrier_noinc", defined_in=_FILE)
def cp_async_barrier_noinc(mbarrier: Any, *_args: Any) -> None:
    """Every thread arrives once the copies that it started are done."""
    copies = pipe("cp.async")
    copies.close()
    mbarrier.arrive(here.run.role.threads, {copies.actor: copies.over()})


@operation("tcgen05_mma_arrive", "tcgen05_commit", defined_in=_FILE)
def tcgen05_mma_arrive(mbarrier: Any, *_args: Any, **_options: Any) -> None:
    """One arrival when the products before it are done."""
    committed(mbarrier)


@operation("barrier_wait", "mbarrier_wait_parity", "ptx_wait_barrier", defined_in=_FILE)
def barrier_wait(mbarrier: Any, parity: Any = 0, *_args: Any, **_options: Any) -> None:
    """Wait for the end of the phase with this parity."""
    wanted = agreed(parity)
    name = getattr(mbarrier, "name", "barrier")
    here.run.wait_until(lambda: mbarrier.passed(wanted), f"{name}, parity {wanted}")
    clock = here.run.role.clock
    if mbarrier.early(clock):
        here.run.note("early-wait", name)
    if options.waits is not None:
        line = str(here.run.findings.here()[1])
        orders = any(
            clock.get(actor, 0) < time
            for actor, time in mbarrier.over.items()
            if not isinstance(actor, Phases)
        )
        options.waits[line] = options.waits.get(line, False) or orders
    join(clock, mbarrier.over)


@operation("sync_threads", "syncthreads", "sync_cluster", "cluster_sync", defined_in=_FILE)
def sync_threads(barrier_id: Any = 0, arrive_count: Any = None, *_args: Any) -> None:
    """Wait until all threads of the block, or as many as told, are here."""
    run = here.run
    if len(run.block.roles) == 1:
        return
    total = sum(role.threads for role in run.block.roles)
    count = total if arrive_count is None else int(value_of(arrive_count))
    key = ("sync", int(value_of(barrier_id)))
    barrier = run.block.shared.get(key)  # type: ignore[call-overload]
    if barrier is None:
        barrier = run.block.shared[key] = Barrier(count, "sync_threads")  # type: ignore[index]
    parity = barrier.phase
    barrier.arrive(run.role.threads)
    run.wait_until(lambda: barrier.phase > parity, "sync_threads")
    join(run.role.clock, barrier.over)


@operation("wait_wgmma", "warpgroup_wait", defined_in=_FILE, collective=False)
def wait_wgmma(left: Any = 0, *_args: Any, **_options: Any) -> None:
    """Wait until no more than `left` of the products that were started still run."""
    waited("wgmma", agreed(left))


@operation("ptx_commit_group", "cp_async_commit_group", "commit_group", defined_in=_FILE)
def commit_group(*_args: Any, **_options: Any) -> None:
    """Make a group of the copies started since the last one."""
    pipe("cp.async").close()


@operation("ptx_wait_group", "cp_async_wait_group", "wait_group", defined_in=_FILE)
def wait_group(left: Any = 0, *_args: Any, **_options: Any) -> None:
    """Wait until no more than `left` groups of copies still run."""
    waited("cp.async", agreed(left))


@operation("tma_store_wait", defined_in=_FILE)
def tma_store_wait(count: Any = 0, *_args: Any, **_options: Any) -> None:
    """Wait until no more than `count` groups of stores still read shared memory."""
    waited("tma-store", agreed(count))


_WAITS = (
    *("warpgroup_arrive", "warpgroup_commit_batch", "mbarrier_expect_tx", "sync_warp"),
    *("warpgroup_fence_operand", "fence_proxy_async", "tma_store_arrive", "sync_global"),
    *("tcgen05_before_thread_sync", "fence_barrier_init", "griddepcontrol_wait", "warp_sync"),
    *("tcgen05_after_thread_sync", "ptx_fence_barrier_init"),
)
for _name in _WAITS:
    operation(_name, defined_in=_FILE, collective=False)(lambda *_args, **_options: None)
