"""Exponentiated Gradient: a mixture of classifiers with equalized odds up to ε in training.

fairlearn's `ExponentiatedGradient` with `EqualizedOdds` plays the game between a learner and the
multipliers of the constraints; the learner here is the backbone, trained on weighted cross-entropy.
The result is a randomised policy: draw one network with the probability of its weight and take its
decision (the larger posterior).

The trade-off of a lane is fairlearn's ε, the difference of error rates that is allowed: a larger
one asks for *less*.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
from fairlearn.reductions import EqualizedOdds, ExponentiatedGradient
from numpy.typing import ArrayLike, NDArray

from separatrix.errors import InputError
from separatrix.methods import PAPER, Lane, Method, Options, Recipe, Sample, Supports
from separatrix.methods.erm import loss
from separatrix.nn.networks import Networks
from separatrix.nn.stack import train

ROUNDS = 50  # fairlearn's own

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Mixture:
    """For each lane a random choice between the decisions of some networks.

    Args:
        networks: the networks of all lanes.
        lane: (T,), the lane of each network.
        weight: (T,), its probability there.
        status: "ok" or "diverged", per lane.
    """

    networks: Networks
    lane: NDArray[np.int64]
    weight: Array
    status: tuple[str, ...]

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> Array:
        """P(U = u | x, z) of every lane, (M, n, 2): the weights of the networks that decide so."""
        n = len(np.asarray(X))
        q = np.zeros((len(self.status), n, 2))
        for lane, status in enumerate(self.status):
            mine = np.flatnonzero(self.lane == lane)
            ones = _decisions(self.networks[mine].posteriors(X, z))
            mixed = np.clip(self.weight[mine] @ ones, 0.0, 1.0)
            q[lane, :, 1] = mixed if status == "ok" else np.nan
        q[:, :, 0] = 1.0 - q[:, :, 1]
        return q

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The networks' arrays, and which of them each lane mixes."""
        status = np.array([s == "ok" for s in self.status])
        own = {"lane": self.lane, "mixture": self.weight, "lane_ok": status}
        return self.networks.arrays() | own

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> Mixture:
        """What `arrays` described."""
        status = tuple("ok" if ok else "diverged" for ok in arrays["lane_ok"])
        return Mixture(Networks.restore(arrays), arrays["lane"], arrays["mixture"], status)


def fit(sample: Sample, lanes: Sequence[Lane], options: Options) -> Mixture:
    """One game per lane."""
    if sample.weight is not None:
        raise InputError(
            "fairlearn's ExponentiatedGradient takes no sample weights: leave out `weight`."
        )
    if options.recipe.piecewise_linear:
        raise InputError(
            "`exponentiated_gradient` takes no piecewise_linear: pass a recipe with "
            "piecewise_linear=0."
        )
    for lane in lanes:
        if not lane.trade_off > 0:
            raise InputError(
                "The trade-off of `exponentiated_gradient` is fairlearn's ε > 0, the difference of "
                f"error rates that is allowed; got {lane.trade_off}."
            )
    # groups in order of occurrence: ties in fairlearn's linear programme do not depend on names
    canonical, renamed = _by_first_occurrence(sample)
    with warnings.catch_warnings():
        # fairlearn 0.15 changes a Series in ways that pandas 3 deprecates
        warnings.filterwarnings("ignore", message="Setting a", category=DeprecationWarning)
        mixtures = [_play(renamed, lane, options) for lane in lanes]
    shape = _blank(renamed, options)
    networks = _join([network for mixture in mixtures for network, _ in mixture], shape)
    owner = np.repeat(np.arange(len(lanes)), [len(mixture) for mixture in mixtures])
    weight = np.array([w for mixture in mixtures for _, w in mixture])
    bad = {int(lane) for lane, status in zip(owner, networks.status, strict=True) if status != "ok"}
    status = tuple("diverged" if lane in bad else "ok" for lane in range(len(lanes)))
    return Mixture(_rename(networks, canonical), owner, weight, status)


class _Learner:
    """The backbone as fairlearn's estimator; X are row numbers."""

    def __init__(self, sample: Sample, seed: int, options: Options) -> None:
        self.sample, self.seed, self.options = sample, seed, options

    def __sklearn_clone__(self) -> _Learner:
        return _Learner(self.sample, self.seed, self.options)

    def fit(self, X: Any, y: Any, sample_weight: Any) -> _Learner:
        """Cross-entropy with the labels and costs that the game asks for."""
        s, rows = self.sample, np.asarray(X)[:, 0]
        inputs, z = s.X[rows], s.z[rows]
        # a cost of zero is no row, and the sample's weights are positive
        weight = np.maximum(np.asarray(sample_weight, dtype=np.float64), 1e-9)
        asked = Sample(inputs, np.asarray(y), z, s.n_labels, s.n_groups, weight=weight)
        quiet = replace(self.options, progress=False)
        self.network = train(asked, [Lane(0.0, seed=self.seed)], quiet, loss)
        self.decisions = _decisions(self.network.posteriors(inputs, z))[0]
        return self

    def predict(self, X: Any) -> Array:
        return self.decisions  # fairlearn asks about the training rows only


def _play(sample: Sample, lane: Lane, options: Options) -> list[tuple[Networks | int, float]]:
    """The networks (or the label of a constant) and their weights at the end of one game."""
    rows = np.arange(len(sample)) if lane.rows is None else np.asarray(lane.rows, dtype=np.int64)
    odds = EqualizedOdds(difference_bound=lane.trade_off)
    learner = _Learner(sample, lane.seed, options)
    game = ExponentiatedGradient(learner, odds, eps=lane.trade_off, max_iter=ROUNDS)
    game.fit(rows[:, None], sample.y[rows], sensitive_features=sample.z[rows])
    chosen = game.weights_[game.weights_ > 0]
    found: list[tuple[Networks | int, float]] = []
    for index, weight in chosen.items():
        p = game.predictors_[index]
        part = p.network if isinstance(p, _Learner) else int(p.constant)
        found.append((part, float(weight) / chosen.sum()))
    return found


def _decisions(q: NDArray[np.float32]) -> Array:
    """1.0 where a network takes the second label, (T, n)."""
    return (q[:, :, 1] > q[:, :, 0]).astype(np.float64)


def _by_first_occurrence(sample: Sample) -> tuple[NDArray[np.int64], Sample]:
    """The new code of each group, and the sample with new codes."""
    seen, first = np.unique(sample.z, return_index=True)
    order = np.r_[seen[np.argsort(first)], np.setdiff1d(np.arange(sample.n_groups), seen)]
    canonical = np.empty(sample.n_groups, dtype=np.int64)
    canonical[order] = np.arange(sample.n_groups)
    z = canonical[sample.z]
    return canonical, Sample(sample.X, sample.y, z, sample.n_labels, sample.n_groups)


def _rename(networks: Networks, canonical: NDArray[np.int64]) -> Networks:
    """Networks for the sample's own group codes: rows of the first weights change places."""
    first = networks.weights[0].copy()
    if networks.n_groups:
        first[:, : networks.n_groups] = first[:, canonical]
    return replace(networks, weights=(first, *networks.weights[1:]))


def _join(parts: list[Networks | int], shape: Networks) -> Networks:
    """All networks as one stack; a constant becomes a network of zeros with an output bias."""
    full = [_constant(part, shape) if isinstance(part, int) else part for part in parts]
    return Networks(
        tuple(np.concatenate(layer) for layer in zip(*(p.weights for p in full), strict=True)),
        tuple(np.concatenate(layer) for layer in zip(*(p.biases for p in full), strict=True)),
        shape.n_groups,
        tuple(status for part in full for status in part.status),
        np.concatenate([part.losses for part in full]),
    )


def _blank(sample: Sample, options: Options) -> Networks:
    """A network of zeros in the shape of the backbone."""
    groups = sample.n_groups if options.use_sensitive else 0
    widths = (groups + sample.X.shape[1], *options.recipe.hidden, sample.n_labels)
    weights = tuple(np.zeros((1, a, b), dtype=np.float32) for a, b in pairwise(widths))
    biases = tuple(np.zeros((1, b), dtype=np.float32) for b in widths[1:])
    return Networks(weights, biases, groups, ("ok",), np.zeros((1, 0)))


def _constant(label: int, shape: Networks) -> Networks:
    biases = tuple(b.copy() for b in shape.biases)
    biases[-1][:, label] = 1.0
    return replace(shape, biases=biases)


METHOD = Method(
    label="ExpGrad",
    colour="#7f3c8d",
    reference="Agarwal et al. (2018), A reductions approach to fair classification; fairlearn",
    trade_offs=(0.005, 0.01, 0.02, 0.05, 0.1),
    strict="low",  # λ is the violation that is allowed
    supports=Supports(multiclass=False),
    fit=fit,
    restore=Mixture.restore,
    # tens of networks a lane; a quarter of the epochs reaches the AUROC of `erm` (Adult, COMPAS)
    recipes={
        "default": Recipe(epochs=5, min_steps=300, learning_rate=3e-3, cosine=True),
        "paper": PAPER,
    },
)
