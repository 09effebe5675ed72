"""One thing made wrong in a blocked form: the comparison with the definition has to notice.

This is what says that the inputs are hard enough and the budgets tight enough.
"""

from __future__ import annotations

import zlib
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.kernels.budget import check
from tests.kernels.test_variants import CASES, MOST_KEYS, STYLES, Maker

ROOT = Path(__file__).resolve().parents[2] / "kernels"
MUTANTS = {
    # The recurrence.
    "no rescale": ("mha", "rescale = np.exp2(m_old * scale - m * scale)", "rescale = 1 + 0 * m"),
    "numerator kept": ("mha", "acc = acc * rescale[:, None]", "acc = acc * 1"),
    "denominator kept": ("mha", "l = l * rescale + p.sum", "l = l + p.sum"),
    "maximum of this block": ("mha", "m = np.maximum(m_old, scores", "m = (scores"),
    "scale without log2(e)": ("mha", "** -0.5 * LOG2E)", "** -0.5)"),
    "not divided": ("mha", "o_tile = acc / l[:, None]", "o_tile = acc"),
    # Who sees what.
    "diagonal off by one": ("mha", "q_idx >= k_idx", "q_idx > k_idx"),
    "diagonal on by one": ("mha", "q_idx >= k_idx", "q_idx + 1 >= k_idx"),
    "no boundary mask": ("mha", "k_idx < len(k)", "k_idx < len(k) + 1"),
    "loop too short": (
        "mha",
        "-(-(first + block_m + past_len) // block_n)",
        "first // block_n + 1",
    ),
    "no past": ("mha", "past_len = len(k) - len(q)", "past_len = 0"),
    "wrong head": ("gqa", "kv_head = h // groups", "kv_head = h % k.shape[2]"),
    "left-aligned": ("varlen", "offset = seq_k - seq_q", "offset = 0"),
    "next sample's key": ("varlen", "(k_idx < seq_k)", "(k_idx < seq_k + 1)"),
    "empty rows kept": ("varlen", "np.where(sees_nothing, 0,", "np.where(False, 0,"),
    "next sample's rows": ("varlen", "min(len(out) - first, len(tile))", "len(out) - first - 1"),
    "window one wider": ("window", "q_idx < k_idx + window_size", "q_idx <= k_idx + window_size"),
    "window starts late": ("window", "first + past_len - window_size", "first + past_len"),
    "no check_inf": ("window", "top = np.where(np.isneginf(m), 0, m)", "top = m"),
    "check_inf kept": ("window", "acc.dtype)\n\n    return m,", "acc.dtype)\n\n    return top,"),
    # Sinks.
    "no sink": ("sink", "= l + np.exp2(logit - top * scale)", "= l + 0"),
    "sink without maximum": ("sink", "np.exp2(logit - top * scale)", "np.exp2(logit)"),
    "sink in base e": ("sink", "l.dtype.type(sink) * l.dtype.type(LOG2E)", "l.dtype.type(sink)"),
    "sink scaled": ("sink", "np.exp2(logit - top * scale)", "np.exp2((logit - top) * scale)"),
    "hidden keys count": ("sink_after_exp", "p = p * visible", "p = p * 1"),
    "sink against m": ("sink_after_exp", "np.exp(l.dtype.type(sink) - top)", "np.exp(sink - m)"),
    # Splits and pages.
    "plain mean of splits": ("decode", "np.exp2(lse - joint)", "np.exp2(0 * lse) / lse.shape[1]"),
    "lse without maximum": ("decode", "+ np.where(l == 0, 0, m) * scale", "+ 0 * m"),
    "split reads on": ("decode", "keys = slice(split * length", "keys = slice(0 * length"),
    "mask not read": ("decode", "visible = load(seen[:, None]", "visible = load(1 | seen[:, None]"),
    "logical as physical": ("paged", "physical = table[page]", "physical = page"),
    "key past the end": ("paged", "np.arange(block_n) < length", "np.arange(block_n) <= length"),
    "a block for every split": ("paged", "+ (split < more)", "+ 0"),
    # Ascend.
    "output not rescaled": ("ascend", "acc.data[:] *= rescale[:, None]", "acc.data[:] *= 1"),
    "output not summed": ("ascend", "acc.data[:] += o_ub.data", "acc.data[:] = o_ub.data"),
    "halves change places": ("ascend", "rows = (vid * half, min((vid + 1) *", "rows = (0, min(1 *"),
    "keys past the end seen": ("ascend", ">= sizes.seq_len", "> sizes.seq_len"),
}


def mutated(folder: str, old: str, new: str) -> ModuleType:
    """Load a blocked form with one piece of its text replaced."""
    path = ROOT / folder / "blocked.py"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path}: {text.count(old)} of {old!r}"
    module = ModuleType(f"mutant of {folder}")
    exec(compile(text.replace(old, new), str(path), "exec"), vars(module))  # noqa: S102
    return module


def notices(folder: str, mutant: ModuleType) -> bool:
    """Return whether any case of a folder fails with the mutant."""
    reference = import_module(f"kernels.{folder}.reference")
    for name, (home, make, settings, tiling) in CASES.items():
        for length in (1, 65, 100):
            for style in ("normal", "large") if home == folder else ():
                rng = np.random.default_rng([zlib.crc32(name.encode()), length])
                inputs = make(Maker(rng, "float32", STYLES[style]), length, **settings)
                blocks = -(-MOST_KEYS // tiling.get("block_n", 64))
                try:
                    with np.errstate(all="ignore"):
                        check(name, (reference, mutant), inputs, "float32", blocks, **tiling)
                except Exception:  # noqa: BLE001 - whatever a mutant does wrong, it was noticed
                    return True
    return False


@pytest.mark.parametrize(("folder", "old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_is_noticed(folder: str, old: str, new: str) -> None:
    assert notices(folder, mutated(folder, old, new))


@pytest.mark.parametrize("folder", sorted({folder for folder, _, _ in MUTANTS.values()}))
def test_nothing_is_noticed_where_nothing_is_wrong(folder: str) -> None:
    assert not notices(folder, import_module(f"kernels.{folder}.blocked"))
