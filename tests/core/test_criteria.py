"""The criteria are one information of one table, and one identity binds them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from separatrix.columns.counting import count_labels, count_posteriors
from separatrix.core.information import conditional_mutual_information, law, mutual_information
from separatrix.core.measures import BASE_DEPENDENCE, CRITERIA, METRICS, criterion_named, identity
from separatrix.errors import InputError
from strategies import count_tables


@given(count_tables())
def test_the_impossibility_theorem_is_an_identity(counts):
    """I(U;Z) + I(Y;Z|U) = I(U;Z|Y) + I(Y;Z) for every law."""
    found = {name: float(c.information(counts)) for name, c in CRITERIA.items()
             if name != "equal_opportunity"}  # fmt: skip
    base = float(BASE_DEPENDENCE.information(counts))
    left, right = found["independence"] + found["sufficiency"], found["separation"] + base
    assert left == pytest.approx(right, abs=1e-12)


@given(count_tables())
def test_each_information_is_that_of_its_definition(counts):
    p = law(counts)
    assert CRITERIA["independence"].information(counts) == pytest.approx(
        float(mutual_information(np.moveaxis(p, 0, 1))), abs=1e-12
    )
    given_u = [
        p[..., u].sum() * float(mutual_information(p[..., u][:, None, :] / p[..., u].sum()))
        for u in range(p.shape[2])
        if p[..., u].sum() > 0
    ]
    assert CRITERIA["sufficiency"].information(counts) == pytest.approx(sum(given_u), abs=1e-12)
    assert float(CRITERIA["separation"].information(counts)) == float(conditional_mutual_information(counts))


def test_gaps_are_the_rates_that_people_compare():
    """Parity, predictive values and true-positive rates of rows, counted by hand."""
    rng = np.random.default_rng(3)
    y, u, z = rng.integers(0, 2, 400), rng.integers(0, 2, 400), rng.integers(0, 3, 400)
    counts = count_labels(y, u, sensitive_features=z).counts
    selected = [u[z == g].mean() for g in range(3)]
    assert CRITERIA["independence"].gap(counts) == pytest.approx(np.ptp(selected))
    recognised = [u[(z == g) & (y == 1)].mean() for g in range(3)]
    assert CRITERIA["equal_opportunity"].gap(counts) == pytest.approx(np.ptp(recognised))
    right = [[y[(z == g) & (u == k)].mean() for g in range(3)] for k in range(2)]
    assert CRITERIA["sufficiency"].gap(counts) == pytest.approx(np.ptp(right, axis=1).max())
    wrong = [[u[(z == g) & (y == k)].mean() for g in range(3)] for k in range(2)]
    assert CRITERIA["separation"].gap(counts) == pytest.approx(np.ptp(wrong, axis=1).mean())


def test_moments_follow_the_axes():
    """The view of a table of posteriors is the table of the viewed rows."""
    rng = np.random.default_rng(0)
    y, z, q = rng.integers(0, 2, 300), rng.integers(0, 2, 300), rng.dirichlet([1, 1], 300)
    weight = rng.random(300)
    table = count_posteriors(y, q, sensitive_features=z, sample_weight=weight)
    weight *= table.counts.sum() / weight.sum()  # as the door scales them
    own = CRITERIA["independence"].table(table)
    same = count_posteriors(
        np.r_[np.zeros(300, int), 1], np.vstack([q, [1, 0]]), sensitive_features=np.r_[z, 0],
        sample_weight=np.r_[weight, 0.0],
    )  # fmt: skip
    np.testing.assert_allclose(own.moments[0] / own.moments.sum(), same.moments[0] / same.moments.sum())
    turned = CRITERIA["sufficiency"].table(table)
    for u, g, k in np.ndindex(2, 2, 2):
        here = (z == g) & (y == k)
        assert turned.counts[u, g, k] == pytest.approx((weight * q[:, u])[here].sum())
        assert turned.moments[u, g, k, k] == pytest.approx(((weight * q[:, u]) ** 2)[here].sum())
    base = BASE_DEPENDENCE.table(table)
    np.testing.assert_allclose(base.counts[0], table.counts.sum(2).T)
    np.testing.assert_allclose(base.weight_squares[0].sum(), (weight**2).sum())


def test_the_sentence_has_the_users_numbers():
    equal = np.array([[[40.0, 10], [30, 20]], [[10, 40], [5, 45]]])
    assert "can be 0 at once" in identity(equal)
    apart = equal * np.array([1.0, 3.0])[:, None, None] ** np.array([0, 1])[None, :, None]
    base = float(BASE_DEPENDENCE.information(apart))
    assert f"at least {base:.4f}: no prediction has all three at 0" in identity(apart)


def test_an_unknown_criterion_is_refused_with_the_list():
    with pytest.raises(InputError, match="'separation', 'independence', 'sufficiency'"):
        criterion_named("fairness")


def test_separation_is_the_metric_of_the_list():
    assert METRICS["eo_gap"].of is not None
    counts = np.random.default_rng(1).integers(1, 9, (4, 2, 3, 2)).astype(float)
    np.testing.assert_allclose(METRICS["eo_gap"].of(counts), CRITERIA["separation"].gap(counts))
