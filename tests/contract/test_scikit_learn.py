"""At home in scikit-learn: the group as a column of X, in every tool and every kind of frame."""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import make_scorer, matthews_corrcoef
from sklearn.model_selection import (
    GridSearchCV,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import Pipeline

import separatrix as sx


def table(n=240, seed=0):
    rng = np.random.default_rng(seed)
    sex, y = rng.integers(0, 2, n), rng.integers(0, 2, n)
    frame = pd.DataFrame({"a": rng.normal(size=n) + 2 * y, "b": rng.normal(size=n), "sex": sex})
    return frame, y


def frame_of(kind, frame):
    if kind == "pandas":
        return frame
    if kind == "numpy":
        return frame.to_numpy()
    if kind == "polars":
        return pytest.importorskip("polars").from_pandas(frame)
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


def classifier(kind="pandas", **options):
    column = 2 if kind == "numpy" else "sex"
    base = None if kind == "pyarrow" else LogisticRegression()  # which takes no such table
    settings = {"max_eo_gap": 0.5, "cv": 2, "random_state": 0, "sensitive_columns": column}
    return sx.FrontierClassifier(base, **settings | options)


TOOLS = {
    "grid": lambda m, X, y: GridSearchCV(
        m, {"max_eo_gap": [0.4, 0.5]}, scoring="balanced_accuracy", cv=2
    ).fit(X, y).best_score_,
    "scorer": lambda m, X, y: cross_val_score(
        m, X, y, scoring=make_scorer(matthews_corrcoef), cv=2
    ).mean() + 0.5,
    "cross_val_predict": lambda m, X, y: (cross_val_predict(m, X, y, cv=2) == y).mean(),
    "calibrated": lambda m, X, y: CalibratedClassifierCV(m, cv=2).fit(X, y).score(X, y),
    "tuned": lambda m, X, y: TunedThresholdClassifierCV(m, cv=2).fit(X, y).score(X, y),
    "importance": lambda m, X, y: 0.5 + permutation_importance(
        m.fit(X, y), X, y, n_repeats=1, random_state=0
    ).importances_mean[0],
    "pipeline": lambda m, X, y: Pipeline([("model", m)]).fit(X, y).score(X, y),
}  # fmt: skip
FEW = ("cross_val_predict", "pipeline", "grid", "scorer")


@pytest.mark.parametrize(
    ("tool", "kind"),
    [(tool, kind) for kind in ("numpy", "pandas") for tool in TOOLS]
    + [(tool, "polars") for tool in FEW],
)
def test_a_tool_around_the_classifier_needs_no_routing(tool, kind):
    frame, y = table()
    value = TOOLS[tool](classifier(kind), frame_of(kind, frame), y)
    assert 0.6 < value < 1.6


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars", "pyarrow"])
def test_every_estimator_reads_the_column_of_every_frame(kind):
    frame, y = table()
    rows, column = frame_of(kind, frame), 2 if kind == "numpy" else "sex"
    given = {"sensitive_columns": column, "random_state": 0, "cv": 2}
    base = None if kind == "pyarrow" else LogisticRegression()
    line = None if kind == "pyarrow" else LinearRegression()
    models = [
        classifier(kind),
        classifier(kind, blind=True),
        sx.SeparatedScorer(base, **given),
        sx.AlignedRegressor(line, penalty=1.0, **given),
    ]
    for model in models:
        target = y + 0.1 * frame["a"].to_numpy() if isinstance(model, sx.AlignedRegressor) else y
        assert model.fit(rows, target).score(rows, target) > 0.4
        again = pickle.loads(pickle.dumps(model))
        assert again.score(rows, target) == model.score(rows, target)
        assert clone(model).get_params().keys() == model.get_params().keys()
        assert type(model).__name__ in repr(model)


def test_what_a_notebook_shows():
    frame, y = table()
    model = classifier(max_eo_gap=0.2).fit(frame, y)
    assert "<table>" in model.candidates_._repr_html_()
    assert "EO gap" in model.promise_._repr_html_()
    assert "group" in model.thresholds_.columns
    model.set_params(max_eo_gap=0.3)
    assert model.max_eo_gap == 0.3
