"""One method at one trade-off as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from separatrix import datasets, methods
from separatrix.core.numbers import one_of
from separatrix.crossfit.base_models import Base, has_text
from separatrix.crossfit.out_of_fold import seed_from
from separatrix.errors import InputError
from separatrix.estimators.base import Learned, ShippingClassifier
from separatrix.methods import Fitted, Lane, Recipe, Sample
from separatrix.nn.networks import Networks
from separatrix.optimum.rules import DrawnLabel, PlainRule, Rule
from separatrix.predictor.predictor import Branch, Predictor, policy_rule

Array = NDArray[np.float64]


@dataclass(eq=False, repr=False)
class SeparationClassifier(ShippingClassifier):
    """A classifier trained with one method at one trade-off.

    X is a matrix of numbers, or a frame whose text and categories become columns of 0 and 1.

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

    def _fit(self, learned: Learned) -> None:
        """Train on rows, labels and groups; several columns of groups are intersected."""
        one_of(self.policy, "policy", "deterministic", "randomized")
        if learned.groups is not None:
            raise InputError("`groups` is for folds, which a SeparationClassifier has not: leave it out.")
        codes = self._label_codes(learned.y)
        method, trade_off, z = self.method, self.trade_off, learned.z
        if z is None:
            self._without_groups("plain ERM and controls no violation")
            self.groups_, z = (0,), np.zeros(len(codes), dtype=np.intp)
            # the same model without the penalty
            method, trade_off = "cmi_boosting" if method == "cmi_boosting" else "erm", 0.0
        dense = _dense(learned.rows)
        self.mean_, self.scale_ = np.zeros(dense.shape[1]), np.ones(dense.shape[1])
        if methods.get(self.method).standardise:
            self.mean_ = np.average(dense, axis=0, weights=learned.weight)
            spread = np.sqrt(np.average((dense - self.mean_) ** 2, axis=0, weights=learned.weight))
            least = 1e-12 * np.maximum(1.0, np.abs(self.mean_))
            self.scale_ = np.where(spread > least, spread, 1.0)
        size = len(self.classes_), len(self.groups_)
        self.fitted_ = methods.fit(
            method,
            Sample(self._scaled(dense), codes, z, *size, learned.weight),
            [Lane(trade_off, None, seed_from(self.random_state))],
            recipe=self._recipe(),
            use_sensitive=bool(self.use_sensitive and learned.z is not None),
            device=self.device,
            progress=self.verbose,
        )
        if self.fitted_.status[0] != "ok":
            raise InputError(f"The training of {self.method!r} diverged. Try a smaller `learning_rate`.")
        rule = DrawnLabel() if self.policy == "randomized" else PlainRule(np.ones(size[0]))
        self.predictor_ = self._predictor(self.fitted_, rule)

    def predict_proba(self, X: Any, sensitive_features: Any = None) -> Array:
        """P(U = u | x), or of (x, z) where the model sees the group; columns as in `classes_`."""
        rows, z = self._seen(X, sensitive_features)
        (q,) = self.predictor_.scores(rows, z)
        return q / q.sum(1, keepdims=True)

    def score(
        self, X: Any, y: ArrayLike, sensitive_features: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """The accuracy of `predict`."""
        decided = self.predict(X, sensitive_features)
        return float(accuracy_score(y, decided, sample_weight=sample_weight))

    def to_predictor(self, features: Sequence[str] = ()) -> Predictor:
        """What ships, as a `Predictor`: saved without pickle, streams files."""
        names = tuple(features) or tuple(map(str, getattr(self, "feature_names_in_", ())))
        predictor, fitted = super().to_predictor(names), self.fitted_
        if isinstance(fitted, Networks):
            fitted = fitted.unscaled(self.mean_, self.scale_)  # it takes features as they come
        elif methods.get(self.method).standardise:
            what = "Only networks and boosted trees become a predictor of raw features"
            raise InputError(f"{what}; {self.method!r} is neither.")
        branches = self._predictor(fitted, policy_rule(self.policy, len(self.classes_))).branches
        return replace(predictor, branches=branches, preprocessing=self.preprocessing_)

    def _predictor(self, fitted: Fitted, rule: Rule) -> Predictor:
        base = Base.from_lane(self.method, self.trade_off, fitted)
        return Predictor(tuple(self.classes_.tolist()), self.groups_, (Branch(base, rule),), grouping=self._grouping())

    def _rows(self, X: Any, reset: bool = False) -> Any:
        """A matrix of numbers, scaled where the scale is known; text and categories become columns of it."""
        if reset:
            self.preprocessing_ = datasets.plan(X).fit(X) if has_text(X) else None
        how: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32]}
        if self.preprocessing_ is None:
            rows = validate_data(self, X, reset=reset, **how)
        else:
            if not isinstance(X, Mapping):
                validate_data(self, X, reset=reset, skip_check_array=True)
            rows = check_array(self.preprocessing_.transform(X), **how)
        return rows if reset else self._scaled(_dense(rows))

    def _scaled(self, dense: NDArray[Any]) -> NDArray[np.float32]:
        return np.ascontiguousarray((dense - self.mean_) / self.scale_, dtype=np.float32)

    def _recipe(self) -> Recipe:
        names = ["epochs", "min_steps", "batch", "learning_rate", "patience", "piecewise_linear"]
        given: dict[str, Any] = {name: getattr(self, name) for name in names}
        running = 0.9 if self.level == "score" else 0.0  # 16 bins need more rows than a batch
        return Recipe(hidden=tuple(self.hidden), level=self.level, running=running, **given)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse, tags.input_tags.allow_nan = True, False
        return tags


def _dense(rows: Any) -> NDArray[Any]:
    return rows.toarray() if hasattr(rows, "toarray") else rows
