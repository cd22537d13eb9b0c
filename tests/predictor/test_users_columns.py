"""Dates and numbers as groups reach a saved model as they reached training: rows, frames, files."""

from __future__ import annotations

import csv
import json
from datetime import date, timedelta

import numpy as np
import pytest

import separatrix as sx
from separatrix import datasets, methods
from separatrix.crossfit.base_models import Base
from separatrix.errors import DataError
from separatrix.methods import Lane, Recipe, Sample
from separatrix.optimum.rules import DrawnLabel
from separatrix.predictor.folder import manifest_text
from separatrix.predictor.predictor import Branch, Predictor
from separatrix.production.streaming import predict_file

pytest.importorskip("torch")
pytest.importorskip("safetensors")
pytestmark = pytest.mark.slow
N = 200


def table():
    rng = np.random.default_rng(0)
    days = [date(2021, 1, 1) + timedelta(days=int(d)) for d in rng.integers(0, 900, N)]
    age = [None if i % 50 == 3 else int(a) for i, a in enumerate(rng.integers(18, 90, N))]
    hired = [("no", "yes")[d.year > 2021 and (a or 0) > 40] for d, a in zip(days, age, strict=True)]
    return {"since": days, "age": age, "hired": hired}


@pytest.fixture(scope="module")
def data():
    return datasets.from_frame(table(), target="hired", sensitive="age", missing_groups="own")


@pytest.fixture(scope="module")
def predictor(data):
    sample = Sample(data.X, data.y, data.z, 2, len(data.groups))
    recipe = Recipe(hidden=(8,), epochs=3, min_steps=0, batch=64)
    fitted = methods.fit("erm", sample, [Lane(0.0)], recipe=recipe)
    branch = Branch(Base.from_lane("erm", 0.0, fitted), DrawnLabel())
    return Predictor(
        data.labels, data.groups, (branch,), preprocessing=data.preprocessing,
        grouping=data.grouping,
    )  # fmt: skip


def test_a_saved_model_reads_them_from_rows_groups_and_files(predictor, data, tmp_path):
    rows = table()
    q = predictor.predict_proba(rows)
    matrix = predictor.branches[0].base.model.posteriors(data.X, data.z)[0]
    np.testing.assert_allclose(q, matrix, atol=1e-6)
    predictor.save(tmp_path / "model")
    loaded = sx.load(tmp_path / "model")
    assert loaded.grouping == data.grouping
    assert loaded.preprocessing == data.preprocessing
    apart = loaded.predict_proba({"since": rows["since"]}, sensitive_features=rows["age"])
    np.testing.assert_array_equal(apart, q)
    lines = [["" if one is None else str(one) for one in row] for row in zip(*rows.values(), strict=True)]
    with (tmp_path / "rows.csv").open("w", newline="") as file:
        csv.writer(file).writerows([list(rows), *lines])
    predict_file(loaded, tmp_path / "rows.csv", tmp_path / "out.csv", rows=60, random_state=0)
    with (tmp_path / "out.csv").open(newline="") as file:
        found = [float(row["score"]) for row in csv.DictReader(file)]
    np.testing.assert_allclose(found, q[:, 1], atol=1e-6)


def test_a_damaged_grouping_is_refused(predictor, tmp_path):
    place = predictor.save(tmp_path / "model") / "manifest.json"
    manifest = json.loads(place.read_text(encoding="utf-8"))
    grouping = manifest["grouping"]
    assert grouping["missing"] is True
    changes = ({"edges": {"age": []}}, {"edges": {"age": [2, 1]}}, {"missing": 1}, {"more": 0})
    for change in changes:
        forged = manifest | {"grouping": grouping | change}
        forged.pop("checksum")
        place.write_bytes(manifest_text(forged))
        with pytest.raises(DataError, match="does not describe a predictor"):
            sx.load(tmp_path / "model")
    manifest["grouping"]["edges"]["age"] = [1.0]
    place.write_text(json.dumps(manifest), encoding="utf-8")
    with pytest.raises(DataError, match="checksum"):
        sx.load(tmp_path / "model")
