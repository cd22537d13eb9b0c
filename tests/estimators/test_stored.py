"""A classifier as bytes and back: equal predictions, and no file can reach outside of its trees."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from separatrix.errors import DataError
from separatrix.estimators.boosted import BoostedTrees
from separatrix.estimators.logistic import Logistic
from separatrix.estimators.stored import model_bytes, model_from_bytes

RNG = np.random.default_rng(0)
X = np.c_[RNG.normal(size=(300, 2)), RNG.integers(0, 6, 300)]
Y = (X[:, 0] + (X[:, 2] % 2) > 0.5).astype(int)


def _trees():
    return HistGradientBoostingClassifier(max_iter=4, random_state=0)


@pytest.mark.parametrize(
    "model",
    [
        BoostedTrees(),
        Logistic(),
        _trees(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(_trees()),
    ],
)
def test_what_comes_back_predicts_the_same(model):
    fitted = model.fit(X, Y)
    again = model_from_bytes(model_bytes(fitted))
    assert (again.predict_proba(X) == fitted.predict_proba(X)).all()


@pytest.mark.parametrize(
    ("field", "value"),
    [("left", 10_000), ("right", 0), ("feature_idx", 3), ("feature_idx", -1), ("left", 2**32 - 1)],
)
def test_a_forged_tree_is_refused(field, value):
    model = make_pipeline(_trees().fit(X, Y))
    nodes = model[0]._predictors[0][0].nodes
    nodes[field][0] = value
    with pytest.raises(DataError, match="outside of them"):
        model_from_bytes(model_bytes(model))


def test_a_tree_without_an_owner_is_refused():
    tree = _trees().fit(X, Y)._predictors[0][0]
    with pytest.raises(DataError, match="outside of them"):
        model_from_bytes(model_bytes([tree]))


def test_cut_bytes_are_one_sentence():
    content = model_bytes(LogisticRegression().fit(X, Y))
    with pytest.raises(DataError, match="not a whole"):
        model_from_bytes(content[:100])
