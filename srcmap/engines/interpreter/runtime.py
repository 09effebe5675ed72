"""What rewritten kernels call: loads, stores, branches, choices, launches. See `rewriting`."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import numpy as np

from srcmap.engines.interpreter import memory
from srcmap.engines.interpreter.kernels import bind, launch
from srcmap.engines.interpreter.machine import KernelError, SplitError, UnsupportedError, here
from srcmap.engines.interpreter.memory import Buffer, Region, Var, region, value_of
from srcmap.engines.interpreter.symbols import Symbol
from srcmap.engines.interpreter.threads import part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["bind", "launch"]

place = memory.place

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "BitAnd": operator.and_,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
}


def only(index: tuple[int, ...]) -> Any:
    """Return the one index of a grid with one dimension."""
    return index[0] if len(index) == 1 else index


def load(base: Any, index: tuple[Any, ...]) -> Any:
    """Read `base[index]`; anything that is no buffer is subscripted as Python does."""
    if type(base) is Buffer:
        return memory.load(base, index)
    if isinstance(base, Buffer | Region | Var):
        if isinstance(base, Region):
            inner = region(base, index)
            return inner if inner.explicit else inner.value()
        return base[index]
    plain = index[0] if len(index) == 1 else index
    return base[value_of(plain) if not isinstance(plain, tuple) else plain]


def store(base: Any, index: tuple[Any, ...], value: Any) -> None:
    """Write `base[index] = value`."""
    if type(base) is Buffer:
        memory.store(base, index, value)
    elif isinstance(base, Region):
        inner = region(base, index)
        memory.store(inner.buffer, tuple(inner.starts), value)
    else:
        base[index[0] if len(index) == 1 else index] = value


def augment(base: Any, index: tuple[Any, ...], name: str, value: Any) -> None:
    """Write `base[index] op= value`."""
    old = load(base, index)
    store(base, index, _apply(name, old, value))


def augmented(old: Any, name: str, value: Any) -> Any:
    """Return what `old op= value` leaves in a plain name."""
    if isinstance(old, Var):
        old.set(_apply(name, old.value(), value))
        return old
    return _apply(name, old, value)


def _apply(name: str, old: Any, value: Any) -> Any:
    if name == "Div":
        return quotient(old, value)
    return _OPERATORS[name](value_of(old), value_of(value))


def get(thing: Any) -> Any:
    """Read a variable of `T.alloc_var`."""
    return thing.value() if isinstance(thing, Var) else thing


def set_variable(thing: Any, value: Any) -> None:
    """Store into a variable of `T.alloc_var`."""
    if isinstance(thing, Var):
        here.run.role.loads.clear()
        thing.set(value)
    else:
        raise KernelError(f"a variable is needed, not {type(thing).__name__}")


def augment_variable(thing: Any, name: str, value: Any) -> None:
    """Do `variable op= value`."""
    set_variable(thing, _apply(name, get(thing), value))


def mine(kind: str, things: tuple[Any, ...]) -> Iterator[None]:
    """Run a statement on the core whose memory it touches: the compiler's split, by kind."""
    core = here.run.role.core
    if not core:
        yield
        return
    from srcmap.engines.interpreter.ascend_launch import core_of

    owner = core_of(kind, [t.scope for t in things if isinstance(t, Buffer | Region)])
    if owner in ("", core):
        yield


def named(value: Any, name: str) -> Any:
    """Give what was just allocated the name that it is assigned to."""
    if getattr(value, "name", "") == "?":
        value.name = name
    return value


def single(value: float) -> Any:
    """Return a literal as the language types it: float32."""
    return np.float32(value)


def quotient(left: Any, right: Any) -> Any:
    """Divide as C does: by zero gives infinity or NaN, never an exception."""
    left, right = value_of(left), value_of(right)
    if isinstance(left, int | float) and isinstance(right, int | float) and right:
        return left / right
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return left / right
    return np.divide(np.float32(left) if isinstance(left, int | float) else left, right)


def negation(value: Any) -> Any:
    """`not`, element by element."""
    value = value_of(value)
    return ~value.astype(bool) if isinstance(value, np.ndarray) and value.size > 1 else not value


def all_of(*tests: Callable[[], Any]) -> Any:
    """`and`, element by element; what stands right of a plain false is not looked at."""
    return _joined(tests, stop=False)


def any_of(*tests: Callable[[], Any]) -> Any:
    """`or`, element by element; what stands right of a plain true is not looked at."""
    return _joined(tests, stop=True)


def _joined(tests: Iterable[Callable[[], Any]], *, stop: bool) -> Any:
    join = np.logical_or if stop else np.logical_and
    role = here.run.role
    saved, found = role.mask, None
    try:
        for test in tests:
            value = value_of(test())
            if not _many(value):
                value = _flat(value)
                if bool(value) is stop:
                    return value if found is None else join(found, value)
                found = value if found is None or not _many(found) else found
                continue
            found = value if found is None or not _many(found) else join(found, value)
            # What a false left side guards is not evaluated by the hardware either.
            role.mask = _and(saved, ~found.astype(bool) if stop else found.astype(bool))
    finally:
        role.mask = saved
    return found


def _many(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.size != 1


def _flat(value: Any) -> Any:
    return value.reshape(-1)[0] if isinstance(value, np.ndarray) else value


def _and(mask: Any, more: Any) -> Any:
    return more if mask is None else mask & more


def choose(test: Any, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """`first if test else second`, element by element; each side is read only where it counts."""
    test = value_of(test)
    if not _many(test):
        return first() if _flat(test) else second()
    test = test.astype(bool)
    role = here.run.role
    saved = role.mask
    try:
        role.mask = _and(saved, test)
        chosen = value_of(first())
        role.mask = _and(saved, ~test)
        other = value_of(second())
    finally:
        role.mask = saved
    return np.where(test, chosen, other)


def truth(value: Any) -> bool:
    """Return one truth value for a branch that leaves a loop."""
    value = value_of(value)
    if _many(value):
        if value.all() or not value.any():
            return bool(value.flat[0])
        _split(value)
    return bool(_flat(value))


def when(test: Any, heavy: bool) -> Iterator[None]:
    """Run a branch: once, never, or under a mask."""
    return _branch(value_of(test), heavy)


def unless(test: Any, heavy: bool) -> Iterator[None]:
    """Run the other branch."""
    return _branch(negation(test), heavy)


def _branch(test: Any, heavy: bool) -> Iterator[None]:
    if not _many(test):
        if _flat(test):
            yield
        return
    test = test.astype(bool)
    role = here.run.role
    by_thread = not role.rank
    alone = by_thread and _taken_alone(role, test, heavy)
    if role.mask is None and test.all():
        yield from _counted(role, by_thread, alone)
        return
    if not test.any():
        return
    if heavy:
        _split(test)
    saved = role.mask
    role.mask = _and(saved, test)
    try:
        yield from _counted(role, by_thread, alone)
    finally:
        role.mask = saved


def _counted(role: Any, parted: bool, alone: bool) -> Iterator[None]:
    """Run a branch once; `alone` when roles that run abreast do not take it alike."""
    role.parted += parted
    role.alone += alone
    try:
        yield
    finally:
        role.parted -= parted
        role.alone -= alone


def _taken_alone(role: Any, test: Any, heavy: bool) -> bool:
    """Whether roles that run abreast part here. Where they must act together, they do for good."""
    if len(role.beside) == 1 or role.alone:
        return False
    same = here.run.meet((bool(test.all()), bool(test.any())), lambda found: len(set(found)) == 1)
    if same and test.all() == test.any():
        return False
    if heavy and not same:
        raise SplitError([other.first for other in role.beside[1:]])
    return True


def _split(test: Any) -> None:
    """Threads part where they must act together: they become roles of their own."""
    role = here.run.role
    flat = np.asarray(test).reshape(-1)
    if role.rank or flat.size != role.threads:
        raise UnsupportedError("a tile operation under a condition that differs between elements")
    part(flat)


def loop(values: Iterable[Any], name: str) -> Iterator[Any]:
    """Go through a sequential loop, and remember where it is."""
    loops = here.run.role.loops
    loops.append([name, None])
    mine = loops[-1]
    try:
        for value in values:
            mine[1] = value
            yield value
    finally:
        if mine in loops:
            loops.remove(mine)


def frozen(value: Any) -> Any:
    """Return what a closure holds as the kernel sees it: sizes known, floats of the language."""
    if isinstance(value, Symbol):
        return value.value()
    if type(value) is float:
        return np.float32(value)
    if type(value) in (list, tuple):
        return type(value)(frozen(item) for item in value)
    return value
