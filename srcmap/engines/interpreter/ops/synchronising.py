"""Barriers of NVIDIA blocks: counted arrivals, phases, waits; and waits that are never needed."""

from __future__ import annotations

from typing import Any

from srcmap.engines.interpreter.machine import here
from srcmap.engines.interpreter.memory import value_of
from srcmap.engines.interpreter.ops.registry import operation
from srcmap.engines.interpreter.threads import agreed

_FILE = "tilelang/language/builtin.py"


class Barrier:
    """An mbarrier: a phase ends when as many arrivals came as it was made for."""

    def __init__(self, count: int, name: str) -> None:
        self.count = count
        self.name = name
        self.pending = count
        self.phase = 0

    def arrive(self, count: int) -> None:
        """Count arrivals."""
        self.pending -= count
        if self.pending < 0:
            here.run.note("barrier-over-arrived", self.name, count=-self.pending)
        if self.pending <= 0:
            self.phase += 1
            self.pending = self.count

    def passed(self, parity: int) -> bool:
        """Whether the phase of this parity is over (`mbarrier.try_wait.parity`)."""
        return self.phase % 2 != parity % 2


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

    def arrive(self, count: int) -> None:
        """Arrive at the first."""
        self[0].arrive(count)

    def passed(self, parity: int) -> bool:
        """Ask the first."""
        return self[0].passed(parity)


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
    """Every thread arrives once its asynchronous copies are done; here they are."""
    mbarrier.arrive(here.run.role.threads)


@operation("tcgen05_mma_arrive", "tcgen05_commit", defined_in=_FILE)
def tcgen05_mma_arrive(mbarrier: Any, *_args: Any, **_options: Any) -> None:
    """One arrival when the products before it are done."""
    mbarrier.arrive(1)


@operation("barrier_wait", "mbarrier_wait_parity", "ptx_wait_barrier", defined_in=_FILE)
def barrier_wait(mbarrier: Any, parity: Any = 0, *_args: Any, **_options: Any) -> None:
    """Wait for the end of the phase with this parity."""
    wanted = agreed(parity)
    name = getattr(mbarrier, "name", "barrier")
    here.run.wait_until(lambda: mbarrier.passed(wanted), f"{name}, parity {wanted}")


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


_WAITS = (
    *("wait_wgmma", "warpgroup_arrive", "warpgroup_commit_batch", "warpgroup_wait"),
    *("warpgroup_fence_operand", "fence_proxy_async", "ptx_commit_group", "ptx_wait_group"),
    *("cp_async_wait_group", "cp_async_commit_group", "mbarrier_expect_tx", "sync_warp"),
    *("tma_store_arrive", "tma_store_wait", "tcgen05_before_thread_sync", "sync_global"),
    *("tcgen05_after_thread_sync", "fence_barrier_init", "griddepcontrol_wait", "warp_sync"),
    *("ptx_fence_barrier_init", "commit_group", "wait_group"),
)
for _name in _WAITS:
    operation(_name, defined_in=_FILE, collective=False)(lambda *_args, **_options: None)
