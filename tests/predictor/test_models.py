"""A classifier as bytes and back: equal predictions, and no file can reach outside of its trees."""

from __future__ import annotations

import io
import json
import re
import tracemalloc
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

import forging
from separatrix.crossfit.array_models import BoostedTrees, Logistic
from separatrix.errors import DataError, InputError
from separatrix.predictor.models import model_bytes, model_digest, model_from_bytes

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
    ("field", "value"), [("left", 10_000), ("right", 0), ("feature_idx", 3), ("feature_idx", -1), ("left", 2**32 - 1)]
)
def test_a_forged_tree_is_refused(field, value):
    model = make_pipeline(_trees().fit(X, Y))
    nodes = model[0]._predictors[0][0].nodes
    nodes[field][0] = value
    with pytest.raises(DataError, match="outside of its arrays"):
        model_from_bytes(model_bytes(model))


def test_a_tree_without_an_owner_is_refused():
    tree = _trees().fit(X, Y)._predictors[0][0]
    with pytest.raises(DataError, match="without an owner"):
        model_from_bytes(model_bytes([tree]))


def test_scikit_learns_own_pipelines_load_without_a_question():
    frame = pd.DataFrame(X, columns=["a", "b", "c"]).assign(d=np.where(X[:, 2] > 2, "u", "v"))
    numbers, words = (make_column_selector(dtype_include=np.number), make_column_selector(dtype_exclude=np.number))
    columns = make_column_transformer((SimpleImputer(), numbers), (OneHotEncoder(), words))
    for last in (RandomForestClassifier(3, random_state=0), SVC(), GaussianProcessClassifier()):
        model = make_pipeline(columns, last).fit(frame[:40], Y[:40])
        again = model_from_bytes(model_bytes(model))
        assert (again.predict(frame) == model.predict(frame)).all()


def test_lightgbm_is_a_known_name_and_its_text_is_checked():
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMClassifier(n_estimators=2, verbose=-1).fit(X, Y)
    content = model_bytes(model)
    assert (model_from_bytes(content).predict(X) == model.predict(X)).all()
    wild = re.sub(r"left_child=(-?)\d", r"left_child=\g<1>9", _parts(content)["schema.json"].decode())
    with pytest.raises(DataError, match="do not form a tree"):
        model_from_bytes(_zipped(_parts(content) | {"schema.json": wild.encode()}))


def _parts(content):
    with ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def _zipped(parts, compression=ZIP_STORED):
    whole = io.BytesIO()
    with ZipFile(whole, "w", compression) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return whole.getvalue()


@pytest.mark.parametrize("field", ["left_child", "right_child", "feature"])
def test_a_wild_index_in_a_forest_is_refused(field):
    model = RandomForestClassifier(2, random_state=0).fit(X, Y)
    tree = model.estimators_[1].tree_
    state = tree.__getstate__()
    state["nodes"][field][0] = 2**30
    tree.__setstate__(state)
    with pytest.raises(DataError, match="DecisionTreeClassifier that points outside"):
        model_from_bytes(model_bytes(model))


def test_our_own_models_load_from_arrays_only():
    """A skops file could give one of our types any attribute, trees with wild places among them."""
    model = BoostedTrees().fit(X, Y)
    with pytest.raises(InputError, match=r"BoostedTrees .* inside a list"):
        model_bytes([model])
    for trusted in ((), ("separatrix.crossfit.array_models.BoostedTrees",)):
        with pytest.raises(DataError, match="kept as arrays"):
            model_from_bytes(skops.io.dumps(model), trusted)


@pytest.mark.parametrize(
    ("name", "value"), [("bundle", [0, 1, 2**40]), ("node_left", -1), ("sizes", -1), ("node_feature_idx", 7)]
)
def test_arrays_of_trees_that_disagree_are_refused(name, value):
    arrays = {key: one.copy() for key, one in BoostedTrees().fit(X, Y).arrays().items()}
    arrays[name][: np.size(value)] = value
    with pytest.raises(InputError, match="damaged"):
        BoostedTrees.restore(arrays)


def test_two_arrays_swapped_change_the_digest():
    content = model_bytes(StandardScaler().fit(X + 3.0))
    parts = _parts(content)
    schema = json.loads(parts["schema.json"])
    slots = schema["content"]["content"]
    mean, scale = slots["mean_"]["file"], slots["scale_"]["file"]
    slots["mean_"]["file"], slots["scale_"]["file"] = scale, mean
    swapped = _zipped(parts | {"schema.json": json.dumps(schema).encode()})
    changed, honest = model_from_bytes(swapped), model_from_bytes(content)
    assert (changed.mean_ == honest.scale_).all()
    assert model_digest(swapped) != model_digest(content)


def test_a_bomb_is_refused_by_its_declared_sizes():
    bomb = _zipped({"schema.json": b" " * 50_000_000}, ZIP_DEFLATED)
    array = io.BytesIO()
    np.lib.format.write_array_header_1_0(array, {"descr": "<f8", "fortran_order": False, "shape": (10**9,)})
    liar = _zipped({"schema.json": b"{}", "1.npy": array.getvalue()})
    tracemalloc.start()
    for content, told in ((bomb, "is compressed"), (liar, "declares 8,000,000,000 bytes")):
        with pytest.raises(DataError, match=told):
            model_from_bytes(content)
    assert tracemalloc.get_traced_memory()[1] < 5_000_000
    tracemalloc.stop()


@pytest.mark.parametrize("cases", [60, pytest.param(2_000, marks=pytest.mark.nightly)])
def test_forged_files_never_end_the_process(cases):
    code, last = forging.run(20_000, cases)
    assert code == 0, f"exit code {code} at case {last}: `forging.forged({last})` repeats it"


def test_cut_bytes_are_one_sentence():
    content = model_bytes(LogisticRegression().fit(X, Y))
    with pytest.raises(DataError, match="not a whole"):
        model_from_bytes(content[:100])
