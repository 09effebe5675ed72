"""One thing made wrong in a sparse blocked form: its own tests have to notice.

This is what says that their inputs are hard enough and their budgets tight enough.
"""

from __future__ import annotations

from importlib import import_module
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2] / "kernels"
MUTANTS = {
    # The recurrence, once more: it stands in each file.
    "no rescale": ("nsa", "acc = acc * rescale[:, None]", "acc = acc * 1"),
    "denominator kept": ("vertical_slash", "l = l * rescale + p.sum", "l = l + p.sum"),
    "maximum of this block": (
        "mla_decode",
        "np.maximum(m_old, scores.max(axis=1))",
        "scores.max(1)",
    ),
    "no check_inf": ("vertical_slash", "top = np.where(np.isneginf(m), 0, m)", "top = m"),
    "empty row": (
        "block_sparse",
        "np.where(l[:, None] > 0, acc / np.where(l > 0, l, 1)[:, None], 0)",
        "acc / l[:, None]",
    ),
    # Blocks.
    "table not read": ("block_sparse", "if not flags[t]:", "if False:"),
    "row of another block": (
        "block_sparse",
        "block_mask[b, h, bx] != 0",
        "block_mask[b, h, 0] != 0",
    ),
    "range too short": ("block_sparse", "-(-(first + block) // block)", "first // block"),
    "keys past the end": ("block_sparse", "k_idx < len(k)", "k_idx <= len(k)"),
    "no past": ("seer", "past_len = len(k) - len(q)", "past_len = 0"),
    "one chosen too many": ("seer", ".sum(axis=-1) < topk", ".sum(axis=-1) <= topk"),
    "noise sees noise before": ("block_causal", "q_blk == k_blk if", "q_blk >= k_blk if"),
    "noise sees its clean block": ("block_causal", "q_blk > k_blk if", "q_blk >= k_blk if"),
    "no noisy tile": ("block_causal", "tile + 2 if q_is_noisy", "tile + 1 if q_is_noisy"),
    "half a tile too long": ("block_causal", "< len(q)  # concept", "<= len(q)  # concept"),
    "lse without maximum": ("block_causal", "+ m * l.dtype.type(scale * LOG2E)", "+ 0 * m"),
    # Lists.
    "blocks of the future": ("nsa", "if not 0 <= start <= query:", "if start < 0:"),
    "negative blocks": ("nsa", "if not 0 <= start <= query:", "if start > query:"),
    "list of another head": ("nsa", "block_indices[i_b, i_t, i_h])", "block_indices[i_b, i_t, 0])"),
    "heads of another group": ("nsa", "slice(i_h * groups, (i_h + 1)", "slice(0 * groups, (0 + 1)"),
    "slash not causal": ("vertical_slash", "q_idx >= k_idx)", "q_idx >= q_idx)"),
    "columns past their count": ("vertical_slash", "< len(chosen)", "<= len(chosen)"),
    "columns of the first tile": ("vertical_slash", "columns[bi * block :", "columns[0 * block :"),
    "tokens of the future": ("sparse_mla", "(chosen <= query)", "(chosen <= query + 1)"),
    "negative tokens": ("sparse_mla", "(chosen >= 0) & (chosen <= query)", "(chosen <= query)"),
    "heads beyond a program": ("sparse_mla", "-(-group // HEADS)", "1"),
    "no rotary part": ("sparse_mla", " + q_rope @ rope.T", ""),
    "rotary part of another": ("mla_decode", "+ q_pe @ k_pe.T", "+ q_pe @ k_pe[::-1].T"),
    # Splits.
    "plain mean": (
        "mla_decode",
        "np.exp2(lse - lse_logsum[..., None])",
        "0 * lse + 1 / lse.shape[2]",
    ),
    "split reads on": (
        "mla_decode",
        "visible = kv_start + np.arange(block_n)[None, :] < keys.stop",
        "visible = np.ones((1, block_n), bool)",
    ),
    "split lse without maximum": ("mla_decode", "np.log2(l) + m * l", "np.log2(l) + 0 * l"),
    # Scores and selections.
    "negative scores count": ("indexer", "np.maximum(s, 0) * weights", "s * weights"),
    "scale of another key": (
        "indexer",
        "k_scale[tile, None, None]",
        "k_scale[tile][::-1, None, None]",
    ),
    "end included": ("indexer", "idx >= ke[:, None]", "idx > ke[:, None]"),
    "threshold's bin is chosen": ("indexer", "left[keys > bin_id]", "left[keys >= bin_id]"),
    "sign not turned": ("indexer", "~bits & whole, bits | sign", "bits, bits | sign"),
    "last byte not looked at": ("indexer", "(24, 16, 8, 0)", "(24, 16, 8)"),
    "mean of a full block": ("hisa", "acc / (k_end - k_start)", "acc / block"),
    "last block not kept": ("hisa", " | (idx == ke[:, None] - 1)", ""),
    "not counted from the start": ("hisa", "+ offset - int(ks[m])", "+ offset"),
    "slot of another block": ("hisa", "int(chosen[m, block])", "int(chosen[m, 0])"),
}
SHAPES: dict[str, dict[str, list[Any]]] = {
    "block_sparse": {"causal": [True, False]},
    "seer": {"more": [0, 37]},
    "nsa": {"groups": [1, 3]},
    "vertical_slash": {},
    "block_causal": {"half": [65, 100], "dllm_block": [4, 16]},
    "mla_decode": {"splits": [1, 3]},
    "sparse_mla": {"groups": [1, 3]},
}
"""What the test against the definition takes beyond length, type and style."""


def mutated(folder: str, old: str, new: str) -> ModuleType:
    """Load a blocked form with one piece of its text replaced."""
    path = ROOT / folder / "blocked.py"
    text = path.read_text(encoding="utf-8")
    assert text.count(old) == 1, f"{path}: {text.count(old)} of {old!r}"
    module = ModuleType(f"mutant of {folder}")
    exec(compile(text.replace(old, new), str(path), "exec"), vars(module))  # noqa: S102
    return module


def calls(module: ModuleType, folder: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield tests of a folder with some of their arguments; those that take none come first."""
    for name, test in vars(module).items():
        marks = getattr(test, "pytestmark", [])
        if name.startswith("test_") and not marks and not test.__code__.co_argcount:
            yield test, {}
    if folder not in SHAPES:
        yield from scored(module, folder)
        return
    shape: dict[str, list[Any]] = {"length": [65, 100]} if folder != "block_causal" else {}
    shape |= {
        **SHAPES[folder],
        "kind": ["float64", "float32"],
        "style": ["normal", "large", "minus-inf"],
    }
    for values in product(*shape.values()):
        named = dict(zip(shape, values, strict=True))
        request = SimpleNamespace(node=SimpleNamespace(name=f"{folder} {values}"))
        yield module.test_blocked_agrees_with_the_definition, {**named, "request": request}
    for name in ("test_lse_agrees", "test_lse_agrees_and_is_minus_infinity_for_an_empty_row"):
        if hasattr(module, name):
            extra = {"half": 65, "request": request} if folder == "block_causal" else {}
            yield getattr(module, name), {"kind": "float64", **extra}
    if hasattr(module, "test_choices_from_a_gate_agree"):
        yield module.test_choices_from_a_gate_agree, {"topk": 3}


def scored(module: ModuleType, folder: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    """Yield the tests of the indexers that take arguments."""
    if folder == "hisa":
        for length in (65, 100):
            yield module.test_pooled_keys_agree, {"length": length, "kind": "float64"}
            yield module.test_the_whole_agrees, {"length": length}
        return
    request = SimpleNamespace(node=SimpleNamespace(name=folder))
    named = {"length": 100, "heads": 5, "size": 1.0, "kind": "float64", "request": request}
    yield module.test_scores_agree, named
    yield from ((module.test_selections_agree, {"length": 100, "topk": k}) for k in (1, 2, 16))


def notices(folder: str, mutant: ModuleType, patch: pytest.MonkeyPatch) -> bool:
    """Return whether a test of the folder fails with the mutant in the place of the form."""
    module = import_module(f"tests.kernels.test_{folder}")
    patch.setattr(module, "blocked", mutant)
    try:
        with np.errstate(all="ignore"):
            for test, named in calls(module, folder):
                test(**named)
    except Exception:  # noqa: BLE001 - whatever a mutant does wrong, it was noticed
        return True
    return False


@pytest.mark.parametrize(("folder", "old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_is_noticed(folder: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert notices(folder, mutated(folder, old, new), monkeypatch)


@pytest.mark.parametrize("folder", sorted({folder for folder, _, _ in MUTANTS.values()}))
def test_nothing_is_noticed_where_nothing_is_wrong(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not notices(folder, import_module(f"kernels.{folder}.blocked"), monkeypatch)
