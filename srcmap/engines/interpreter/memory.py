"""Buffers: what is stored, in which type, in which memory, and what was never stored.

On-chip memory starts as NaN (integers as a pattern), with a record of what has been written that is
dropped once everything was. Loads out of range give 0 and stores out of range are dropped, as
upstream's passes make it; both are noted.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from srcmap.engines.interpreter.dtypes import DType, cast
from srcmap.engines.interpreter.lanes import Lane, Operand
from srcmap.engines.interpreter.machine import KernelError, here
from srcmap.engines.interpreter.symbols import Symbol
from srcmap.engines.interpreter.traffic import Traffic

GLOBAL = "global"
SHARED_SCOPES = {"shared", "L1", "tmem", GLOBAL}
"""Memories that all roles of a block see; the others are private to a role."""
LEVELS = {"fragment": 2, "local": 2, "ub": 2, "L0C": 2, "shared": 1, "tmem": 1, "L1": 1}
"""How close to the arithmetic a memory is; `src/op/copy.cc`, MakeIterVars."""


def value_of(value: Any) -> Any:
    """Return the number or array that anything in a kernel stands for."""
    return value.value() if isinstance(value, Operand | Symbol) else value


class Shadow:
    """Which elements have been written; shared by all views of a buffer."""

    __slots__ = ("flat", "traffic")

    def __init__(self, size: int, written: bool) -> None:
        self.flat: Any = None if written else np.zeros(size, dtype=bool)
        self.traffic: Any = None
        """Who read and wrote what, where things run beside each other; see `traffic`."""

    def settle(self) -> None:
        """Forget the record when everything is written."""
        if self.flat is not None and self.flat.all():
            self.flat = None


class Buffer:
    """A tensor in some memory."""

    def __init__(
        self, name: str, data: Any, dtype: DType, scope: str, shadow: Shadow | None = None
    ) -> None:
        self.name = name
        self.data = data
        self.dtype = dtype
        self.scope = scope
        self.shadow = shadow or Shadow(data.size, written=True)
        self.owner = self
        """The buffer that this one is a view of."""
        self.workspace = False
        """Made by the runtime to hand data from core to core."""
        self.aliases: list[tuple[Buffer, int, int]] = []
        """Buffers that lie at the same addresses, and which of their bytes are shared."""
        self.address: int | None = None
        self.overwritten: str = ""
        """The buffer through which some of this one's elements were last destroyed."""
        self.handshake: Any = None
        """Set on a workspace when the compiler would insert the flags between Cube and Vector."""

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.data.shape)

    @property
    def ndim(self) -> int:
        return int(self.data.ndim)

    def __repr__(self) -> str:
        return f"{self.name}[{', '.join(map(str, self.shape))}]"

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: Any) -> Any:
        return load(self, index if isinstance(index, tuple) else (index,))

    def __setitem__(self, index: Any, value: Any) -> None:
        store(self, index if isinstance(index, tuple) else (index,), value)

    def view(self, shape: tuple[int, ...], dtype: DType | None = None) -> Buffer:
        """Return the same memory in another shape, or read as another type of the same width."""
        data = self.data if dtype is None else self.data.view(dtype.numpy)
        if data.size != prod(shape):
            raise KernelError(f"{self!r} cannot be seen as {list(shape)}")
        seen = Buffer(self.name, data.reshape(shape), dtype or self.dtype, self.scope, self.shadow)
        seen.owner = self.owner
        return seen

    def written(self) -> Any:
        """Return which elements have been written, in the buffer's shape; None when all."""
        flat = self.shadow.flat
        return None if flat is None else flat.reshape(self.data.shape)


def allocate(name: str, shape: tuple[int, ...], dtype: DType, scope: str) -> Buffer:
    """Return fresh memory with nothing in it."""
    data = np.empty(shape, dtype.numpy)
    if dtype.floating:
        data.fill(np.nan)
    elif dtype == "bool":
        data.fill(True)
    else:
        data.view(np.uint8).fill(0xA5)
    return Buffer(name, data, dtype, scope, Shadow(data.size, written=False))


class Var(Operand):
    """A variable of each thread: `T.alloc_var`. Holds a number, or an array over lanes."""

    __slots__ = ("dtype", "held", "name")

    def __init__(self, name: str, dtype: DType, held: Any = None) -> None:
        self.name = name
        self.dtype = dtype
        self.held = held

    def value(self) -> Any:
        if self.held is None:
            here.run.note("uninitialised-read", self.name)
            self.held = cast(np.nan if self.dtype.floating else 0, self.dtype)
        return self.held

    def set(self, value: Any) -> None:
        """Store, where the branch that is taken holds."""
        new = cast(value_of(value), self.dtype)
        mask = here.run.role.mask
        if mask is not None:
            new = np.where(mask, new, 0 if self.held is None else self.held)
        elif not isinstance(new, np.ndarray):
            new = plain(new)
        self.held = new
        if here.run.watcher is not None:
            here.run.watcher.stored(self.name, self, (), new)

    def __getitem__(self, _index: Any) -> Any:
        return self.value()

    def __setitem__(self, _index: Any, value: Any) -> None:
        self.set(value)

    __hash__ = Operand.__hash__


def plain(value: Any) -> Any:
    """Return whole numbers and truth values as Python's own: they never overflow here."""
    if isinstance(value, np.integer | np.bool_):
        return value.item()
    return value


# -- one element, or one for each lane ---------------------------------------------------------


def _indices(buffer: Buffer, index: tuple[Any, ...]) -> tuple[Any, ...]:
    found = tuple(i if type(i) is int or type(i) is Lane else _index(i) for i in index)
    if len(found) != buffer.data.ndim:
        raise KernelError(f"{buffer!r} is indexed with {len(found)} numbers")
    return found


def _index(item: Any) -> Any:
    if isinstance(item, Lane):
        return item
    item = value_of(item)
    if isinstance(item, np.ndarray):
        return item if item.dtype.kind in "iu" else item.astype(np.int64)
    return int(item)


def load(buffer: Buffer, index: tuple[Any, ...]) -> Any:
    """Read the elements that an expression names."""
    if any(isinstance(item, slice) for item in index) or len(index) < buffer.data.ndim:
        return region(buffer, index)
    found = _indices(buffer, index)
    if all(type(item) is int for item in found):
        return _load_one(buffer, found)
    window = _window(buffer, found)
    if _is_watched(buffer):
        _touch_elements(buffer, found, write=False)
    if buffer.handshake is not None:
        buffer.handshake.before_read(here.run, _hull(buffer, found))
    values = _gather(buffer, found) if window is None else _spread(buffer.data, window)
    if window is not None and buffer.shadow.flat is not None:
        _check_written(buffer, _spread(buffer.written(), window))
    if buffer.dtype.floating:
        here.run.role.loads.append(values)
    return values


def _load_one(buffer: Buffer, index: tuple[int, ...]) -> Any:
    inside = all(0 <= i < size for i, size in zip(index, buffer.data.shape, strict=True))
    run = here.run
    if not inside:
        run.note("load-out-of-range", buffer.name, where=index)
        return plain(buffer.data.dtype.type(0))
    if buffer.shadow.traffic is not None:
        touch(buffer, tuple((i, i + 1) for i in index), write=False)
    if buffer.shadow.flat is not None and not buffer.written()[index]:
        _unwritten(buffer, 1, index)
    if buffer.handshake is not None:
        buffer.handshake.before_read(run, tuple(slice(i, i + 1) for i in index))
    value = plain(buffer.data[index])
    if buffer.dtype.floating:
        run.role.loads.append(value)
    return value


def _window(buffer: Buffer, index: tuple[Any, ...]) -> Any:
    """Slices, and the axes that they run along, when every index is a number or its own lane."""
    slices, axes = [], []
    for item, size in zip(index, buffer.data.shape, strict=True):
        if type(item) is Lane:
            if item.start < 0 or item.start + item.extent > size or item.axis in axes:
                return None
            slices.append(slice(item.start, item.start + item.extent))
            axes.append(item.axis)
        elif type(item) is int:
            if not 0 <= item < size:
                return None
            slices.append(item)  # type: ignore[arg-type]
        else:
            return None
    return tuple(slices), axes


def _spread(data: Any, window: Any) -> Any:
    """Return the elements of a window with one dimension for each axis of the statement."""
    slices, axes = window
    seen = data[slices]
    if axes != sorted(axes):
        order = sorted(range(len(axes)), key=axes.__getitem__)
        seen = seen.transpose(order)
        axes = sorted(axes)
    rank = here.run.role.rank
    if len(axes) == rank:
        return seen
    shape, sizes = [1] * rank, iter(seen.shape)
    for axis in axes:
        shape[axis] = next(sizes)
    return seen.reshape(shape)


def _arrays(index: tuple[Any, ...]) -> list[Any]:
    return [item.value() if type(item) is Lane else item for item in index]


def _gather(buffer: Buffer, index: tuple[Any, ...]) -> Any:
    arrays = _arrays(index)
    outside = _outside(buffer, arrays)
    if outside is None:
        if buffer.shadow.flat is not None:
            _check_written(buffer, buffer.written()[tuple(arrays)])
        return buffer.data[tuple(arrays)]
    mask = here.run.role.mask
    bad = outside if mask is None else outside & mask
    if bad.any():
        _note_outside("load-out-of-range", buffer, arrays, bad)
    clipped = _clipped(buffer, arrays)
    if buffer.shadow.flat is not None:
        _check_written(buffer, buffer.written()[clipped] | outside)
    values = np.array(buffer.data[clipped])
    values[np.broadcast_to(outside, values.shape)] = 0
    return values


def _outside(buffer: Buffer, arrays: list[Any]) -> Any:
    """Return where an index leaves the buffer; None when nowhere."""
    found = None
    for item, size in zip(arrays, buffer.data.shape, strict=True):
        wrong = (item < 0) | (item >= size)
        if np.any(wrong):
            found = wrong if found is None else found | wrong
    return None if found is None else np.asarray(found)


def _clipped(buffer: Buffer, arrays: list[Any]) -> tuple[Any, ...]:
    pairs = zip(arrays, buffer.data.shape, strict=True)
    return tuple(np.clip(item, 0, max(size - 1, 0)) for item, size in pairs)


def _note_outside(kind: str, buffer: Buffer, arrays: list[Any], bad: Any) -> None:
    shape = np.broadcast_shapes(*(np.shape(a) for a in arrays), bad.shape)
    first = tuple(np.argwhere(np.broadcast_to(bad, shape))[0])
    where = tuple(int(np.broadcast_to(a, shape)[first]) for a in arrays)
    count = int(np.broadcast_to(bad, shape).sum())
    here.run.note(kind, buffer.name, count=count, where=where)


def _unwritten(buffer: Buffer, count: int, where: tuple[int, ...]) -> None:
    """Note a read of what nobody wrote, or of what was destroyed through another buffer."""
    kind = "address-overlap" if buffer.overwritten else "uninitialised-read"
    here.run.note(kind, buffer.name, count=count, where=where, detail=buffer.overwritten)


def _is_watched(buffer: Buffer) -> bool:
    """Whether it matters who reads and writes a buffer: from the first flight on it does."""
    if buffer.shadow.traffic is None and here.run.role.flight is not None:
        if buffer.scope == GLOBAL:
            return False
        buffer.shadow.traffic = Traffic(shared=False)
    return buffer.shadow.traffic is not None


def touch(buffer: Buffer, box: Any, write: bool) -> None:
    """Tell the traffic of a buffer that a box of it is read or written."""
    whole = buffer.owner.data.shape
    if buffer.data.shape != whole:  # another shape of the same memory: known when it is all of it
        if any(a > 0 or b < size for (a, b), size in zip(box, buffer.data.shape, strict=True)):
            return
        box = tuple((0, size) for size in whole)
    buffer.shadow.traffic.touch(buffer.owner.name, box, write)


def _touch_elements(buffer: Buffer, index: tuple[Any, ...], write: bool) -> None:
    """Tell the traffic of the elements that an index names, when they fill a box."""
    mask = here.run.role.mask
    if mask is None and all(type(i) is int or type(i) is Lane for i in index):
        touch(buffer, tuple((s.start, s.stop) for s in _hull(buffer, index)), write)
        return
    arrays = _arrays(index)
    shape = np.broadcast_shapes(*(np.shape(a) for a in arrays), np.shape(mask))
    keep = np.ones(shape, bool) if mask is None else np.broadcast_to(mask, shape)
    for array, size in zip(arrays, buffer.data.shape, strict=True):
        keep = keep & np.broadcast_to((np.asarray(array) >= 0) & (np.asarray(array) < size), shape)
    if not keep.any():
        return
    chosen = [np.broadcast_to(array, shape)[keep] for array in arrays]
    box = tuple((int(c.min()), int(c.max()) + 1) for c in chosen)
    named = np.unique(np.ravel_multi_index(chosen, buffer.data.shape)).size
    if named == prod(b - a for a, b in box):
        touch(buffer, box, write)


def destroy_aliases(buffer: Buffer) -> None:
    """What lies at the same addresses as a buffer that is written holds nothing any more."""
    for other, first, last in buffer.aliases:
        size = other.dtype.itemsize
        if other.shadow.flat is None:
            other.shadow.flat = np.ones(other.data.size, dtype=bool)
        other.shadow.flat[first // size : -(-last // size)] = False
        other.overwritten = buffer.name


def _hull(buffer: Buffer, index: tuple[Any, ...]) -> tuple[slice, ...]:
    """Return the smallest box around the elements that an index names."""
    box = []
    for item, size in zip(_arrays(index), buffer.data.shape, strict=True):
        low, high = int(np.min(item)), int(np.max(item)) + 1
        box.append(slice(max(low, 0), min(high, size)))
    return tuple(box)


def _check_written(buffer: Buffer, written: Any) -> None:
    mask = here.run.role.mask
    bad = ~written if mask is None else ~written & mask
    if bad.any():
        first = tuple(int(i) for i in np.argwhere(bad)[0])
        _unwritten(buffer, int(bad.sum()), first)


def store(buffer: Buffer, index: tuple[Any, ...], value: Any) -> None:
    """Write the elements that the left side of an assignment names."""
    value = value_of(value)
    if any(isinstance(item, slice) for item in index) or len(index) < buffer.data.ndim:
        region(buffer, index).fill(value)
        return
    found = _indices(buffer, index)
    # What each thread has an index of its own for, it stores itself.
    if buffer.scope in SHARED_SCOPES and all(type(i) is int or type(i) is Lane for i in found):
        here.run.together(lambda: _store(buffer, found, value))
    else:
        _store(buffer, found, value)


def _store(buffer: Buffer, found: tuple[Any, ...], value: Any) -> None:
    run = here.run
    new = cast(value, buffer.dtype)
    if buffer.dtype.floating:
        _check_nan(buffer, new)
    run.role.loads.clear()
    if buffer.aliases:
        destroy_aliases(buffer)
    if _is_watched(buffer):
        _touch_elements(buffer, found, write=True)
    if buffer.handshake is not None:
        buffer.handshake.before_write(run, _hull(buffer, found))
    window = (
        None
        if any(type(i) is not int and type(i) is not Lane for i in found)
        else _window(buffer, found)
    )
    if window is None or (not window[1] and np.ndim(new)):
        if window is not None:
            _note_race(buffer, new)
        _scatter(buffer, found, new)
    else:
        _assign(buffer, window, new)
    if run.watcher is not None:
        run.watcher.stored(buffer.name, buffer, found, new)


def _assign(buffer: Buffer, window: Any, new: Any) -> None:
    slices, axes = window
    mask = here.run.role.mask
    if not axes:
        if mask is None or bool(np.any(mask)):
            buffer.data[slices] = new
            _mark(buffer, slices, None)
        return
    seen = _spread(buffer.data, window)
    if np.ndim(new) and np.broadcast_shapes(np.shape(new), seen.shape) != seen.shape:
        new = _last_lane(buffer, new, seen.shape)
    if mask is None:
        seen[...] = new
        _mark(buffer, slices, None)
        return
    fitting = np.broadcast_to(_last_lane(buffer, mask, seen.shape), seen.shape)
    np.copyto(seen, new, where=fitting)
    if buffer.shadow.flat is not None:
        marks = _spread(buffer.written(), window)
        marks |= fitting
        buffer.shadow.settle()


def _last_lane(buffer: Buffer, values: Any, shape: tuple[int, ...]) -> Any:
    """Several lanes write one element: the last one counts, and differing ones are noted."""
    values = np.asarray(values)
    if values.ndim < len(shape):
        values = values.reshape((1,) * (len(shape) - values.ndim) + values.shape)
    for axis, (size, wanted) in enumerate(zip(values.shape, shape, strict=True)):
        if size > 1 and wanted == 1:
            ends = values.take([-1], axis=axis)
            if values.dtype == bool:
                ends = values.any(axis=axis, keepdims=True)
            elif np.any((values != ends) & (values == values)):
                here.run.note("race", buffer.name)
            values = ends
    return values


def _note_race(buffer: Buffer, new: Any) -> None:
    """All lanes write one element: noted when they do not agree."""
    mask = here.run.role.mask
    written = np.asarray(new)
    if mask is not None:
        shape = np.broadcast_shapes(written.shape, mask.shape)
        written = np.broadcast_to(written, shape)[np.broadcast_to(mask, shape)]
    if written.size > 1 and np.any(written != written.flat[0]):
        here.run.note("race", buffer.name)


def _mark(buffer: Buffer, where: Any, mask: Any) -> None:
    if buffer.shadow.flat is not None:
        marks = buffer.written()
        if mask is None:
            marks[where] = True
        else:
            marks[where] |= mask
        buffer.shadow.settle()


def _scatter(buffer: Buffer, index: tuple[Any, ...], new: Any) -> None:
    arrays = _arrays(index)
    mask = here.run.role.mask
    outside = _outside(buffer, arrays)
    shape = np.broadcast_shapes(*(np.shape(a) for a in arrays), np.shape(new))
    if mask is not None:
        shape = np.broadcast_shapes(shape, mask.shape)
    keep = np.ones(shape, dtype=bool) if mask is None else np.broadcast_to(mask, shape)
    if outside is not None:
        bad = np.broadcast_to(outside, shape) & keep
        if bad.any():
            _note_outside("store-out-of-range", buffer, arrays, bad)
        keep = keep & ~np.broadcast_to(outside, shape)
    chosen = tuple(np.broadcast_to(a, shape)[keep] for a in arrays)
    buffer.data[chosen] = np.broadcast_to(new, shape)[keep]
    _mark(buffer, chosen, None)


def _check_nan(buffer: Buffer, new: Any) -> None:
    bad = np.isnan(new)
    if not bad.any():
        return
    run = here.run
    mask = run.role.mask
    if mask is not None:
        bad = bad & mask
        if not bad.any():
            return
    if any(np.isnan(seen).any() for seen in run.role.loads):
        return
    where = tuple(int(i) for i in np.argwhere(bad)[0]) if np.ndim(bad) else ()
    run.note("nan-born", buffer.name, count=int(np.sum(bad)), where=where)


# -- regions, for tile operations --------------------------------------------------------------


class Region(Operand):
    """A box of a buffer: where it starts and how far it goes, by dimension."""

    __slots__ = ("buffer", "explicit", "extents", "starts")

    def __init__(
        self, buffer: Buffer, starts: list[int], extents: list[int], explicit: bool
    ) -> None:
        self.buffer = buffer
        self.starts = starts
        self.extents = extents
        self.explicit = explicit
        """Whether some dimension was written as a slice; else the extents are the partner's."""

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.extents)

    @property
    def scope(self) -> str:
        return self.buffer.scope

    @property
    def name(self) -> str:
        return self.buffer.name

    def value(self) -> Any:
        """Return the element, when it names one; the box's content otherwise."""
        if not self.explicit:
            return load(self.buffer, tuple(self.starts))
        return self.read()

    def resized(self, extents: list[int]) -> Region:
        """Return a box that starts there too and goes as far as told."""
        return Region(self.buffer, self.starts, extents, explicit=True)

    def spans(self) -> list[tuple[int, int]]:
        """Return where each dimension starts and ends, inside the buffer or not."""
        return [(s, s + e) for s, e in zip(self.starts, self.extents, strict=True)]

    def slices(self) -> tuple[slice, ...]:
        """Return the part that is inside the buffer."""
        return tuple(
            slice(min(max(start, 0), size), max(min(start + extent, size), 0))
            for start, extent, size in zip(
                self.starts, self.extents, self.buffer.data.shape, strict=True
            )
        )

    def inside(self) -> bool:
        """Whether no part lies outside the buffer."""
        return all(
            start >= 0 and start + extent <= size
            for start, extent, size in zip(
                self.starts, self.extents, self.buffer.data.shape, strict=True
            )
        )

    def _inner(self) -> tuple[slice, ...]:
        """Where, within the box, the part lies that is inside the buffer."""
        return tuple(
            slice(cut.start - start, cut.start - start + max(cut.stop - cut.start, 0))
            for cut, start in zip(self.slices(), self.starts, strict=True)
        )

    def read(self, *, check: bool = True) -> Any:
        """Return the content; 0 where the box leaves the buffer."""
        buffer = self.buffer
        cut = self.slices()
        if buffer.handshake is not None:
            buffer.handshake.before_read(here.run, cut)
        self._touch(cut, write=False)
        if check and buffer.shadow.flat is not None:
            self._check(cut)
        if self.inside():
            return buffer.data[cut]
        self._note("load-out-of-range")
        values = np.zeros(self.extents, buffer.data.dtype)
        values[self._inner()] = buffer.data[cut]
        return values

    def _touch(self, cut: tuple[slice, ...], write: bool) -> None:
        if _is_watched(self.buffer):
            touch(self.buffer, tuple((s.start, s.stop) for s in cut), write)

    def written(self) -> Any:
        """Return which elements of the box have been written; None when all."""
        marks = self.buffer.written()
        if marks is None:
            return None
        found = np.ones(self.extents, dtype=bool)
        found[self._inner()] = marks[self.slices()]
        return None if found.all() else found

    def _check(self, cut: tuple[slice, ...]) -> None:
        marks = self.buffer.written()[cut]
        if not marks.all():
            offsets = np.argwhere(~marks)[0]
            first = tuple(int(o) + s.start for o, s in zip(offsets, cut, strict=True))
            count = int((~marks).sum())
            _unwritten(self.buffer, count, first)

    def _note(self, kind: str) -> None:
        kept = prod(max(cut.stop - cut.start, 0) for cut in self.slices())
        count = prod(self.extents) - kept
        if not count:
            return
        where = tuple(
            start if start < 0 or start >= size else (size if start + extent > size else start)
            for start, extent, size in zip(
                self.starts, self.extents, self.buffer.data.shape, strict=True
            )
        )
        here.run.note(kind, self.buffer.name, count=count, where=where)

    def write(self, values: Any, marks: Any = None) -> None:
        """Store the content of the box; what lies outside the buffer is dropped.

        `marks` says which values are more than left-overs of memory that nobody wrote.
        """
        if self.buffer.scope in SHARED_SCOPES:
            here.run.together(lambda: self._write(values, marks))
        else:
            self._write(values, marks)

    def _write(self, values: Any, marks: Any) -> None:
        buffer = self.buffer
        cut = self.slices()
        if buffer.handshake is not None:
            buffer.handshake.before_write(here.run, cut)
        self._touch(cut, write=True)
        new = cast(values, buffer.dtype)
        if not self.inside():
            self._note("store-out-of-range")
            new = np.broadcast_to(new, self.extents)[self._inner()]
            marks = None if marks is None else marks[self._inner()]
        buffer.data[cut] = new
        self._record(cut, marks)
        if here.run.watcher is not None:
            here.run.watcher.stored(buffer.name, buffer, cut, new, self.spans())

    def _record(self, cut: tuple[slice, ...], marks: Any) -> None:
        buffer = self.buffer
        if marks is not None:
            if buffer.scope == GLOBAL:
                count = int((~marks).sum())
                here.run.note("uninitialised-read", buffer.name, count=count, detail="stored")
            else:
                _unmark(buffer, cut, marks)
                return
        if buffer.shadow.flat is not None:
            buffer.written()[cut] = True
            buffer.shadow.settle()
        if buffer.aliases:
            destroy_aliases(buffer)

    def fill(self, value: Any) -> None:
        """Store one value everywhere, or an array that broadcasts."""
        self.write(np.broadcast_to(value_of(value), self.extents))

    __hash__ = Operand.__hash__


def _unmark(buffer: Buffer, cut: tuple[slice, ...], marks: Any) -> None:
    """Left-overs were copied: what they fell on counts as not written."""
    if buffer.shadow.flat is None:
        buffer.shadow.flat = np.ones(buffer.data.size, dtype=bool)
    buffer.written()[cut] = marks
    buffer.shadow.settle()


class Elements(Operand):
    """Elements of a buffer, one for each lane: a subscript handed to an operation on elements."""

    __slots__ = ("buffer", "index")

    def __init__(self, buffer: Buffer, index: tuple[Any, ...]) -> None:
        self.buffer = buffer
        self.index = index

    @property
    def dtype(self) -> DType:
        return self.buffer.dtype

    def value(self) -> Any:
        """Return what is stored there."""
        return load(self.buffer, self.index)

    def set(self, value: Any) -> None:
        """Store there."""
        store(self.buffer, self.index, value)

    def arrays(self) -> list[Any]:
        """Return the index along each dimension, as arrays that broadcast."""
        return _arrays(_indices(self.buffer, self.index))

    __hash__ = Operand.__hash__


def _is_many(item: Any) -> bool:
    if isinstance(item, slice):
        return False
    item = item.value() if isinstance(item, Var) else item
    return isinstance(item, Lane) or (isinstance(item, np.ndarray) and item.size > 1)


def place(thing: Any, index: tuple[Any, ...]) -> Any:
    """Return what a subscript that is handed to an operation means: a box, or elements."""
    if isinstance(thing, Buffer) and any(_is_many(item) for item in index):
        return Elements(thing, index)
    if isinstance(thing, Buffer | Region):
        return region(thing, index)
    if isinstance(thing, Var):
        return thing
    plain_index = index[0] if len(index) == 1 else index
    return thing[plain_index if isinstance(plain_index, tuple | slice) else value_of(plain_index)]


def region(thing: Any, index: tuple[Any, ...] | None = None) -> Region:
    """Return the box that a buffer, or a subscript handed to a tile operation, names."""
    if isinstance(thing, Region) and index is None:
        return thing
    if isinstance(thing, Region):
        return _nested(thing, index or ())
    if isinstance(thing, Var):
        return _of_var(thing)
    if not isinstance(thing, Buffer):
        raise KernelError(f"a buffer is needed, not {type(thing).__name__}")
    shape = thing.data.shape
    if index is None:
        return Region(thing, [0] * len(shape), list(shape), explicit=True)
    starts, extents, explicit = _box(index, shape)
    return Region(thing, starts, extents, explicit)


def _box(index: tuple[Any, ...], shape: tuple[int, ...]) -> tuple[list[int], list[int], bool]:
    starts, extents = [], []
    explicit = len(index) < len(shape)
    for place, size in enumerate(shape):
        item = index[place] if place < len(index) else slice(None)
        if isinstance(item, slice):
            start = 0 if item.start is None else int(value_of(item.start))
            stop = size if item.stop is None else int(value_of(item.stop))
            starts.append(start)
            extents.append(max(stop - start, 0))
            explicit = True
        else:
            starts.append(int(value_of(item)))
            extents.append(1)
    return starts, extents, explicit


def _nested(outer: Region, index: tuple[Any, ...]) -> Region:
    starts, extents, explicit = _box(index, outer.shape)
    moved = [a + b for a, b in zip(outer.starts, starts, strict=True)]
    return Region(outer.buffer, moved, extents, explicit)


class _VarBuffer(Buffer):
    """A variable seen as a buffer of one element."""


def _of_var(var: Var) -> Region:
    held = np.asarray(cast(0 if var.held is None else var.held, var.dtype)).reshape(-1)[:1].copy()
    buffer = _VarBuffer(var.name, held, var.dtype, "local")

    class _Written(Region):
        __slots__ = ()

        def write(self, values: Any, marks: Any = None) -> None:  # noqa: ARG002
            var.set(np.asarray(values).reshape(-1)[0])

    return _Written(buffer, [0], [1], explicit=True)
