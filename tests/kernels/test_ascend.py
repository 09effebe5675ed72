"""The data path of Ascend: moves, flags, deadlocks and workspaces, checked as it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from kernels.ascend import blocked
from kernels.ascend.blocked import DeadlockError, Flags, IllegalMoveError, Tile, move, run, tile

if TYPE_CHECKING:
    from collections.abc import Iterator

MEMORIES = ("GM", "L1", "L0A", "L0B", "L0C", "UB")


def tensors(length: int, dim: int = 8) -> tuple[Any, ...]:
    rng = np.random.default_rng(length)
    return tuple(rng.standard_normal((1, 1, length, dim)) for _ in range(3))


@pytest.mark.parametrize("source", MEMORIES)
@pytest.mark.parametrize("target", MEMORIES)
def test_only_the_moves_of_the_table_are_possible(source: str, target: str) -> None:
    one, other = Tile(source, np.ones((2, 3))), tile(target, (2, 3), np.float64)
    if (source, target) in blocked.MOVES:
        move(one, other)
        assert np.array_equal(other.data, one.data)
    else:
        with pytest.raises(IllegalMoveError, match=f"{source} -> {target}"):
            move(one, other)


def test_scores_cannot_go_from_the_cube_to_the_vectors_directly() -> None:
    assert [target for source, target in blocked.MOVES if source == "L0C"] == ["GM"]


def test_each_move_of_a_run_is_legal_and_the_three_workspaces_are_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[tuple[str, str]] = []

    def watched(source: Tile, target: Tile) -> None:
        seen.append((source.memory, target.memory))
        move(source, target)

    monkeypatch.setattr(blocked, "move", watched)
    blocked.attention(*tensors(16), block_m=8, block_n=8)
    assert set(seen) <= blocked.MOVES
    programs, blocks, vectors = 2, 2, 2
    assert seen.count(("L0C", "GM")) == programs * blocks * 2  # scores, partial output
    assert seen.count(("GM", "UB")) == programs * blocks * 2 * vectors
    assert seen.count(("UB", "GM")) == programs * vectors * (blocks + 1)  # probabilities, output


def waiting(*flags: int) -> Iterator[int]:
    yield from flags


def test_a_flag_that_nobody_sets_is_a_deadlock_that_names_who_waits() -> None:
    cores = {"C": waiting(1), "V0": waiting(0), "V1": waiting()}
    with pytest.raises(DeadlockError, match="C waits for 1, V0 waits for 0"):
        run(cores, Flags())


def test_the_cube_waits_for_both_vectors() -> None:
    flags = Flags()
    flags.set(1, "V0")
    assert not flags.take(1, "C")
    flags.set(1, "V1")
    assert flags.take(1, "C")
    assert not flags.take(1, "C")


def test_each_vector_sees_what_the_cube_sets() -> None:
    flags = Flags()
    flags.set(0, "C")
    assert flags.take(0, "V1")
    assert flags.take(0, "V0")
    assert not flags.take(0, "V0")


def test_a_flag_left_over_is_an_error() -> None:
    flags = Flags()
    flags.set(0, "C")
    with pytest.raises(DeadlockError, match="flags left set"):
        run({"C": waiting(), "V0": waiting(0), "V1": waiting()}, flags)


def test_a_kernel_without_one_of_its_flags_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Flags.set

    def lossy(self: Flags, flag: int, sender: str) -> None:
        if (flag, sender) != (1, "V1"):
            real(self, flag, sender)

    monkeypatch.setattr(Flags, "set", lossy)
    with pytest.raises(DeadlockError, match="C waits for 1"):
        blocked.attention(*tensors(16), block_m=8, block_n=8)


def test_a_tile_starts_unwritten() -> None:
    assert np.isnan(tile("UB", (2, 2), np.float16).data).all()
