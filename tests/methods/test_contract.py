"""One contract for every method in the folder, whatever it is."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from separatrix import methods
from separatrix.errors import InputError
from separatrix.methods import Lane, Method, Recipe, Sample

pytest.importorskip("torch")

RECIPE = Recipe(hidden=(16, 16), epochs=4, min_steps=0, batch=64, learning_rate=3e-3)


def people(n_labels=2, n_groups=2, n=600, seed=3) -> Sample:
    rng = np.random.default_rng(seed)
    z = rng.integers(0, n_groups, n)
    y = (rng.integers(0, n_labels, n) + (rng.random(n) < 0.3) * z) % n_labels
    X = rng.normal(size=(n, 4)) + np.eye(4)[y % 4] * 2 + 0.5 * z[:, None]
    return Sample(X, y, z, n_labels, n_groups)


def problems(method: Method) -> list[tuple[int, int]]:
    """Numbers of labels and of groups."""
    return [(2, 2), (2, 3), *([(3, 2)] if method.multiclass else [])]


def lanes(method: Method) -> list[Lane]:
    grid = method.grid()
    rows = np.arange(0, 600, 2)
    return [Lane(grid[0], None, 5), Lane(grid[len(grid) // 2], rows, 5), Lane(grid[-1], None, 5)]


@cache
def learned(name: str, n_labels: int = 2, n_groups: int = 2):
    """People and what was fitted to them; several tests read it, none changes it."""
    sample = people(n_labels, n_groups)
    return sample, methods.fit(name, sample, lanes(methods.get(name)), recipe=RECIPE)


@pytest.fixture(params=methods.names())
def name(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "exponentiated_gradient":  # the contract is not about the end of its game
        monkeypatch.setattr("separatrix.methods.exponentiated_gradient.ROUNDS", 2)
    return request.param


def test_the_constant_is_complete(name):
    method = methods.get(name)
    assert method.label
    assert method.reference
    assert method.colour.startswith("#")
    assert len(method.colour) == 7
    assert method.trade_offs == tuple(sorted(method.trade_offs))
    assert "default" in method.recipes
    assert set(method.grids) <= set(method.recipes)
    assert {recipe.level for recipe in method.recipes.values()} <= set(method.levels)


def test_the_look_is_read_without_importing_and_equals_the_constant(name):
    method = methods.get(name)
    assert methods.style(name) == (method.label, method.colour)


@pytest.mark.slow
def test_finite_posteriors_that_sum_to_one(name):
    method = methods.get(name)
    for sizes in problems(method):
        sample, fitted = learned(name, *sizes)
        q = fitted.posteriors(sample.X, sample.z)
        assert q.shape == (len(lanes(method)), len(sample), sample.n_labels)
        for lane, status in zip(q, fitted.status, strict=True):
            assert status in ("ok", "diverged")
            assert np.isnan(lane).all() if status == "diverged" else (lane >= 0).all()
            if status == "ok":
                np.testing.assert_allclose(lane.sum(-1), 1, atol=1e-5)


@pytest.mark.slow
def test_same_seed_same_output_and_inputs_untouched(name):
    sample, fitted = learned(name)
    before = sample.X.copy(), sample.y.copy(), sample.z.copy()
    again = methods.fit(name, sample, lanes(methods.get(name)), recipe=RECIPE)
    q = [one.posteriors(sample.X, sample.z) for one in (fitted, again)]
    np.testing.assert_array_equal(*q)
    for array, copy in zip((sample.X, sample.y, sample.z), before, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.slow
def test_relabelling_the_groups_changes_only_their_labels(name):
    method = methods.get(name)
    sample, fitted = learned(name, 2, 3)
    renamed = np.array([2, 0, 1])[sample.z]
    other = Sample(sample.X, sample.y, renamed, sample.n_labels, sample.n_groups)
    a = fitted.posteriors(sample.X, sample.z)
    b = methods.fit(name, other, lanes(method), recipe=RECIPE).posteriors(other.X, other.z)
    np.testing.assert_allclose(a, b, atol=2e-3)  # sums over groups run in another order, and Adam amplifies rounding


@pytest.mark.slow
def test_the_arrays_restore_it(name):
    sample, fitted = learned(name)
    again = methods.get(name).restore(fitted.arrays())
    assert again.status == fitted.status
    np.testing.assert_allclose(again.posteriors(sample.X, sample.z), fitted.posteriors(sample.X, sample.z), atol=1e-6)


def test_no_rows_in_no_rows_out(name):
    """A model trained on all rows has none to be tested on; `trace` asks it all the same."""
    sample, fitted = learned(name)
    assert fitted.posteriors(sample.X[:0], sample.z[:0]).shape == (3, 0, 2)


@pytest.mark.slow
def test_without_the_sensitive_feature(name):
    method, sample = methods.get(name), people()
    fitted = methods.fit(name, sample, lanes(method)[:1], recipe=RECIPE, use_sensitive=False)
    q = fitted.posteriors(sample.X, sample.z)
    assert np.isfinite(q).all()


@pytest.mark.parametrize("name", ["adversarial", "cmi", "erm", "fair_dro", "fair_dummy", "fr_train", "infofair"])
def test_trade_off_zero_is_erm(name):
    sample, lane = people(), [Lane(0.0, None, 5)]
    ours = methods.fit(name, sample, lane, recipe=RECIPE).posteriors(sample.X, sample.z)
    erm = methods.fit("erm", sample, lane, recipe=RECIPE).posteriors(sample.X, sample.z)
    np.testing.assert_allclose(ours, erm, atol=1e-5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: methods.get("fair"), r"There is no method 'fair'. The methods are"),
        (lambda: methods.fit("cmi", people(), []), r"`lanes` is empty"),
        (lambda: methods.fit("cmi", people(), [Lane(-0.1)]), r"not negative, got -0.1"),
        (lambda: methods.fit("cmi", people(), [Lane(0.1)], recipe="best"), r"no recipe 'best'; it has default"),
        (lambda: Method("X", "#000000", "", (0.0,)), r"either `loss` or `fit`"),
    ],
)
def test_errors(call, message):
    with pytest.raises(InputError, match=message):
        call()
