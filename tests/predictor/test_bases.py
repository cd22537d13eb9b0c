"""One digest for one classifier, whatever skops writes around it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from separatrix.crossfit.array_models import BoostedTrees, Logistic
from separatrix.crossfit.base_models import Base
from separatrix.errors import DataError, InputError
from separatrix.optimum.rules import PlainRule
from separatrix.predictor.models import file_ending, model_bytes, model_digest, model_from_bytes
from separatrix.predictor.predictor import Branch, Predictor

skops = pytest.importorskip("skops.io")


@pytest.mark.parametrize(
    "make",
    [
        LogisticRegression,
        lambda: make_pipeline(StandardScaler(), LogisticRegression()),
        lambda: HistGradientBoostingClassifier(max_iter=3),
        lambda: RandomForestClassifier(3, random_state=0),
    ],
)
def test_a_classifier_keeps_its_digest_through_the_disk_and_another_has_its_own(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    y = (X[:, 0] + rng.normal(size=200) > 0).astype(int)
    model, other = make().fit(X, y), make().fit(X[:150], y[:150])
    content = model_bytes(model)
    trusted = skops.get_untrusted_types(data=content)
    again = model_from_bytes(content, trusted, "base")
    assert file_ending(content) == "skops"
    assert model_bytes(again) != content  # the bytes themselves are no identity
    assert model_digest(model_bytes(again)) == model_digest(content)
    assert model_digest(model_bytes(other)) != model_digest(content)


@pytest.mark.parametrize("make", [Logistic, BoostedTrees])
def test_our_own_base_models_are_plain_arrays(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = make().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    content = model_bytes(model)
    again = model_from_bytes(content, (), "base")
    assert file_ending(content) == "safetensors"
    assert again.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert model_bytes(again) == content == model_bytes(model)
    for damaged in (content[:-9], b"", content.replace(b"boosted", b"bolstered"), b"x" * 100):
        if damaged != content:
            with pytest.raises(DataError, match="not a whole base model"):
                model_from_bytes(damaged, (), "base")


def test_what_is_no_skops_file_has_no_digest():
    with pytest.raises(DataError, match="not a whole"):
        model_digest(b"PK nothing")


def test_a_model_that_skops_cannot_write_is_one_sentence():
    model = LogisticRegression()
    model.rest = (i for i in range(3))
    with pytest.raises(InputError, match=r"LogisticRegression cannot be saved.*generator"):
        model_bytes(model)


def test_bare_scores_have_no_model_to_save(tmp_path):
    bare = Predictor((0, 1), (), (Branch(Base(None), PlainRule(np.ones(2))),))
    assert bare.predict([0.7, 0.2]).tolist() == [1, 0]
    with pytest.raises(InputError, match="no model to save"):
        bare.save(tmp_path / "model")
    assert not list(tmp_path.iterdir())
