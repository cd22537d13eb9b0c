"""The channel as a method."""

from __future__ import annotations

import numpy as np
import pytest

from separatrix import methods
from separatrix.columns.counting import soft_counts
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.errors import InputError
from separatrix.methods import Lane, Recipe, Sample


def people(n: int = 4000, labels: int = 2, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    z, y = rng.integers(0, 2, n), rng.integers(0, labels, n)
    X = rng.normal(size=(n, labels)) + np.eye(labels)[y] * (1.0 + z)[:, None] + 0.4 * z[:, None]
    return X, y, z


def point(q: np.ndarray, y: np.ndarray, z: np.ndarray) -> tuple[float, float]:
    table = soft_counts(y, q, sensitive_features=z)
    return float(conditional_mutual_information(table)), float(mutual_information(table))


def test_the_method_goes_from_the_most_useful_rule_to_separation() -> None:
    pytest.importorskip("torch")
    X, y, z = people(3000)
    recipe = Recipe(hidden=(16,), epochs=6, min_steps=0, batch=128, learning_rate=5e-3)
    sample = Sample(X, y, z)
    fitted = methods.fit("postprocessing", sample, [Lane(t, None, 1) for t in (0.0, 0.5, 1.0)], recipe=recipe)
    v, u = np.array([point(q, y, z) for q in fitted.posteriors(X, z)]).T
    assert v[0] > v[1] > v[2]
    assert u[0] > u[1] > u[2]
    assert v[2] < 2e-3  # fitted on out-of-fold scores of these rows: zero up to sampling error
    with pytest.raises(InputError, match="needs the group"):
        fitted.posteriors(X)


@pytest.mark.slow
def test_beyond_separation_utility_falls_in_proportion_to_a_constant() -> None:
    pytest.importorskip("torch")
    X, y, z = people(3000)
    recipe = Recipe(hidden=(16,), epochs=6, min_steps=0, batch=128, learning_rate=5e-3)
    fitted = methods.fit("postprocessing", Sample(X, y, z), [Lane(t, None, 1) for t in (1.2, 1.6, 2.0)], recipe=recipe)
    restored = methods.get("postprocessing").restore(fitted.arrays())
    q = fitted.posteriors(X, z)
    assert np.array_equal(restored.posteriors(X, z), q)
    u = np.array([point(own, y, z)[1] for own in q])
    assert u[1] == pytest.approx(0.5 * u[0], rel=0.1)
    assert u[2] == pytest.approx(0.0, abs=1e-12)
    assert q[2] == pytest.approx(np.tile(np.bincount(y) / len(y), (len(y), 1)), abs=1e-6)


@pytest.mark.slow
def test_three_labels_go_from_the_most_useful_rule_to_a_constant() -> None:
    pytest.importorskip("torch")
    X, y, z = people(2000, 3)
    recipe = Recipe(hidden=(16,), epochs=6, min_steps=0, batch=128, learning_rate=5e-3)
    lanes = [Lane(t, None, 1) for t in (0.0, 1.0, 1.8, 2.0)]
    fitted = methods.fit("postprocessing", Sample(X, y, z), lanes, recipe=recipe)
    restored = methods.get("postprocessing").restore(fitted.arrays())
    q = fitted.posteriors(X, z)
    assert np.array_equal(restored.posteriors(X, z), q)
    v, u = np.array([point(own, y, z) for own in q]).T
    assert (np.diff(v) < 0).all()
    assert (np.diff(u) < 1e-3).all()  # of rows that the networks were trained on
    assert u[3] == pytest.approx(0.0, abs=1e-12)
    assert q[3] == pytest.approx(np.tile(np.bincount(y) / len(y), (len(y), 1)), abs=1e-6)


def test_a_prediction_is_that_of_one_of_the_five_teams() -> None:
    """The channel was fitted to scores of such ensembles on rows that they had not seen, so these
    are what it is used on.
    """
    pytest.importorskip("torch")
    X, y, z = people(1500)
    recipe = Recipe(hidden=(8,), epochs=3, min_steps=0, batch=128, learning_rate=5e-3)
    fitted = methods.fit("postprocessing", Sample(X, y, z), [Lane(1.0, None, 1), Lane(0.0, None, 1)], recipe=recipe)
    assert len(fitted.base.status) == 20
    scores = fitted.base.posteriors(X, z).astype(float)
    scores /= scores.sum(2, keepdims=True)
    ensembles = scores.reshape(4, 5, *scores.shape[1:]).mean(0)
    mean = np.mean([fitted.rules[0].predict_proba(s, sensitive_features=z) for s in ensembles], axis=0)
    assert fitted.posteriors(X, z)[0] == pytest.approx(mean)
