"""ONNX: another runtime computes the same posterior."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

from people import people
from separatrix import methods
from separatrix.errors import InputError
from separatrix.methods import Lane, Recipe, Sample
from separatrix.predictor.component import Component

onnxruntime = pytest.importorskip("onnxruntime")


def run(path, **inputs):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["posterior"], inputs)[0], session.get_modelmeta().custom_metadata_map


def test_onnxruntime_agrees_within_1e_5(single, tmp_path):
    rows = people(2_000, seed=30)
    z = single.group_codes(rows, None, 2_000).astype(np.int64)
    q, about = run(single.to_onnx(tmp_path / "model.onnx"), X=single.matrix(rows), z=z)
    assert np.abs(q - single.predict_proba(rows)).max() < 1e-5
    assert json.loads(about["labels"]) == ["high", "low"]
    assert json.loads(about["columns"]) == list(single.preprocessing.names)


def test_deep_x_only_multiclass_networks_export_too(single, data, tmp_path):
    rng = np.random.default_rng(0)
    sample = Sample(data.X, rng.integers(0, 3, len(data)), data.z, 3, 2)
    recipe = Recipe(hidden=(8, 8, 8), epochs=2, min_steps=0)
    fitted = methods.fit("erm", sample, [Lane(0.0)], recipe=recipe, use_sensitive=False)
    three = replace(
        single, labels=("a", "b", "c"), components=(Component.of("erm", 0.0, "randomized", fitted),)
    )
    rows = people(100, seed=31)
    q, _ = run(three.to_onnx(tmp_path / "model.onnx"), X=three.matrix(rows))
    assert np.abs(q - three.predict_proba(rows)).max() < 1e-5
    assert [p.name for p in tmp_path.iterdir()] == ["model.onnx"]


def test_a_mixture_is_refused(mixture, tmp_path):
    with pytest.raises(InputError, match="Only a single network"):
        mixture.to_onnx(tmp_path / "model.onnx")


def test_networks_with_ramps_export_too(single, data, tmp_path):
    recipe = Recipe(hidden=(8,), epochs=2, min_steps=0, piecewise_linear=8)
    fitted = methods.fit("cmi", Sample(data.X, data.y, data.z), [Lane(0.3)], recipe=recipe)
    ramped = replace(single, components=(Component.of("cmi", 0.3, "randomized", fitted),))
    rows = people(500, seed=32)
    z = ramped.group_codes(rows, None, 500).astype(np.int64)
    q, _ = run(ramped.to_onnx(tmp_path / "model.onnx"), X=ramped.matrix(rows), z=z)
    assert len(fitted.piecewise_linear)
    assert np.abs(q - ramped.predict_proba(rows)).max() < 1e-5
