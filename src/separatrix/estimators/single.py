"""One method at one trade-off as a scikit-learn classifier."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics import accuracy_score

from separatrix import methods
from separatrix.columns.draws import UNSET, Unset, drawn, uniforms
from separatrix.crossfit.out_of_fold import seed_from
from separatrix.errors import InputError
from separatrix.estimators.base import Array, Base
from separatrix.estimators.wrapping import single_predictor
from separatrix.methods import Lane, Sample
from separatrix.predictor.predictor import Predictor

__all__ = ["SeparationClassifier"]


class SeparationClassifier(Base):
    """One method at one trade-off.

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
        piecewise_linear: cut each numeric column into so many pieces, as more inputs; 0 for none.
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

    def __init__(
        self,
        trade_off: float = 0.5,
        method: str = "cmi",
        *,
        use_sensitive: bool = False,
        sensitive_columns: Any = None,
        policy: str = "deterministic",
        level: str = "draw",
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
        self.trade_off = trade_off
        self.method = method
        self.use_sensitive = use_sensitive
        self.sensitive_columns = sensitive_columns
        self.policy = policy
        self.level = level
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
    ) -> SeparationClassifier:
        """Train on rows X, labels y and groups; several columns of groups are intersected.

        X is a matrix of numbers, or a frame whose text and categories become columns of 0 and 1.
        """
        if self.policy not in ("deterministic", "randomized"):
            raise InputError(
                f"`policy` must be 'deterministic' or 'randomized', got {self.policy!r}."
            )
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
            [Lane(0.0 if plain else self.trade_off, None, self._seed())],
            recipe=self._recipe(),
            use_sensitive=self.uses_groups_,
            device=self.device,
            progress=self.verbose,
        )
        if self.fitted_.status[0] != "ok":
            raise InputError(
                f"The training of {self.method!r} diverged. Try a smaller `learning_rate`."
            )
        return self

    def predict_proba(self, X: Any, sensitive_features: Any = None) -> Array:
        """P(U = u | x), or of (x, z) where the model sees the group; columns as in `classes_`."""
        rows = self._rows(X)
        z = self._codes(self._sensitive(X, sensitive_features), len(rows))
        q = np.asarray(self.fitted_.posteriors(rows, z)[0], dtype=np.float64)
        return q / q.sum(1, keepdims=True)

    def score(
        self,
        X: Any,
        y: ArrayLike,
        sensitive_features: Any = None,
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """The accuracy of `predict`."""
        decided = self.predict(X, sensitive_features)
        return float(accuracy_score(y, decided, sample_weight=sample_weight))

    def to_predictor(self) -> Predictor:
        """What ships, as a `Predictor`: saved without pickle, streams files."""
        return single_predictor(self)

    def predict(
        self, X: Any, sensitive_features: Any = None, random_state: Any = UNSET
    ) -> NDArray[Any]:
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
