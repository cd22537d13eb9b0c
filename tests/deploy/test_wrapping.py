"""Around a scikit-learn classifier: the same decisions law after a save, through skops and nothing
else.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import separatrix as sx
from people import people
from separatrix.deploy.wrapping import from_estimator
from separatrix.errors import InputError
from separatrix.methods.postprocessing import ChannelClassifier

pytest.importorskip("skops")


@pytest.mark.parametrize(("labels", "share"), [(2, 1.0), (3, 1.0), (2, 0.7)])
def test_a_channel_around_a_pipeline_of_raw_columns_survives_the_disk(tmp_path, labels, share):
    rows = pd.DataFrame(people(1_200, seed=60))
    y = rows["pay"] if labels == 2 else rows["pay"].where(rows["age"] < 45, "unknown")
    base = make_pipeline(
        make_column_transformer((OneHotEncoder(), ["job", "sex"]), remainder="drop"),
        LogisticRegression(),
    )
    model = ChannelClassifier(base, max_violation=0.01, cv=3, share=share).fit(
        rows, y, sensitive_features=rows["sex"]
    )
    predictor = from_estimator(model)
    expected = model.predict_proba(rows, sensitive_features=rows["sex"])
    before = predictor.predict_proba(rows, sensitive_features=rows["sex"])
    np.testing.assert_allclose(before, expected, rtol=1e-12, atol=1e-15)
    predictor.save(tmp_path / "model")
    for one in (predictor, sx.load(tmp_path / "model")):
        np.testing.assert_array_equal(
            one.predict_proba(rows, sensitive_features=rows["sex"]), before
        )
        assert one.labels == tuple(sorted(set(y)))
        assert one.groups == ("f", "m")
        with pytest.raises(InputError, match="holds 'x'"):
            one.predict(rows[:1], sensitive_features=["x"])
    assert (tmp_path / "model" / "base.skops").is_file()
    assert "Channel" in (tmp_path / "model" / "MODEL_CARD.md").read_text()


def test_only_a_fitted_channel_around_a_classifier_can_be_wrapped():
    with pytest.raises(
        InputError,
        match="must be a fitted ChannelClassifier around a classifier, got LogisticRegression",
    ):
        from_estimator(LogisticRegression())
    rng = np.random.default_rng(0)
    bare = ChannelClassifier(None, 0.0).fit(
        rng.random(300), rng.integers(0, 2, 300), rng.integers(0, 2, 300)
    )
    with pytest.raises(InputError, match="around bare probabilities"):
        from_estimator(bare)
