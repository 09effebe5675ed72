"""Bytes of the KV cache by query heads and groups: what GQA, MQA and MLA save."""

from __future__ import annotations

from kernels.models.errors import ModelError, item_bytes, positive
from kernels.models.tables import Chart, Series, Table


def cache_bytes(
    *, layers: int, batch: int, keys: int, kv_heads: int, dim: int, dtype: str = "float16"
) -> int:
    """Return the bytes of K and V. ModelError for sizes below 1 and unknown types."""
    positive(layers=layers, batch=batch, keys=keys, kv_heads=kv_heads, dim=dim)
    return 2 * layers * batch * keys * kv_heads * dim * item_bytes(dtype)


def latent_bytes(
    *, layers: int, batch: int, keys: int, latent: int, rope: int, dtype: str = "float16"
) -> int:
    """Return the bytes of an MLA cache: one latent and one rotary part for all heads."""
    positive(layers=layers, batch=batch, keys=keys, latent=latent, rope=rope)
    return layers * batch * keys * (latent + rope) * item_bytes(dtype)


def kv_heads(heads: int, groups: int) -> int:
    """Return how many K/V heads `groups` query heads to each leave. ModelError if not whole."""
    positive(heads=heads, groups=groups)
    if heads % groups:
        raise ModelError(f"{heads} heads cannot share K and V by {groups}: the rest has none")
    return heads // groups


def sharings(heads: int) -> tuple[int, ...]:
    """Return the group sizes that divide the heads, doubling, and all heads at once."""
    positive(heads=heads)
    doubled = [1 << power for power in range(heads.bit_length())]
    return tuple(dict.fromkeys([*(g for g in doubled if heads % g == 0), heads]))


def table(
    *, layers: int, batch: int, keys: int, heads: int, dim: int, dtype: str, latent: int, rope: int
) -> Table:
    """Return bytes for each way of sharing K and V among the query heads."""
    positive(heads=heads)
    whole = cache_bytes(layers=layers, batch=batch, keys=keys, kv_heads=heads, dim=dim, dtype=dtype)
    rows: list[tuple[str, int | None, int | None, int, float]] = []
    for groups in sharings(heads):
        left = kv_heads(heads, groups)
        name = "MHA" if groups == 1 else "MQA" if left == 1 else "GQA"
        rows.append((name, groups, left, whole // groups, 1 / groups))
    small = latent_bytes(
        layers=layers, batch=batch, keys=keys, latent=latent, rope=rope, dtype=dtype
    )
    rows.append((f"MLA {latent}+{rope}", None, None, small, small / whole))
    return Table(
        model="kvcache",
        title=f"KV cache in bytes: {layers} layers, {batch} x {keys} keys, d = {dim}, {dtype}",
        columns=("sharing", "query heads each", "K/V heads", "bytes", "of MHA"),
        rows=tuple(rows),
        notes=("A step of decoding reads all of it once: these bytes are its least traffic.",),
    )


def chart(
    *, layers: int, batch: int, keys: int, heads: int, dim: int, dtype: str, latent: int, rope: int
) -> Chart:
    """Return the bytes as bars, one for each way of sharing."""
    found = table(
        layers=layers,
        batch=batch,
        keys=keys,
        heads=heads,
        dim=dim,
        dtype=dtype,
        latent=latent,
        rope=rope,
    )
    names = tuple(f"{row[0]} / {row[1]}" if row[1] else str(row[0]) for row in found.rows)
    sizes = tuple(float(row[3] or 0) / 2**30 for row in found.rows)
    bars = Series(label="cache", x=names, y=sizes, style="bars")
    title = found.title.replace("KV cache in bytes", "KV cache")
    return Chart(title=title, x_label="sharing", y_label="GiB", series=(bars,))
