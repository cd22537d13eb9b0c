"""Predictions with any values: the codebook's radius is exact, and the bound is close."""

from __future__ import annotations

import numpy as np
import pytest

import separatrix as sx
from separatrix.core.information import conditional_mutual_information, mutual_information
from separatrix.errors import InputError
from separatrix.optimum.experimental.free_alphabet import FreeAlphabet, codebook
from separatrix.optimum.law import LabelLaw


def random_law(seed: int, atoms: int, labels: int = 3):
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(labels, 0.5), atoms)
    return p, np.arange(atoms) % 2, rng.dirichlet(np.ones(atoms))


@pytest.mark.parametrize("labels", [2, 3])
def test_every_mixture_of_the_posteriors_is_within_the_radius(labels):
    p, *_ = random_law(0, 9, labels)
    laws, delta = codebook(p, 0.004)
    r = np.random.default_rng(1).dirichlet(np.full(9, 0.3), 20_000) @ p
    nearest = (r * np.log(r)).sum(1) - (r @ np.log(laws).T).max(1)
    assert 0.9 * delta < nearest.max() <= delta <= 0.004  # exact: almost reached, never passed


@pytest.mark.nightly
@pytest.mark.parametrize(("seed", "level"), [(0, 0.02), (1, 0.001)])
def test_the_certified_gap_is_small_and_no_kernel_is_above_the_bound(seed, level):
    p, z, w = random_law(seed, 8)
    found, rng = FreeAlphabet(LabelLaw(p, z, w, 2)).solve(level), np.random.default_rng(seed)
    assert found.violation <= level + 1e-12
    assert found.value <= found.upper <= found.value + 0.003
    for _ in range(300):
        q = rng.dirichlet(np.full(5, 0.05), 8)
        table = np.einsum("n,ny,nz,nu->yzu", w, p, np.eye(2)[z], q)
        if conditional_mutual_information(table) <= level:
            assert mutual_information(table) <= found.upper


def test_twenty_labels_have_no_bound_and_the_limit_says_so():
    rng = np.random.default_rng(0)
    p, y = rng.dirichlet(np.ones(20), 200), np.arange(200) % 20
    for options, words in (
        ({"alphabet": "free"}, "no bound on u for 20 labels"),
        ({"alphabet": "any"}, "'labels' or 'free'"),
        ({"alphabet": "free", "maximize": "accuracy"}, "is for maximize='utility'"),
    ):
        with pytest.raises(InputError, match=words):
            sx.limit(y, p, sensitive_features=np.arange(200) % 2, **options)
