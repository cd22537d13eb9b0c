"""Which columns give the group away: known areas, no false alarms, any kind of column."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from scipy.stats import norm

from separatrix.crossfit import proxies as room
from separatrix.crossfit.proxies import Proxies, proxies


def columns(n: int = 3_000, seed: int = 0):
    """A number whose AUROC is known, a category that says nothing, ids, dates, missing values."""
    rng = np.random.default_rng(seed)
    z = rng.choice(["f", "m"], n)
    known = rng.normal(size=n) + (z == "m")
    holes = np.where((z == "m") & (rng.random(n) < 0.6), np.nan, rng.normal(size=n))
    day = np.datetime64("2020-01-01") + rng.integers(0, 50, n) + 200 * (z == "f")
    return {
        "known": known,
        "colour": rng.choice(["red", "green", "blue"], n),
        "id": np.arange(n).astype(str),
        "noise": rng.normal(size=n),
        "holes": holes,
        "day": day,
    }, z


@pytest.mark.slow
def test_each_column_has_its_own_area():
    X, z = columns()
    found = proxies(X, z).by_column
    assert found["known"] == pytest.approx(norm.cdf(1 / np.sqrt(2)), abs=0.03)
    assert found["holes"] == pytest.approx(0.8, abs=0.03)  # which values are missing tells it
    assert found["day"] > 0.99
    for name in ("colour", "id", "noise"):  # an id says nothing about the rows of other folds
        assert found[name] == pytest.approx(0.5, abs=0.04)
    assert list(found.values()) == sorted(found.values(), reverse=True)


@pytest.mark.slow
def test_columns_that_tell_together_what_none_tells_alone():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2, 4_000), rng.integers(0, 2, 4_000)
    found = proxies({"a": a, "b": b}, a ^ b)
    assert found.overall > 0.99
    assert max(found.by_column.values()) < 0.55
    assert "no single column says much" in str(found)


@pytest.mark.slow
def test_shuffled_groups_are_hardly_told():
    """Cross-fitting: nothing is found where there is nothing, whatever the kind of column."""
    X, z = columns()
    found = proxies(X, np.random.default_rng(2).permutation(z))
    assert found.overall == pytest.approx(0.5, abs=0.04)
    assert str(found).startswith("The group can hardly be told from X (AUROC 0.")


@pytest.mark.slow
def test_several_groups_frames_and_matrices_agree(monkeypatch):
    rng = np.random.default_rng(3)
    z = rng.integers(0, 3, 2_000)
    X = np.column_stack([z + 0.3 * rng.normal(size=2_000), rng.normal(size=2_000)])
    matrix = proxies(X, z)
    frame = proxies(pl.DataFrame({"x0": X[:, 0], "x1": X[:, 1]}), np.array(["a", "b", "c"])[z])
    assert matrix == frame
    assert matrix.overall > 0.95
    assert matrix.by_column["x0"] > 0.95
    assert matrix.rows == 2_000
    monkeypatch.setattr(room, "_ROWS", 500)
    few = proxies(X, z)
    assert few.rows == 500
    assert few.overall == pytest.approx(matrix.overall, abs=0.05)


def test_a_tiny_group_and_a_constant_column():
    z = np.array([0] * 40 + [1] * 40 + [2])
    found = proxies({"constant": np.ones(81), "empty": np.full(81, np.nan)}, z)
    assert found.by_column == {"constant": 0.5, "empty": 0.5}
    assert found.overall == 0.5


def test_the_sentence():
    text = str(Proxies(0.934, {"relationship": 0.881, "marital-status": 0.712, "age": 0.55}, 9))
    assert text == (
        "The group can be told from X with AUROC 0.93; most from `relationship` (0.88), `marital-status` (0.71)."
    )
