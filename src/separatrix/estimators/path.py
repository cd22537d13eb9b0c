"""A whole path and the choice of its point as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix import datasets, methods
from separatrix.columns.counting import count_posteriors
from separatrix.deploy.choosing import select
from separatrix.deploy.points import Candidate, OperatingPoint, Option
from separatrix.deploy.predictor import Component, Predictor
from separatrix.errors import InputError
from separatrix.estimators.base import Array, Base
from separatrix.methods import Fitted, Lane, Sample
from separatrix.nn.evaluation import auroc, hard

__all__ = ["FrontierClassifier"]


class FrontierClassifier(Base):
    """A whole path in one training run, and the best point of it within a budget.

    The path is trained on one component of the rows. The other component, which trained nothing,
    measures every point; `selection` chooses among the deterministic, the single randomised and the
    mixed options.

    Args:
        max_violation, max_eo_gap: budgets; one of them is needed, 0.01 nats by default.
        maximize: "utility", "accuracy", "auroc" or a function of tables (1, y, z, u).
        confidence: None for the measured values; otherwise the point keeps its budgets with this
            probability.
        option: "deterministic" (no coin at all), "single" or "mixture"; None for the best of them.
        method, trade_offs: the path; None for the method's own grid.
        hold_out: share of the rows that measures.
        use_sensitive, hidden, epochs, min_steps, batch, learning_rate, patience, piecewise_linear,
        device, verbose, random_state: as in
            `SeparationClassifier`.

    Attributes:
        point_: the `OperatingPoint`; ``point_.predictor`` is what is deployed and ``print(point_)``
            shows all options.
    """

    def __init__(
        self,
        max_violation: float | None = 0.01,
        max_eo_gap: float | None = None,
        *,
        maximize: Any = "utility",
        confidence: float | None = None,
        option: str | None = "deterministic",
        method: str = "cmi",
        trade_offs: Any = None,
        hold_out: float = 0.3,
        use_sensitive: bool = False,
        hidden: tuple[int, ...] = (64, 64),
        epochs: int = 20,
        min_steps: int = 540,
        batch: int | None = 512,
        learning_rate: float = 1e-3,
        patience: int | None = None,
        piecewise_linear: int = 0,
        device: str = "cpu",
        verbose: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.max_violation = max_violation
        self.max_eo_gap = max_eo_gap
        self.maximize = maximize
        self.confidence = confidence
        self.option = option
        self.method = method
        self.trade_offs = trade_offs
        self.hold_out = hold_out
        self.use_sensitive = use_sensitive
        self.hidden = hidden
        self.epochs = epochs
        self.min_steps = min_steps
        self.batch = batch
        self.learning_rate = learning_rate
        self.patience = patience
        self.piecewise_linear = piecewise_linear
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sensitive_features: Any = None, sample_weight: ArrayLike | None = None
    ) -> FrontierClassifier:
        """Train the path, measure it on the rows held out, choose the point."""
        rows, codes, z, weight = self._prepare(X, y, sensitive_features, sample_weight)
        self.uses_groups_ = bool(self.use_sensitive and sensitive_features is not None)
        train, test = self._split(codes, z)
        plain = sensitive_features is None
        method = "erm" if plain else self.method
        grid = (0.0,) if plain else tuple(self.trade_offs or methods.get(method).grid())
        seed, sizes = self._seed(), (len(self.classes_), len(self.groups_))
        fitted = methods.fit(
            method,
            Sample(rows, codes, z, *sizes, weight),
            [Lane(float(t), train, seed) for t in grid],
            recipe=self._recipe(),
            use_sensitive=self.uses_groups_,
            device=self.device,
            progress=self.verbose,
        )
        q = np.asarray(fitted.posteriors(rows[test], z[test] if self.uses_groups_ else None))
        good = [i for i, status in enumerate(fitted.status) if status == "ok"]
        if not good:
            raise InputError(
                f"The training of {method!r} diverged at every λ. Try a smaller `learning_rate`."
            )
        candidates, self._lane = _candidates(
            method,
            grid,
            q,
            (codes[test], z[test], None if weight is None else weight[test]),
            len(self.classes_),
            good,
        )
        chosen = select(
            candidates,
            max_violation=1.0
            if plain
            else self.max_violation,  # with one group every violation is zero
            max_eo_gap=None if plain else self.max_eo_gap,
            maximize=self.maximize,
            confidence=None if plain else self.confidence,
            option=self.option,
        )
        self.fitted_, self.method_ = fitted, method
        self.point_ = OperatingPoint(chosen, self._build)
        return self

    def predict_proba(self, X: Any, sensitive_features: Any = None) -> Array:
        """P(U = u | x): the law of the decision before any coin is thrown; zeros and ones if it
        throws none.
        """
        rows = self._rows(X)
        z = self._codes(sensitive_features, len(rows))
        chosen = self.point_.selection.chosen
        return np.asarray(
            sum(
                w * self._component(c).proba(rows, z)
                for c, w in zip(chosen.components, chosen.weights, strict=True)
            )
        )

    def predict(self, X: Any, sensitive_features: Any = None) -> NDArray[Any]:
        """Decisions; the coins, if any, come from `random_state` and the row's place. For
        production: `point_.predictor`.
        """
        return self._draw(self.predict_proba(X, sensitive_features))

    def _split(
        self, y: NDArray[np.intp], z: NDArray[np.intp]
    ) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Training and measuring rows, with every cell (y, z) in both as far as it can be."""
        if not 0.0 < self.hold_out < 1.0:
            raise InputError(
                f"`hold_out` is a share of the rows between 0 and 1, got {self.hold_out}."
            )
        fine = min(20, len(y) // 2)
        if fine < 2:
            raise InputError(
                f"A path needs at least 4 samples to train and to measure it, got {len(y)}."
            )
        fold = datasets.folds(y, z, fine, self._seed())
        out = fold < min(max(round(self.hold_out * fine), 1), fine - 1)
        return np.flatnonzero(~out), np.flatnonzero(out)

    def _component(self, candidate: Candidate, fitted: Fitted | None = None) -> Component:
        return Component.of(
            self.method_,
            candidate.trade_off,
            candidate.policy,
            self.fitted_ if fitted is None else fitted,
            self._lane[candidate.trade_off],
        )

    def _build(self, option: Option) -> Predictor:
        raw = self._unscaled(self.fitted_)
        components = tuple(self._component(c, raw) for c in option.components)
        chosen = self.point_.selection
        about = {
            "choice": chosen.to_dict(),
            "options": {kind: one.to_dict() for kind, one in chosen.options.items()},
        }
        return self._assemble(components, option.weights, about)


def _candidates(
    method: str,
    grid: tuple[float, ...],
    q: NDArray[Any],
    measured: tuple[NDArray[np.intp], NDArray[np.intp], Array | None],
    n_labels: int,
    good: list[int],
) -> tuple[list[Candidate], dict[float, int]]:
    """Both policies of every lane that trained, measured on rows (y, z, weight) that trained
    nothing; and their lanes.
    """
    y, z, weight = measured
    area = auroc(q[good], y) if len(np.unique(y)) > 1 else np.full(len(good), np.nan)
    candidates = []
    for policy in ("randomized", "deterministic"):
        decided = q[good] if policy == "randomized" else hard(q[good])
        for k, i in enumerate(good):
            table = count_posteriors(
                y, decided[k], sensitive_features=z, labels=range(n_labels), sample_weight=weight
            )
            metrics = {"auroc": [area[k]]}
            candidates.append(
                Candidate(
                    method, float(grid[i]), policy, table.counts[None], metrics, hold_out=table
                )
            )
    return candidates, {float(grid[i]): i for i in good}
