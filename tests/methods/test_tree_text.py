"""The text of saved trees: what is cut or forged never reaches LightGBM, which trusts its files."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from separatrix import methods
from separatrix.errors import DataError
from separatrix.methods import Lane, Sample

pytest.importorskip("lightgbm")

from separatrix.methods.cmi_boosting import METHOD, Boosted

seeds = st.integers(0, 2**32 - 1)


@cache
def _small() -> Boosted:
    rng = np.random.default_rng(0)
    X, z = rng.normal(size=(200, 3)), rng.integers(0, 2, 200)
    y = (X[:, 0] + 0.7 * z + rng.normal(size=200) > 0.3).astype(int)
    return methods.fit("cmi_boosting", Sample(X, y, z), [Lane(0.2)])


def _forged(model: Boosted, change) -> dict:
    arrays = model.arrays()
    text = change(arrays["model_0"].tobytes().decode())
    return arrays | {"model_0": np.frombuffer(text.encode(), dtype=np.uint8)}


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t[: len(t) // 2],
        lambda t: t.replace("end of trees", "end"),
        lambda t: t.replace("tree\nversion", "bush\nversion", 1),
        lambda t: t.replace("max_feature_idx=4", "max_feature_idx=400", 1),
        lambda t: t.replace("num_class=1", "num_class=3", 1),
        lambda t: t.replace("split_feature=", "split_feature=9", 1),
        lambda t: t.replace("left_child=", "left_child=7", 1),
        lambda t: t.replace("num_leaves=", "num_leaves=9", 1),
        lambda t: t.replace("leaf_value=", "leaf_value=nan ", 1),
        lambda t: t.replace("num_cat=0", "num_cat=1", 1),
        lambda t: t.replace("Tree=1\n", "Tree=7\n", 1),
        lambda t: t.replace("tree\n", "träe\n", 1),
        lambda t: "",
    ],
)
def test_cut_or_forged_trees_are_refused(change):
    with pytest.raises(DataError, match="Load another copy"):
        METHOD.restore(_forged(_small(), change))


@pytest.mark.slow
@settings(max_examples=40)
@given(seeds)
def test_a_changed_index_never_reaches_lightgbm(seed):
    """Numbers of one list of a tree are replaced at random: refused, or still a tree."""
    model, rng = _small(), np.random.default_rng(seed)
    name = rng.choice(["split_feature", "left_child", "right_child", "decision_type", "num_leaves"])
    lines = model.models[0].split("\n")
    at = rng.choice([i for i, line in enumerate(lines) if line.startswith(f"{name}=")])
    values = lines[at].partition("=")[2].split()
    place = rng.integers(len(values))
    new = str(int(values[place]) + rng.integers(1, 9) * rng.choice([-1, 1]))
    values[place] = new.rjust(len(values[place]))[-len(values[place]) :].strip() or "0"
    lines[at] = f"{name}={' '.join(values)}"
    text = "\n".join(lines)
    try:
        again = METHOD.restore(_forged(model, lambda _: text))
    except DataError:
        return
    assert np.isfinite(again.posteriors(np.zeros((3, 3)), np.zeros(3, dtype=int))).all()
