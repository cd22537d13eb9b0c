"""Coins: the same for the same person, unrelated between models and purposes, and never by
accident.
"""

from __future__ import annotations

import secrets
import unicodedata
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.stats import kstest

from separatrix.columns.draws import PURPOSES, check_seed, drawn, id_digests, id_texts, key_id, uniforms
from separatrix.columns.values import as_levels
from separatrix.errors import InputError

SALT = "kept by the operator, not in the model"
LONG = [10**16 + i for i in range(300)]  # seventeen digits: floats take them for one another


@pytest.mark.parametrize(
    "make",
    [
        list,
        np.array,
        pd.Series,
        pl.Series,
        lambda ids: pa.chunked_array([ids]),
        lambda ids: list(map(str, ids)),
        lambda ids: np.array(list(map(str, ids))),
        lambda ids: pd.Series(list(map(str, ids)), dtype="category"),
        lambda ids: as_levels(list(map(str, ids)), "ids"),
        lambda ids: [f" {i}\t" for i in ids],
        lambda ids: [str(i).encode() for i in ids],
    ],
)
def test_a_person_has_one_coin_whatever_the_library(make):
    expected = uniforms(300, ids=LONG, salt=SALT)
    np.testing.assert_array_equal(uniforms(300, ids=make(LONG), salt=SALT), expected)
    assert len(np.unique(expected[:, 0])) == 300


def test_composed_and_decomposed_letters_are_one_person():
    name = unicodedata.normalize("NFC", "Zoë Åström")
    other = unicodedata.normalize("NFD", name)
    assert name != other
    a, b = uniforms(2, ids=[name, other], salt=SALT)
    np.testing.assert_array_equal(a, b)
    assert id_texts([other]) == [other]  # as it stands, for the output


def test_models_purposes_and_secrets_have_coins_of_their_own():
    """Independent and uniform, two by two."""
    ids = np.arange(4_000)
    coins = [
        uniforms(4_000, PURPOSES, ids=ids, salt=salt, model=model)
        for salt in (SALT, "another secret of the operator")
        for model in (b"a", b"b")
    ]
    columns = np.concatenate(coins, axis=1)
    assert columns.shape == (4_000, 12)
    for column in columns.T:
        assert kstest(column, "uniform").pvalue > 1e-4
    correlation = np.corrcoef(columns.T) - np.eye(12)
    assert np.abs(correlation).max() < 5 / np.sqrt(4_000)


def test_a_seed_belongs_to_the_place_and_not_to_the_block():
    whole = uniforms(100, random_state=7)
    parts = [uniforms(n, random_state=7, first=at) for at, n in ((0, 1), (1, 0), (1, 59), (60, 40))]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    level = uniforms(100, ("level",), random_state=7)
    assert abs(np.corrcoef(np.c_[whole, level].T) - np.eye(3)).max() < 0.5
    assert (uniforms(100, random_state=None) != uniforms(100, random_state=None)).all()


def test_the_digest_of_a_log_says_nothing_without_the_secret():
    a, b = (id_digests(["anna", "ben"], salt) for salt in (SALT, "another secret of the operator"))
    assert len({*a, *b}) == 4
    assert all(len(one) == 32 for one in a)
    assert id_digests([" anna"], SALT) == a[:1]
    assert key_id(SALT) == key_id(SALT.encode()) != key_id("another secret of the operator")


def test_random_secrets_pass():
    for make in (secrets.token_hex, secrets.token_bytes, secrets.token_urlsafe):
        assert len({key_id(make(16)) for _ in range(300)}) == 300


@pytest.mark.parametrize(
    "salt", ["a" * 40, "0123456789abcdef", "1234567890123456", "abab" * 8, "passwordpassword", b"\0" * 32]
)
def test_weak_secrets_are_refused(salt):
    with pytest.raises(InputError, match="can be guessed"):
        key_id(salt)


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({}, "pass `ids=` and a secret `salt=`"),
        ({"ids": [1, 2], "salt": SALT, "random_state": 0}, "Both `ids` and `random_state`"),
        ({"ids": [1, 2]}, "secret `salt`"),
        ({"salt": SALT}, "`salt` is for `ids`"),
        ({"ids": [1.0, 2.0], "salt": SALT}, "text or whole numbers, got 1.0 in row 0"),
        ({"ids": np.array([1, np.nan]), "salt": SALT}, "got 1.0 in row 0"),
        ({"ids": [1, np.nan], "salt": SALT}, "missing in row 1"),
        ({"ids": [1, pd.NA], "salt": SALT}, "missing in row 1"),
        ({"ids": ["a", " "], "salt": SALT}, "empty in row 1"),
        ({"ids": [True, False], "salt": SALT}, "got True"),
        ({"ids": [b"\xff", b"a"], "salt": SALT}, "not text in UTF-8"),
        ({"ids": [1], "salt": SALT}, "one value per row, 2, got 1"),
        ({"random_state": -1}, "from 0 on, or None for fresh entropy, got -1"),
        ({"random_state": 0.5}, r"got 0\.5"),
        ({"random_state": True}, "got True"),
    ],
)
def test_errors(keywords, message):
    with pytest.raises(InputError, match=message) as error:
        uniforms(2, **keywords)
    assert "\n" not in str(error.value)


def test_seeds_and_identifiers_of_other_kinds():
    assert check_seed(np.int64(3)) == 3
    assert check_seed(None) is None
    assert id_texts([UUID(int=1)]) == ["00000000-0000-0000-0000-000000000001"]


@pytest.mark.parametrize("law", [[0.3, 0.7], [0.2, 0.0, 0.5, 0.3]])
def test_coins_pick_each_value_as_often_as_the_law_says(law):
    """Evenly spaced coins: the share of each value is its probability."""
    coins = (np.arange(1000) + 0.5) / 1000
    share = np.bincount(drawn(np.tile(law, (1000, 1)), coins), minlength=len(law)) / 1000
    np.testing.assert_allclose(share, law, atol=1e-12)
