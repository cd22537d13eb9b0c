r"""SeparationObjective: Algorithm 1 as a custom objective of boosted trees. numpy only.

In each round, with raw scores f, posteriors p (sigmoid or softmax) and rows that count w times,

.. math:: g = (1-\lambda)\, g_{\mathrm{CE}} + \omega\, n\,\frac{\partial v}{\partial f}, \qquad
          \omega = \min\Bigl(\lambda \frac{\|g_{\mathrm{CE}}\|}{\|n\, \partial v\|},\;
          \omega_{\max}\Bigr)

and the Hessian is that of the cross-entropy. The first part balances the norms. The second lets the
penalty fade where v is nearly zero: there its gradient is small, and a normalised one would
throw the scores from side to side for the rest of the training. :math:`\omega_{\max}` is the weight
at which one Newton step of rate η, with the Hessian of the cross-entropy, minimises the penalty
for a shift of all scores of a cell (y, z). More than twice that weight diverges.

- level "draw": v of a draw from the posterior. Its curvature is at most the mean Hessian
  h = p(1 − p), so :math:`\omega_{\max} = 1/\eta`.
- level "score": the mean over the labels (two labels: the second) of v of the soft-binned posterior
  of the label, `core.binned_cmi`. The curvature of the violation of a score s is about that of a
  shift, 1/var(s | y, z), so :math:`\omega_{\max} = \tfrac23 \lambda\, \mathrm{var}(p \mid y, z)
  / (\eta \bar h)`. Less than all of it, because shifts of single bins are steeper than those of a
  whole cell (chosen on simulated laws). It starts at zero: the score is learnt before it is
  separated. No row's penalty asks for more than one unit of log-odds in a round, and centres closer
  than a quarter of their mean distance in log-odds are merged: both tame scores of few values.

η may differ from round to round. Rates that fall (`falling_rates`) let the late rounds settle: the
same u or AUROC at a smaller v, for the same number of rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, logit, logsumexp, softmax

from separatrix.columns.groups import as_groups
from separatrix.columns.scores import check_weight
from separatrix.columns.values import as_levels, check_lengths
from separatrix.core.binned_cmi import Value, bins_for, centres, cmi_of_draws, cmi_of_scores, spread_out
from separatrix.core.numbers import one_of
from separatrix.errors import InputError

Array = NDArray[np.float64]
RATE = 0.1
_SOME = 4096  # rows that decide where the bins are
_TINY = np.finfo(np.float64).tiny


def falling_rates(rounds: int, learning_rate: float = RATE) -> list[float]:
    r"""One learning rate per round, along half a cosine from 2η to η/5.

    .. math:: \eta_t = \eta\,\bigl(0.2 + 0.9\,(1 + \cos(\pi t / T))\bigr)

    Give them to the objective, and to LightGBM as
    `callbacks=[lightgbm.reset_parameter(learning_rate=rates)]`.

    >>> [round(rate, 3) for rate in falling_rates(4)]
    [0.2, 0.174, 0.11, 0.046]
    """
    turn = np.cos(np.pi * np.arange(rounds) / rounds)
    return (learning_rate * (0.2 + 0.9 * (1.0 + turn))).tolist()


class Last(NamedTuple):
    """Values of the last round, for logging: cross-entropy, violation and its weight ω."""

    task: float
    violation: float
    weight: float


class Rows(NamedTuple):
    """Labels, cells and weights of the rows that an objective or a metric looks at."""

    y: NDArray[np.intp]
    cell: NDArray[np.intp]
    shape: tuple[int, int]
    weight: Array | None
    labels: Sequence[Any] = ()

    @property
    def total(self) -> float:
        return float(len(self.y)) if self.weight is None else float(self.weight.sum())

    def cross_entropy(self, scores: Array) -> float:
        """Mean cross-entropy of raw scores, (n,) or (n, K)."""
        if scores.ndim == 1:
            losses = np.logaddexp(0.0, np.where(self.y == 1, -scores, scores))
        else:
            losses = logsumexp(scores, axis=1) - scores[np.arange(len(self.y)), self.y]
        return float(np.average(losses, weights=self.weight)) if len(losses) else 0.0

    def violation(self, p: Array, level: str, bins: int, some: Any = slice(None), slope_of_p: Any = None) -> Value:
        """v of posteriors p, (n,) of the second label or (n, K), and ∂v/∂ raw scores.

        `slope_of_p` is p (1 − p) for two labels, if it is known.
        """
        if level == "draw":
            return cmi_of_draws(p, self.cell, self.shape, self.weight)
        if p.ndim == 1:
            c = self.centres(p, bins, some)
            value, slope = cmi_of_scores(p, self.cell, self.shape, c, self.weight)
            slope *= p * (1.0 - p) if slope_of_p is None else slope_of_p
            return Value(value, slope)
        of_labels = [
            cmi_of_scores(s, self.cell, self.shape, self.centres(s, bins, some), self.weight)
            for s in np.ascontiguousarray(p.T)
        ]
        slope = np.stack([v.gradient for v in of_labels], axis=1) / len(of_labels)
        gradient = p * (slope - np.einsum("nk,nk->n", p, slope)[:, None])
        return Value(float(np.mean([v.value for v in of_labels])), gradient)

    def centres(self, s: Array, bins: int, some: Any = slice(None)) -> Array:
        """Where the bins of posteriors s are, by the rows `some`."""
        c = centres(s[some], bins, None if self.weight is None else self.weight[some])
        if len(c) < 2:
            return np.unique([s.min(), s.max()])
        c[[0, -1]] = s.min(), s.max()
        return c[spread_out(logit(np.clip(c, 1e-15, 1.0 - 1e-15)))] if len(c) > 3 else c


def _rows(y_true: ArrayLike | Rows, groups: Any, sample_weight: ArrayLike | None, like: Rows | None = None) -> Rows:
    """Coded rows; held-out rows have the labels of those they are `like`."""
    if isinstance(y_true, Rows):
        return y_true
    y, seen = as_levels(y_true, "y_true")
    z, names = as_groups(groups)
    n = check_lengths({"y_true": y, "sensitive_features": z})
    labels = list(seen) if like is None else like.labels
    new = [label for label in seen if label not in labels]
    if new:
        known = ", ".join(map(repr, labels))
        raise InputError(f"`y_true` of the held-out rows has the label {new[0]!r}, which training has not: {known}.")
    y = np.array([labels.index(label) for label in seen], dtype=np.intp)[y]
    weight = None if sample_weight is None else check_weight(sample_weight, n)
    shape = max(len(labels), 2), len(names)
    return Rows(y, y * shape[1] + z, shape, weight, labels)


class SeparationObjective:
    """A custom objective for `lightgbm.train`: cross-entropy plus the violation of separation.

    Pass it as the objective of a training on the same rows, in the same order. Raw predictions of
    the model are logits: `scipy.special.expit` (two labels) or `softmax` makes posteriors of them.

    Args:
        y_true: labels; the model's outputs are in their sorted order. Or coded `Rows`, with their
            groups and weights.
        sensitive_features: groups; several columns are intersected.
        trade_off: λ in [0, 1]; 0 is the cross-entropy, 1 the violation alone.
        level: whose violation: that of a "draw" from the posterior (the paper's), or of the
            "score" in soft bins, which no threshold escapes.
        normalise: balance the two gradients by their norms; False takes (1−λ) CE + λ v as it is.
        learning_rate: η of the booster; or one of each round, for a single training.
        bins: of the score; None: `bins_for` the rows, at most 16.
        sample_weight: weight of each row; do not give the Dataset weights as well.
        start: what is added to the raw scores of each label, if the model does not start at zero.

    >>> rng = np.random.default_rng(0)
    >>> z = rng.integers(0, 2, 100)
    >>> y = (rng.random(100) < 0.3 + 0.4 * z).astype(int)
    >>> objective = SeparationObjective(y, sensitive_features=z, trade_off=0.3)
    >>> gradient, hessian = objective(np.where(y == 1, 1.0, -1.0) + z)
    >>> gradient.shape, hessian.shape, objective.last.violation > 0
    ((100,), (100,), True)
    """

    def __init__(
        self,
        y_true: ArrayLike | Rows,
        *,
        trade_off: float,
        sensitive_features: Any = None,
        level: str = "draw",
        normalise: bool = True,
        learning_rate: float | Sequence[float] = RATE,
        bins: int | None = None,
        sample_weight: ArrayLike | None = None,
        start: Array | None = None,
    ) -> None:
        rows = _rows(y_true, sensitive_features, sample_weight)
        if not 0.0 <= trade_off <= 1.0:
            raise InputError(f"`trade_off` is λ in [0, 1], got {trade_off}.")
        one_of(level, "level", "draw", "score")
        rates = np.atleast_1d(np.asarray(learning_rate, dtype=np.float64))
        if (bins is not None and bins < 2) or not len(rates) or not (rates > 0).all():
            raise InputError(f"`bins` must be ≥ 2 and `learning_rate` positive, got {bins} and {learning_rate}.")
        self.rows, self.trade_off, self.level = rows, float(trade_off), level
        self.normalise, self.rates, self._round, self._start = normalise, rates, 0, start
        self.bins = bins_for(rows.total, rows.shape[0] * rows.shape[1]) if bins is None else bins
        self._second = (rows.y == 1).astype(np.float64)
        self._room = np.empty((2, len(rows.y)))  # kept: new pages cost more than the arithmetic
        self._last: tuple[Array, float, float] | None = None
        n = len(rows.y)
        chosen = np.random.default_rng(0).choice(n, _SOME, replace=False) if n > _SOME else None
        self._some: Any = slice(None) if chosen is None else np.sort(chosen)

    def __call__(self, scores: Array, data: Any = None) -> tuple[Array, Array]:
        """Gradient and Hessian of one round, in the shape of the raw scores: (n,) or (n, K)."""
        rows, n_labels = self.rows, self.rows.shape[0]
        scores = self._from_start(scores)
        expected = (len(rows.y),) if n_labels == 2 else (len(rows.y), n_labels)
        if scores.shape != expected:
            how = "" if n_labels == 2 else f", with num_class={n_labels}"
            raise InputError(
                f"The objective has {expected[0]:,} rows and {n_labels} labels, so raw scores of shape {expected}; got "
                f"{scores.shape}. Train on the rows that it was made of{how}."
            )
        if n_labels == 2:
            p, task = self._room
            expit(scores, out=p)
            np.subtract(p, self._second, out=task)
            hessian = 1.0 - p
            hessian *= p
        else:
            p = softmax(scores, axis=1)
            task = p.copy()
            task[np.arange(len(rows.y)), rows.y] -= 1.0
            hessian = p * (1.0 - p)
        rate = float(self.rates[min(self._round, len(self.rates) - 1)])
        self._round += 1
        gradient = task.copy() if self.trade_off == 0 else self._mixed(scores, p, task, hessian, rate)
        if n_labels > 2:
            hessian = hessian * (n_labels / (n_labels - 1.0))  # LightGBM's own factor
        if rows.weight is not None:
            by_row = rows.weight if n_labels == 2 else rows.weight[:, None]
            gradient, hessian = gradient * by_row, hessian * by_row
        return gradient, hessian

    @property
    def last(self) -> Last | None:
        """Cross-entropy, violation and its weight in the last round; None before it or at λ = 0."""
        if self._last is None:
            return None
        scores, v, weight = self._last
        return Last(self.rows.cross_entropy(scores), v, weight)

    def watch(
        self, y_true: ArrayLike | Rows, *, sensitive_features: Any = None, sample_weight: ArrayLike | None = None
    ) -> Callable[[Array, Any], tuple[str, float, bool]]:
        r"""A `feval` for early stopping on held-out rows, which may have groups of their own.

        It is (1−λ) CE + (λ/η) v: λ/η, η the mean rate, is the largest weight that a step gives to
        the violation of a draw.

        >>> y, z = [0, 1] * 6, ["f", "f", "m"] * 4
        >>> objective = SeparationObjective(y, sensitive_features=z, trade_off=0.3)
        >>> feval = objective.watch([0, 1, 1], sensitive_features=["f", "x", "x"])
        >>> name, value, larger_is_better = feval(np.zeros(3), None)
        >>> name, round(value, 4), larger_is_better
        ('task and penalty', 0.4852, False)
        """
        held = _rows(y_true, sensitive_features, sample_weight, self.rows)

        def watched(scores: Array, data: Any = None) -> tuple[str, float, bool]:
            scores, share = self._from_start(scores), self.trade_off
            p = expit(scores) if scores.ndim == 1 else softmax(scores, axis=1)
            v = held.violation(p, self.level, self.bins).value
            task = (1.0 - share) * held.cross_entropy(scores)
            return "task and penalty", task + share / float(self.rates.mean()) * v, False

        return watched

    def _from_start(self, scores: Array) -> Array:
        return scores if self._start is None else scores + self._start

    def _mixed(self, scores: Array, p: Array, task: Array, hessian: Array, rate: float) -> Array:
        """(1−λ) g_CE + ω n ∂v, per unit of weight of a row."""
        rows, n = self.rows, self.rows.total
        v, slope = rows.violation(p, self.level, self.bins, self._some, hessian)
        if rows.weight is None:
            slope *= n
        else:
            unit = np.divide(n, rows.weight, out=np.zeros_like(rows.weight), where=rows.weight > 0)
            slope *= unit if slope.ndim == 1 else unit[:, None]
        weight = self.trade_off
        if self.normalise:
            most, balanced = self._largest(p, hessian, rate), weight * self._norm(task)
            norm = self._norm(slope)
            weight = balanced / norm if balanced < most * norm else most
        self._last = scores, v, float(weight)
        slope *= weight
        if self.normalise and self.level == "score":
            step = np.divide(hessian, rate, out=p)  # a posterior of almost 0 or 1 has no Hessian
            np.minimum(slope, step, out=slope)
            np.maximum(slope, np.negative(step, out=step), out=slope)
        task *= 1.0 - self.trade_off
        slope += task
        return slope

    def _norm(self, gradient: Array) -> float:
        if self.rows.weight is None:
            return float(np.linalg.norm(gradient))
        squares = gradient * gradient
        by_row = squares if gradient.ndim == 1 else squares.sum(1)
        return float(np.sqrt(self.rows.weight @ by_row))

    def _largest(self, p: Array, hessian: Array, rate: float) -> float:
        """ω_max, see the top of the file."""
        if self.level == "draw":
            return 1.0 / rate
        rows, some = self.rows, self._some
        cell, cells = rows.cell[some], rows.shape[0] * rows.shape[1]
        w = None if rows.weight is None else rows.weight[some]
        size = np.maximum(np.bincount(cell, w, cells), _TINY)
        total = 0.0
        for s in [p[some]] if p.ndim == 1 else p[some].T:
            mean = np.bincount(cell, s if w is None else w * s, cells) / size
            square = (s - mean.take(cell)) ** 2
            total += float(square.sum() if w is None else w @ square)
        h = hessian[some] if p.ndim == 1 else hessian[some].sum(1)
        curved = float(h.sum() if w is None else w @ h)
        return self.trade_off * total / max(1.5 * rate * curved, _TINY)
