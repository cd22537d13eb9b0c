"""The simplest decisions of a classifier that keep a budget, as a scikit-learn classifier."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from separatrix import datasets
from separatrix.columns.groups import group_name
from separatrix.columns.values import Coded, listed
from separatrix.crossfit.array_models import ArrayModel
from separatrix.crossfit.base_models import categories_by_place, fit_one, no_other_columns
from separatrix.crossfit.out_of_fold import CrossFit, NestedScores, default_model, is_given, seed_from, splits_of
from separatrix.errors import InputError, require
from separatrix.estimators.base import Learned, ShippingClassifier
from separatrix.optimum.objectives import Cost
from separatrix.optimum.rules import PlainRule, Rule, ThresholdChannel
from separatrix.procedure.candidates import CandidateTable, candidates, choose
from separatrix.procedure.procedures import Procedure, Rows
from separatrix.procedure.promise import Measured, Promise, PromiseTable, Run, hardly_decides
from separatrix.procedure.request import Request

Array = NDArray[np.float64]
_FOLDS = 5  # of rules around a fitted classifier or bare probabilities


@dataclass(eq=False, repr=False)
class FrontierClassifier(ShippingClassifier):
    """Your classifier within a budget: the simplest version that keeps it on unseen rows.

    A budget is a limit, not a target. `fit` compares candidates, from doing nothing upward: the
    classifier as it is ("plain"), the same without the columns that hold the group ("without the
    group"), a rule that decides without the group ("blind rule", with ``blind=True``), thresholds
    by group ("group rule"). The simplest one that keeps the budget ships, unless a more involved
    one is better by more than the standard error of the difference and uses no more of the budget.

    Without groups `fit` warns and is the plain classifier.

    Every candidate is one model and one rule. Rules are fitted to out-of-fold scores; the model is
    refitted on all rows: cv + 1 fits per base model. To ship an ensemble, pass one, such as
    scikit-learn's `VotingClassifier`. Only people between two thresholds of a rule meet a coin.

    Args:
        estimator: a classifier with `predict_proba` (a pipeline, LightGBM, XGBoost, …); None for
            boosted trees, which also take frames with text; "precomputed" if X is the
            probabilities.
        maximize: "accuracy", "balanced_accuracy", "utility" or `Cost(...)`.
        max_eo_gap: budget on the mean over labels of the largest difference between groups' rates.
        max_violation: budget on I(U;Z|Y), in nats.
        budgets: any other budget by name, such as {"parity_gap": 0.05}. One budget at most; without
            one the classifier as it is ships.
        sensitive_columns: the column(s) of X that hold the group; then `fit(X, y)` and `predict(X)`
            need nothing else. Otherwise pass `sensitive_features` to both.
        blind: whether decisions are made without the group. `fit` still needs it; `predict` never
            reads it.
        use_whole_budget: maximise within the budget instead of taking the simplest that keeps it.
        confidence: None: the budget is kept on average over samples; 0.9: in nine of ten samples.
        guarantee: of the bound by which a candidate without a rule keeps the budget with that
            confidence: "finite-sample" or "large-sample". A rule is solved for a large sample.
        group_estimator: for ``blind=True``, the classifier that learns the group from X; None for
            the kind of `estimator`.
        cv: number of folds, a splitter (with `groups` in `fit` if it needs them), an iterable of
            splits, or "prefit" for a fitted `estimator` that did not see the rows.
        n_jobs: how many fits at a time, see joblib.
        random_state: seed of the folds and of the coins of `predict`: an int repeats both, None is
            fresh, a RandomState is drawn from.

    Attributes:
        choice_: the candidate that ships; `sentence_` says why.
        candidates_: table of all candidates, with their promises.
        promise_: mapping from each metric to its `Promise(value, error, low, high)` on unseen rows.
        thresholds_: frame of thresholds, and of the share of each group that a coin decides.
        classes_, groups_: the labels and the groups. A sensitive column with more than 12 different
            numbers, such as age, is cut at its quartiles, with a warning.
        model_, rule_: the fitted model and the rule that ship.
        scores_: out-of-fold scores of what ships, (n, K); of a blind rule q(y, z | x).
        n_features_in_, feature_names_in_: as in scikit-learn.

    >>> from sklearn.linear_model import LogisticRegression
    >>> rng = np.random.default_rng(0)
    >>> z, y = rng.choice(["f", "m"], 4000), rng.integers(0, 2, 4000)
    >>> X = rng.normal(size=(4000, 1)) + (y * (1 + (z == "m")))[:, None]
    >>> model = FrontierClassifier(LogisticRegression(), max_eo_gap=0.05, random_state=0)
    >>> model = model.fit(X, y, sensitive_features=z)
    >>> model.choice_, bool(model.promise_["eo_gap"].value < 0.06)
    ('group rule', True)
    """

    estimator: Any = None
    maximize: str | Cost = "accuracy"
    max_eo_gap: float | None = None
    max_violation: float | None = None
    budgets: Mapping[str, float] | None = None
    sensitive_columns: Any = None
    blind: bool = False
    use_whole_budget: bool = False
    confidence: float | None = None
    guarantee: str = "finite-sample"
    group_estimator: Any = None
    cv: Any = 5
    n_jobs: int | None = None
    random_state: Any = None

    def _fit(self, learned: Learned) -> None:
        """Cross-fit the candidates' models, measure the candidates, and choose."""
        request = self._request()
        y = self._label_codes(learned.y)
        self.bases_: dict[str, CrossFit | str] = {}  # by candidate: its base model, or why there is none
        self.table_: Rows | None = None
        if learned.z is None:
            self._without_groups("the plain classifier and keeps no budget")
            self._fit_plain(learned, request)
        else:
            self._fit_bases(learned, learned.z, request)
            labels = tuple(self.classes_.tolist())
            self.table_ = Rows(y, learned.z, labels, self.groups_, learned.weight, learned.share)
            self._choose(request)

    def with_budget(self, **changed: Any) -> FrontierClassifier:
        """The same fitted models with another budget, objective or confidence; nothing is refitted.

        Args:
            changed: `max_eo_gap`, `max_violation`, `budgets`, `maximize`, `confidence`,
                `guarantee` or `use_whole_budget`. A budget replaces the one of before.
        """
        check_is_fitted(self, "classes_")
        if self.table_ is None:
            raise InputError("This classifier was fitted without groups: it keeps no budget.")
        names = {"max_eo_gap", "max_violation", "budgets"}
        allowed = names | {"maximize", "confidence", "guarantee", "use_whole_budget"}
        if unknown := set(changed) - allowed:
            takes = f"which needs a new fit; it takes {listed(sorted(allowed))}"
            raise InputError(f"`with_budget` does not take {listed(sorted(unknown))}, {takes}.")
        other = copy(self)
        dropped = dict.fromkeys(names) if names & set(changed) else {}
        for name, value in {**dropped, **changed}.items():
            setattr(other, name, value)
        request = other._request()
        if request.budgets and _rule_name(request) not in other.bases_:
            raise InputError("Fit with a budget first: the models of a rule are missing.")
        other._choose(request)
        return other

    def predict_proba(self, X: Any, sensitive_features: Any = None) -> Array:
        """P(U = u | x, z): the distribution of the decision before any coin is thrown, (n, K).

        Zeros and ones where no coin decides. A blind classifier does not read the group.
        """
        return self._law(X, sensitive_features)

    def score(
        self, X: Any, y: ArrayLike, sensitive_features: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """The accuracy of `predict`; where it draws, the mean over its coins."""
        right = np.asarray(y)[:, None] == self.classes_
        q = self.predict_proba(X, sensitive_features)
        weight = None if sample_weight is None else np.asarray(sample_weight, dtype=np.float64)
        return float(np.average((q * right).sum(1), weights=weight))

    @property
    def thresholds_(self) -> Any:
        """One row per group and threshold: P(U = second label) from there on, share by coin."""
        check_is_fitted(self, "classes_")
        pandas = require("pandas", "pandas", "`thresholds_`")
        rule: Any = self.rule_
        rows = []
        if isinstance(rule, PlainRule) and len(self.classes_) == 2:
            rows.append(("everyone", rule.threshold, 1.0, 0.0))
        elif isinstance(rule, ThresholdChannel) and self.table_ is not None:
            q = rule.law(self.scores_, Coded(self.table_.z, self.groups_))
            coin = (q.max(1) < 1.0 - 1e-12).astype(float)
            n = np.bincount(self.table_.z, minlength=len(self.groups_))
            share = np.bincount(self.table_.z, coin, len(self.groups_)) / np.maximum(n, 1)
            for name, cuts, levels, by_coin in zip(self.groups_, rule.thresholds, rule.levels, share, strict=True):
                steps = (np.diff(levels, append=0.0) != 0) & (levels > 0)
                rows += [(group_name(name), t, p, by_coin) for t, p in zip(cuts[steps], levels[steps], strict=True)]
        else:
            raise AttributeError(f"A {type(rule).__name__} has no thresholds.")
        return pandas.DataFrame(rows, columns=["group", "threshold", "probability", "coin_share"])

    def _request(self) -> Request:
        budgets = self.max_eo_gap, self.max_violation, self.budgets
        options: dict[str, Any] = {"blind": bool(self.blind), "use_whole_budget": bool(self.use_whole_budget)}
        options |= {"confidence": self.confidence, "guarantee": self.guarantee}
        request = Request.from_arguments(self.maximize, *budgets, **options)
        if len(request.budgets) > 1:
            raise InputError(f"One budget at a time, got {listed(sorted(request.budgets))}: choose one of them.")
        if request.maximize == "auroc" or not request.solvable:
            known = "'accuracy', 'balanced_accuracy', 'utility' or a Cost(...)"
            got = f"got {self.maximize!r}. `SeparatedScorer` maximises the AUROC"
            raise InputError(f"`maximize` must be one of {known}, {got}.")
        return request

    def _fit_plain(self, learned: Learned, request: Request) -> None:
        if isinstance(self.estimator, str):
            raise InputError("Probabilities alone, without `sensitive_features`, leave nothing to fit.")
        model, rows, preparation = self.estimator, learned.rows, None
        if not is_given(self.estimator, self.cv):
            model, preparation = default_model(self.estimator, rows)
            rows = rows if preparation is None else preparation.transform(rows)
            model = fit_one(model, rows, learned.y, learned.weight)
        unseen = np.zeros((0, len(self.classes_)))
        self.groups_ = ()
        self.choice_, self.sentence_ = "plain", "Fitted without groups: the plain classifier."
        self.candidates_ = CandidateTable([], [])
        self.promise_: Mapping[str, Promise] = PromiseTable({})
        base = CrossFit(model, unseen, preprocessing=preparation)
        self._ship_choice(base, PlainRule(np.ones(len(self.classes_))), request)

    def _fit_bases(self, learned: Learned, z: NDArray[np.intp], request: Request) -> None:
        """The base model of each candidate, on the same folds, or why there is none."""
        given, held, group = is_given(self.estimator, self.cv), self._holding(learned), self._group_words()
        seed = seed_from(self.random_state)
        if given:
            fewest = int(np.unique(learned.y, return_counts=True)[1].min())
            self._fold = datasets.folds(learned.y, z, max(min(_FOLDS, fewest), 2), seed)
        else:
            splits = splits_of(learned.cv, learned.y, z, learned.groups, seed)
            self._fold = np.empty(len(z), dtype=np.intp)
            for k, (_, test) in enumerate(splits):
                self._fold[test] = k
            learned = learned._replace(cv=splits, groups=None)
        if request.blind and held:
            self.bases_["plain"] = f"it reads {group} at decision time"
        elif request.blind and given:
            self.bases_["plain"] = "only q(y, z | x) is given"
        else:
            self.bases_["plain"] = self._cross_fit(learned, "x", z)
        reason = no_other_columns(self.estimator, learned.rows, held)
        without: CrossFit | str = reason if held and not given else "no column of X holds the group"
        if not without:
            try:
                without = self._cross_fit(learned, "x", z, left_out=held)
            except Exception as error:  # a user's pipeline may raise anything: it is listed
                without = reason = f"the classifier cannot be fitted without {group}: {error}"
        self.bases_["without the group"] = without
        if not request.blind:
            self.bases_["group rule"] = self.bases_["plain"]
            if request.budgets and not held and not given and self._takes_group(learned.rows):
                self.bases_["group rule"] = self._cross_fit(learned, "xz", z)
        elif request.budgets:
            if reason:
                raise InputError(f"`blind=True` decides without the group, but {reason}.")
            options = {"group_estimator": self.group_estimator, "left_out": held}
            self.bases_["blind rule"] = self._cross_fit(learned, "joint", z, **options)

    def _takes_group(self, rows: Any) -> bool:
        """Whether the classifier can be given the group as further columns.

        Our own base models and matrices. A pipeline, or categories by their place, expects the
        columns that it knows.
        """
        if self.estimator is None or isinstance(self.estimator, ArrayModel):
            return True
        numbers = isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind in "fiub"
        return numbers and not isinstance(self.estimator, Pipeline) and not categories_by_place(self.estimator)

    def _choose(self, request: Request) -> None:
        """Measure every candidate for the request, and take the one that ships."""
        names = ["plain", "without the group", *([_rule_name(request)] if request.budgets else [])]
        reasons = {name: base if isinstance(base := self.bases_[name], str) else "" for name in names}
        if all(reasons.values()):
            raise InputError("A blind classifier of q(y, z | x) needs a budget: `max_eo_gap`.")
        assert self.table_ is not None
        table, runs = self.table_, dict[str, Run]()

        def measure(name: str, procedure: Procedure) -> Measured:
            base = self.bases_[name]
            assert isinstance(base, CrossFit)
            if name not in runs:
                runs[name] = Run(procedure, NestedScores.from_out_of_fold(self._fold, base.scores), table)
            return runs[name].measured(procedure.budgets)  # stricter ones on the same curves

        possible = candidates(reasons, measure, table, request)
        choice = choose(possible, request, self._group_words(quoted=False))
        shipped = choice.candidate
        if shipped.solve is not None and shipped.payload.procedure.budgets == request.budgets:
            runs[shipped.name].refuse_a_constant(shipped.payload.rule, request)
        given, rows = (shipped.payload.tables.sum(axes) for axes in ((0, 1, 2), (0, 2, 3)))
        warning = hardly_decides(given, rows, table.labels)
        self.choice_, self.sentence_ = shipped.name, f"{choice.sentence} {warning}".rstrip()
        self.promise_ = shipped.promise
        shown = [shipped if candidate.name == shipped.name else candidate for candidate in possible]
        empty: dict[str, Any] = dict.fromkeys(("solve", "contributions", "weight", "payload"))
        self.candidates_ = CandidateTable(
            [replace(candidate, **empty) for candidate in shown], [request.aim, *request.budgets], shipped.name
        )
        base, rule = self.bases_[self.choice_], shipped.payload.rule
        assert isinstance(base, CrossFit)
        self._ship_choice(base, rule if isinstance(rule, PlainRule) else rule.rule, request)

    def _ship_choice(self, base: CrossFit, rule: Rule, request: Request) -> None:
        """The chosen candidate's model and its rule, with what was asked and promised."""
        about: dict[str, Any] = {"maximize": str(self.maximize), "candidate": self.choice_}
        for name, most in request.budgets.items():
            about[f"max_{name}"] = float(most)
            if name in self.promise_:
                about[f"expected {name} on unseen rows"] = self.promise_[name].value
        self.model_, self.rule_, self.scores_ = base.model, rule, base.scores
        self._ship(base, rule, tuple(self.classes_.tolist()), about)

    def _group_words(self, *, quoted: bool = True) -> str:
        names = [f"`{name}`" if quoted else name for name in self.group_names_ if name != "sensitive_features"]
        return " and ".join(names) or ("the group" if quoted else "")


def _rule_name(request: Request) -> str:
    return "blind rule" if request.blind else "group rule"
