"""How long the GPU idles before a call that is timed."""

from __future__ import annotations

from benchmarks.gpu.timing import HEAD_START, LONGEST, patiently


class Host:
    """Hands a call over in so many cycles; what the GPU needs itself is 5 ms."""

    def __init__(self, *cycles: int) -> None:
        self.cycles = list(cycles)
        self.heads: list[int] = []

    def __call__(self, head: int) -> tuple[float, bool]:
        self.heads.append(head)
        late = (self.cycles.pop(0) if len(self.cycles) > 1 else self.cycles[0]) - head
        return 5.0 + max(0, late) / 2e6, late <= 0


def test_one_that_is_quick_is_called_once() -> None:
    host = Host(HEAD_START // 2)
    assert patiently(host, HEAD_START) == (5.0, HEAD_START)
    assert host.heads == [HEAD_START]


def test_one_that_is_late_is_called_again_with_twice_the_time() -> None:
    host = Host(3 * HEAD_START)
    found, head = patiently(host, HEAD_START)
    assert (found, head) == (5.0, 4 * HEAD_START), "no time of Python's is in it"
    assert patiently(host, head) == (5.0, head)
    assert host.heads == [HEAD_START, 2 * HEAD_START, 4 * HEAD_START, 4 * HEAD_START]


def test_a_hitch_of_the_machine_is_not_in_the_figure() -> None:
    assert patiently(Host(10 * HEAD_START, HEAD_START // 2), HEAD_START)[0] == 5.0


def test_one_that_waits_for_the_gpu_is_late_for_ever_and_is_timed_all_the_same() -> None:
    host = Host(1000 * HEAD_START)
    found, head = patiently(host, HEAD_START)
    assert head == LONGEST
    assert found > 5.0
    assert len(host.heads) == 6
