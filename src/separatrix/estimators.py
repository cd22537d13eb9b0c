"""scikit-learn estimators: one method at one trade-off, and a whole path with the choice of its point.

`fit` takes ``sensitive_features``; with metadata routing it reaches them through pipelines and searches:
``SeparationClassifier().set_fit_request(sensitive_features=True)``. Without groups there is nothing to separate: they warn
and train plain ERM. Networks are dense: a sparse X is made dense.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from separatrix import datasets, methods
from separatrix.columns import Levels, compact
from separatrix.counts import CountTable
from separatrix.errors import InputError
from separatrix.methods import Fitted, Lane, Recipe, Sample
from separatrix.nn.evaluation import auroc, hard
from separatrix.nn.networks import Networks
from separatrix.predictor import Part, Predictor
from separatrix.predictor.model import codes_of, joined
from separatrix.selection import Candidate, Offer, OperatingPoint, select

__all__ = ["FrontierClassifier", "SeparationClassifier"]

Array = NDArray[np.float64]


class _Base(ClassifierMixin, BaseEstimator):
    """What the two estimators share: checked inputs, scaling, codes."""

    def _prepare(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.intp], NDArray[np.intp], Array | None]:
        """Scaled features and codes; sets `classes_`, `groups_`, `n_features_in_`."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=[np.float64, np.float32])
        check_classification_targets(y)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        kept = slice(None) if weight is None else weight > 0  # a row that weighs nothing is no row
        z, self.groups_ = self._groups(sensitive_features, len(y))
        X, y, z, weight = X[kept], y[kept], z[kept], None if weight is None else weight[kept]
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"A classifier needs at least two classes; this data has 1 class, {self.classes_[:1]}.")
        dense = X.toarray() if hasattr(X, "toarray") else X
        self.mean_ = np.average(dense, axis=0, weights=weight)
        spread = np.sqrt(np.average((dense - self.mean_) ** 2, axis=0, weights=weight))
        self.scale_ = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(self.mean_)), spread, 1.0)
        return self._scaled(dense), codes.astype(np.intp), z, weight

    def _groups(self, values: Any, n: int) -> tuple[NDArray[np.intp], Levels]:
        if values is None:
            warnings.warn(
                f"{type(self).__name__} was fitted without `sensitive_features`: it is plain ERM and controls no violation.",
                UserWarning,
                stacklevel=4,
            )
            return np.zeros(n, dtype=np.intp), (0,)
        codes, levels = compact(joined(values), "sensitive_features")
        if len(codes) != n:
            raise InputError(f"`sensitive_features` must have one group per row, {n:,}, got {len(codes):,}.")
        return np.asarray(codes, dtype=np.intp), levels

    def _scaled(self, dense: NDArray[Any]) -> NDArray[np.float32]:
        return np.ascontiguousarray((dense - self.mean_) / self.scale_, dtype=np.float32)

    def _rows(self, X: Any) -> NDArray[np.float32]:
        check_is_fitted(self)
        checked = validate_data(self, X, accept_sparse="csr", dtype=[np.float64, np.float32], reset=False)
        return self._scaled(checked.toarray() if hasattr(checked, "toarray") else checked)

    def _codes(self, sensitive_features: Any, n: int) -> NDArray[np.intp] | None:
        if not self.uses_groups_:
            return None
        if sensitive_features is None:
            raise InputError(
                "This classifier was fitted with use_sensitive=True, so it needs `sensitive_features` to predict. Fit it with "
                "use_sensitive=False to predict from X alone."
            )
        codes = codes_of(joined(sensitive_features), self.groups_, "sensitive_features")
        if len(codes) != n:
            raise InputError(f"`sensitive_features` must have one group per row, {n:,}, got {len(codes):,}.")
        return codes

    def _recipe(self) -> Recipe:
        return Recipe(
            hidden=tuple(self.hidden),
            epochs=self.epochs,
            min_steps=self.min_steps,
            batch=self.batch,
            learning_rate=self.learning_rate,
            patience=self.patience,
            ramps=self.ramps,
        )

    def _seed(self) -> int:
        state = self.random_state
        return int(state) if isinstance(state, int | np.integer) else int(check_random_state(state).randint(2**31 - 1))

    def _unscaled(self, fitted: Fitted) -> Fitted:
        """The same networks for features as they come: the scaling moves into the first layer."""
        if not isinstance(fitted, Networks):
            raise InputError(
                f"Only networks can become a predictor of raw features; {self.method!r} is of another kind."
            )
        first, g = fitted.weights[0].astype(np.float64), fitted.n_groups
        end = g + len(self.scale_)  # what follows are ramps, which move to x themselves
        own = first[:, g:end] / self.scale_[None, :, None]
        bias = fitted.biases[0] - np.einsum("d,mdh->mh", self.mean_, own)
        weight = np.concatenate([first[:, :g], own, first[:, end:]], axis=1).astype(np.float32)
        rest, biases = fitted.weights[1:], fitted.biases[1:]
        ramps = fitted.ramps.unscaled(self.mean_, self.scale_)
        return Networks((weight, *rest), (bias.astype(np.float32), *biases), g, fitted.status, fitted.losses, ramps)

    def _assemble(self, parts: tuple[Part, ...], weights: tuple[float, ...], about: dict[str, Any]) -> Predictor:
        names = tuple(map(str, getattr(self, "feature_names_in_", ())))
        labels = tuple(self.classes_.tolist())
        return Predictor(labels, self.groups_, parts, weights, features=names, about=about)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class SeparationClassifier(_Base):
    """One method at one trade-off.

    Args:
        trade_off: λ, on the method's own scale; 0 is ERM.
        method: a name of `methods.names()`.
        use_sensitive: let the model see the group as well. It then needs `sensitive_features` to predict.
        policy: how `predict` decides: "deterministic" takes the most probable label, "randomized" draws from the
            posterior with `random_state`, which is the policy whose violation the method controls.
        hidden, epochs, min_steps, batch, learning_rate: of the networks, see `nn.Recipe`.
        patience: early stopping on a tenth of the rows; None trains to the end.
        ramps: cut each numeric column into so many pieces, as inputs beside it; 0 for the columns alone.
        device: a torch device.
        verbose: show a progress bar.
        random_state: seed of weights, batches and draws.

    Attributes:
        classes_, groups_: labels and groups in the order of their codes.
        fitted_: the trained method.

    >>> rng = np.random.default_rng(0)
    >>> X, z = rng.normal(size=(400, 3)), rng.choice(["f", "m"], 400)
    >>> y = (X[:, 0] + (z == "m") + rng.normal(size=400) > 0.5).astype(int)
    >>> model = SeparationClassifier(0.5, hidden=(8,), epochs=2, min_steps=0).fit(X, y, sensitive_features=z)
    >>> model.predict_proba(X).shape
    (400, 2)
    """

    def __init__(
        self,
        trade_off: float = 0.5,
        method: str = "cmi",
        *,
        use_sensitive: bool = False,
        policy: str = "deterministic",
        hidden: tuple[int, ...] = (64, 64),
        epochs: int = 20,
        min_steps: int = 540,
        batch: int | None = 512,
        learning_rate: float = 1e-3,
        patience: int | None = None,
        ramps: int = 0,
        device: str = "cpu",
        verbose: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.trade_off = trade_off
        self.method = method
        self.use_sensitive = use_sensitive
        self.policy = policy
        self.hidden = hidden
        self.epochs = epochs
        self.min_steps = min_steps
        self.batch = batch
        self.learning_rate = learning_rate
        self.patience = patience
        self.ramps = ramps
        self.device = device
        self.verbose = verbose
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any, sensitive_features: Any = None, sample_weight: ArrayLike | None = None
    ) -> SeparationClassifier:
        """Train on numbers X, labels y and groups; several columns of groups are intersected."""
        if self.policy not in ("deterministic", "randomized"):
            raise InputError(f"`policy` must be 'deterministic' or 'randomized', got {self.policy!r}.")
        rows, codes, z, weight = self._prepare(X, y, sensitive_features, sample_weight)
        self.uses_groups_ = bool(self.use_sensitive and sensitive_features is not None)
        sample = Sample(rows, codes, z, len(self.classes_), len(self.groups_), weight)
        plain = sensitive_features is None
        self.fitted_ = methods.fit(
            "erm" if plain else self.method,
            sample,
            [Lane(0.0 if plain else self.trade_off, None, self._seed())],
            recipe=self._recipe(),
            use_sensitive=self.uses_groups_,
            device=self.device,
            progress=self.verbose,
        )
        if self.fitted_.status[0] != "ok":
            raise InputError(f"The training of {self.method!r} diverged. Try a smaller `learning_rate`.")
        return self

    def predict_proba(self, X: Any, sensitive_features: Any = None) -> Array:
        """P(U = u | x), or of (x, z) where the model sees the group; columns as in `classes_`."""
        rows = self._rows(X)
        q = np.asarray(self.fitted_.posteriors(rows, self._codes(sensitive_features, len(rows)))[0], dtype=np.float64)
        return q / q.sum(1, keepdims=True)

    def predict(self, X: Any, sensitive_features: Any = None) -> NDArray[Any]:
        """Labels, by `policy`."""
        q = self.predict_proba(X, sensitive_features)
        if self.policy == "deterministic":
            return self.classes_[q.argmax(1)]
        coin = np.random.default_rng(self._seed()).random((len(q), 1))
        return self.classes_[(np.cumsum(q, axis=1)[:, :-1] <= coin).sum(1)]

    def to_predictor(self) -> Predictor:
        """What is deployed: save it, load it without pickle, stream files through it."""
        check_is_fitted(self)
        part = Part.of(self.method, self.trade_off, self.policy, self._unscaled(self.fitted_))
        return self._assemble((part,), (1.0,), {})


class FrontierClassifier(_Base):
    """A whole path in one training run, and the best point of it within a budget.

    The path is trained on one part of the rows. The other part, which trained nothing, measures every point; `selection`
    chooses among the deterministic, the single randomised and the mixed offers.

    Args:
        max_violation, max_eo_gap: budgets; one of them is needed, 0.01 nats by default.
        maximize: "utility", "accuracy", "auroc" or a function of tables (1, y, z, u).
        confidence: None for the measured values; otherwise the point keeps its budgets with this probability.
        offer: "deterministic" (no coin at all), "single" or "mixture"; None for the best of them.
        method, trade_offs: the path; None for the method's own grid.
        hold_out: share of the rows that measures.
        use_sensitive, hidden, epochs, min_steps, batch, learning_rate, patience, ramps, device, verbose, random_state: as in
            `SeparationClassifier`.

    Attributes:
        point_: the `OperatingPoint`; ``point_.predictor`` is what is deployed and ``print(point_)`` shows all offers.
    """

    def __init__(
        self,
        max_violation: float | None = 0.01,
        max_eo_gap: float | None = None,
        *,
        maximize: Any = "utility",
        confidence: float | None = None,
        offer: str | None = "deterministic",
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
        ramps: int = 0,
        device: str = "cpu",
        verbose: bool = False,
        random_state: Any = 0,
    ) -> None:
        self.max_violation = max_violation
        self.max_eo_gap = max_eo_gap
        self.maximize = maximize
        self.confidence = confidence
        self.offer = offer
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
        self.ramps = ramps
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
            raise InputError(f"The training of {method!r} diverged at every λ. Try a smaller `learning_rate`.")
        candidates, self._lane = _candidates(
            method, grid, q, (codes[test], z[test], None if weight is None else weight[test]), len(self.classes_), good
        )
        chosen = select(
            candidates,
            max_violation=1.0 if plain else self.max_violation,  # with one group every violation is zero
            max_eo_gap=None if plain else self.max_eo_gap,
            maximize=self.maximize,
            confidence=None if plain else self.confidence,
            offer=self.offer,
        )
        self.fitted_, self.method_ = fitted, method
        self.point_ = OperatingPoint(chosen, self._build)
        return self

    def predict_proba(self, X: Any, sensitive_features: Any = None) -> Array:
        """P(U = u | x): the law of the decision before any coin is thrown; zeros and ones if it throws none."""
        rows = self._rows(X)
        z = self._codes(sensitive_features, len(rows))
        chosen = self.point_.selection.chosen
        return np.asarray(
            sum(w * self._part(c).proba(rows, z) for c, w in zip(chosen.parts, chosen.weights, strict=True))
        )

    def predict(self, X: Any, sensitive_features: Any = None) -> NDArray[Any]:
        """Decisions; the coins, if any, come from `random_state` and the row's place. For production: `point_.predictor`."""
        q = self.predict_proba(X, sensitive_features)
        coin = np.random.default_rng(self._seed()).random((len(q), 1))
        return self.classes_[(np.cumsum(q, axis=1)[:, :-1] <= coin).sum(1)]

    def _split(self, y: NDArray[np.intp], z: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Training and measuring rows, with every cell (y, z) in both as far as it can be."""
        if not 0.0 < self.hold_out < 1.0:
            raise InputError(f"`hold_out` is a share of the rows between 0 and 1, got {self.hold_out}.")
        fine = min(20, len(y) // 2)
        if fine < 2:
            raise InputError(f"A path needs at least 4 samples to train and to measure it, got {len(y)}.")
        fold = datasets.folds(y, z, fine, self._seed())
        out = fold < min(max(round(self.hold_out * fine), 1), fine - 1)
        return np.flatnonzero(~out), np.flatnonzero(out)

    def _part(self, candidate: Candidate, fitted: Fitted | None = None) -> Part:
        return Part.of(
            self.method_,
            candidate.trade_off,
            candidate.policy,
            self.fitted_ if fitted is None else fitted,
            self._lane[candidate.trade_off],
        )

    def _build(self, offer: Offer) -> Predictor:
        raw = self._unscaled(self.fitted_)
        parts = tuple(self._part(c, raw) for c in offer.parts)
        chosen = self.point_.selection
        about = {"choice": chosen.to_dict(), "offers": {kind: one.to_dict() for kind, one in chosen.offers.items()}}
        return self._assemble(parts, offer.weights, about)


def _candidates(
    method: str,
    grid: tuple[float, ...],
    q: NDArray[Any],
    measured: tuple[NDArray[np.intp], NDArray[np.intp], Array | None],
    n_labels: int,
    good: list[int],
) -> tuple[list[Candidate], dict[float, int]]:
    """Both policies of every lane that trained, measured on rows (y, z, weight) that trained nothing; and their lanes."""
    y, z, weight = measured
    area = auroc(q[good], y) if len(np.unique(y)) > 1 else np.full(len(good), np.nan)
    candidates = []
    for policy in ("randomized", "deterministic"):
        decided = q[good] if policy == "randomized" else hard(q[good])
        for k, i in enumerate(good):
            table = CountTable.from_posteriors(decided[k], y, z, labels=range(n_labels), sample_weight=weight)
            metrics = {"auroc": [area[k]]}
            candidates.append(Candidate(method, float(grid[i]), policy, table.counts[None], metrics, hold_out=table))
    return candidates, {float(grid[i]): i for i in good}
