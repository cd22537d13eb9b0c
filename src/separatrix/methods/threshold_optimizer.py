"""Threshold Optimizer: randomised thresholds per group, with equal error rates.

A network (`erm`) is trained on seven tenths of a lane's rows; fairlearn's `ThresholdOptimizer` with
equalized odds is fitted on the rest: the most accurate point in the intersection of the groups' ROC
regions. Its randomised policy is kept as arrays, with fairlearn's probabilities to the last bit. An
unseen group is an error (fairlearn answers 0).

fairlearn has no relaxed equalized odds, so there is one point and λ is ignored. The policy needs
the group to predict even where the score (`use_sensitive=False`) does not. `base` is the score;
AUROC is measured on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator

from separatrix.errors import InputError
from separatrix.methods import PAPER, TUNED, Lane, Method, Options, Sample, Supports
from separatrix.methods.erm import loss
from separatrix.nn.networks import Networks
from separatrix.nn.stack import train

HELD_OUT = 0.3  # of each (label, group) cell of a lane's rows
_COLUMNS = (
    "p_ignore", "prediction_constant", "p0", "threshold0", "sign0", "p1", "threshold1", "sign1",
)  # fmt: skip

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A score and the rule that turns it into decisions, for each lane.

    Args:
        base: the networks whose second posterior is the score s.
        rules: (M, n_groups, 8): with probability `p_ignore` answer 1 with probability
            `prediction_constant`; else with probability p0 (p1) say whether s is above (sign +1) or
            below (sign −1) threshold0 (threshold1). NaN for a group without rows in the lane.
    """

    base: Networks
    rules: Array

    @property
    def status(self) -> tuple[str, ...]:
        return self.base.status

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> Array:
        """P(U = u | x, z) of every policy, array (M, n, 2)."""
        q = self.base.posteriors(X, z)
        groups = _groups(z, q.shape[1], self.rules)
        score = q[:, :, 1].astype(np.float64)
        rule = dict(zip(_COLUMNS, np.moveaxis(self.rules[:, groups], 2, 0), strict=True))
        kept = np.zeros_like(score)
        for p, sign, threshold in (("p0", "sign0", "threshold0"), ("p1", "sign1", "threshold1")):
            kept += rule[p] * (rule[sign] * score > rule[sign] * rule[threshold])
        positive = rule["p_ignore"] * rule["prediction_constant"] + (1 - rule["p_ignore"]) * kept
        positive[np.isnan(score)] = np.nan
        return np.stack([1.0 - positive, positive], 2)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The networks' arrays and the rules."""
        return {**self.base.arrays(), "rules": self.rules}

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> Thresholds:
        """What `arrays` described."""
        return Thresholds(Networks.restore(arrays), arrays["rules"])


def fit(sample: Sample, lanes: Sequence[Lane], options: Options) -> Thresholds:
    """Scores from one part of each lane's rows, thresholds from the rest."""
    if sample.weight is not None:
        raise InputError(
            "fairlearn's ThresholdOptimizer takes no sample weights: leave out `weight`."
        )
    parts = [_split(sample, lane) for lane in lanes]
    training = [Lane(0.0, rows, lane.seed) for (rows, _), lane in zip(parts, lanes, strict=True)]
    base = train(sample, training, options, loss)
    rules = [_rule(sample, base[[i]], held_out) for i, (_, held_out) in enumerate(parts)]
    return Thresholds(base, np.stack(rules))


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


def _rule(sample: Sample, base: Networks, rows: NDArray[np.int64]) -> Array:
    rule = np.full((sample.n_groups, len(_COLUMNS)), np.nan)
    if base.status[0] != "ok":
        return rule
    y, z = sample.y[rows], sample.z[rows]
    score = base.posteriors(sample.X[rows], z)[0, :, 1].astype(np.float64)
    optimiser = ThresholdOptimizer(
        estimator=_Score(score), constraints="equalized_odds", prefit=True, predict_method="predict"
    )
    optimiser.fit(rows[:, None], y, sensitive_features=z)
    for group, of_group in optimiser.interpolated_thresholder_.interpolation_dict.items():
        operations = [of_group.operation0, of_group.operation1]
        (t0, s0), (t1, s1) = ((o.threshold, 1.0 if o.operator == ">" else -1.0) for o in operations)
        first = of_group.p_ignore, of_group.prediction_constant
        rule[group] = (*first, of_group.p0, t0, s0, of_group.p1, t1, s1)
    return rule


def _split(sample: Sample, lane: Lane) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training and held-out rows of a lane; each (label, group) cell is split alike."""
    rows = np.arange(len(sample)) if lane.rows is None else np.asarray(lane.rows, dtype=np.int64)
    rows = np.random.default_rng([lane.seed, 2]).permutation(rows)
    cell = sample.y[rows] * sample.n_groups + sample.z[rows]
    counts = np.bincount(cell, minlength=sample.n_labels * sample.n_groups)
    order = np.argsort(cell, kind="stable")
    rank = np.empty(len(rows), dtype=np.int64)
    rank[order] = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    held_out = rank < np.ceil(HELD_OUT * counts)[cell]
    present = counts.reshape(sample.n_labels, sample.n_groups)
    lacking = np.flatnonzero((present.sum(0) > 0) & (present.min(0) < 2))
    if len(lacking):
        group = int(lacking[0])
        raise InputError(
            "Equalized odds by thresholds needs at least two rows of each label in each group; "
            f"group {group} has {', '.join(map(str, present[:, group]))}. Merge small groups, or "
            "use a method that is trained, such as `cmi`."
        )
    return np.sort(rows[~held_out]), np.sort(rows[held_out])


def _groups(z: ArrayLike | None, n: int, rules: Array) -> NDArray[np.int64]:
    if z is None:
        raise InputError("The thresholds depend on the group: pass the group codes `z` as well.")
    groups = np.asarray(z)
    if groups.shape != (n,) or (n and groups.dtype.kind not in "iub"):
        raise InputError(
            f"`z` must be {n} integer group codes, got dtype {groups.dtype}, shape {groups.shape}."
        )
    groups = groups.astype(np.int64)
    known = np.asarray(~np.isnan(rules).all((0, 2)))
    for group in np.unique(groups):
        if not 0 <= group < len(known) or not known[group]:
            why = "was not in training: it has no thresholds"
            raise InputError(f"`z` holds the group code {group}, which {why}.")
    return groups


METHOD = Method(
    label="Threshold Optimizer",
    colour="#666666",
    reference="Hardt, Price and Srebro (2016), Equality of opportunity in supervised learning; "
    "fairlearn",
    trade_offs=(0.0,),
    supports=Supports(multiclass=False),
    fit=fit,
    restore=Thresholds.restore,
    recipes={"default": TUNED, "paper": PAPER},
)
