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
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from fairlearn.reductions import EqualizedOdds, ExponentiatedGradient
from numpy.typing import NDArray

from separatrix.errors import InputError
from separatrix.methods import PAPER, Lane, Method, Options, Recipe, Sample
from separatrix.methods._ruled import RuledNetworks
from separatrix.methods.erm import loss
from separatrix.nn.networks import Networks
from separatrix.nn.stack import train

ROUNDS = 50  # fairlearn's own

Array = NDArray[np.float64]


def fit(sample: Sample, lanes: Sequence[Lane], options: Options) -> RuledNetworks:
    """One game per lane."""
    if sample.weight is not None:
        raise InputError("fairlearn's ExponentiatedGradient takes no sample weights: leave out `weight`.")
    if options.recipe.piecewise_linear:
        raise InputError("`exponentiated_gradient` takes no piecewise_linear: pass a recipe with piecewise_linear=0.")
    for lane in lanes:
        if not lane.trade_off > 0:
            raise InputError(f"The trade-off of `exponentiated_gradient` is fairlearn's ε > 0, got {lane.trade_off}.")
    # groups in order of occurrence: ties in fairlearn's linear programme do not depend on names
    place = sample.group_places()
    renamed = Sample(sample.X, sample.y, place[sample.z], sample.n_labels, sample.n_groups)
    with warnings.catch_warnings():
        # fairlearn 0.15 changes a Series in ways that pandas 3 deprecates
        warnings.filterwarnings("ignore", message="Setting a", category=DeprecationWarning)
        mixtures = [_play(renamed, lane, options) for lane in lanes]
    networks = Networks.joined([network for mixture in mixtures for network, _ in mixture])
    if networks.n_groups:  # rows of the first weights, back at the sample's own group codes
        networks.weights[0][:, : networks.n_groups] = networks.weights[0][:, place]
    owner = np.repeat(np.arange(len(lanes)), [len(mixture) for mixture in mixtures])
    share = np.array([weight for mixture in mixtures for _, weight in mixture])
    return RuledNetworks(networks, np.arange(len(owner))[:, None], owner, share, (None,) * len(lanes))


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
        self.network = train(asked, [Lane(0.0, seed=self.seed)], replace(self.options, progress=False), loss)
        self.decisions = self.network.posteriors(inputs, z)[0].argmax(1).astype(np.float64)
        return self

    def predict(self, X: Any) -> Array:
        return self.decisions  # fairlearn asks about the training rows only


def _play(sample: Sample, lane: Lane, options: Options) -> list[tuple[Networks, float]]:
    """The networks and their probabilities at the end of one game."""
    rows = lane.indices(len(sample))
    odds = EqualizedOdds(difference_bound=lane.trade_off)
    game = ExponentiatedGradient(_Learner(sample, lane.seed, options), odds, eps=lane.trade_off, max_iter=ROUNDS)
    game.fit(rows[:, None], sample.y[rows], sensitive_features=sample.z[rows])
    chosen = game.weights_[game.weights_ > 0]
    groups = sample.n_groups if options.use_sensitive else 0
    widths = (groups + sample.X.shape[1], *options.recipe.hidden, sample.n_labels)
    mixture = []
    for index, weight in chosen.items():
        player = game.predictors_[index]
        if isinstance(player, _Learner):
            network = player.network
        else:  # where all costs ask for one label: a network of zeros with an output bias
            label = int(player.constant)
            network = Networks.constant(np.eye(sample.n_labels)[[label]], widths, groups)
        mixture.append((network, float(weight) / chosen.sum()))
    return mixture


METHOD = Method(
    label="ExpGrad",
    colour="#7f3c8d",
    reference="Agarwal et al. (2018), A reductions approach to fair classification; fairlearn",
    trade_offs=(0.005, 0.01, 0.02, 0.05, 0.1),
    strict="low",  # λ is the violation that is allowed
    multiclass=False,
    fit=fit,
    restore=RuledNetworks.restore,
    # tens of networks a lane; a quarter of the epochs reaches the AUROC of `erm` (Adult, COMPAS)
    recipes={"default": Recipe(epochs=5, min_steps=300, learning_rate=3e-3, cosine=True), "paper": PAPER},
)
