"""Predictor: raw rows in, decisions out.

Three numbers are easily confused, so each has its own method. `branch_proba` is P(U = u | x, z) of
each branch. `predict_proba` is the mean of these, weighted: the law of the decision before any coin
is thrown. `predict` throws the coins and returns labels. In a revealed mixture the branch N that
was drawn belongs to the decision; ``return_branch=True`` returns it too. (v, u) of a revealed
mixture are the weighted means over its branches.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import _num_samples

from separatrix.columns.counting import soft_sums
from separatrix.columns.draws import UNSET, Ids, Salt, Seed, drawn, key_id, uniforms
from separatrix.columns.features import as_matrix, as_named_frame, raw_columns
from separatrix.columns.groups import Grouping, from_plain, group_codes
from separatrix.columns.values import Coded, Levels, as_levels, check_lengths, listed, objects
from separatrix.core.counts import CountTable
from separatrix.crossfit.base_models import Base, without_columns
from separatrix.datasets import Preprocessing
from separatrix.errors import DataError, InputError
from separatrix.io import as_path, read_whole
from separatrix.methods import POLICIES
from separatrix.nn.networks import Networks
from separatrix.optimum import rules
from separatrix.optimum.rules import DrawnLabel, OneThreshold, PlainRule, Rule, Score
from separatrix.optimum.scores.align import AlignedScore, attribute
from separatrix.optimum.scores.blind_scores import BlindScore
from separatrix.optimum.scores.separated import SeparatedScore
from separatrix.predictor import decision_log
from separatrix.predictor import folder as on_disk
from separatrix.predictor.decision_log import Drawn
from separatrix.predictor.folder import Content, Key
from separatrix.predictor.models import checked_arrays, model_from_bytes

Array = NDArray[np.float64]
Codes = NDArray[Any]
_KEY_ID = re.compile(r"[0-9a-f]{8}")


_KINDS: tuple[type[Rule], ...] = (
    PlainRule, OneThreshold, DrawnLabel, rules.ThresholdChannel, rules.SoftmaxChannel, rules.HardMixture,
    rules.BlindRule, SeparatedScore, BlindScore, AlignedScore,
)  # fmt: skip
RULES = {rule.kind: rule for rule in _KINDS}  # those that a predictor may hold, by their names in its folder


@dataclass(frozen=True, eq=False)
class Branch:
    """One model and the rule on its scores.

    Args:
        base: the model.
        rule: from its scores, and the group where it needs it, to P(U | …).
    """

    base: Base
    rule: Rule

    @property
    def uses_groups(self) -> bool:
        """Whether it needs to know the group."""
        return self.base.reads == "xz" or self.rule.uses_groups

    def law(self, scores: Array, z: Codes | None) -> Array:
        """P(U = u | x, z), array (n, U): zeros and ones where no coin is thrown."""
        law = self.rule.law(scores, self._groups(z))
        if self.rule.certain and not isinstance(self.rule, Score):
            return np.eye(law.shape[1])[law.argmax(1)]  # a solver leaves its last digits in levels of zero and one
        return law

    def drawn(self, scores: Array, z: Codes | None, coin: Array) -> Array:
        """The score (n,), of a rule that is one, for given coins (n,)."""
        assert isinstance(self.rule, Score)
        coin = np.full(len(coin), 0.5) if self.rule.certain else coin
        return self.rule.drawn(scores, coin, sensitive_features=self._groups(z))

    def check(self, labels: int, groups: int, width: int | None) -> None:
        """Refuse, with a `ValueError`, a branch that answers a made-up row of a group with no law.

        Only a trained method says how many columns it takes; other models are not asked, but their
        rules are.

        Args:
            labels, groups: how many there are.
            width: columns of the matrix, where they are known.
        """
        self.base.check(labels)
        self.rule.check()
        base, n = self.base, max(groups, 1)  # a blind rule may not know any group
        z = np.arange(n) if self.uses_groups else None
        shape: dict[str, tuple[int, ...]] = {"value": (), "joint": (labels, groups)}
        values = shape.get(base.reads, (labels,))
        scores = np.full((n, *values), 1.0 / np.prod(values))
        if isinstance(base.model, Networks):
            if width not in (None, base.model.width):
                raise ValueError(f"`X` must have the {base.model.width} columns of training")
            width = base.model.width
        if base.method and width is None:
            return  # only the rows themselves say how many columns they have
        if base.method:
            with np.errstate(all="ignore"):
                scores = base.scores(np.zeros((n, width)), z, (labels, groups))
        law = self.law(scores, z)
        if law.shape != (n, law.shape[-1] if isinstance(self.rule, Score) else labels):
            raise ValueError(f"its law has the shape {law.shape} for {labels} labels")
        if not np.isfinite(law).all() or (law < 0).any() or abs(law.sum(1) - 1.0).max() > 1e-4:
            raise ValueError("its posteriors are no probabilities")

    def _groups(self, z: Codes | None) -> Any:
        """The groups of codes as the rule names them; numbers of a numeric attribute stay."""
        if z is None or not self.rule.uses_groups:
            return None
        names = getattr(self.rule, "groups", ())
        return Coded(z, names) if names else z


@dataclass(frozen=True, eq=False)
class Predictor:
    """One model and its rule, or a revealed mixture of several.

    Args:
        labels, groups: what the codes of the models stand for; the released values of a number.
        branches: the models with their rules.
        weights: how often each is drawn; they sum to one.
        preprocessing: raw columns to the models' matrix; None where rows come as they are.
        features: the matrix's columns, where there is no preprocessing.
        grouping: finds the group in raw rows.
        about: plain data about the choice: budgets, audit, prices, data card, frontier.
        key_id: public name of the one secret whose draws this predictor may use (`with_key`).
    """

    labels: Levels
    groups: Levels
    branches: tuple[Branch, ...]
    weights: tuple[float, ...] = (1.0,)
    preprocessing: Preprocessing | None = None
    features: tuple[str, ...] = ()
    grouping: Grouping | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    key_id: str | None = None

    def __post_init__(self) -> None:
        w = np.asarray(self.weights, dtype=np.float64)
        one_each = len(self.branches) > 0 and w.shape == (len(self.branches),)
        if not (one_each and (w >= 0).all() and abs(w.sum() - 1.0) <= 1e-9):
            which = f"{self.weights} for {len(self.branches)} branches"
            raise InputError(f"`weights` must be one non-negative number per branch and sum to one, got {which}.")
        if self.is_score and (len(self.branches) > 1 or len(self.labels) != 2):
            raise InputError("A score has one branch and is for two labels.")

    @classmethod
    def from_estimator(cls, model: Any, features: Sequence[str] = ()) -> Predictor:
        """What a fitted estimator ships: it is saved without pickle and streams files.

        Args:
            model: a fitted FrontierClassifier, SeparatedScorer, AlignedRegressor or
                SeparationClassifier.
            features: names of the columns of a classifier that takes a matrix, if rows come as
                frames or files. By default rows reach the classifier as they are.
        """
        if not hasattr(model, "to_predictor"):
            raise InputError(f"`model` must be a fitted estimator of separatrix, got {type(model).__name__}.")
        return model.to_predictor(features)

    @property
    def is_score(self) -> bool:
        """Whether it predicts a score, P(Y = second label | S), rather than a decision."""
        return isinstance(self.branches[0].rule, Score)

    @property
    def is_value(self) -> bool:
        """Whether it predicts a number, one of its labels."""
        return self.branches[0].base.reads == "value"

    def __repr__(self) -> str:
        """What it predicts, for whom and by which rule; the model card has the rest."""
        columns = self.grouping.columns if self.grouping else ()
        group = f", reads the group {' & '.join(columns)}".rstrip() if self.uses_groups else ""
        kinds = " or ".join(dict.fromkeys(branch.rule.kind.replace("_", " ") for branch in self.branches))
        return f"<Predictor of {listed(self.labels)}: {kinds}{group}{', with a coin' * self.randomized}>"

    @property
    def uses_groups(self) -> bool:
        """Whether a prediction needs the person's group."""
        return any(branch.uses_groups for branch in self.branches)

    @property
    def randomized(self) -> bool:
        """Whether a prediction throws any coin."""
        return len(self.branches) > 1 or not self.branches[0].rule.certain

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that it reads from raw rows, the group's aside; none of a bare matrix."""
        if self.preprocessing is not None:
            return tuple(self.preprocessing.columns)
        return self.features or self.branches[0].base.columns

    def branch_proba(self, X: Any, sensitive_features: Any = None) -> Array:
        """P(U = u | x, z, N = b) of each branch b, array (branches, n, K).

        For a score the K values are its levels.
        """
        rows, z = self.seen(X, sensitive_features)
        return self.laws(self.scores(rows, z), z)

    def predict_proba(
        self, X: Any, sensitive_features: Any = None, *, random_state: Seed = UNSET, ids: Ids = None, salt: Salt = None
    ) -> Array:
        """P(U = u | x, z), (n, K): the distribution before the branch and the label are drawn.

        A score has no such distribution; then it is [1 − score, score] with
        the drawn score, and needs `random_state`, or `ids` and `salt`, as `predict` does.
        """
        if self.is_score:
            return self.drawn(X, sensitive_features, random_state=random_state, ids=ids, salt=salt).proba
        return self._mean(self.branch_proba(X, sensitive_features))

    def score(
        self, X: Any, sensitive_features: Any = None, *, random_state: Seed = UNSET, ids: Ids = None, salt: Salt = None
    ) -> Array:
        """The score of each row (n,), P(Y = second label | S), where the predictor is a score."""
        if not self.is_score:
            raise InputError("This predictor decides; it has no score. Use `predict_proba`.")
        return self.predict_proba(X, sensitive_features, random_state=random_state, ids=ids, salt=salt)[:, 1]

    def predict(
        self,
        X: Any,
        sensitive_features: Any = None,
        *,
        random_state: Seed = UNSET,
        ids: Ids = None,
        salt: Salt = None,
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
        drawn = self.drawn(X, sensitive_features, random_state=random_state, ids=ids, salt=salt)
        if log is not None:
            decision_log.append(as_path(log, "log"), decision_log.records(self, drawn, ids, salt))
        return (drawn.labels, drawn.branch) if return_branch else drawn.labels

    def drawn(self, X: Any, sensitive_features: Any, **draws: Any) -> Drawn:
        """Decisions, or scores, with what was drawn; `draws` are those of `coins`."""
        rows, z = self.seen(X, sensitive_features)
        return self.decided(rows, z, self.coins(_num_samples(rows), **draws))

    def decided(self, rows: Any, z: Codes | None, thrown: Array) -> Drawn:
        """The same for what `seen` returns and given coins (n, 2)."""
        scores, names = self.scores(rows, z), _array(self.labels)
        branch = self.branch_of(thrown)
        if self.is_score:
            score = self.branches[0].drawn(scores[0], z, thrown[:, 1])
            chosen = (score >= 0.5).astype(np.intp)
            law = np.stack([1.0 - score, score], axis=1)
            return Drawn(thrown, chosen, names[chosen], branch, law)
        q = self.laws(scores, z)
        law = q[branch, np.arange(len(branch))]
        chosen = drawn(law, thrown[:, 1]) if self.randomized else law.argmax(1)
        joint = scores[0].ndim == 3
        said = None if len(scores) > 1 or self.is_value else scores[0].sum(-1) if joint else scores[0]
        return Drawn(thrown, chosen, names[chosen], branch, self._mean(q), said)

    def scores(self, rows: Any, z: Codes | None) -> list[Array]:
        """What the model of each branch says about what `seen` returns."""
        shape = len(self.labels), len(self.groups)
        return [branch.base.scores(rows, z, shape) for branch in self.branches]

    def laws(self, scores: Sequence[Array], z: Codes | None) -> Array:
        """P(U = u | x, z, N = b) for these scores, array (branches, n, K)."""
        return np.stack([b.law(scores_of_branch, z) for b, scores_of_branch in zip(self.branches, scores, strict=True)])

    def _mean(self, laws: Array) -> Array:
        return np.asarray(np.einsum("b,bnk->nk", np.asarray(self.weights), laws))

    def branch_of(self, coins: Array) -> NDArray[np.intp]:
        """The branch of each row (n,), from the first of its coins."""
        return np.searchsorted(np.cumsum(self.weights)[:-1], coins[:, 0], side="right")

    def coins(self, n: int, *, first: int = 0, **draws: Any) -> Array:
        """Two coins per row (n, 2), of the branch and of the label or the level.

        Zeros where this model throws none; without branches their coin is not thrown.

        Args:
            n: the number of rows.
            first: with a seed, the place of the first row.
            draws: `random_state`, or `ids` and `salt`, as in `predict`.
        """
        if not self.randomized:
            return np.zeros((n, 2))
        salt = draws.get("salt")
        if self.key_id is not None and salt is not None and key_id(salt) != self.key_id:
            hint = "Pass that one, or rotate the secret on purpose: `predictor.with_key(salt).save(...)`."
            raise InputError(f"This predictor draws with the secret {self.key_id}, got {key_id(salt)}. {hint}")
        value = "level" if self.is_score else "label"
        purposes = ("branch", value) if len(self.branches) > 1 else (value,)
        model = b"" if draws.get("ids") is None else bytes.fromhex(self.model_hash)
        thrown = uniforms(n, purposes, **draws, model=model, first=first)
        return np.column_stack([np.zeros(n), thrown])[:, -2:]

    @cached_property
    def model_hash(self) -> str:
        """SHA-256 of all that decides: the same before and after saving; not of the card."""
        return Content.from_predictor(self).hash

    def with_key(self, salt: str | bytes) -> Predictor:
        """The same predictor bound to one secret; draws with another one are then refused."""
        return replace(self, key_id=key_id(salt))

    def replay(
        self, log: str | Path, X: Any = None, sensitive_features: Any = None, *, ids: Ids = None, salt: Salt = None
    ) -> int:
        """Compare a decision log with this model; the first difference is a `DataError`.

        Args:
            log: what `predict` wrote.
            X, sensitive_features: the decided rows, in order: predictions are computed again.
            ids, salt: their identities and the secret: coins are computed again.

        Returns:
            The number of decisions.
        """
        blocks = None if X is None and ids is None else [(X, sensitive_features, ids)]
        return decision_log.replay(self, as_path(log, "log"), blocks, salt)

    def counts(self, X: Any, y: ArrayLike, sensitive_features: Any = None) -> CountTable:
        """Expected counts N[y, z, (branch, label)] of the revealed decision on labelled rows.

        Not of a predictor of numbers: audit its predictions with `audit_regression`.

        The violation and utility of this table are those of the predictor, also for a mixture. With
        one branch the predictions are the labels themselves.
        """
        if self.is_value:
            raise InputError("This predictor predicts a number, which has no table: audit it with `audit_regression`.")
        q = self.branch_proba(X, sensitive_features) * np.asarray(self.weights)[:, None, None]
        posterior = np.moveaxis(q, 0, 1).reshape(q.shape[1], -1)
        z = self.group_codes(X, sensitive_features, len(posterior))
        codes = as_levels(y, "y").places(self.labels, "y")
        check_lengths({"X": posterior, "y": codes})
        counts, moments = soft_sums(posterior, codes, z, (len(self.labels), len(self.groups)))
        names: Levels = tuple(product(range(len(self.branches)), self.labels))
        names = names if len(self.branches) > 1 else self.labels
        return CountTable(counts, self.labels, self.groups, names, len(codes), moments).simplest()

    def seen(self, X: Any, sensitive_features: Any = None) -> tuple[Any, Codes | None]:
        """What the models take: rows, and codes of the groups where they are needed."""
        rows = self.rows(X)
        if not self.uses_groups:
            return rows, None
        return rows, self.group_codes(X, sensitive_features, _num_samples(rows))

    def rows(self, X: Any, *, named: bool = True) -> Any:
        """Rows as the models take them: prepared, the columns found by name.

        With ``named=False`` rows that are no raw rows go on as they came, as in `fit`.
        """
        base = self.branches[0].base
        if self.preprocessing is not None:
            return self.preprocessing.transform(X)
        if base.method or self.features:
            return as_matrix(X, self.features)
        if named and base.columns:  # a pipeline that reads its own columns
            return as_named_frame(X, base.columns)
        return without_columns(X, base.left_out) if base.left_out else X

    def group_codes(self, X: Any, sensitive_features: Any, n: int) -> NDArray[Any]:
        """Codes of the groups, from `sensitive_features` or from the raw rows' own columns.

        Of a numeric attribute, which has no groups, the numbers.
        """
        grouping, given = self.grouping, sensitive_features
        if given is None and grouping is None:
            known = f"group of every row: pass `sensitive_features` ({listed(self.groups)})"
            number = "number of every row, a sensitive attribute: pass `sensitive_features`"
            raise InputError(f"A prediction needs the {known if self.groups else number}.")
        if not self.groups:
            return attribute(raw_columns(X, grouping.columns) if given is None and grouping else given, n)
        if grouping is None:
            return group_codes(given, self.groups, n, "sensitive_features")
        return grouping.codes(X) if given is None else grouping.codes_of(given, n)

    def _check(self) -> None:
        """Refuse, with a `ValueError`, parts of a file that do not fit together."""
        if len(self.labels) < 2 or not (self.key_id is None or _KEY_ID.fullmatch(self.key_id)):
            raise ValueError(f"its labels are {self.labels}, its key is {self.key_id!r}")
        for edges in self.grouping.edges.values() if self.grouping else ():
            if not edges or list(edges) != sorted({*edges}):
                raise ValueError(f"the edges {edges} of a column do not rise")
        prepared, width = self.preprocessing, len(self.features) or None
        if prepared is not None:
            empty = {column: np.array([None], dtype=object) for column in prepared.columns}
            width = len(prepared.names)
            if prepared.transform(empty).shape != (1, width):
                raise ValueError("its preprocessing makes no matrix")
        for branch in self.branches:
            branch.check(len(self.labels), len(self.groups), width)

    def save(self, folder: str | Path, *, sign_key: Key | None = None) -> Path:
        """Write a folder: safetensors, JSON manifest with checksums, MODEL_CARD.md; all or none.

        Args:
            folder: new, or an older predictor that is replaced.
            sign_key: Ed25519 private key in PEM, a file or its bytes; `load(folder, verify_key=)`.
        """
        return on_disk.save(self, as_path(folder, "folder"), sign_key)


def policy_rule(policy: str, labels: int, threshold: float = np.nan) -> Rule:
    """The rule of a trained method's policy.

    Args:
        policy: "randomized" draws the label from the posterior; "deterministic" takes the second of
            two labels where its posterior exceeds the threshold, else the most probable one.
        labels: how many there are.
        threshold: of two labels; NaN for one half.
    """
    if policy == "randomized":
        return DrawnLabel()
    if policy != "deterministic":
        raise InputError(f"`policy` must be one of {', '.join(POLICIES)}, got {policy!r}.")
    if labels > 2:
        return PlainRule(np.ones(labels))
    return OneThreshold(0.5 if np.isnan(threshold) else float(threshold))


def load(folder: str | Path, *, trusted: Sequence[str] = (), verify_key: Key | None = None) -> Predictor:
    """Load a predictor that `Predictor.save` wrote. Nothing in the folder is executed.

    Args:
        folder: the folder.
        trusted: full names of further types in a scikit-learn model that you have checked.
        verify_key: Ed25519 public key in PEM (file or bytes): refuse what its owner did not sign.
    """
    place = as_path(folder, "folder")
    manifest, files = read_whole(place, lambda opened: on_disk.read(opened, verify_key))
    try:
        return _loaded(place, manifest, files, trusted)
    except (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError) as error:
        reason = str(error).rstrip(".") or type(error).__name__
        raise DataError(f"{place / on_disk.MANIFEST} does not describe a predictor: {reason}.") from error


def _loaded(place: Path, manifest: Mapping[str, Any], files: Mapping[str, bytes], trusted: Sequence[str]) -> Predictor:
    """The predictor of a folder; anything that saving it would not write is a `ValueError`."""
    content = Content.from_files(manifest, files)
    labels, groups = (tuple(map(from_plain, manifest[axis])) for axis in ("labels", "groups"))
    branches = []
    for i, entry in enumerate(manifest["branches"]):
        name, start = entry["base"], f"branch{i}."
        model = model_from_bytes(files[name], trusted, str(place / name))
        about = {field: entry[field] for field in on_disk.BASE} | {"left_out": (*entry["left_out"],)}
        held = {key.removeprefix(start): array for key, array in content.arrays.items() if key.startswith(start)}
        rule = RULES[entry["rule"]].from_arrays(groups, checked_arrays(held))
        branches.append(Branch(Base(model, **about), rule))
    weights = tuple(float(entry["weight"]) for entry in manifest["branches"])
    prepared, grouping = manifest["preprocessing"], manifest["grouping"]
    raw = (
        None if prepared is None else Preprocessing.from_dict(prepared),
        tuple(manifest["features"]),
        None if grouping is None else Grouping.from_dict(grouping),
    )
    predictor = Predictor(labels, groups, (*branches,), weights, *raw, dict(manifest["about"]), manifest["key_id"])
    predictor._check()
    if unknown := content.arrays.keys() - on_disk.rule_arrays(predictor).keys():
        raise ValueError(f"the array {min(unknown)!r} belongs to no branch")
    expected = on_disk.manifest_of(predictor, content, files, manifest["packages"])
    on_disk.check_manifest(manifest, expected)
    # of these bytes, whatever a later skops would write
    predictor.__dict__["model_hash"] = expected["model"]
    return predictor


def _array(levels: tuple[Hashable, ...]) -> NDArray[Any]:
    """Labels as an array of their own kind, so that text stays text and numbers numbers."""
    kinds = {type(level) for level in levels}
    if len(kinds) == 1 and kinds <= {str, int, float, bool}:
        return np.array(levels)
    return objects(levels)
