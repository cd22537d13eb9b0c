"""Uniform numbers for the draws of a randomised model, one column for each purpose.

They come from a seed and the row's place, from fresh entropy, or from the person's identity and a
secret. With an identity a person gets the same coins in any batch, file or order:

    coin = BLAKE2b(id; key = secret, salt = model, person = purpose) / 2^64

so one secret gives independent coins to every model and every purpose, and nobody without the
secret can compute one.
"""

from __future__ import annotations

import re
import secrets
import unicodedata
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from hashlib import blake2b
from itertools import pairwise
from math import log2
from typing import Any, Final
from uuid import UUID

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.values import Coded, is_missing
from separatrix.errors import InputError

MIN_SALT, MIN_BITS = 16, 40.0  # bytes of a secret, and bits by its own counts of bytes
PURPOSES = ("branch", "label", "level")  # a new purpose goes to the end: the place is part of seeds
_LOG, _KEY = b"decision log", b"key id"
_ROUNDED = re.compile(r"\d(\.\d+)?[eE]\+\d+")  # as spreadsheets write long whole numbers


class Unset(Enum):
    """The argument was not passed, which is not the same as None."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
Seed = int | Unset | None
Ids = ArrayLike | None
Salt = str | bytes | None


def uniforms(
    n: int,
    purposes: Sequence[str] = ("branch", "label"),
    *,
    random_state: Seed = UNSET,
    ids: Ids = None,
    salt: Salt = None,
    model: bytes = b"",
    first: int = 0,
) -> NDArray[np.float64]:
    """Coins (n, purposes) in [0, 1).

    Args:
        n: number of rows.
        purposes: what each coin decides, of `PURPOSES`.
        random_state: a seed, so that coins depend on the row's place; None for fresh entropy.
        ids: one identity per row, text or whole numbers; 17 and " 17" are the same.
        salt: the secret for `ids`.
        model: digest of the model that draws.
        first: of seeded rows, the place of the first one.

    >>> a = uniforms(2, ids=[17, "anna"], salt="a secret of the operator")
    >>> b = uniforms(2, ids=["anna", "17"], salt="a secret of the operator")
    >>> bool((a == b[::-1]).all())
    True
    >>> bool((a != uniforms(2, ids=[17, "anna"], salt="another, for the next year")).all())
    True
    """
    check_sources(random_state, ids, salt)
    out = np.empty((n, len(purposes)))
    if ids is None:
        seed = check_seed(random_state)
        for column, purpose in enumerate(purposes):
            start = None if seed is None else [seed, PURPOSES.index(purpose)]
            bits = np.random.PCG64(start).advance(first)  # one step a coin
            out[:, column] = np.random.Generator(bits).random(n)
        return out
    key, texts = _key(salt), id_texts(ids)
    if len(texts) != n:
        raise InputError(f"`ids` must have one value per row, {n:,}, got {len(texts):,}.")
    for column, purpose in enumerate(purposes):
        words = np.frombuffer(_hashed(texts, key, model, purpose.encode(), 8), dtype="<u8")
        out[:, column] = (words >> np.uint64(11)) * 2.0**-53
    return out


def drawn(law: NDArray[np.float64], coin: NDArray[np.float64]) -> NDArray[np.intp]:
    """The value (n,) that each coin (n,) picks from its row's law (n, values).

    >>> drawn(np.array([[0.3, 0.7], [0.3, 0.7]]), np.array([0.2, 0.4])).tolist()
    [0, 1]
    """
    return np.asarray((np.cumsum(law, axis=1)[:, :-1] <= coin[:, None]).sum(1), dtype=np.intp)


def check_sources(random_state: Seed, ids: Any, salt: Salt) -> None:
    """Refuse draws that nobody asked for, or that were asked for in two ways."""
    if ids is None and salt is not None:
        raise InputError("`salt` is for `ids`: pass one identity per row as well.")
    if ids is not None and random_state is not UNSET:
        raise InputError("Both `ids` and `random_state` were passed. Pass `ids` and `salt`, or `random_state`.")
    if ids is None and random_state is UNSET:
        raise InputError(
            "A coin decides about some people: pass `ids=` and a secret `salt=`, so that a person always gets the same "
            "draw, or `random_state=` (a seed for the rows in their order, or None for fresh entropy)."
        )


def check_seed(random_state: Any) -> int | None:
    """A seed or None; anything else is refused."""
    if random_state is None:
        return None
    whole = isinstance(random_state, int | np.integer) and not isinstance(random_state, bool)
    if not whole or random_state < 0:
        raise InputError(
            f"`random_state` must be a whole number from 0 on, or None for fresh entropy, got {random_state!r}."
        )
    return int(random_state)


def seed_of(random_state: Any) -> int:
    """A seed; a fresh one for None."""
    seed = check_seed(random_state)
    return secrets.randbits(63) if seed is None else seed


def id_texts(ids: Any, name: str = "ids") -> list[str]:
    """Identities as text, as they stand; one that is missing, empty or a float is refused.

    >>> id_texts([12345678901234567, "007", " Zoé"])
    ['12345678901234567', '007', ' Zoé']
    """
    return [_id_text(value, row, name) for row, value in enumerate(plain_values(ids))]


def plain_values(column: Any) -> list[Any]:
    """The values of a column of any kind as Python's own; None where one is missing."""
    if isinstance(column, Coded):
        return list(column.values())
    known = nw.from_native(column, allow_series=True, pass_through=True)
    if isinstance(known, nw.Series):
        return known.to_list()
    if hasattr(column, "to_pylist"):  # an array of pyarrow, which is no series
        return list(column.to_pylist())
    return column.ravel().tolist() if isinstance(column, np.ndarray) else list(column)


def id_digests(ids: Any, salt: str | bytes | None, model: bytes = b"") -> list[str]:
    """What a log holds instead of an identity: a keyed hash, 32 hexadecimal digits."""
    raw = _hashed(id_texts(ids), _key(salt), model, _LOG, 16)
    return [raw[i : i + 16].hex() for i in range(0, len(raw), 16)]


def key_id(salt: str | bytes) -> str:
    """A public name of a secret, 8 hexadecimal digits, that says which one was used.

    >>> key_id("a secret of the operator") == key_id(b"a secret of the operator")
    True
    """
    return blake2b(b"", digest_size=4, key=_key(salt), person=_KEY).hexdigest()


def _hashed(texts: Sequence[str], key: bytes, model: bytes, purpose: bytes, size: int) -> bytes:
    options: dict[str, Any] = {"digest_size": size, "key": key, "person": purpose}
    options["salt"] = blake2b(model, digest_size=16).digest()
    clean = (unicodedata.normalize("NFC", text).strip().encode() for text in texts)
    return b"".join(blake2b(identity, **options).digest() for identity in clean)


def _id_text(value: Any, row: int, name: str) -> str:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode("utf-8", errors="surrogateescape")
    if isinstance(value, int | UUID) and not isinstance(value, bool):
        value = str(value)
    if isinstance(value, str):
        if not value.strip():
            raise InputError(f"`{name}` is empty in row {row:,}. Every record needs its identity.")
        if _ROUNDED.fullmatch(value.strip()):
            raise InputError(f"`{name}` in row {row:,} is {value!r}, which has lost digits. Write the column as text.")
        if not value.isprintable() and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise InputError(f"`{name}` in row {row:,} is not text in UTF-8. Correct it first.")
        return value
    if is_missing(value):
        raise InputError(f"`{name}` is missing in row {row:,}. Every record needs its identity.")
    raise InputError(f"`{name}` must be text or whole numbers, got {value!r} in row {row:,}: read the column as text.")


def _key(salt: str | bytes | None) -> bytes:
    if salt is None:
        raise InputError(f"`ids` need a secret `salt` (at least {MIN_SALT} bytes): who knows it can compute the draws.")
    raw = salt.encode() if isinstance(salt, str) else bytes(salt)
    makes = "`python -c 'import secrets; print(secrets.token_hex(16))'` prints one."
    if len(raw) < MIN_SALT:
        raise InputError(f"`salt` must have at least {MIN_SALT} bytes, got {len(raw)}. {makes}")
    steps = bytes((b - a) % 256 for a, b in pairwise(raw))
    repeated = raw in (raw + raw)[1:-1]
    if repeated or min(_bits(raw), _bits(steps)) < MIN_BITS:
        raise InputError(f"`salt` repeats itself or counts up, so it can be guessed. {makes}")
    return raw if len(raw) <= blake2b.MAX_KEY_SIZE else blake2b(raw).digest()


def _bits(raw: bytes) -> float:
    """Length times entropy of its bytes: refuses patterns; what it passes may still be a word."""
    return -sum(count * log2(count / len(raw)) for count in Counter(raw).values())
