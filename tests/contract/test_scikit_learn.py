"""At home in scikit-learn: the group as a column of X, in every tool and every kind of frame."""

from __future__ import annotations

import pickle

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import VotingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.inspection import permutation_importance
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import make_scorer, matthews_corrcoef
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import separatrix as sx

pytestmark = pytest.mark.slow  # a trace or a cross-fit each

NUMBER = sx.AlignedRegressor
pytest.importorskip("skops.io")  # imported here, not by the first test that saves


class CodesOnly(LogisticRegression):
    """Refuses labels other than 0, 1, … as XGBoost does."""

    __module__ = "xgboost.sklearn"

    def fit(self, X, y, sample_weight=None):
        if not np.array_equal(np.unique(y), np.arange(len(np.unique(y)))):
            raise ValueError(f"Invalid classes inferred from unique values of `y`: {np.unique(y)}")
        return super().fit(X, y, sample_weight)


class Categories(LogisticRegression):
    """Is told which columns are categories, and keeps a copy of the list, as CatBoost does."""

    def __init__(self, cat_features=None):
        super().__init__()
        self.cat_features = None if cat_features is None else list(cat_features)

    def fit(self, X, y, sample_weight=None):
        for column in self.cat_features or ():
            if isinstance(column, str) and column not in X:
                raise ValueError(f"{column!r} is not in list")
        return super().fit(X, y, sample_weight)


def table(n=180, seed=0):
    rng = np.random.default_rng(seed)
    sex, y = rng.integers(0, 2, n), rng.integers(0, 2, n)
    frame = pd.DataFrame({"a": rng.normal(size=n) + 3 * y, "b": rng.normal(size=n), "sex": sex})
    return frame, y


def frame_of(kind, frame):
    if kind == "pandas":
        return frame
    if kind == "numpy":
        return frame.to_numpy()
    if kind == "polars":
        return pytest.importorskip("polars").from_pandas(frame)
    return pytest.importorskip("pyarrow").Table.from_pandas(frame)


def estimator(name, kind="pandas", **options):
    """A small one of the four, whose group is the column `sex`, the third."""
    given = {"sensitive_columns": 2 if kind == "numpy" else "sex", "random_state": 0}
    base = None if kind == "pyarrow" else LogisticRegression()  # which takes no such table
    if name == "frontier":
        return sx.FrontierClassifier(base, **{"max_eo_gap": 0.5, "cv": 2} | given | options)
    if name == "scorer":
        return sx.SeparatedScorer(base, **{"penalty": None, "cv": 2} | given | options)
    if name == "aligned":
        base = None if kind == "pyarrow" else LinearRegression()
        return sx.AlignedRegressor(base, **{"penalty": 1.0, "cv": 2} | given | options)
    pytest.importorskip("torch")
    small = {"hidden": (4,), "epochs": 30, "min_steps": 0, "batch": None, "learning_rate": 0.1}
    return sx.SeparationClassifier(0.1, **small | given | options)


def target(model, frame, y):
    return y + 0.1 * frame["b"].to_numpy() if isinstance(model, NUMBER) else y


GRIDS = {
    "frontier": ({"max_eo_gap": [None, 0.5]}, "balanced_accuracy"),
    "scorer": ({"penalty": [None, 1.0]}, "roc_auc"),
    "aligned": ({"levels": [8, 16]}, "r2"),
    "single": ({"trade_off": [0.0, 0.1]}, "roc_auc"),
}


def grid(name, model, X, y):
    settings, scoring = GRIDS[name]
    return GridSearchCV(model, settings, scoring=scoring, cv=2).fit(X, y).best_score_


def predicted(name, model, X, y):
    return np.corrcoef(cross_val_predict(model, X, y, cv=2), y)[0, 1]


def scorer(name, model, X, y):
    return cross_val_score(model, X, y, scoring=make_scorer(matthews_corrcoef), cv=2).mean()


def importance(name, model, X, y):
    found = permutation_importance(model.fit(X, y), X, y, n_repeats=1, random_state=0)
    return min(1.0, 0.5 + found.importances_mean[0])


def set_output(name, model, X, y):
    """A transformer that keeps the names in front of the estimator that looks for one."""
    kind = "pandas" if isinstance(X, pd.DataFrame) else "polars"
    scaled = StandardScaler().set_output(transform=kind)
    return make_pipeline(scaled, model).fit(X, y).score(X, y)


TOOLS = {
    "grid": grid,
    "cross_val_predict": predicted,
    "scorer": scorer,
    "calibrated": lambda _, m, X, y: CalibratedClassifierCV(m, cv=2).fit(X, y).score(X, y),
    "tuned": lambda _, m, X, y: TunedThresholdClassifierCV(m, cv=2).fit(X, y).score(X, y),
    "importance": importance,
    "pipeline": lambda _, m, X, y: Pipeline([("model", m)]).fit(X, y).score(X, y),
    "set_output": set_output,
}
CLASSIFIERS_ONLY = ("scorer", "calibrated", "tuned")
EVERY = tuple(TOOLS)
COMBINATIONS = [
    *((tool, "frontier", kind) for kind in ("numpy", "pandas") for tool in EVERY[:-1]),
    *((tool, "frontier", "polars") for tool in ("grid", "cross_val_predict", "set_output")),
    *(
        (tool, name, kind)
        for name in ("scorer", "aligned", "single")
        for tool in ("grid", "cross_val_predict", "pipeline")
        for kind in ("pandas", "polars")
    ),
    # of a polars frame permutation_importance makes an array without names
    *(("importance", name, "pandas") for name in ("scorer", "aligned", "single")),
    *((tool, name, "pandas") for tool in CLASSIFIERS_ONLY for name in ("scorer", "single")),
    *(("set_output", name, "pandas") for name in GRIDS),
]


@pytest.mark.parametrize(("tool", "name", "kind"), COMBINATIONS)
def test_a_tool_around_an_estimator_needs_no_routing(tool, name, kind):
    assert len(set(COMBINATIONS)) >= 30
    frame, y = table()
    model = estimator(name, kind)
    value = TOOLS[tool](name, model, frame_of(kind, frame), target(model, frame, y))
    assert 0.55 < value <= 1.0


@pytest.mark.parametrize("kind", ["numpy", "pandas", "polars", "pyarrow"])
@pytest.mark.parametrize("name", ["frontier", "blind", "scorer", "aligned", "single"])
def test_every_estimator_reads_the_column_of_every_frame_and_is_pickled(name, kind, tmp_path):
    frame, y = table()
    rows = frame_of(kind, frame)
    options = {"blind": True} if name == "blind" else {}
    model = estimator("frontier" if name == "blind" else name, kind, **options)
    with pytest.raises(NotFittedError):
        model.predict(rows)
    column = target(model, frame, y)
    assert model.fit(rows, column).score(rows, column) > 0.5
    joblib.dump(model, tmp_path / "model")
    for again in (pickle.loads(pickle.dumps(model)), joblib.load(tmp_path / "model")):
        np.testing.assert_array_equal(again.predict(rows), model.predict(rows))
    fresh = clone(model).set_params(random_state=1)
    assert fresh.get_params()["sensitive_columns"] == model.sensitive_columns
    assert f"{type(model).__name__}(" in repr(fresh)


@pytest.mark.parametrize("name", ["frontier", "scorer", "aligned"])
def test_folds_keep_people_together(name):
    """`groups=` in fit says who a row is about, with GroupKFold or a number of folds."""
    frame, y = table()
    model = estimator(name, cv=GroupKFold(3))
    person = np.arange(len(y)) // 4
    column = target(model, frame, y)
    assert model.fit(frame, column, groups=person).score(frame, column) > 0.5
    assert estimator(name).fit(frame, column, groups=person).score(frame, column) > 0.5


def test_a_blind_estimator_never_reads_the_column():
    frame, y = table()
    other = frame.assign(sex=7)
    for name in ("frontier", "scorer"):
        model = estimator(name, blind=True, use_whole_budget=True) if name == "frontier" else (
            estimator(name, blind=True)
        )  # fmt: skip
        shown = model.fit(frame, y).predict_proba(frame)
        np.testing.assert_array_equal(model.predict_proba(other), shown)


@pytest.mark.parametrize("kind", ["pandas", "polars"])
@pytest.mark.parametrize("name", ["frontier", "scorer"])
def test_a_blind_estimator_does_not_need_the_column(name, kind):
    """Who decides without the group may not know it: rows without the column are rows."""
    frame, y = table()
    model = estimator(name, kind, blind=True).fit(frame_of(kind, frame), y)
    alone = frame_of(kind, frame.drop(columns="sex"))
    shown = model.predict_proba(frame_of(kind, frame))
    np.testing.assert_array_equal(model.predict_proba(alone), shown)
    with pytest.raises(ValueError, match="feature names should match"):
        model.predict_proba(frame_of(kind, frame.drop(columns="a")))


def test_what_a_notebook_shows():
    frame, y = table()
    model = estimator("frontier", max_eo_gap=0.2).fit(frame, y)
    assert "<table>" in model.candidates_._repr_html_()
    assert "EO gap" in model.promise_._repr_html_()
    assert "group" in model.thresholds_.columns
    assert model.choice_ in model.candidates_._repr_html_()


@pytest.mark.parametrize("blind", [False, True])
def test_any_labels_around_a_classifier_that_takes_codes(blind):
    frame, y = table()
    names = np.array(["no", "yes"])[y]
    model = sx.FrontierClassifier(
        make_pipeline(StandardScaler(), CodesOnly()), max_eo_gap=0.3, cv=2, random_state=0,
        sensitive_columns="sex", blind=blind,
    ).fit(frame, names)  # fmt: skip
    assert model.score(frame, names) > 0.8
    assert set(model.predict(frame)) == {"no", "yes"}


@pytest.mark.parametrize(("given", "possible"), [([1], False), (["b"], True), (["b", "sex"], True), (None, True)])
def test_no_column_is_dropped_in_front_of_categories_by_place(given, possible):
    frame, y = table()
    base = Categories(cat_features=given)
    model = sx.FrontierClassifier(base, cv=2, sensitive_columns="sex")
    without = model.fit(frame, y).candidates_["without the group"]
    assert without.possible is possible
    assert possible or "by the place of a column" in without.note


def test_a_group_that_one_fold_has_alone_keeps_its_place():
    frame, y = table()
    sex = frame["sex"].to_numpy().copy()
    sex[:6] = 2
    fold = np.arange(len(y)) % 3
    fold[:6] = 0
    splits = [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in range(3)]
    for blind in (False, True):
        model = estimator("frontier", cv=splits, max_eo_gap=0.3, blind=blind)
        model.fit(frame.assign(sex=sex), y)
        assert model.groups_ == (0, 1, 2)


def pipeline(*categories):
    """Text by its type or by its name, numbers scaled."""
    text = list(categories) or make_column_selector(dtype_exclude=np.number)
    numbers = make_column_selector(dtype_include=np.number)
    columns = make_column_transformer((OneHotEncoder(), text), (StandardScaler(), numbers))
    return make_pipeline(columns, LogisticRegression())


def ensemble():
    """What the docstring tells who wants to ship one."""
    return VotingClassifier([("a", pipeline()), ("b", pipeline("job"))], voting="soft")


def boosting():
    lightgbm = pytest.importorskip("lightgbm")
    return lightgbm.LGBMClassifier(verbose=-1, n_estimators=5)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lambda: sx.FrontierClassifier(pipeline()), {"max_eo_gap": 0.06}),
        (lambda: sx.FrontierClassifier(pipeline("job")), {"max_eo_gap": 0.06}),
        (lambda: sx.FrontierClassifier(pipeline()), {"max_eo_gap": 0.06, "blind": True}),
        (lambda: sx.FrontierClassifier(), {"max_eo_gap": 0.1, "use_whole_budget": True}),
        (lambda: sx.FrontierClassifier(ensemble()), {"max_eo_gap": 0.06}),
        (lambda: sx.SeparatedScorer(pipeline(), penalty=None), {}),
        (lambda: sx.SeparatedScorer(pipeline()), {"blind": True}),
        (lambda: sx.AlignedRegressor(), {"penalty": 1.0}),
        (lambda: sx.AlignedRegressor(), {"sensitive": "continuous", "sensitive_columns": "age"}),
    ],
)
def test_a_pipeline_is_saved_and_loaded_without_trust(make, options, tmp_path):
    """The loaded predictor finds the group in raw rows, and decides the same."""
    rng = np.random.default_rng(0)
    z, x = rng.integers(0, 2, 500), rng.normal(size=500)
    frame = pd.DataFrame(
        {
            "sex": np.array(["f", "m"])[z],
            "x": x,
            "job": rng.choice(["cook", "pilot"], 500),
            "age": rng.integers(20, 70, 500).astype(float),
        }
    )
    value = x + 0.8 * z + rng.logistic(size=500)
    given = {"sensitive_columns": "sex", "cv": 2, "random_state": 0}
    model = make().set_params(**given | options)
    number = isinstance(model, NUMBER)
    model.fit(frame, value if number else np.where(value > 0.4, "yes", "no"))
    sx.Predictor.from_estimator(model).save(tmp_path / "model")
    loaded = sx.load(tmp_path / "model")
    if number:
        np.testing.assert_array_equal(np.asarray(loaded.predict(frame)), model.predict(frame))
    elif isinstance(model, sx.SeparatedScorer):
        shown = loaded.score(frame, random_state=0)
        np.testing.assert_allclose(shown, model.decision_function(frame, random_state=0))
    else:
        np.testing.assert_allclose(loaded.predict_proba(frame), model.predict_proba(frame))


def test_lightgbm_is_a_known_name(tmp_path):
    frame, y = table()
    model = sx.FrontierClassifier(boosting(), max_eo_gap=0.3, cv=2, sensitive_columns="sex")
    model.fit(frame, y).save(tmp_path / "model")
    loaded = sx.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.predict_proba(frame), model.predict_proba(frame))
