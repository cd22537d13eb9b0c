"""Samples of known laws: the law that comes with the sample is the one it was drawn from."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, multivariate_normal

from separatrix import datasets
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.errors import InputError

FINITE = ["conditional_independence", "shortcut", "bayes"]


def laws() -> st.SearchStrategy[np.ndarray]:
    """Finite laws p[x, y, z], some with cells of probability zero."""

    @st.composite
    def law(draw: st.DrawFn) -> np.ndarray:
        shape = tuple(draw(st.integers(2, 4)) for _ in range(3))
        rng = np.random.default_rng(draw(st.integers(0, 10**6)))
        p = rng.gamma(0.5, size=shape) * (rng.random(shape) < 0.7)
        p.flat[0] += 0.1
        return p / p.sum()

    return law()


@pytest.mark.slow
@given(laws())
def test_a_given_law_comes_back_with_exact_posteriors(p: np.ndarray) -> None:
    data = datasets.load("synthetic", law=p, n=50)
    assert data.truth is not None
    assert data.truth.law is not None
    assert data.truth.x is not None
    assert np.allclose(data.truth.law, p, rtol=1e-14)
    for i in range(50):
        x, y, z = data.truth.x[i], data.y[i], data.z[i]
        assert p[x, y, z] > 0  # an impossible cell is never drawn
        assert np.allclose(data.truth.posterior[i], p[x, :, z] / p[x, :, z].sum())
        assert np.allclose(data.truth.posterior_x[i], p[x].sum(1) / p[x].sum())
        assert np.flatnonzero(data.X[i]).tolist() == ([x] if p[x].sum() > 0 else [])


@pytest.mark.parametrize("law", FINITE)
@pytest.mark.parametrize(("labels", "groups", "values"), [(2, 2, 8), (4, 4, 5), (20, 20, 12)])
def test_the_sample_follows_the_law(law: str, labels: int, groups: int, values: int) -> None:
    data = datasets.load("synthetic", law=law, n=50_000, labels=labels, groups=groups, values=values, random_state=3)
    p = data.truth.law  # type: ignore[union-attr]
    assert p.shape == (values, labels, groups)
    assert abs(p.sum() - 1) < 1e-12
    counts = np.zeros(p.shape)
    np.add.at(counts, (data.truth.x, data.y, data.z), 1)  # type: ignore[union-attr]
    common = p * 50_000 >= 5
    assert counts[p == 0].sum() == 0
    seen, expected = (np.append(counts[common], counts[~common].sum()), np.append(p[common], p[~common].sum()))
    used = expected > 0
    assert chisquare(seen[used], expected[used] / expected.sum() * seen.sum()).pvalue > 1e-3


@pytest.mark.parametrize("size", [2, 3, 5])
def test_conditional_independence_with_overlap(size: int) -> None:
    """The assumptions of Theorem "necessary trade-off": X ⟂ Z | Y, every (y, z) possible, Z
    informative.
    """
    p = datasets.load("synthetic", n=10, labels=size, groups=size).truth.law  # type: ignore[union-attr]
    yzx = np.moveaxis(p, 0, 2)
    assert conditional_mutual_information(yzx) < 1e-12
    assert (p.sum(0) > 0).all()
    both = p.transpose(1, 0, 2).reshape(size, 1, -1)  # U = (X, Z)
    alone = p.sum(2).T[:, None]  # U = X
    assert mutual_information(both) > mutual_information(alone) + 1e-3


def test_the_shortcut_is_the_papers_counterexample() -> None:
    data = datasets.load("synthetic", law="shortcut", labels=3, groups=3)
    assert np.array_equal(data.y, data.z)
    assert np.allclose(data.truth.posterior[np.arange(len(data)), data.y], 1)  # type: ignore[union-attr]
    with pytest.raises(InputError, match="pass as many `groups` as `labels`, got 2, 3"):
        datasets.load("synthetic", law="shortcut", labels=3)


def test_in_bayes_nothing_is_independent() -> None:
    p = datasets.load("synthetic", law="bayes", labels=3, groups=2).truth.law  # type: ignore[union-attr]
    assert (p > 0).all()
    assert conditional_mutual_information(np.moveaxis(p, 0, 2)) > 1e-2
    assert np.allclose(p.sum((1, 2)), 1 / 8)


@pytest.mark.parametrize(("labels", "groups"), [(2, 2), (3, 4)])
def test_gaussian_posteriors_against_scipy(labels: int, groups: int) -> None:
    data = datasets.load("synthetic", law="gaussian", n=40, labels=labels, groups=groups)
    assert data.truth is not None
    X = np.column_stack([data.columns[f"x{i}"] for i in range(5)])
    y, z = np.linspace(0, 1, labels)[:, None], np.linspace(0, 1, groups)[None]
    cells = np.exp(-np.abs(y - z))
    cells /= cells.sum(1, keepdims=True) * labels
    density = np.zeros((40, labels, groups))
    for a in range(labels):
        for b in range(groups):
            for side in (-1, 1):
                turn_y, turn_z = 2 * np.pi * a / labels, 2 * np.pi * b / groups
                centre = [1.5 * np.cos(turn_y), 1.5 * np.sin(turn_y), 0.5 * np.cos(turn_z), 0.5 * np.sin(turn_z), side]
                density[:, a, b] += cells[a, b] * multivariate_normal(centre).pdf(X) / 2
    of_own_group = density[np.arange(40), :, data.z]
    assert np.allclose(data.truth.posterior, of_own_group / of_own_group.sum(1, keepdims=True))
    assert np.allclose(data.truth.posterior_x, density.sum(2) / density.sum((1, 2))[:, None])


@pytest.mark.parametrize("law", [*FINITE, "gaussian"])
def test_posteriors_are_calibrated(law: str) -> None:
    """Among rows with posterior about p, a share p has the label."""
    data = datasets.load("synthetic", law=law, n=100_000, random_state=1)
    assert data.truth is not None
    for posterior in (data.truth.posterior[:, 1], data.truth.posterior_x[:, 1]):
        band = np.minimum((posterior * 10).astype(int), 9)
        for index in np.unique(band):
            rows = band == index
            error = abs(data.y[rows].mean() - posterior[rows].mean())
            assert error < 5 * np.sqrt(0.25 / rows.sum())


def test_the_seed_changes_the_rows_and_not_the_law() -> None:
    one, two = (datasets.load("synthetic", law="bayes", random_state=seed) for seed in (0, 1))
    assert np.array_equal(one.truth.law, two.truth.law)  # type: ignore[union-attr]
    assert not np.array_equal(one.y, two.y)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"law": "circle"}, "one of conditional_independence, shortcut, bayes, gaussian, got 'circle'"),
        ({"law": np.ones((2, 2))}, "must have the axes"),
        ({"law": np.ones((2, 2, 2))}, "sum of 8.0. Divide it by its sum"),
        ({"law": np.full((2, 2, 2), np.nan)}, "probabilities that sum to one"),
        ({"n": 0}, "`n` must be at least 1"),
        ({"labels": 1}, "`labels` must be at least 2, got 1"),
        ({"law": "gaussian", "groups": 1}, "`groups` must be at least 2, got 1"),
    ],
)
def test_bad_laws_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        datasets.load("synthetic", **options)
