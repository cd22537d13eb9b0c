"""Accuracy within a parity gap: our rules and fairlearn's around the same trees, and what each
criterion costs in the others.

    python -m benchmarks.peers parity [--data compas ...] [--rounds 8] [--write]

Five outer folds that nothing else in this folder uses. The trees are LightGBM's (60 of 15 leaves),
with the group among the features. Ours: cross-fitted in five folds, `Promises` as in
`FrontierClassifier(budgets={"parity_gap": …})`. ThresholdOptimizer (demographic parity):
the same cross-fitted scores, and as it comes (trees and rule on all training rows).
ExponentiatedGradient: DemographicParity(difference_bound), `--rounds` fits of the trees. Nothing is
chosen on test rows. Gap and accuracy are means over the folds of the expected test decision; rules
of one method and the constant may be mixed by a coin, so its value at a gap is its concave
envelope.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from fairlearn.reductions import DemographicParity
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression

from benchmarks._measuring import machine, publish
from benchmarks.peers.fairlearn_peers import decided, mixture_of, rule_of
from benchmarks.peers.rows import DATA
from separatrix import audit_score, datasets
from separatrix.core.envelope import concave_envelope
from separatrix.core.information import accuracy, mutual_information
from separatrix.core.measures import CRITERIA
from separatrix.crossfit.out_of_fold import cross_fit
from separatrix.errors import InfeasibleError
from separatrix.optimum.limit import limit
from separatrix.optimum.promised import Promises
from separatrix.theory import separate, soft_counts

Array = NDArray[np.float64]
Codes = NDArray[np.int64]
Rule = Callable[[Array, Array, Codes], Array]  # score, X, group -> P(U=1)
QUICK = ("--data", "compas", "--rounds", "1")
SEED = 1911  # of the outer folds
ASKED = (0.0, 0.005, 0.01, 0.02, 0.03, 0.05, 0.08)
RELAXED = (0.01, 0.05)  # of ThresholdOptimizer
BOUNDS = (0.01, 0.05)  # of ExponentiatedGradient
AT = (0.01, 0.05)
NAMES = ("adult-full", "compas", "bank")
HEADS = {  # by table
    "parity": ["method", *(f"accuracy at parity gap ≤ {x}" for x in AT), "rules: gap → accuracy",
               "CPU s per fold"],
    "criteria-decisions": ["decisions", "accuracy", "u", "I(U;Z|Y)", "I(U;Z)", "I(Y;Z|U)",
                           *(kind.gap_label for kind in CRITERIA.values())],
    "criteria-scores": ["score", "AUROC", "I(S;Z|Y)", "I(S;Z)", "I(Y;Z|S)", "largest EO gap",
                        "largest parity gap", "calibration gap"],
}  # fmt: skip


def trees() -> LGBMClassifier:
    """The same for all: small, since ExponentiatedGradient fits them many times."""
    return LGBMClassifier(num_leaves=15, n_estimators=60, n_jobs=1, random_state=0, verbose=-1)


def ours(score: Array, y: Codes, z: Codes) -> Iterator[Rule]:
    """What `FrontierClassifier` fits; where it refuses, the smallest budget that it promises."""
    q, groups = np.stack([1 - score, score], 1), tuple(range(int(z.max()) + 1))
    best = Promises(q, y, z, np.ones(len(y)), groups, budget="parity_gap")
    for asked in ASKED:
        try:
            rule = best.rule(asked).rule
        except InfeasibleError as error:
            rule = best.rule(error.smallest["parity_gap"]).rule
        yield lambda s, X, g, rule=rule: rule.predict_proba(s, sensitive_features=g)[:, 1]


def optimizer(score: Array, y: Codes, z: Codes) -> Iterator[Rule]:
    """ThresholdOptimizer on given scores, exact and relaxed."""
    for more in ({}, *({"tol": tol} for tol in RELAXED)):
        rule = rule_of(score, y, z, constraints="demographic_parity", **more)
        yield lambda s, X, g, rule=rule: decided(rule, g, s)


def reductions(X: Array, y: Codes, z: Codes, rounds: int) -> Iterator[Rule]:
    """ExponentiatedGradient with the trees."""
    for bound in BOUNDS:
        constraint = DemographicParity(difference_bound=bound)
        decide = mixture_of(trees(), constraint, X, y, z, rounds)
        yield lambda s, X, g, decide=decide: decide(X)


def shown(q: Array, y: Codes, z: Codes) -> tuple[float, float]:
    """Parity gap and accuracy of the expected decision."""
    share = [q[z == g].mean() for g in np.unique(z)]
    return float(np.ptp(share)), float(np.where(y == 1, q, 1.0 - q).mean())


def measured(name: str, rounds: int) -> tuple[list[list[str]], dict[str, Array]]:
    """The lines of one data set, and the cross-fitted and test scores of all rows."""
    dataset, options, _ = DATA[name]
    data = datasets.load(dataset, **options)
    X = np.column_stack([data.z, np.asarray(data.X)]).astype(np.float32)
    y, z = np.asarray(data.y, dtype=np.int64), np.asarray(data.z, dtype=np.int64)
    fold = datasets.folds(y, z, random_state=SEED)
    series: dict[str, list[list[tuple[float, float]]]] = {}
    cpu: dict[str, float] = {}
    kept: dict[str, Array] = {"y": y, "z": z, "fold": fold, "score": np.zeros(len(y))}

    def add(method: str, rules: Iterator[Rule], test: Codes, score: Array) -> None:
        start = time.process_time()
        points = [shown(rule(score, X[test], z[test]), y[test], z[test]) for rule in rules]
        series.setdefault(method, []).append(points)
        cpu[method] = cpu.get(method, 0.0) + time.process_time() - start

    for k in range(5):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        fitted = cross_fit(trees(), X[train], y[train], z[train], random_state=SEED)
        score = fitted.scores[:, 1]
        kept["score"][test] = alone = fitted.model.predict_proba(X[test])[:, 1]
        kept[f"train {k}"] = score
        own = fitted.model.predict_proba(X[train])[:, 1]
        add("`FrontierClassifier`", ours(score, y[train], z[train]), test, alone)
        given = optimizer(score, y[train], z[train])
        add("ThresholdOptimizer, cross-fitted scores", given, test, alone)
        add("ThresholdOptimizer as it comes", optimizer(own, y[train], z[train]), test, alone)
        add("trees without a budget", iter([lambda s, X, g: (s > 0.5).astype(float)]), test, alone)
        if rounds:
            made = reductions(X[train], y[train], z[train], rounds)
            add(f"ExponentiatedGradient, {rounds} rounds", made, test, alone)
        print(f"{name}: fold {k}", flush=True)
    constant = float(max(y.mean(), 1.0 - y.mean()))
    lines = []
    for method, folds in series.items():
        gap, right = np.mean(folds, axis=0).T
        best = concave_envelope(np.r_[0.0, gap], np.r_[constant, right])
        at = [f"{float(best.at(np.array([x]))[0]):.4f}" for x in AT]
        pairs = ", ".join(f"{g:.4f} → {a:.4f}" for g, a in zip(gap, right, strict=True))
        lines.append([method, *at, pairs, f"{cpu[method] / 5:.1f}"])
    return lines, kept


def costs(kept: dict[str, Array]) -> list[list[str]]:
    """What each criterion costs in the others: the best exact decisions on the scores' law."""
    y, z, score = kept["y"], kept["z"], kept["score"]
    lines = []
    for name in ("plain", *CRITERIA):
        budget = "violation" if name == "plain" else CRITERIA[name].budgets[0]
        level = 1.0 if name == "plain" else 0.0
        best = limit(y, score, sensitive_features=z, maximize="accuracy", budget=budget,
                     levels=[level])  # fmt: skip
        q = best.rule(level).predict_proba(score, sensitive_features=z)
        table = soft_counts(y, q, sensitive_features=z)
        kinds = ("separation", "independence", "sufficiency")
        parts = [float(CRITERIA[kind].information(table)) for kind in kinds]
        gaps = [float(kind.gap(table)) for kind in CRITERIA.values()]
        lines.append([name.replace("_", " "), f"{accuracy(table):.4f}",
                      f"{mutual_information(table):.4f}", *(f"{x:.4f}" for x in parts),
                      *(f"{x:.3f}" for x in gaps)])  # fmt: skip
    return lines


def _ranks(score: Array, new: Array, seed: int) -> Array:
    """Ranks of new scores among those of a group; equal scores are ranked by lot."""
    order = np.sort(score)
    low, high = (np.searchsorted(order, new, side=side) for side in ("left", "right"))
    return (low + np.random.default_rng(seed).random(len(new)) * (high - low)) / len(score)


def scores(kept: dict[str, Array]) -> list[list[str]]:
    """Three scores of test rows: separated, ranks within groups, calibrated within groups."""
    y, z, fold = kept["y"], kept["z"], kept["fold"]
    made = {name: np.zeros(len(y)) for name in ("separated", "independent", "sufficient")}
    for k in range(5):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        score, own = kept[f"train {k}"], kept["score"][test]
        found = separate(y[train], score, sensitive_features=z[train])
        made["separated"][test] = found.transform(own, sensitive_features=z[test], random_state=k)
        for g in np.unique(z):
            here, there = z[train] == g, test[z[test] == g]
            made["independent"][there] = _ranks(score[here], kept["score"][there], k)
            line = IsotonicRegression(out_of_bounds="clip").fit(score[here], y[train][here])
            made["sufficient"][there] = line.predict(kept["score"][there])
    lines = []
    for name, score in {"plain": kept["score"], **made}.items():
        a = audit_score(y, score, sensitive_features=z)
        other = a.criteria
        lines.append([name, f"{a.auroc:.4f}", f"{a.violation:.4f}",
                      f"{other['independence'].value:.4f}", f"{other['sufficiency'].value:.4f}",
                      f"{a.gap:.3f}", f"{other['independence'].gaps['parity_gap'].value:.3f}",
                      f"{other['sufficiency'].gaps['calibration_gap'].value:.3f}"])  # fmt: skip
    return lines


def main(data: Sequence[str] = NAMES, rounds: int = 8, write: bool = False) -> None:
    """All series on all data sets."""
    tables: dict[str, list[list[str]]] = {name: [] for name in HEADS}
    for name in data:
        lines, kept = measured(name, rounds)
        for table, own in zip(tables.values(), (lines, costs(kept), scores(kept)), strict=True):
            table += [[DATA[name][2], *line] for line in own]
    for name, table in tables.items():
        publish(name, ["data", *HEADS[name]], table, write)
    print(machine("scikit-learn", "scipy", "fairlearn"))
