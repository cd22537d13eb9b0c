r"""Post-processing: the limit as a method. A classifier, then the best channel of its posterior for
each group.

The base is five ensembles of four networks; an ensemble's score is the mean of its four. Four times
the rows are dealt into fifths and each network is trained without one fifth, so that every row has
a score of four networks that have not seen it. The channel is fitted to these scores and corrects
the errors that will occur. A prediction is that of one of the five ensembles drawn at random, P(U |
x, z) their mean. A network on all rows would have other scores than those that the channel was
fitted to, and on Adult that alone trebles the violation of exact separation on unseen rows.

Two labels: the certified threshold rules of `limit`, λ = 1 − √(v / v_max), so λ = 1 is exact
separation (a vertex of a linear programme) and λ = 0 the most useful rule. Beyond λ = 1 separation
on the fitted rows cannot get better, on unseen rows it can: what is left there is the sampling
error of decisions that are almost hard. 1 < λ < 2 are the noise-aware channels (`noise_aware`),
softer ones, which have the share 2 − λ of the utility of λ = 1 and the least violation to be
expected on unseen rows; λ = 2 is a constant.

More labels: the rules of `cross_fitted` at the price β = 3 · 1000^(λ − 1) of the violation, from
the most useful one (λ = 0) to a constant (λ = 2). They are softer the higher the price, since their
sampling error has that price too.

λ = 0 is not ERM: sampling a soft posterior wastes most of its mutual information, and no channel
here does that. `FrontierClassifier` (`estimators`) goes around any classifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.values import Coded, as_levels
from separatrix.core.numerics import Array, dealt
from separatrix.methods import Lane, Method, Options, Recipe, Sample
from separatrix.methods._ruled import Channel, RuledNetworks, normalised
from separatrix.nn.lanes import alike
from separatrix.optimum.limit import limit
from separatrix.optimum.multiclass.cross_fitted import LabelRules
from separatrix.optimum.roc.noise_aware import noise_aware_channels
from separatrix.optimum.rules import SoftmaxChannel, ThresholdChannel

_FOLDS = 5
_ENSEMBLE = 4  # networks whose mean is one score
_MIDDLE, _SPAN = 3.0, 1e3  # more than two labels: price of v at λ = 1, and how it grows with λ


def fit(sample: Sample, lanes: Sequence[Lane], options: Options) -> RuledNetworks:
    """Train the base networks of all lanes in one stack, then one channel per lane.

    Lanes that differ in λ alone share their networks.
    """
    from separatrix.methods.erm import loss  # needs torch, which the channel itself does not
    from separatrix.nn.stack import train

    bases = alike(lanes)
    plan: list[Lane] = []
    parts: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
    for members in bases:
        lane = lanes[members[0]]
        rows = lane.indices(len(sample))
        seeds = [lane.seed * _ENSEMBLE + member for member in range(_ENSEMBLE)]
        # by label; groups play no part, so that renaming them changes nothing
        fold = np.stack([dealt(sample.y[rows], _FOLDS, np.random.default_rng(seed)) for seed in seeds])
        parts.append((rows, fold))
        plan += [
            Lane(0.0, rows[fold_of_row != k], seed)
            for fold_of_row, seed in zip(fold, seeds, strict=True)
            for k in range(_FOLDS)
        ]
    networks = train(sample, plan, options, loss)
    of_base = np.arange(len(plan)).reshape(-1, _ENSEMBLE, _FOLDS)
    ensembles = np.empty((len(lanes), _FOLDS, _ENSEMBLE), dtype=np.int64)
    channels: dict[int, Channel] = {}
    for index, members, (rows, fold) in zip(of_base, bases, parts, strict=True):
        scores = np.zeros((len(rows), sample.n_labels))
        for member, k in np.ndindex(_ENSEMBLE, _FOLDS):
            unseen = fold[member] == k
            network = networks[index[member, k : k + 1]]
            q = network.posteriors(np.asarray(sample.X[rows[unseen]]), sample.z[rows[unseen]])
            scores[unseen] += normalised(q)[0] / _ENSEMBLE
        fitted = _channels(scores, sample, rows, [lanes[i].trade_off for i in members])
        for i, channel in zip(members, fitted, strict=True):
            ensembles[i], channels[i] = index.T, channel
    rules = tuple(channels[i] for i in range(len(lanes)))
    owner = np.repeat(np.arange(len(lanes)), _FOLDS)
    return RuledNetworks(networks, ensembles.reshape(-1, _ENSEMBLE), owner, np.full(len(owner), 1 / _FOLDS), rules)


def _channels(scores: Array, sample: Sample, rows: NDArray[np.intp], trade_offs: list[float]) -> list[Channel]:
    """The channel of each λ, fitted on scores of unseen rows; a group without rows gets the most
    common group's.
    """
    if not np.isfinite(scores).all():
        # a diverged base: its lanes are marked, the channel is never used
        scores = np.full_like(scores, 1.0 / scores.shape[1])
    y, z = sample.y[rows], as_levels(sample.z[rows], "z")
    weight = np.ones(len(y)) if sample.weight is None else sample.weight[rows]
    of_labels = _of_two_labels if scores.shape[1] == 2 else _of_many_labels
    channels = of_labels(scores, y, z, weight, np.asarray(trade_offs))
    size, groups = np.bincount(sample.z[rows], minlength=sample.n_groups), tuple(range(sample.n_groups))
    return [_for_all(channel, groups, size) for channel in channels]


def _of_two_labels(scores: Array, y: NDArray[Any], z: Coded, weight: Array, wanted: Array) -> list[Channel]:
    best = limit(y, scores, sensitive_features=z, sample_weight=weight, points=2, tolerance=1e-4)
    level = float(best.violation[-1]) * (1.0 - np.minimum(wanted, 1.0)) ** 2
    levels, place = np.unique(level, return_inverse=True)
    exact = [cast("Channel", solution.rule()) for solution in best.solver.solve(levels)]
    channels = [exact[i] for i in place]
    beyond = np.flatnonzero(wanted > 1.0)
    shares = np.maximum(2.0 - wanted[beyond], 0.0).tolist()
    reference, codes = float(best.utility[0]), z.codes.astype(np.intp)
    softer = noise_aware_channels(scores, y, codes, weight, shares, reference, z.levels)
    for i, channel in zip(beyond.tolist(), softer, strict=True):
        channels[i] = channel
    return channels


def _of_many_labels(scores: Array, y: NDArray[Any], z: Coded, weight: Array, wanted: Array) -> list[Channel]:
    seen = z.levels
    rules = LabelRules(scores, y.astype(np.intp), z.codes.astype(np.intp), weight, len(seen), "utility")
    choice = rules.choice(_MIDDLE)
    channel_of: dict[float, Channel] = {}
    for trade_off in np.unique(wanted).tolist():  # each the start of the next
        if trade_off < 2.0:
            price = _MIDDLE * _SPAN ** (trade_off - 1.0)
            channel_of[trade_off] = rules.point(price, choice).rule(seen)
        else:
            k, law = scores.shape[1], np.bincount(y, weight, scores.shape[1]) / weight.sum()
            bias = np.tile(np.log(np.maximum(law, 1e-12)), (len(seen), 1))
            plain = np.tile(np.eye(k), (len(seen), 1, 1))
            channel_of[trade_off] = SoftmaxChannel(seen, 0.0 * plain, bias, plain)
    return [channel_of[trade_off] for trade_off in wanted.tolist()]


def _for_all(channel: Channel, groups: tuple[int, ...], size: NDArray[np.intp]) -> Channel:
    place = [channel.groups.index(g if g in channel.groups else int(size.argmax())) for g in groups]
    if isinstance(channel, SoftmaxChannel):
        prior = None if channel.prior is None else channel.prior[place]
        return SoftmaxChannel(groups, channel.weight[place], channel.bias[place], channel.mix[place], prior)
    return ThresholdChannel(
        groups, tuple(channel.thresholds[i] for i in place), tuple(channel.levels[i] for i in place)
    )


METHOD = Method(
    label="Post-processing",
    colour="#d55e00",
    reference="separatrix: the limit of decisions, as a method",
    # close to separation u moves like √v: there the steps are small
    trade_offs=(
        *(float(x) for x in np.linspace(0.0, 0.9, 10)),
        *(0.93, 0.96, 0.98, 0.99, 1.0),
        *(1.02, 1.05, 1.1, 1.2, 1.35, 1.5, 1.65, 1.8, 1.9, 2.0),
    ),
    recipes={"default": Recipe(piecewise_linear=32), "plain": Recipe()},
    fit=fit,
    restore=RuledNetworks.restore,
)
