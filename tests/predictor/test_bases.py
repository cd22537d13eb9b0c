"""One digest for one classifier, whatever skops writes around it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from separatrix.crossfit.boosted import BoostedTrees
from separatrix.crossfit.logistic import Logistic
from separatrix.errors import DataError
from separatrix.predictor.base_files import kind_of

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
    kind = kind_of(model)
    content = kind.dump(model)
    trusted = skops.get_untrusted_types(data=content)
    again = kind.load(content, trusted, "base")
    assert kind.dump(again) != content  # the bytes themselves are no identity
    assert kind.digest(kind.dump(again)) == kind.digest(content)
    assert kind.digest(kind.dump(other)) != kind.digest(content)


@pytest.mark.parametrize("make", [Logistic, BoostedTrees])
def test_our_own_base_models_are_plain_arrays(make):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3))
    model = make().fit(X, np.where(X[:, 0] > 0, "yes", "no"))
    kind = kind_of(model)
    content = kind.dump(model)
    again = kind.load(content, (), "base")
    assert kind.name == "safetensors"
    assert again.classes_.tolist() == ["no", "yes"]
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    assert kind.dump(again) == content == kind.dump(model)
    for damaged in (content[:-9], b"", content.replace(b"boosted", b"bolstered"), b"x" * 100):
        if damaged != content:
            with pytest.raises(DataError, match="not a whole base model"):
                kind.load(damaged, (), "base")


def test_what_is_no_skops_file_has_no_digest():
    with pytest.raises(DataError, match="not a whole skops file"):
        kind_of(None).digest(b"PK nothing")
