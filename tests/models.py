"""Fixtures of several rooms: a small trained predictor of raw rows, its mixture, a saved model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from people import people
from separatrix import datasets


@pytest.fixture(scope="session")
def data():
    return datasets.from_frame(people(), target="pay", sensitive="sex")


@pytest.fixture(scope="session")
def fitted(data):
    pytest.importorskip("torch")
    from separatrix import methods
    from separatrix.methods import Lane, Recipe, Sample

    sample = Sample(data.X, data.y, data.z, 2, 2)
    recipe = Recipe(hidden=(16,), epochs=8, min_steps=0, batch=128, learning_rate=5e-3)
    return methods.fit("cmi", sample, [Lane(0.0), Lane(0.9)], recipe=recipe)


@pytest.fixture(scope="session")
def single(data, fitted):
    from separatrix.crossfit.base_models import Base
    from separatrix.optimum.rules import DrawnLabel
    from separatrix.predictor.predictor import Branch, Predictor

    return Predictor(
        data.labels,
        data.groups,
        (Branch(Base.from_lane("cmi", 0.0, fitted, 0), DrawnLabel()),),
        preprocessing=data.preprocessing,
        grouping=data.grouping,
        about={"choice": {"max_violation": 0.01}},
    )


@pytest.fixture(scope="session")
def mixture(single, fitted):
    from separatrix.crossfit.base_models import Base

    second = replace(single.branches[0], base=Base.from_lane("cmi", 0.9, fitted, 1))
    return replace(single, branches=(*single.branches, second), weights=(0.3, 0.7))


@pytest.fixture
def folder(mixture, tmp_path):
    """A saved model."""
    mixture.save(tmp_path / "model")
    return tmp_path / "model"
