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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.values import Levels, as_levels
from separatrix.errors import InputError
from separatrix.methods import Lane, Method, Options, Recipe, Sample, Supports
from separatrix.nn.networks import Networks
from separatrix.optimum.limit import limit
from separatrix.optimum.multiclass.cross_fitted import LabelRules
from separatrix.optimum.roc.certified import certified_curve
from separatrix.optimum.roc.decisions import rule_of
from separatrix.optimum.roc.noise_aware import noise_aware_channels
from separatrix.optimum.rules import SoftmaxChannel, ThresholdChannel
from separatrix.optimum.solvers import RocSolver

__all__ = ["METHOD", "fit"]

Array = NDArray[np.float64]
Channel = ThresholdChannel | SoftmaxChannel
_FOLDS = 5
_ENSEMBLE = 4  # networks whose mean is one score
_MIDDLE, _SPAN = 3.0, 1e3  # more than two labels: price of v at λ = 1, and how it grows with λ


@dataclass(frozen=True, eq=False)
class ChannelPolicies:
    """One channel per lane behind shared base networks, `of_lane` (lanes, networks of an ensemble,
    ensembles).
    """

    base: Networks
    of_lane: NDArray[np.intp]
    channels: tuple[Channel, ...]

    @property
    def status(self) -> tuple[str, ...]:
        return tuple(
            next((self.base.status[i] for i in own if self.base.status[i] != "ok"), "ok")
            for own in self.of_lane.reshape(len(self.of_lane), -1).tolist()
        )

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> NDArray[Any]:
        """P(U = u | x, z) of each lane, array (M, n, K); z are group codes."""
        if z is None:
            raise InputError(
                "A channel needs the group of every row: pass the group codes `z` as well."
            )
        scores = _normalised(self.base.posteriors(X, z))
        q = np.full((len(self.of_lane), *scores.shape[1:]), np.nan)
        if not scores.shape[1]:  # a model trained on all rows has none to be tested on
            return q
        for lane, (own, channel, status) in enumerate(
            zip(self.of_lane, self.channels, self.status, strict=True)
        ):
            if status == "ok":
                q[lane] = np.mean(
                    [
                        channel.predict_proba(scores[ensemble].mean(0), sensitive_features=z)
                        for ensemble in own.T
                    ],
                    axis=0,
                )
        return q

    def arrays(self) -> dict[str, NDArray[Any]]:
        """All that is needed to make it again with `restore`."""
        named = {f"base_{name}": value for name, value in self.base.arrays().items()}
        for i, channel in enumerate(self.channels):
            named |= {f"channel_{i}_{name}": value for name, value in channel.arrays().items()}
        return named | {"of_lane": self.of_lane, "n_groups": np.array(len(self.channels[0].groups))}

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> ChannelPolicies:
        """The policies that `arrays` described."""
        base = Networks.restore(
            {k.removeprefix("base_"): v for k, v in arrays.items() if k.startswith("base_")}
        )
        groups = tuple(range(int(arrays["n_groups"])))
        channels: list[Channel] = []
        for i in range(len(arrays["of_lane"])):
            head = f"channel_{i}_"
            own = {k.removeprefix(head): v for k, v in arrays.items() if k.startswith(head)}
            kind = SoftmaxChannel if "mix" in own else ThresholdChannel
            channels.append(kind.from_arrays(groups, own))
        of_lane = np.asarray(arrays["of_lane"])
        # models saved with one network per fold have no axis of the ensemble
        of_lane = of_lane.reshape(len(of_lane), -1, _FOLDS)
        return ChannelPolicies(base, of_lane, tuple(channels))


def fit(sample: Sample, lanes: Sequence[Lane], options: Options) -> ChannelPolicies:
    """Train the base networks of all lanes in one stack, then one channel per lane.

    Lanes that differ in λ alone share their networks.
    """
    from separatrix.methods.erm import loss  # needs torch, which the channel itself does not
    from separatrix.nn.stack import train

    bases: dict[tuple[int, bytes], list[int]] = {}
    for i, lane in enumerate(lanes):
        key = (
            lane.seed,
            b"" if lane.rows is None else np.asarray(lane.rows, dtype=np.int64).tobytes(),
        )
        bases.setdefault(key, []).append(i)
    plan: list[Lane] = []
    parts: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
    for members in bases.values():
        lane = lanes[members[0]]
        rows = np.arange(len(sample)) if lane.rows is None else np.asarray(lane.rows, dtype=np.intp)
        seeds = [lane.seed * _ENSEMBLE + member for member in range(_ENSEMBLE)]
        fold = np.stack([_deal(sample.y[rows], seed) for seed in seeds])
        parts.append((rows, fold))
        plan += [
            Lane(0.0, rows[own != k], seed)
            for own, seed in zip(fold, seeds, strict=True)
            for k in range(_FOLDS)
        ]
    networks = train(sample, plan, options, loss)
    of_base = np.arange(len(plan)).reshape(-1, _ENSEMBLE, _FOLDS)
    of_lane = np.empty((len(lanes), _ENSEMBLE, _FOLDS), dtype=np.intp)
    channels: dict[int, Channel] = {}
    for b, (members, (rows, fold)) in enumerate(zip(bases.values(), parts, strict=True)):
        scores = np.zeros((len(rows), sample.n_labels))
        for member, k in np.ndindex(_ENSEMBLE, _FOLDS):
            here = fold[member] == k
            network = networks[of_base[b, member, k : k + 1]]
            own = network.posteriors(np.asarray(sample.X[rows[here]]), sample.z[rows[here]])
            scores[here] += _normalised(own)[0] / _ENSEMBLE
        weight = None if sample.weight is None else sample.weight[rows]
        trade_offs = [lanes[i].trade_off for i in members]
        found = _channels(
            scores, sample.y[rows], sample.z[rows], weight, trade_offs, sample.n_groups
        )
        for i, channel in zip(members, found, strict=True):
            of_lane[i], channels[i] = of_base[b], channel
    return ChannelPolicies(networks, of_lane, tuple(channels[i] for i in range(len(lanes))))


def _channels(
    scores: Array,
    y: NDArray[Any],
    z: NDArray[Any],
    weight: Array | None,
    trade_offs: list[float],
    n_groups: int,
) -> list[Channel]:
    """The channel of each λ, fitted on scores of unseen rows; a group without rows gets the most
    common group's.
    """
    if not np.isfinite(
        scores
    ).all():  # a diverged base: its lanes are marked, the channel is never used
        scores = np.full_like(scores, 1.0 / scores.shape[1])
    codes, seen = as_levels(z, "z")
    if scores.shape[1] == 2:
        found = _of_two_labels(scores, y, codes, z, weight, np.asarray(trade_offs), seen)
    else:
        w = np.ones(len(y)) if weight is None else weight
        found = _of_many_labels(scores, y, codes, w, trade_offs, seen)
    size, groups = np.bincount(z, minlength=n_groups), tuple(range(n_groups))
    return [_for_all(channel, groups, size) for channel in found]


def _of_two_labels(
    scores: Array,
    y: NDArray[Any],
    codes: NDArray[np.intp],
    z: NDArray[Any],
    weight: Array | None,
    wanted: Array,
    seen: Levels,
) -> list[Channel]:
    best = limit(y, scores, sensitive_features=z, sample_weight=weight, points=2, tolerance=1e-4)
    solver = best.solver
    assert isinstance(solver, RocSolver)
    level = float(best.violation[-1]) * (1.0 - np.minimum(wanted, 1.0)) ** 2
    levels, at = np.unique(level, return_inverse=True)
    curve = certified_curve(solver.regions, levels, tolerance=1e-4)
    exact: list[Channel] = [
        rule_of(r, solver.curves, solver.regions, best.groups) for r in curve.rates
    ]
    found = [exact[i] for i in at]
    beyond = np.flatnonzero(wanted > 1.0)
    shares = np.maximum(2.0 - wanted[beyond], 0.0).tolist()
    softer = noise_aware_channels(
        scores, y, codes, shares, seen, reference=float(best.utility[0]), sample_weight=weight
    )
    for i, channel in zip(beyond.tolist(), softer, strict=True):
        found[i] = channel
    return found


def _of_many_labels(
    scores: Array,
    y: NDArray[Any],
    codes: NDArray[np.intp],
    weight: Array,
    trade_offs: list[float],
    seen: Levels,
) -> list[Channel]:
    rules = LabelRules(scores, np.asarray(y, dtype=np.intp), codes, weight, len(seen), "utility")
    choice = rules.choice(_MIDDLE)
    found: dict[float, Channel] = {}
    for trade_off in sorted(set(trade_offs)):  # each the start of the next
        if trade_off < 2.0:
            price = _MIDDLE * _SPAN ** (trade_off - 1.0)
            found[trade_off] = rules.point(price, choice).rule(seen)
        else:
            k, law = scores.shape[1], np.bincount(y, weight, scores.shape[1]) / weight.sum()
            bias = np.tile(np.log(np.maximum(law, 1e-12)), (len(seen), 1))
            plain = np.tile(np.eye(k), (len(seen), 1, 1))
            found[trade_off] = SoftmaxChannel(seen, 0.0 * plain, bias, plain)
    return [found[trade_off] for trade_off in trade_offs]


def _for_all(channel: Channel, groups: tuple[int, ...], size: NDArray[np.intp]) -> Channel:
    place = [channel.groups.index(g if g in channel.groups else int(size.argmax())) for g in groups]
    if isinstance(channel, SoftmaxChannel):
        prior = None if channel.prior is None else channel.prior[place]
        return SoftmaxChannel(
            groups, channel.weight[place], channel.bias[place], channel.mix[place], prior
        )
    return ThresholdChannel(
        groups, tuple(channel.thresholds[i] for i in place), tuple(channel.levels[i] for i in place)
    )


def _deal(y: NDArray[Any], seed: int) -> NDArray[np.intp]:
    """Folds stratified by label; groups play no part, so that renaming them changes nothing."""
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(len(y))
    dealt = shuffled[np.argsort(y[shuffled], kind="stable")]
    fold = np.empty(len(y), dtype=np.intp)
    fold[dealt] = np.arange(len(y)) % _FOLDS
    return fold


def _normalised(q: NDArray[Any]) -> Array:
    """Posteriors in double precision; single-precision rows sum to one only within 1e-7."""
    p = np.asarray(q, dtype=np.float64)
    return p / p.sum(-1, keepdims=True)


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
    supports=Supports(multiclass=True, multigroup=True),
    recipes={"default": Recipe(piecewise_linear=32), "plain": Recipe()},
    fit=fit,
    restore=ChannelPolicies.restore,
)
