"""CMI with boosted trees: the paper's regulariser as a custom objective of LightGBM.

Algorithm 1 in function space: each round fits a tree to (1−λ) g_CE + ω ∂v, the two gradients
balanced by their norms and the penalty fading where v is nearly zero (`SeparationObjective`).
λ = 0 is LightGBM's own objective. All λ of a stack share one binned dataset.

Recipes: "default" penalises the violation of a draw from the posterior, "score" that of the
soft-binned score, which holds at every threshold. Their fields for networks play no part; `level`
and `patience` do. With a patience a tenth of the rows, dealt out within each label and group, is
held out, and the rounds stop when the loss with its penalty there has not improved for so many
rounds; where a label and group has fewer than ten rows, all rows train.

100 rounds, 31 leaves and a learning rate of 0.1, LightGBM's own; with a penalty the rate falls from
0.2 to 0.02 (`falling_rates`). Same rows, same model: one thread, no sampling.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import lightgbm as lgb
import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax

from separatrix.core.numerics import Array, dealt
from separatrix.errors import DataError, InputError
from separatrix.methods import Lane, Method, Options, Recipe, Sample
from separatrix.methods._grids import DENSE_BELOW
from separatrix.methods._objective import RATE, Last, Rows, SeparationObjective, falling_rates
from separatrix.methods._tree_text import check_model
from separatrix.nn.lanes import Codes, alike, known_groups

__all__ = ["METHOD", "Boosted", "Last", "SeparationObjective", "falling_rates", "fit"]

ROUNDS = 100
_HELD = 10  # one row in ten is held out
_PARAMETERS: dict[str, Any] = {
    "learning_rate": RATE,
    "num_threads": 1,
    "deterministic": True,
    "force_row_wise": True,
    "verbosity": -1,
}


@dataclass(frozen=True, eq=False)
class Boosted:
    """M boosted models that share their inputs.

    Args:
        models: LightGBM's own text of each.
        start: (M, K), or (M, 1) for two labels: what is added to a model's raw scores.
        n_features: columns of X.
        order: the place of each group's column in front of X; empty where models see X alone.
    """

    models: tuple[str, ...]
    start: Array
    n_features: int
    order: Codes

    @property
    def n_groups(self) -> int:
        """Number of groups that the models know; 0 if they see X alone."""
        return len(self.order)

    @property
    def status(self) -> tuple[str, ...]:
        return ("ok",) * len(self.models)

    def __getitem__(self, lanes: Sequence[int]) -> Boosted:
        """The models of some lanes."""
        return replace(self, models=tuple(self.models[i] for i in lanes), start=self.start[list(lanes)])

    @cached_property
    def _boosters(self) -> list[Any]:
        return [lgb.Booster(model_str=text) for text in self.models]

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> Array:
        """P(U = u | x, z) of every model, array (M, n, K); z are group codes."""
        rows = np.asarray(X, dtype=np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise InputError(f"`X` must have the {self.n_features} columns of training, got shape {rows.shape}.")
        columns = self.start.shape[1]
        q = np.empty((len(self.models), len(rows), max(columns, 2)))
        if not len(rows):
            return q
        matrix = _matrix(rows, z, self.order)
        for out, booster, start in zip(q, self._boosters, self.start, strict=True):
            raw = booster.predict(matrix, raw_score=True, num_threads=1)
            if columns == 1:
                out[:, 1] = expit(raw + start[0])
                out[:, 0] = 1.0 - out[:, 1]
            else:
                out[:] = softmax(raw + start, axis=1)
        return q

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The models' texts as bytes, and how to read them."""
        named: dict[str, NDArray[Any]] = {
            f"model_{i}": np.frombuffer(text.encode(), dtype=np.uint8) for i, text in enumerate(self.models)
        }
        return named | {"start": self.start, "n_features": np.array(self.n_features), "order": self.order}

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> Boosted:
        """The models that `arrays` described; damaged ones are refused."""
        start, order = np.asarray(arrays["start"], dtype=np.float64), np.asarray(arrays["order"])
        n_features = int(arrays["n_features"])
        if start.ndim != 2 or not np.isfinite(start).all():
            raise DataError("The starting scores of a boosted model are damaged. Load another copy.")
        if not np.array_equal(np.sort(order), np.arange(len(order))):
            raise DataError("The groups of a boosted model are damaged. Load another copy.")
        texts = []
        for i in range(len(start)):
            try:
                text = np.asarray(arrays[f"model_{i}"], dtype=np.uint8).tobytes().decode("ascii")
            except UnicodeDecodeError as error:
                raise DataError("The trees of a boosted model are not text. Load another copy.") from error
            check_model(text, len(order) + n_features, start.shape[1])
            texts.append(text)
        return Boosted(tuple(texts), start, n_features, order.astype(np.int64))


def fit(sample: Sample, lanes: Sequence[Lane], options: Options) -> Boosted:
    """One model per lane; lanes with the same rows share their dataset."""
    for lane in lanes:
        if lane.trade_off > 1.0:
            raise InputError(f"The trade-off of `cmi_boosting` is λ ≤ 1, got {lane.trade_off}.")
    place = sample.group_places()
    order = place if options.use_sensitive else place[:0]
    trained: dict[int, tuple[str, Array]] = {}
    # the seed decides what is held out, nothing else
    for members in alike(lanes, by_seed=options.recipe.patience is not None):
        data = _Data(sample, lanes[members[0]], options.recipe, place, order)
        for i in members:
            trained[i] = data.train(lanes[i].trade_off)
    models, starts = zip(*(trained[i] for i in range(len(lanes))), strict=True)
    return Boosted(models, np.stack(starts), sample.X.shape[1], order)


class _Data:
    """The binned rows of some lanes, with those held out for early stopping."""

    def __init__(self, sample: Sample, lane: Lane, recipe: Recipe, place: Codes, order: Codes) -> None:
        rows = lane.indices(len(sample))
        held = np.zeros(0, dtype=np.int64)
        if recipe.patience is not None:
            rows, held = _hold_out(sample, rows, lane.seed)
        self.recipe, self.n_labels = recipe, sample.n_labels
        self.rows, self.held = (_coded(sample, some, place) for some in (rows, held))
        self.binned = self._dataset(sample, rows, self.rows, order)
        self.held_binned = self._dataset(sample, held, self.held, order, self.binned) if len(held) else None

    def _dataset(self, sample: Sample, indices: Codes, rows: Rows, order: Codes, reference: Any = None) -> Any:
        matrix = _matrix(np.asarray(sample.X[indices], dtype=np.float32), sample.z[indices], order)
        return lgb.Dataset(matrix, label=rows.y, weight=rows.weight, reference=reference, params=_PARAMETERS)

    def train(self, trade_off: float) -> tuple[str, Array]:
        """LightGBM's text of one model, and what to add to its raw scores."""
        columns = 1 if self.n_labels == 2 else self.n_labels
        parameters = _PARAMETERS | ({} if columns == 1 else {"num_class": columns})
        start, watch, callbacks, extra = np.zeros(columns), None, [], {}
        if trade_off == 0:
            kind = ("binary", "binary_logloss") if columns == 1 else ("multiclass", "multi_logloss")
            parameters |= zip(("objective", "metric"), kind, strict=True)
        else:
            start, rates = self._start(), falling_rates(ROUNDS)
            objective = SeparationObjective(
                self.rows, trade_off=trade_off, level=self.recipe.level, bins=self.recipe.bins,
                learning_rate=rates, start=start,
            )  # fmt: skip
            callbacks.append(lgb.reset_parameter(learning_rate=rates))
            watch = objective.watch(self.held)
            parameters |= {"objective": objective, "metric": "none"}
        if self.held_binned is not None:
            callbacks.append(lgb.early_stopping(self.recipe.patience, verbose=False))
            extra = {"valid_sets": [self.held_binned], "feval": watch}
        try:
            model = lgb.train(
                parameters,
                self.binned,
                ROUNDS,
                callbacks=callbacks,
                keep_training_booster=True,  # else it writes and reads its own text once more
                **extra,
            )
        except lgb.basic.LightGBMError as error:
            rows = f"{len(self.rows.y):,} rows: {error}"
            raise InputError(f"LightGBM cannot train on these {rows}. It needs about twenty that vary.") from error
        return model.model_to_string(), start

    def _start(self) -> Array:
        """Raw scores of the labels' shares; a label without rows counts as half of one."""
        share = np.bincount(self.rows.y, self.rows.weight, self.n_labels).astype(np.float64)
        share = np.maximum(share, 0.5) / np.maximum(share, 0.5).sum()
        return np.log(share[1:] / share[0]) if self.n_labels == 2 else np.log(share)


def _matrix(X: NDArray[np.float32], z: ArrayLike | None, order: Codes) -> NDArray[np.float32]:
    """[Z|X] with one column per group, or X alone."""
    if not len(order):
        return X
    groups = known_groups(z, len(X), len(order))
    one_hot = np.eye(len(order), dtype=np.float32)[order[groups]]
    return np.concatenate([one_hot, X], axis=1)


def _coded(sample: Sample, rows: Codes, place: Codes) -> Rows:
    y, z = sample.y[rows], place[sample.z[rows]]
    weight = None if sample.weight is None else sample.weight[rows]
    return Rows(y, y * sample.n_groups + z, (sample.n_labels, sample.n_groups), weight)


def _hold_out(sample: Sample, rows: Codes, seed: int) -> tuple[Codes, Codes]:
    """Nine tenths to train on and one to watch, dealt within the cells; all and none if too few."""
    cell = sample.y[rows] * sample.n_groups + sample.z[rows]
    size = np.bincount(cell)
    if size[size > 0].min(initial=_HELD) < _HELD:
        return rows, rows[:0]
    held = dealt(cell, _HELD, np.random.default_rng(seed)) == 0
    return rows[~held], rows[held]


METHOD = Method(
    label="CMI boosting",
    colour="#aa0000",
    reference="the paper, Algorithm 1, with boosted trees; Ke et al. (2017), LightGBM",
    trade_offs=DENSE_BELOW,
    fit=fit,
    restore=Boosted.restore,
    recipes={"default": Recipe(), "score": Recipe(level="score")},
    levels=("draw", "score"),
    standardise=False,
)
