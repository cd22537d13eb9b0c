"""Exponentiated Gradient: a mixture of classifiers with equalized odds up to ε in training.

fairlearn's `ExponentiatedGradient` with `EqualizedOdds` plays the game between a learner and the
multipliers of the constraints; the learner here is the backbone, trained on weighted cross-entropy.
The result is a randomised policy: draw one network with the probability of its weight and take its
decision (the larger posterior).

The trade-off of a lane is fairlearn's ε, the difference of error rates that is allowed: a larger
one asks for *less*. The weights of the rows and their changed labels depend on the cell (y, z)
alone, so a lane's problem is a small table. The games of all lanes are played side by side: each
has its own thread, and when all wait for a network, those networks are trained as one stack.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from fairlearn.reductions import EqualizedOdds, ExponentiatedGradient
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from separatrix.errors import InputError
from separatrix.methods import PAPER, Lane, Method, Options, Recipe, Sample, Supports
from separatrix.methods._lockstep import Desk, side_by_side
from separatrix.nn.balance import Lanes
from separatrix.nn.information import Term, cross_entropy_term
from separatrix.nn.lanes import Batch
from separatrix.nn.networks import Networks
from separatrix.nn.stack import train

ROUNDS = 50  # fairlearn's own

Array = NDArray[np.float64]
Answer = tuple[Networks, Array]  # a network, and its decisions on its training rows


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
    """One game per lane, all of them side by side."""
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
    games = [partial(_play, renamed, lane) for lane in lanes]
    with warnings.catch_warnings():
        # fairlearn 0.15 changes a Series in ways that pandas 3 deprecates
        warnings.filterwarnings("ignore", message="Setting a", category=DeprecationWarning)
        oracle = partial(_train_all, renamed, lanes, options)
        mixtures = side_by_side(games, oracle, progress=options.progress)
    shape = _blank(renamed, options)
    networks = _join([network for mixture in mixtures for network, _ in mixture], shape)
    owner = np.repeat(np.arange(len(lanes)), [len(mixture) for mixture in mixtures])
    weight = np.array([w for mixture in mixtures for _, w in mixture])
    bad = {int(lane) for lane, status in zip(owner, networks.status, strict=True) if status != "ok"}
    status = tuple("diverged" if lane in bad else "ok" for lane in range(len(lanes)))
    return Mixture(_rename(networks, canonical), owner, weight, status)


class _Learner:
    """The backbone as fairlearn's estimator; X are row numbers with known decisions."""

    def __init__(self, desk: Desk[Array, Answer], cell: NDArray[np.int64], cells: int) -> None:
        self.desk, self.cell, self.cells = desk, cell, cells

    def __sklearn_clone__(self) -> _Learner:
        return _Learner(self.desk, self.cell, self.cells)

    def fit(self, X: Any, y: Any, sample_weight: Any) -> _Learner:
        label, weight = np.asarray(y, dtype=np.int64), np.asarray(sample_weight, dtype=np.float64)
        # a cell's rows agree but for rounding, and so does the label where the weight is rounding
        total = np.bincount(self.cell, np.where(label == 1, weight, -weight), self.cells)
        signed = total / np.maximum(np.bincount(self.cell, minlength=self.cells), 1)
        self.network, self.decisions = self.desk.ask(signed)
        return self

    def predict(self, X: Any) -> Array:
        return self.decisions


def _play(
    sample: Sample, lane: Lane, desk: Desk[Array, Answer]
) -> list[tuple[Networks | int, float]]:
    """The networks (or the label of a constant) and their weights at the end of one game."""
    rows = _rows(sample, lane)
    y, z = sample.y[rows], sample.z[rows]
    learner = _Learner(desk, y * sample.n_groups + z, sample.n_labels * sample.n_groups)
    odds = EqualizedOdds(difference_bound=lane.trade_off)
    game = ExponentiatedGradient(learner, odds, eps=lane.trade_off, max_iter=ROUNDS)
    game.fit(rows[:, None], y, sensitive_features=z)
    chosen = game.weights_[game.weights_ > 0]
    found: list[tuple[Networks | int, float]] = []
    for index, weight in chosen.items():
        p = game.predictors_[index]
        part = p.network if isinstance(p, _Learner) else int(p.constant)
        found.append((part, float(weight) / chosen.sum()))
    return found


def _train_all(
    sample: Sample, lanes: Sequence[Lane], options: Options, asked: dict[int, Array]
) -> dict[int, Answer]:
    """One network for each question, trained as one stack, with its decisions on its own rows."""
    problems = torch.tensor(np.stack(list(asked.values())))
    stack = [Lane(float(i), lanes[lane].rows, lanes[lane].seed) for i, lane in enumerate(asked)]
    quiet = Options(options.recipe, options.use_sensitive, options.device, options.n_jobs)
    networks = train(sample, stack, quiet, partial(weighted_loss, problems=problems))
    answers = {}
    for i, lane in enumerate(asked):
        rows = _rows(sample, lanes[lane])
        network = networks[[i]]
        answers[lane] = network, _decisions(network.posteriors(sample.X[rows], sample.z[rows]))[0]
    return answers


def weighted_loss(batch: Batch, problem: Tensor, problems: Tensor) -> Tensor:
    """Cross-entropy with each lane's own labels and weights: one loss per lane, (M,).

    Args:
        problem: (M,), which of the problems each lane solves.
        problems: (P, cells), the weighted cost of decision 0 minus that of 1 in each cell (y, z).
    """
    lanes = Lanes.of(batch)
    cell = batch.y * batch.n_groups + batch.z
    signed = problems.to(cell.device)[problem.long()].gather(1, cell)
    weight = signed.abs().to(lanes.p.dtype)
    rows = weight if batch.weight is None else weight * batch.weight
    share = rows / torch.as_tensor(lanes.n).reshape(-1, 1)
    task = cross_entropy_term(lanes.log_p, lanes.p, (signed > 0).long(), share)
    term = Term(task.value, task.rows * weight.unsqueeze(1))
    return lanes.loss([term], [torch.ones_like(task.value)])


def _rows(sample: Sample, lane: Lane) -> NDArray[np.int64]:
    return np.arange(len(sample)) if lane.rows is None else np.asarray(lane.rows, dtype=np.int64)


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
