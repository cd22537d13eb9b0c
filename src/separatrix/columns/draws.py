"""Two uniform numbers per row, for the branch and for the label, that can be repeated.

They come from a seed and the row's place, or from the person's identity and a secret. With an
identity a person always gets the same coins in any batch; without the secret nobody knows them.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.errors import InputError

__all__ = ["MIN_SALT", "uniforms"]

MIN_SALT = 16  # bytes


def uniforms(
    n: int,
    random_state: int | None = 0,
    ids: ArrayLike | None = None,
    salt: str | bytes | None = None,
) -> NDArray[np.float64]:
    """Coins (n, 2) in [0, 1).

    Args:
        n: number of rows.
        random_state: seed, where there are no `ids`; None for coins that cannot be repeated.
        ids: one identity per row; 17 and "17" are the same.
        salt: the secret, at least 16 bytes.

    >>> a = uniforms(2, ids=[17, "anna"], salt="a secret of the operator")
    >>> b = uniforms(2, ids=["anna", "17"], salt="a secret of the operator")
    >>> bool((a == b[::-1]).all())
    True
    """
    if ids is None:
        if salt is not None:
            raise InputError("`salt` is for `ids`: pass one identity per row as well.")
        return np.random.default_rng(random_state).random((n, 2))
    key = _key(salt)
    texts = _texts(ids)
    if len(texts) != n:
        raise InputError(f"`ids` must have one value per row, {n:,}, got {len(texts):,}.")
    digests = [blake2b(text, digest_size=16, key=key, person=b"separatrix") for text in texts]
    words = np.frombuffer(b"".join(d.digest() for d in digests), dtype="<u8").reshape(n, 2)
    return np.asarray((words >> np.uint64(11)) * 2.0**-53, dtype=np.float64)


def _key(salt: str | bytes | None) -> bytes:
    if salt is None:
        raise InputError(
            "`ids` need a secret `salt` (at least 16 bytes, kept by the operator): without it "
            "anybody who knows an id can compute its draw."
        )
    raw = salt.encode() if isinstance(salt, str) else bytes(salt)
    if len(raw) < MIN_SALT:
        raise InputError(
            f"`salt` must have at least {MIN_SALT} bytes, got {len(raw)}. `secrets.token_hex(16)` "
            "makes one."
        )
    return raw if len(raw) <= blake2b.MAX_KEY_SIZE else blake2b(raw).digest()


def _texts(ids: Any) -> list[bytes]:
    known = nw.from_native(ids, series_only=True, pass_through=True)
    series = isinstance(known, nw.Series)
    texts = []
    for row, value in enumerate(known.to_list() if series else np.asarray(ids).ravel().tolist()):
        if value is None or value != value:
            raise InputError(f"`ids` is missing in row {row:,}. Every record needs its identity.")
        whole = isinstance(value, float) and value.is_integer()
        texts.append(str(int(value) if whole else value).encode())
    return texts
