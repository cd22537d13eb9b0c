"""Predictors of numbers: saved, loaded and predicted bit for bit; forged folders are refused."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file
from sklearn.linear_model import LinearRegression

import separatrix as sx
from separatrix.errors import DataError, InputError
from separatrix.optimum.scores.align import AlignedScore


@cache
def fitted(kind="groups", estimator=None):
    rng = np.random.default_rng(0)
    z = rng.integers(0, 2, 600) if kind == "groups" else rng.uniform(18, 80, 600)
    y = rng.normal(size=600) + z / z.max()
    X = np.column_stack([y + rng.normal(size=600), z])
    model = sx.AlignedRegressor(estimator, penalty=1.0, sensitive=kind, cv=2)
    names = np.where(z == 1, "m", "f") if kind == "groups" else z
    return model.fit(X, y, sensitive_features=names), X, names


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["groups", "continuous"])
@pytest.mark.parametrize("estimator", [None, LinearRegression()])
def test_what_is_loaded_predicts_bit_for_bit(tmp_path, kind, estimator):
    model, X, z = fitted(kind, estimator)
    predictor = sx.Predictor.from_estimator(model)
    predictor.save(tmp_path / "model")
    again = sx.load(tmp_path / "model")
    want = model.predict(X, sensitive_features=z)
    assert (predictor.predict(X, sensitive_features=z) == want).all()
    assert (again.predict(X, sensitive_features=z) == want).all()
    assert again.model_hash == predictor.model_hash
    assert not again.randomized


@pytest.mark.slow
def test_the_card_says_what_is_released(tmp_path):
    model, _, _ = fitted()
    sx.Predictor.from_estimator(model).save(tmp_path / "model")
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert "- released values: " in card
    assert "- groups: f, m" in card
    assert "- throws a coin: no" in card
    assert "penalty: 1" in card


def test_files_get_one_column_of_numbers(tmp_path):
    rng = np.random.default_rng(1)
    sex = rng.choice(["f", "m"], 500)
    y = rng.normal(size=500) + (sex == "m")
    frame = pd.DataFrame({"x": y + rng.normal(size=500), "town": rng.choice(["a", "b"], 500)})
    model = sx.AlignedRegressor(penalty=1.0, cv=2).fit(frame, y, sensitive_features=sex)
    predictor = sx.Predictor.from_estimator(model)
    assert (predictor.predict(frame, sensitive_features=sex) == model.predict(frame, sex)).all()


def test_an_unseen_group_and_a_missing_one_are_refused():
    model, X, _ = fitted()
    predictor = sx.Predictor.from_estimator(model)
    with pytest.raises(InputError, match="holds 'x', which is not one of 'f', 'm'"):
        predictor.predict(X[:1], sensitive_features=["x"])
    with pytest.raises(InputError, match=r"pass `sensitive_features` \('f', 'm'\)"):
        predictor.predict(X[:1])
    with pytest.raises(InputError, match="predicts a number, which has no table"):
        predictor.counts(X[:2], [0.0, 1.0], ["f", "m"])


def test_a_number_is_not_a_word():
    model, X, _ = fitted("continuous")
    predictor = sx.Predictor.from_estimator(model)
    with pytest.raises(InputError, match="must hold numbers, got 'old'"):
        predictor.predict(X[:1], sensitive_features=["old"])
    with pytest.raises(InputError, match="number of every row"):
        predictor.predict(X[:1])


@pytest.mark.parametrize("name", ["values", "levels", "cuts", "knots"])
def test_forged_maps_are_refused(name):
    model, _, _ = fitted()
    arrays = model.score_.arrays()
    arrays[name] = arrays[name][..., ::-1].copy()
    with pytest.raises(ValueError, match=r"falls|do not rise"):
        AlignedScore.from_arrays(model.groups_, arrays).check()


def test_a_changed_file_is_refused(tmp_path):
    model, _, _ = fitted()
    folder = sx.Predictor.from_estimator(model).save(tmp_path / "model")
    arrays = load_file(folder / "arrays.safetensors")
    arrays["branch0.levels"] += 1.0
    save_file(arrays, folder / "arrays.safetensors")
    with pytest.raises(DataError, match="was cut or changed"):
        sx.load(folder)
    (branch,) = json.loads((folder / "manifest.json").read_text())["branches"]
    assert branch["reads"] == "value"


def test_what_has_no_regressor_or_no_groups_is_not_saved():
    rng = np.random.default_rng(2)
    y, z = rng.normal(size=300), rng.integers(0, 2, 300)
    bare = sx.AlignedRegressor("precomputed", penalty=0.0).fit(y, y, sensitive_features=z)
    with pytest.raises(InputError, match="AlignedRegressor was fitted around bare scores"):
        sx.Predictor.from_estimator(bare)
    plain = sx.AlignedRegressor(LinearRegression()).fit(y[:, None], y)
    with pytest.raises(InputError, match="was fitted without `sensitive_features`"):
        sx.Predictor.from_estimator(plain)
