"""One method at one trade-off as a scikit-learn classifier."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import check_array, check_X_y
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from separatrix import datasets, methods
from separatrix.columns.draws import UNSET, Unset, drawn, uniforms
from separatrix.columns.groups import group_codes
from separatrix.core.numbers import one_of
from separatrix.crossfit.base_models import has_text
from separatrix.crossfit.out_of_fold import seed_from
from separatrix.errors import InputError
from separatrix.estimators.base import SensitiveColumns, check_labels
from separatrix.methods import Lane, Recipe, Sample
from separatrix.nn.networks import Networks
from separatrix.predictor.branch import Base, Branch, policy_rule
from separatrix.predictor.predictor import Predictor

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class SeparationClassifier(SensitiveColumns, ClassifierMixin, BaseEstimator):
    """A classifier trained with one method at one trade-off.

    Args:
        trade_off: λ, on the method's own scale; 0 is ERM.
        method: a name of `methods.names()`.
        use_sensitive: let the model see the group; it then needs `sensitive_features` to predict.
        sensitive_columns: the column(s) of X that hold the group; then `fit(X, y)` and `predict(X)`
            need nothing else. They stay among the features.
        policy: how `predict` decides: "deterministic" takes the most probable label, "randomized"
            draws from the posterior, which is the policy whose violation the method controls.
        level: whose violation the penalty sees: of a label drawn from the posterior, "draw" (the
            paper's), or of the "score" itself at every threshold; for "cmi", "raw_cmi" and
            "cmi_boosting".
        hidden, epochs, min_steps, batch, learning_rate: of networks, see `nn.Recipe`; the trees of
            "cmi_boosting" have LightGBM's own settings.
        patience: early stopping on a tenth of the rows; None trains to the end.
        piecewise_linear: number of pieces each numeric column is cut into, as more inputs; 0: none.
        device: a torch device.
        verbose: show a progress bar.
        random_state: seed of weights and batches.

    Attributes:
        classes_, groups_: labels and groups in the order of their codes.
        fitted_: the trained method.

    >>> rng = np.random.default_rng(0)
    >>> X, z = rng.normal(size=(400, 3)), rng.choice(["f", "m"], 400)
    >>> y = (X[:, 0] + (z == "m") + rng.normal(size=400) > 0.5).astype(int)
    >>> model = SeparationClassifier(0.5, hidden=(8,), epochs=2, min_steps=0)
    >>> model.fit(X, y, sensitive_features=z).predict_proba(X).shape
    (400, 2)
    """

    trade_off: float = 0.5
    method: str = "cmi"
    _: KW_ONLY
    use_sensitive: bool = False
    sensitive_columns: Any = None
    policy: str = "deterministic"
    level: str = "draw"
    hidden: tuple[int, ...] = (64, 64)
    epochs: int = 20
    min_steps: int = 540
    batch: int | None = 512
    learning_rate: float = 1e-3
    patience: int | None = None
    piecewise_linear: int = 0
    device: str = "cpu"
    verbose: bool = False
    random_state: Any = 0

    def fit(
        self, X: Any, y: Any, sensitive_features: Any = None, sample_weight: ArrayLike | None = None
    ) -> SeparationClassifier:
        """Train on rows X, labels y and groups; several columns of groups are intersected.

        X is a matrix of numbers, or a frame whose text and categories become columns of 0 and 1.
        """
        one_of(self.policy, "policy", "deterministic", "randomized")
        sensitive_features = self._sensitive(X, sensitive_features)
        rows, codes, z, weight = self._prepare(X, y, sensitive_features, sample_weight)
        self.uses_groups_ = bool(self.use_sensitive and sensitive_features is not None)
        sample = Sample(rows, codes, z, len(self.classes_), len(self.groups_), weight)
        plain = sensitive_features is None
        # without groups: the same model without the penalty
        without = "cmi_boosting" if self.method == "cmi_boosting" else "erm"
        self.fitted_ = methods.fit(
            without if plain else self.method,
            sample,
            [Lane(0.0 if plain else self.trade_off, None, seed_from(self.random_state))],
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
        z = self._codes(self._sensitive(X, sensitive_features), len(rows))
        q = np.asarray(self.fitted_.posteriors(rows, z)[0], dtype=np.float64)
        return q / q.sum(1, keepdims=True)

    def score(
        self, X: Any, y: ArrayLike, sensitive_features: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """The accuracy of `predict`."""
        decided = self.predict(X, sensitive_features)
        return float(accuracy_score(y, decided, sample_weight=sample_weight))

    def to_predictor(self) -> Predictor:
        """What ships, as a `Predictor`: saved without pickle, streams files."""
        check_is_fitted(self)
        fitted = self.fitted_
        if isinstance(fitted, Networks):
            fitted = fitted.unscaled(self.mean_, self.scale_)  # it takes features as they come
        elif methods.get(self.method).standardise:
            raise InputError(
                f"Only networks and boosted trees can become a predictor of raw features; {self.method!r} is neither."
            )
        base = Base.from_lane(self.method, self.trade_off, fitted)
        return Predictor(
            tuple(self.classes_.tolist()),
            self.groups_,
            (Branch(base, policy_rule(self.policy, len(self.classes_))),),
            preprocessing=self.preprocessing_,
            features=tuple(map(str, getattr(self, "feature_names_in_", ()))),
            grouping=self._grouping(),
        )

    def predict(self, X: Any, sensitive_features: Any = None, random_state: Any = UNSET) -> NDArray[Any]:
        """Labels, by `policy`.

        Args:
            X, sensitive_features: rows, and their groups where the model sees them.
            random_state: seed of the coins of the randomised policy, by default the classifier's
                own; None throws fresh ones at every call.
        """
        q = self.predict_proba(X, sensitive_features)
        if self.policy == "deterministic":
            return self.classes_[q.argmax(1)]
        state = self.random_state if isinstance(random_state, Unset) else random_state
        if not isinstance(state, int | np.integer | None):
            state = seed_from(state)
        coin = uniforms(len(q), ("label",), random_state=state)
        return self.classes_[drawn(q, coin[:, 0])]

    def _prepare(
        self, X: Any, y: Any, sensitive_features: Any, sample_weight: Any
    ) -> tuple[NDArray[np.float32], NDArray[np.intp], NDArray[np.intp], Array | None]:
        """Scaled features and codes; sets `classes_`, `groups_`, `n_features_in_`."""
        self.preprocessing_ = datasets.plan(X).fit(X) if has_text(X) else None
        X, y = self._checked(X, y)
        check_labels(y)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
        kept = slice(None) if weight is None else weight > 0  # rows of weight 0 are left out
        z = self._groups(sensitive_features, len(y), weight)
        X, y, weight = X[kept], y[kept], None if weight is None else weight[kept]
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise InputError(f"A classifier needs at least two classes; this data has 1 class, {self.classes_[:1]}.")
        dense = _dense(X)
        self.mean_, self.scale_ = np.zeros(dense.shape[1]), np.ones(dense.shape[1])
        if methods.get(self.method).standardise:
            self.mean_ = np.average(dense, axis=0, weights=weight)
            spread = np.sqrt(np.average((dense - self.mean_) ** 2, axis=0, weights=weight))
            least = 1e-12 * np.maximum(1.0, np.abs(self.mean_))
            self.scale_ = np.where(spread > least, spread, 1.0)
        return self._scaled(dense), codes.astype(np.intp), z, weight

    def _checked(self, X: Any, y: Any = "no_validation") -> Any:
        """A matrix of numbers, with `y` where given; text and categories become columns of it."""
        how: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        fitting = not isinstance(y, str)
        if self.preprocessing_ is None:
            return validate_data(self, X, y, reset=fitting, **how)
        if not isinstance(X, Mapping):
            validate_data(self, X, reset=fitting, skip_check_array=True)
        rows = self.preprocessing_.transform(X)
        return check_X_y(rows, y, **how) if fitting else check_array(rows, **how)

    def _groups(self, values: Any, n: int, weight: Array | None) -> NDArray[np.intp]:
        if values is None:
            warnings.warn(
                f"{type(self).__name__} was fitted without `sensitive_features`: it is plain ERM "
                "and controls no violation.",
                UserWarning,
                stacklevel=4,
            )
            self.groups_, self.group_names_, self.grouping_ = (0,), (), None
            return np.zeros(n if weight is None else (weight > 0).sum(), dtype=np.intp)
        return self._learn_groups(values, n, weight)

    def _scaled(self, dense: NDArray[Any]) -> NDArray[np.float32]:
        return np.ascontiguousarray((dense - self.mean_) / self.scale_, dtype=np.float32)

    def _rows(self, X: Any) -> NDArray[np.float32]:
        check_is_fitted(self)
        return self._scaled(_dense(self._checked(X)))

    def _codes(self, sensitive_features: Any, n: int) -> NDArray[np.intp] | None:
        if not self.uses_groups_:
            return None
        if sensitive_features is None:
            raise InputError(
                "This classifier was fitted with use_sensitive=True, so it needs "
                "`sensitive_features` to predict. Fit it with use_sensitive=False to predict from "
                "X alone."
            )
        if self.grouping_ is not None:
            return self.grouping_.codes_of(sensitive_features, n)
        return group_codes(sensitive_features, self.groups_, n, "sensitive_features")

    def _recipe(self) -> Recipe:
        names = ["epochs", "min_steps", "batch", "learning_rate", "patience", "piecewise_linear"]
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        running = 0.9 if self.level == "score" else 0.0  # 16 bins need more rows than a batch
        return Recipe(hidden=tuple(self.hidden), level=self.level, running=running, **given)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _dense(rows: Any) -> NDArray[Any]:
    return rows.toarray() if hasattr(rows, "toarray") else rows
