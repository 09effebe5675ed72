"""A kernel that no case knows: arguments and inputs made up from names, shapes and annotations.

What a user says with `--shape` and `--input` counts; the rest is a small, harmless guess, and the
outcome says what was guessed, so that a guess is never mistaken for a test.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from srcmap.engines.cases.judging import summary
from srcmap.engines.interpreter.dtypes import DType, dtype
from srcmap.engines.interpreter.kernels import JIT, Kernel, PrimFunc, TensorType
from srcmap.engines.interpreter.machine import KernelError
from srcmap.engines.interpreter.symbols import Symbol
from srcmap.engines.jobs import Outcome
from srcmap.engines.worker import failure_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from srcmap.engines.jobs import Job

SIZES = {
    **dict.fromkeys(("batch", "batch_size", "b"), 1),
    **dict.fromkeys(
        ("heads", "h", "h_q", "heads_q", "num_heads", "heads_kv", "h_kv", "k_heads"), 2
    ),
    **dict.fromkeys(("kv_head_num", "groups", "kv_group", "num_split", "num_stages", "n2"), 1),
    **dict.fromkeys(("dim", "d", "dim_v", "dv", "head_dim", "index_dim", "block_k"), 64),
    **dict.fromkeys(("pe_dim", "tail_dim", "dpe"), 32),
    **dict.fromkeys(("block_m", "block_n", "block_h", "block_size", "page_block_size"), 64),
    **dict.fromkeys(("threads",), 128),
    **dict.fromkeys(("topk", "top_k", "selected_blocks", "downsample_len"), 2),
}
_LENGTH = 128


Work = Callable[["Maker", list[tuple[str, Any]]], tuple[str, "Iterable[Any]"]]
"""What runs a kernel: it gets who makes things up and a list for the inputs, and gives the
kernel's name and its outputs."""


def run_generic(number: int, job: Job, module: Any, host: Any) -> Outcome:
    """Build, fill and run one kernel of a file."""

    def work(maker: Maker, inputs: list[tuple[str, Any]]) -> tuple[str, Iterable[Any]]:
        name, function = _chosen(module, job.function)
        return name, maker.run(function, inputs)

    return told(number, job, host, work)


def told(number: int, job: Job, host: Any, work: Work) -> Outcome:
    """Run a kernel by `work`, and tell what came of it and what was made up."""
    host.begin(job)
    started = time.perf_counter()
    inputs: list[tuple[str, Any]] = []
    name, failure, guessed = job.function, None, ""
    outputs: Iterable[Any] = ()
    try:
        maker = Maker(job)
        name, outputs = work(maker, inputs)
        guessed = ", ".join(f"{key}={value}" for key, value in maker.guessed.items())
    except Exception as error:  # noqa: BLE001 - foreign code
        failure = failure_of(error, job)
    return Outcome(
        job=number,
        name=name,
        state="failed" if failure else "ran",
        reason=guessed,
        failure=failure,
        seconds=time.perf_counter() - started,
        inputs=tuple(summary(label, value) for label, value in inputs),
        outputs=tuple(summary(f"output {n}", value) for n, value in enumerate(outputs)),
        findings=tuple(host.findings(job)),
    )


def _chosen(module: Any, name: str) -> tuple[str, Any]:
    """Return the builder that is meant, else the first of the file."""
    known = {
        label: value
        for label, value in vars(module).items()
        if isinstance(value, JIT | PrimFunc)
        and value.__wrapped__.__code__.co_filename == module.__file__
    }
    wanted = name.partition(".")[0]
    if wanted:
        if wanted not in known:
            raise KernelError(f"no kernel {wanted!r}; there are: {', '.join(known) or 'none'}")
        return wanted, known[wanted]
    if not known:
        raise KernelError("no kernel in this file")
    return next(iter(known.items()))


class Maker:
    """Makes up arguments and inputs, and keeps what it guessed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.rng = np.random.default_rng(job.seed)
        self.guessed: dict[str, Any] = {}
        self.sizes: dict[str, int] = {}

    def run(self, function: Any, inputs: list[tuple[str, Any]]) -> tuple[Any, ...]:
        """Run a builder's kernel, a bare kernel or an eager one; `inputs` says with what."""
        if isinstance(function, PrimFunc):
            made = self._call(Kernel(function, (), ()), inputs)
        elif function.eager:
            made = self._eager(function, inputs)
        else:
            kernel = function(**self.arguments(function.signature))
            kernel = kernel[0] if isinstance(kernel, tuple | list) else kernel
            made = self._call(kernel, inputs)
        if made is None:
            return tuple(value for _, value in inputs if isinstance(value, np.ndarray))
        return tuple(made) if isinstance(made, tuple | list) else (made,)

    def arguments(self, signature: inspect.Signature) -> dict[str, Any]:
        """Return what a builder gets: what was said, its defaults, or a guess by name."""
        return {
            name: self._argument(name, parameter)
            for name, parameter in signature.parameters.items()
            if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        }

    def _argument(self, name: str, parameter: inspect.Parameter) -> Any:
        given = self.job.shape.get(name)
        if given is not None:
            return _literal(given)
        if parameter.default is not inspect.Parameter.empty:
            return parameter.default
        return self.size(name)

    def size(self, name: str) -> Any:
        """Return a number for a name: what was said, or a guess."""
        given = self.job.shape.get(name)
        if given is not None:
            return _literal(given)
        if name.lower().startswith("is_"):
            found: Any = True
        elif "scale" in name.lower():
            found = 0.125
        else:
            found = SIZES.get(name.lower(), _LENGTH)
        self.guessed[name] = found
        return found

    def _call(self, kernel: Kernel, inputs: list[tuple[str, Any]]) -> Any:
        made = {*kernel.outputs, *kernel.workspaces}
        for position, (name, kind) in enumerate(kernel.parameters):
            if position not in made:
                inputs.append((name, self._input(name, kind)))
        return kernel(*(value for _, value in inputs))

    def _input(self, name: str, kind: Any) -> Any:
        if not isinstance(kind, TensorType):
            return self.size(name)
        shape = tuple(self._extent(size) for size in kind.shape)
        return self.filled(name, shape, kind.dtype)

    def _extent(self, size: Any) -> int:
        if not isinstance(size, Symbol):
            return int(size)
        if size.plain:
            if size.name not in self.sizes:
                self.sizes[size.name] = int(self.size(size.name))
            size.bound = self.sizes[size.name]
        return int(size)

    def filled(self, name: str, shape: tuple[int, ...], kind: DType) -> Any:
        """Return an input: what `--input` says, else by type and name."""
        how = self.job.inputs.get(name, "")
        if how.endswith(".npy"):
            return np.load(Path(how), allow_pickle=False)
        if how in ("zeros", "ones"):
            return np.full(shape, how == "ones").astype(kind.numpy)
        if how == "arange" or (not how and _counts(name, kind)):
            return np.arange(int(np.prod(shape))).reshape(shape).astype(kind.numpy)
        if how and how != "randn":
            raise KernelError(
                f"--input {name}={how}: not zeros, ones, arange, randn or a .npy file"
            )
        if kind.floating:
            return self.rng.standard_normal(shape).astype(kind.numpy)
        return self._whole(name, shape, kind)

    def _whole(self, name: str, shape: tuple[int, ...], kind: DType) -> Any:
        """Return whole numbers that point at something: lengths, starts, ones for masks."""
        lowered = name.lower()
        if "cu_seq" in lowered or "offset" in lowered:
            last = self.sizes.get("total_tokens") or self.size("UQ")
            steps = np.linspace(0, int(last), shape[0]).astype(int)
            return steps.astype(kind.numpy) if len(shape) == 1 else np.zeros(shape, kind.numpy)
        if "len" in lowered:
            return np.full(shape, self.size(name), kind.numpy)
        value = 1 if "mask" in lowered or "count" in lowered else 0
        self.guessed[name] = value
        return np.full(shape, value, kind.numpy)

    def _eager(self, function: JIT, inputs: list[tuple[str, Any]]) -> Any:
        """Run an eager kernel: its annotations stand in its body, so every array must be given."""
        named: dict[str, Any] = {}
        for name, parameter in function.signature.parameters.items():
            how = self.job.inputs.get(name, "")
            if how:
                inputs.append((name, self._given(name, how)))
                named[name] = inputs[-1][1]
            elif parameter.default is inspect.Parameter.empty and name not in self.job.shape:
                raise KernelError(
                    f"{name} is needed: --input {name}=FILE.npy or --input {name}=float16[64,32]"
                )
            else:
                named[name] = self._argument(name, parameter)
        return function(**named)

    def _given(self, name: str, how: str) -> Any:
        if how.endswith(".npy"):
            return np.load(Path(how), allow_pickle=False)
        kind, _, rest = how.partition("[")
        try:
            shape = tuple(int(part) for part in rest.rstrip("]").split(",") if part)
            return self.filled("", shape, dtype(kind))
        except (ValueError, TypeError) as error:
            raise KernelError(f"--input {name}={how}: {error}") from error


def _counts(name: str, kind: DType) -> bool:
    """Whether an input is a table that should point everywhere."""
    return not kind.floating and ("table" in name.lower())


def _literal(text: str) -> Any:
    """Return a number, a truth value or None from the command line; else the word itself."""
    import ast

    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return {"true": True, "false": False, "none": None}.get(text.lower(), text)
