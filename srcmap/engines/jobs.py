"""What is asked of the child process that runs kernels, and what it answers. No NumPy here."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from srcmap.model import Note  # noqa: TC001 - msgspec reads the annotations

Engine = Literal["interpreter", "tilelang-cpu", "cuda"]
ENGINES: tuple[Engine, ...] = ("interpreter", "tilelang-cpu", "cuda")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a child may use."""

    seconds: float = 120.0
    """Wall-clock time for one job."""
    memory: int = 12 << 30
    """Bytes of address space."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One file to run kernels of."""

    kind: Literal["run", "check", "trace"]
    repo: str
    root: str
    """The checkout, or the folder of a file that belongs to none."""
    path: str
    """Relative to the root."""
    engine: Engine = "interpreter"
    case: str = ""
    """A case of `engines.cases`; without, the arguments are made up from names and `shape`."""
    only: str = ""
    """The one check of the case that is meant; all when empty."""
    function: str = ""
    """The builder or eager kernel; the first of the file when empty."""
    shape: dict[str, str] = {}
    """Arguments of the builder and sizes, by name."""
    inputs: dict[str, str] = {}
    """How inputs are filled, by name: zeros, ones, randn, arange, or a `.npy` file."""
    seed: int = 0
    theirs: bool = False
    """Whether upstream's own reference is run too."""
    ours: tuple[str, ...] = ()
    """The folder that holds `kernels`, and the modules of ours that do what this file does."""
    source: str | None = None
    """The text of the file, when it is not that of the disk (mutations)."""
    stop_early: bool = False
    """Whether one bad check is enough (mutations)."""
    row: int | None = None
    """For a trace: the query row; the middle one when None."""
    extra: dict[str, Any] = {}


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Why a kernel did not run to its end."""

    kind: str
    """`unsupported`, `deadlock`, `kernel`, `needs`, `time`, `memory`, `died`, `crash`."""
    message: str
    operation: str = ""
    path: str = ""
    line: int = 0


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """An array in a few numbers."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    low: float | None = None
    """The smallest finite number; None when there is none."""
    high: float | None = None
    mean: float | None = None
    nan: int = 0
    infinite: int = 0


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A finding of the interpreter, with its path relative to the root."""

    kind: str
    path: str
    line: int
    buffer: str
    count: int
    detail: str = ""
    where: tuple[int, ...] = ()
    block: tuple[int, ...] = ()


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """One output against the float64 reference."""

    output: int
    by: str = ""
    """The module of ours that computed it; empty for upstream's."""
    error: float | None
    """The largest absolute error; None when something is NaN that must not be."""
    ratio: float | None
    """The largest error in units of its budget; passed when at most 1. None: beyond any budget."""
    bad: int
    """Elements outside their budget."""
    total: int
    where: tuple[int, ...] = ()
    """The first bad coordinate."""
    got: float | None = None
    want: float | None = None
    allowed: float | None = None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One check, or one run."""

    job: int
    """Which job, by its place."""
    name: str
    state: Literal["passed", "failed", "diverges", "untested", "ran"]
    seconds: float = 0.0
    reason: str = ""
    inputs: tuple[Summary, ...] = ()
    outputs: tuple[Summary, ...] = ()
    compared: tuple[Comparison, ...] = ()
    theirs: tuple[Comparison, ...] = ()
    """Upstream's own reference against float64."""
    theirs_missing: str = ""
    ours: tuple[Comparison, ...] = ()
    """Our implementation against float64."""
    ours_missing: str = ""
    findings: tuple[Found, ...] = ()
    failure: Failure | None = None
    trace: Any = None


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a child said about a list of jobs."""

    outcomes: tuple[Outcome, ...]
    notes: tuple[Note, ...] = ()
