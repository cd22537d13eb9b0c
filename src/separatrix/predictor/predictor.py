"""Predictor: raw rows in, decisions out.

Three numbers are easily confused, so each has its own method. `branch_proba` is P(U = u | x, z) of
each model. `predict_proba` is the mean of these, weighted: the law of the decision before any coin
is thrown. `predict` throws the coins and returns labels. In a revealed mixture the branch N that
was drawn belongs to the decision; ``return_branch=True`` returns it too. (v, u) of a revealed
mixture are the weighted means over its models.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.counting import soft_sums
from separatrix.columns.draws import UNSET, Unset, drawn, key_id, uniforms
from separatrix.columns.features import as_matrix, as_named_frame, raw_columns
from separatrix.columns.grouping import Grouping
from separatrix.columns.groups import group_codes
from separatrix.columns.values import Levels, as_levels, check_lengths, listed
from separatrix.core.counts import CountTable
from separatrix.crossfit.base_models import joint_posteriors, posteriors
from separatrix.crossfit.numeric_fit import predictions
from separatrix.datasets import Preprocessing
from separatrix.errors import InputError
from separatrix.io import as_path
from separatrix.optimum.scores.aligned import attribute
from separatrix.predictor import decision_log
from separatrix.predictor.base_files import kind_of
from separatrix.predictor.component import Component
from separatrix.predictor.content import described, model_hash
from separatrix.predictor.decision_log import Drawn
from separatrix.predictor.signing import Key

__all__ = ["READS", "Predictor"]

Array = NDArray[np.float64]
READS = ("x", "xz", "joint", "value")


@dataclass(frozen=True, eq=False)
class Predictor:
    """A single model, or a revealed mixture of several.

    Args:
        labels, groups: what the codes of the models stand for.
        components: the models.
        weights: how often each is drawn; they sum to one.
        preprocessing: raw columns to the models' matrix; None where rows come as a matrix.
        features: the matrix's columns, where there is no preprocessing.
        grouping: finds the group in raw rows.
        bases: fitted classifiers whose probabilities, side by side, are what the models see; none
            where they see the rows.
        reads: what the bases see: "x", the rows; "xz", one column per group in front of them;
            "joint", the rows, of which they say P(y, z | x); "value", the rows, of which they
            predict a number: then the labels are the released values.
        about: plain data about the choice: budgets, audit, prices, data card, frontier.
        key_id: public name of the one secret whose draws this predictor may use (`with_key`).
    """

    labels: Levels
    groups: Levels
    components: tuple[Component, ...]
    weights: tuple[float, ...] = (1.0,)
    preprocessing: Preprocessing | None = None
    features: tuple[str, ...] = ()
    grouping: Grouping | None = None
    bases: tuple[Any, ...] = ()
    reads: str = "x"
    about: Mapping[str, Any] = field(default_factory=dict)
    key_id: str | None = None

    def __post_init__(self) -> None:
        w = np.asarray(self.weights, dtype=np.float64)
        one_each = len(self.components) > 0 and w.shape == (len(self.components),)
        if not (one_each and (w >= 0).all() and abs(w.sum() - 1.0) <= 1e-9):
            raise InputError(
                "`weights` must be one non-negative number per component and sum to one, got "
                f"{self.weights} for {len(self.components)} components."
            )
        if self.reads not in READS:
            raise InputError(f"`reads` must be one of {', '.join(READS)}, got {self.reads!r}.")
        if self.is_score and (len(self.components) > 1 or len(self.labels) != 2):
            raise InputError("A score has one component and is for two labels.")

    @classmethod
    def from_estimator(cls, model: Any, features: Sequence[str] = ()) -> Predictor:
        """What a fitted estimator ships: it is saved without pickle and streams files.

        Args:
            model: a fitted FrontierClassifier, SeparatedScorer, AlignedRegressor or
                SeparationClassifier.
            features: names of the columns of a classifier that takes a matrix, if rows come as
                frames or files. By default rows reach the classifier as they are.
        """
        made = getattr(model, "to_predictor", None)
        if made is None:
            raise InputError(
                "`model` must be a fitted FrontierClassifier, SeparatedScorer, AlignedRegressor or "
                f"SeparationClassifier, got {type(model).__name__}."
            )
        return made(features) if features else made()

    @property
    def is_score(self) -> bool:
        """Whether it predicts a score, P(Y = second label | S), rather than a decision."""
        return hasattr(self.components[0].fitted, "drawn")

    @property
    def is_value(self) -> bool:
        """Whether it predicts a number, one of its labels."""
        return self.reads == "value"

    @property
    def uses_groups(self) -> bool:
        """Whether a prediction needs the person's group."""
        return any(component.uses_groups for component in self.components)

    @property
    def randomized(self) -> bool:
        """Whether a prediction throws any coin."""
        return len(self.components) > 1 or self.components[0].policy == "randomized"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads from raw rows, the group's aside; none of a bare matrix."""
        if self.preprocessing is not None:
            return tuple(self.preprocessing.columns)
        named = getattr(self.bases[0], "feature_names_in_", ()) if self.bases else ()
        return self.features or tuple(map(str, named))

    def branch_proba(self, X: Any, sensitive_features: Any = None) -> Array:
        """P(U = u | x, z, N = b) of each branch b, array (branches, n, K).

        For a score the K values are its levels.
        """
        matrix, z = self._seen(X, sensitive_features)
        return np.stack([component.proba(matrix, z) for component in self.components])

    def predict_proba(
        self,
        X: Any,
        sensitive_features: Any = None,
        *,
        random_state: int | Unset | None = UNSET,
        ids: ArrayLike | None = None,
        salt: str | bytes | None = None,
    ) -> Array:
        """P(U = u | x, z), (n, K): the law before the branch and the label are drawn.

        A score has no such law that could be used in its place: then it is [1 − score, score] with
        the drawn score, and needs `random_state`, or `ids` and `salt`, as `predict` does.
        """
        if self.is_score:
            score = self.score(X, sensitive_features, random_state=random_state, ids=ids, salt=salt)
            return np.stack([1.0 - score, score], axis=1)
        q = self.branch_proba(X, sensitive_features)
        return np.einsum("b,bnk->nk", np.asarray(self.weights), q)

    def score(
        self,
        X: Any,
        sensitive_features: Any = None,
        *,
        random_state: int | Unset | None = UNSET,
        ids: ArrayLike | None = None,
        salt: str | bytes | None = None,
    ) -> Array:
        """The score of each row (n,), P(Y = second label | S), where the predictor is a score."""
        if not self.is_score:
            raise InputError("This predictor decides; it has no score. Use `predict_proba`.")
        drawn = self.drawn(
            X,
            sensitive_features,
            lambda n: self.coins(n, random_state=random_state, ids=ids, salt=salt),
        )
        return drawn.proba[:, 1]

    def predict(
        self,
        X: Any,
        sensitive_features: Any = None,
        *,
        random_state: int | Unset | None = UNSET,
        ids: ArrayLike | None = None,
        salt: str | bytes | None = None,
        return_branch: bool = False,
        log: str | Path | None = None,
    ) -> Any:
        """Decisions. A randomised predictor needs `ids` and `salt`, or a `random_state`.

        Args:
            X: raw rows as in training: a dataframe or a mapping of columns (found by name, others
                ignored), or a matrix where the training data were one.
            sensitive_features: groups; read from the raw rows' own columns if None.
            random_state: seed of the coins, which depend on the row's place: not for requests of
                one row, which would all get the first coin. None for fresh entropy.
            ids: one identity per row, with a secret `salt`: the same person always gets the same
                draw, in any batch and any order. For production.
            return_branch: also return the branch N of each row, drawn independently of all else.
            log: a decision log to add to, .jsonl or .csv; `replay` compares it with the model.

        Returns:
            Labels (n,), and with `return_branch` the index (n,) of the model that decided.
        """
        drawn = self.drawn(
            X,
            sensitive_features,
            lambda n: self.coins(n, random_state=random_state, ids=ids, salt=salt),
        )
        if log is not None:
            decision_log.append(Path(log), decision_log.records(self, drawn, ids, salt))
        return (drawn.labels, drawn.branch) if return_branch else drawn.labels

    def drawn(
        self,
        X: Any,
        sensitive_features: Any,
        coins: Callable[[int], Array],
        scores: bool = False,
    ) -> Drawn:
        """Decisions, or scores, for given coins: a function of the number of rows, (n, 2).

        With `scores` also what the one model behind the decision says.
        """
        matrix, z = self._seen(X, sensitive_features)
        thrown, names = coins(len(matrix)), _array(self.labels)
        if self.is_score:
            fitted: Any = self.components[0].fitted
            score = np.asarray(fitted.drawn(matrix, z, thrown))
            chosen = (score >= 0.5).astype(np.intp)
            law = np.stack([1.0 - score, score], axis=1)
            return Drawn(thrown, names[chosen], self.branches(thrown), law)
        q = np.stack([component.proba(matrix, z) for component in self.components])
        branch = self.branches(thrown)
        law = q[branch, np.arange(len(matrix))]
        chosen = drawn(law, thrown[:, 1])
        mean = np.einsum("b,bnk->nk", np.asarray(self.weights), q)
        told = self._base_scores(matrix, z) if scores else None
        return Drawn(thrown, names[chosen], branch, mean, told)

    def _base_scores(self, matrix: Array, z: NDArray[Any] | None) -> Array | None:
        """P(y | x) of the model behind the rule, (n, K); None for a mixture of several models.

        A regressor says a number, not probabilities of its released values: None too.
        """
        if self.is_value:
            return None
        if self.bases:
            p = matrix.reshape(len(matrix), len(self.bases), len(self.labels), -1).sum(-1)
            return np.asarray((p / p.sum(-1, keepdims=True)).mean(1))
        if len(self.components) > 1:
            return None
        component = self.components[0]
        return np.asarray(component.fitted.posteriors(matrix, z)[component.lane])

    def branches(self, coins: Array) -> NDArray[np.intp]:
        """The branch of each row (n,), from the first of its coins."""
        return np.searchsorted(np.cumsum(self.weights)[:-1], coins[:, 0], side="right")

    @property
    def purposes(self) -> tuple[str, str]:
        """What its two coins decide."""
        return "branch", "level" if self.is_score else "label"

    def coins(
        self,
        n: int,
        *,
        random_state: int | Unset | None = UNSET,
        ids: ArrayLike | None = None,
        salt: str | bytes | None = None,
    ) -> Array:
        """Two coins per row (n, 2), as in `predict`; zeros where this model throws none."""
        if not self.randomized:
            return np.zeros((n, 2))
        if ids is None:
            return uniforms(n, self.purposes, random_state=random_state, salt=salt)
        self.check_key(salt)
        # one hash a row: without branches their coin decides nothing
        one_coin = len(self.components) == 1 and len(self.bases) <= 1
        thrown = uniforms(
            n,
            self.purposes[1:] if one_coin else self.purposes,
            random_state=random_state,
            ids=ids,
            salt=salt,
            model=bytes.fromhex(self.model_hash),
        )
        return np.column_stack([np.zeros(n), thrown]) if one_coin else thrown

    @cached_property
    def model_hash(self) -> str:
        """SHA-256 of all that decides: the same before and after saving; not of the card."""
        kinds = [(kind_of(base), base) for base in self.bases]
        bases = [[kind.name, kind.digest(kind.dump(base))] for kind, base in kinds]
        return model_hash(*described(self), bases)

    def with_key(self, salt: str | bytes) -> Predictor:
        """The same predictor bound to one secret; draws with another one are then refused."""
        return replace(self, key_id=key_id(salt))

    def check_key(self, salt: str | bytes | None) -> None:
        """Refuse a secret other than the one of `with_key`."""
        if self.key_id is not None and salt is not None and key_id(salt) != self.key_id:
            raise InputError(
                f"This predictor draws with the secret {self.key_id}, got {key_id(salt)}. Pass "
                "that one, or rotate the secret on purpose: `predictor.with_key(salt).save(...)`."
            )

    def replay(
        self,
        log: str | Path,
        X: Any = None,
        sensitive_features: Any = None,
        *,
        ids: ArrayLike | None = None,
        salt: str | bytes | None = None,
    ) -> int:
        """Compare a decision log with this model; the first difference is a `DataError`.

        Args:
            log: what `predict` wrote.
            X, sensitive_features: the decided rows, in order: predictions are computed again.
            ids, salt: their identities and the secret: coins are computed again.

        Returns:
            The number of decisions.
        """
        return decision_log.replay(self, log, X, sensitive_features, ids=ids, salt=salt)

    def counts(self, X: Any, y: ArrayLike, sensitive_features: Any = None) -> CountTable:
        """Expected counts N[y, z, (branch, label)] of the revealed decision on labelled rows.

        Not of a predictor of numbers: audit its predictions with `audit_regression`.

        The violation and utility of this table are those of the predictor, also for a mixture. With
        one component the predictions are the labels themselves.
        """
        if self.is_value:
            raise InputError(
                "This predictor predicts a number, which has no table of labels: audit its "
                "predictions with `audit_regression(y, u, ...)`."
            )
        q = self.branch_proba(X, sensitive_features) * np.asarray(self.weights)[:, None, None]
        posterior = np.moveaxis(q, 0, 1).reshape(q.shape[1], -1)
        z = self.group_codes(X, sensitive_features, len(posterior))
        codes = as_levels(y, "y").places(self.labels, "y")
        check_lengths({"X": posterior, "y": codes})
        shape = (len(self.labels), len(self.groups))
        counts, moments = soft_sums(posterior, codes, z, shape)
        names: Levels = self.labels
        if len(self.components) > 1:
            names = tuple((b, label) for b in range(len(self.components)) for label in self.labels)
        table = CountTable(counts, self.labels, self.groups, names, len(codes), moments)
        return table.simplest()

    def _seen(self, X: Any, sensitive_features: Any) -> tuple[NDArray[Any], NDArray[Any] | None]:
        """What the models see: the matrix, and the codes of the groups where they need them."""
        rows = self._rows(X)
        n = len(rows) if hasattr(rows, "__len__") else rows.shape[0]
        z = self.group_codes(X, sensitive_features, n) if self.uses_groups else None
        return self._scored(rows, z), z

    def matrix(self, X: Any, z: NDArray[Any] | None = None) -> NDArray[Any]:
        """What the models see of raw rows: the float32 matrix, or the bases' probabilities."""
        return self._scored(self._rows(X), z)

    def _rows(self, X: Any) -> Any:
        if self.preprocessing is not None:
            return self.preprocessing.transform(X)
        if self.bases and not self.features:  # a pipeline that reads its own columns
            return as_named_frame(X, self.columns) if self.columns else X
        return as_matrix(X, self.features)

    def _scored(self, rows: Any, z: NDArray[Any] | None) -> NDArray[Any]:
        if not self.bases:
            return np.asarray(rows)
        if self.reads == "xz":
            if z is None:
                raise InputError("The classifiers behind this predictor see the group: pass it.")
            rows = np.hstack([np.eye(len(self.groups), dtype=np.float32)[z], rows])
        # double precision, since a channel's thresholds are exact scores
        if self.is_value:
            return np.stack([predictions(base, rows) for base in self.bases], axis=1)
        if self.reads == "joint":
            shape = len(self.labels), len(self.groups)
            q = [joint_posteriors(base, rows, shape) for base in self.bases]
        else:
            q = [posteriors(base, rows, len(self.labels)) for base in self.bases]
        return np.concatenate(q, axis=1)

    def group_codes(self, X: Any, sensitive_features: Any, n: int) -> NDArray[Any]:
        """Codes of the groups, from `sensitive_features` or from the raw rows' own columns.

        Of a numeric attribute, which has no groups, the numbers.
        """
        if sensitive_features is None:
            if self.grouping is None:
                known = f"group: pass `sensitive_features` ({listed(self.groups)})"
                number = "number of a sensitive attribute: pass `sensitive_features`"
                what = known if self.groups else number
                raise InputError(f"This predictor uses the {what}, one per row.")
            if not self.groups:
                return attribute(raw_columns(X, self.grouping.columns)[self.grouping.columns[0]], n)
            return self.grouping.codes(X)
        if not self.groups:
            return attribute(sensitive_features, n)
        if self.grouping is not None:
            return self.grouping.codes_of(sensitive_features, n)
        return group_codes(sensitive_features, self.groups, n, "sensitive_features")

    def save(self, folder: str | Path, *, sign_key: Key | None = None) -> Path:
        """Write a folder: safetensors, JSON manifest with checksums, MODEL_CARD.md; all or none.

        Args:
            folder: new, or an older predictor that is replaced.
            sign_key: Ed25519 private key in PEM, a file or its bytes; `load(folder, verify_key=)`.
        """
        from separatrix.predictor.saving import save

        return save(self, as_path(folder, "folder"), sign_key)


def _array(levels: tuple[Hashable, ...]) -> NDArray[Any]:
    """Labels as an array of their own kind, so that text stays text and numbers numbers."""
    kinds = {type(level) for level in levels}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return np.array(levels)
    out = np.empty(len(levels), dtype=object)
    out[:] = levels
    return out
