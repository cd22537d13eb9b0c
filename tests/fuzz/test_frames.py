"""Tables of columns in memory: pandas, polars, mappings."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given

import hostile
import separatrix as sx
from fuzzing import SEEDS, cases, finite, shows, told

pytestmark = pytest.mark.slow
NAMES = ["y", "z", "u", "w"]
ODD_NAMES = ([0, 1, 2, 3], ["y", "y", "u", "w"], [None, "z", "u", "w"], [1, "z", "u", "w"])
UNMAKEABLE = (ValueError, TypeError, OverflowError, pl.exceptions.PolarsError, AttributeError)


def a_frame(rng):
    """A frame with at most one hostile column; None where the library cannot make it."""
    n = int(rng.integers(0, 40))
    data = {
        "y": hostile.labels(rng, n, 2),
        "z": hostile.labels(rng, n, 2),
        "u": hostile.labels(rng, n, 2) if rng.random() < 0.5 else hostile.scores(rng, n),
        "w": rng.random(n),
    }
    if n and rng.random() < 0.5:
        data[hostile.pick(rng, NAMES)] = hostile.column(rng, n)
    make = hostile.pick(rng, (pd.DataFrame, pl.DataFrame, dict))
    try:
        frame = make(data)
        if make is pd.DataFrame and rng.random() < 0.3:
            frame.columns = hostile.pick(rng, ODD_NAMES)
    except UNMAKEABLE:
        return None
    return frame


@pytest.mark.nightly
@given(seed=SEEDS)
@cases(150)
def test_frames(seed):
    rng = np.random.default_rng(seed)
    frame = a_frame(rng)
    if frame is None:
        return
    odd = ("y", 0, None, "", ("a",), "none", True, 1.5)
    y, z, u, w = (hostile.pick(rng, odd) if rng.random() < 0.08 else own for own in NAMES)
    if rng.random() < 0.15:
        z = hostile.pick(rng, ([z, z], [z, "w"], [], [[]]))
    weight = w if rng.random() < 0.3 else None
    which = int(rng.integers(5))
    if which <= 1:
        result = told(lambda: sx.audit(frame, target=y, sensitive_features=z, prediction=u, sample_weight=weight))
        assert result is None or shows(result)
    elif which == 2:
        result = told(lambda: sx.audit_score(frame, target=y, sensitive_features=z, prediction=u, sample_weight=weight))
        assert result is None or shows(result)
    elif which == 3:
        bins = hostile.pick(rng, (64, 64, 0, -1, "x", 2.5))
        best = told(
            lambda: sx.limit(
                frame, target=y, sensitive_features=z, score=u, sample_weight=weight, bins=bins, levels=[0.01]
            )
        )
        assert best is None or finite(np.asarray(best.values))
    else:
        data = told(lambda: sx.datasets.from_frame(frame, target=y, sensitive=z))
        assert data is None or finite(data.X)
