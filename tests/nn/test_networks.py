"""Trained networks as arrays: predictions without torch, slices, and the way to a file and back."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from separatrix.errors import InputError
from separatrix.nn.networks import Networks


def some(m=3, d=4, h=5, k=2, n_groups=2, seed=0) -> Networks:
    rng = np.random.default_rng(seed)
    shapes = [(m, d + n_groups, h), (m, h, h), (m, h, k)]
    weights = tuple(rng.normal(size=s).astype(np.float32) for s in shapes)
    biases = tuple(rng.normal(size=(m, s[2])).astype(np.float32) for s in shapes)
    return Networks(weights, biases, n_groups, ("ok",) * m, np.zeros((m, 1)))


def test_posteriors_equal_the_definition(monkeypatch):
    networks = some()
    rng = np.random.default_rng(1)
    X, z = rng.normal(size=(50, 4)).astype(np.float32), rng.integers(0, 2, 50)
    q = networks.posteriors(X, z)
    assert q.shape == (3, 50, 2)
    np.testing.assert_allclose(q.sum(-1), 1, atol=1e-6)
    h = np.hstack([np.eye(2)[z], X])
    for layer in range(3):
        h = h @ networks.weights[layer][1] + networks.biases[layer][1]
        h = np.maximum(h, 0) if layer < 2 else np.exp(h) / np.exp(h).sum(1, keepdims=True)
    np.testing.assert_allclose(q[1], h, atol=1e-5)
    monkeypatch.setattr("separatrix.nn.networks._CELLS", 100)  # rows in pieces
    np.testing.assert_allclose(networks.posteriors(X, z), q, atol=1e-6)


def test_saturated_logits_do_not_overflow():
    networks = some()
    q = networks.posteriors(1e6 * np.ones((2, 4)), [0, 1])
    assert np.isfinite(q).all()


def test_slices_and_arrays(tmp_path):
    networks = some()
    X, z = np.ones((3, 4)), np.array([0, 1, 0])
    np.savez(tmp_path / "networks.npz", **networks[[2, 0]].arrays())
    with np.load(tmp_path / "networks.npz", allow_pickle=False) as file:
        again = Networks.restore(dict(file))
    assert again.status == ("ok", "ok")
    np.testing.assert_array_equal(again.posteriors(X, z), networks.posteriors(X, z)[[2, 0]])


@pytest.mark.parametrize(
    ("X", "z", "message"),
    [
        (np.ones((2, 3)), [0, 1], r"must have the 4 columns of training, got shape \(2, 3\)"),
        (np.ones((2, 4)), None, r"trained on \[Z\|X\]"),
        (np.ones((2, 4)), [0, 2], r"the code 2, outside 0 … 1"),
        (np.ones((2, 4)), ["a", "b"], r"integer codes"),
    ],
)
def test_errors(X, z, message):
    with pytest.raises(InputError, match=message):
        some().posteriors(X, z)


def test_prediction_needs_no_torch_and_its_absence_is_one_sentence():
    code = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, Without())
import separatrix as sx
from separatrix.errors import MissingExtraError
from separatrix.nn.networks import Networks
from separatrix.nn.networks import auroc
assert "cmi" in sx.methods.names()
for call in (lambda: sx.nn.soft_cmi, lambda: sx.nn.SeparationLoss, lambda: sx.methods.get("cmi")):
    try:
        call()
    except MissingExtraError as error:
        assert "pip install 'separatrix[torch]'" in str(error), error
    else:
        raise AssertionError("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True)
