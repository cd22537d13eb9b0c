"""Threshold Optimizer: randomised thresholds per group, with equal error rates.

A network (`erm`) is trained on seven tenths of a lane's rows; fairlearn's `ThresholdOptimizer` with
equalized odds is fitted on the rest: the most accurate point in the intersection of the groups' ROC
regions. Its randomised policy is kept as steps of the score, with fairlearn's probabilities. An
unseen group is an error (fairlearn answers 0).

fairlearn has no relaxed equalized odds, so there is one point and λ is ignored. The policy needs
the group to predict even where the score (`use_sensitive=False`) does not. `base` is the score;
AUROC is measured on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from numpy.typing import NDArray
from sklearn.base import BaseEstimator

from separatrix.core.numerics import Array, rows_by_code
from separatrix.errors import InputError
from separatrix.methods import Lane, Method, Options, Sample
from separatrix.methods._ruled import RuledNetworks, normalised
from separatrix.methods.erm import loss
from separatrix.nn.networks import Networks
from separatrix.nn.stack import train
from separatrix.optimum.rules import ThresholdChannel

HELD_OUT = 0.3  # of each (label, group) cell of a lane's rows


def fit(sample: Sample, lanes: Sequence[Lane], options: Options) -> RuledNetworks:
    """Scores from one part of each lane's rows, thresholds from the rest."""
    if sample.weight is not None:
        raise InputError("fairlearn's ThresholdOptimizer takes no sample weights: leave out `weight`.")
    parts = [_split(sample, lane) for lane in lanes]
    training = [Lane(0.0, rows, lane.seed) for (rows, _), lane in zip(parts, lanes, strict=True)]
    base = train(sample, training, options, loss)
    every = np.arange(len(lanes))
    rules = tuple(_rule(sample, base[[i]], held_out) for i, (_, held_out) in enumerate(parts))
    return RuledNetworks(base, every[:, None], every, np.ones(len(lanes)), rules)


class _Score(BaseEstimator):
    """A ready score as the estimator that fairlearn wants."""

    def __init__(self, scores: Array) -> None:
        self.scores = scores

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def fit(self, X: Any, y: Any) -> _Score:
        raise AssertionError("the score is not fitted again")

    def predict(self, X: Any) -> Array:
        return self.scores


def _rule(sample: Sample, base: Networks, rows: NDArray[np.int64]) -> ThresholdChannel | None:
    """fairlearn's rule as steps of the score; a diverged lane has none."""
    if base.status[0] != "ok":
        return None
    y, z = sample.y[rows], sample.z[rows]
    score = normalised(base.posteriors(sample.X[rows], z))[0, :, 1]
    optimiser = ThresholdOptimizer(
        estimator=_Score(score), constraints="equalized_odds", prefit=True, predict_method="predict"
    )
    optimiser.fit(rows[:, None], y, sensitive_features=z)
    known = optimiser.interpolated_thresholder_.interpolation_dict
    groups = sorted(known)
    thresholds, levels = zip(*(_steps(known[group]) for group in groups), strict=True)
    return ThresholdChannel(tuple(map(int, groups)), thresholds, levels)


def _steps(of_group: Any) -> tuple[Array, Array]:
    """Thresholds, falling, and P(U = 1) from each of them up to the next.

    With probability `p_ignore` fairlearn answers by a constant, else by one of two comparisons. A
    comparison changes its answer at its threshold t or, for s > t, just above it.
    """
    operations = of_group.operation0, of_group.operation1
    cuts = np.array([operation.threshold for operation in operations])
    thresholds = np.unique(np.concatenate([[-np.inf], cuts, np.nextafter(cuts, np.inf)]))[::-1]
    first, second = (operation(thresholds) for operation in operations)
    compared = of_group.p0 * first + of_group.p1 * second
    ignored = of_group.p_ignore
    return thresholds, ignored * of_group.prediction_constant + (1 - ignored) * compared


def _split(sample: Sample, lane: Lane) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training and held-out rows of a lane; each (label, group) cell is split alike."""
    rows = np.random.default_rng([lane.seed, 2]).permutation(lane.indices(len(sample)))
    cell = sample.y[rows] * sample.n_groups + sample.z[rows]
    cells = rows_by_code(cell, sample.n_labels * sample.n_groups)
    present = np.array(list(map(len, cells))).reshape(sample.n_labels, sample.n_groups)
    lacking = np.flatnonzero((present.sum(0) > 0) & (present.min(0) < 2))
    if len(lacking):
        group = int(lacking[0])
        sizes = ", ".join(map(str, present[:, group]))
        raise InputError(f"Thresholds need at least two rows of each label in each group; group {group} has {sizes}.")
    held_out = np.concatenate([of_cell[: ceil(HELD_OUT * len(of_cell))] for of_cell in cells])
    return np.sort(np.delete(rows, held_out)), np.sort(rows[held_out])


METHOD = Method(
    label="Threshold Optimizer",
    colour="#666666",
    reference="Hardt, Price and Srebro (2016), Equality of opportunity in supervised learning; fairlearn",
    trade_offs=(0.0,),
    multiclass=False,
    fit=fit,
    restore=RuledNetworks.restore,
)
