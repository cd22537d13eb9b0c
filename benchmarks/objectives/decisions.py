"""Accuracy within an EO gap: our rules, error-parity's and fairlearn's, on the same trees.

    python -m benchmarks.objectives.decisions [--data compas ...] [--folder .bench] [--write]

Five outer folds. In each the trees (scikit-learn's boosted trees as they come, with the group among
the features) are fitted to the training rows in three ways: on 70 %, the other 30 % for the
rules ("held out", as the peers' guides advise); cross-fitted in five folds ("cross-fitted"); the
mean of three such deals ("ensemble"). Rules for 15 budgets are fitted to these scores and decide
the test rows. Nothing is chosen on test rows. EO gap and accuracy are means over the folds of the
expected test decision; two rules and the constant may be mixed by a coin, for all alike, so a
method's value at a gap is its concave envelope.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import HistGradientBoostingClassifier

from benchmarks._measuring import DOCS, machine, markdown, write_between_markers
from benchmarks.objectives.budgets import BUDGETS, KINDS
from benchmarks.peers.environments import python_of
from separatrix import datasets
from separatrix.core.envelope import concave_envelope
from separatrix.errors import InfeasibleError
from separatrix.estimators.crossfit import cross_fit
from separatrix.optimum.borrowing import group_curves_borrowing
from separatrix.optimum.decisions import rule_of, solve
from separatrix.optimum.promised import Promises, regions_of

Array = NDArray[np.float64]
Rules = Callable[[Array, NDArray[Any], NDArray[Any]], list[Any]]
ROOT = Path(__file__).resolve().parents[2]
DATA: dict[str, tuple[str, dict[str, Any], str]] = {
    "adult-full": ("adult", {"features": "full"}, "Adult all"),
    "adult-paper": ("adult", {"features": "paper"}, "Adult paper"),
    "bank": ("bank", {}, "Bank"),
    "compas": ("compas", {}, "COMPAS"),
}
TOP = 0.2  # the largest EO gap that counts in the hypervolume
DEALS = 3


def scores_of(name: str, folder: Path) -> Path:
    """The scores of all folds as one file that any environment can read."""
    file = folder / f"{name}.npz"
    if file.is_file():
        return file
    dataset, options, _ = DATA[name]
    data = datasets.load(dataset, **options)
    X = np.column_stack([data.z, np.asarray(data.X)]).astype(np.float32)
    y, z = np.asarray(data.y, dtype=np.int64), np.asarray(data.z, dtype=np.int64)
    fold = datasets.folds(y, z)
    trees, found = HistGradientBoostingClassifier(random_state=0), {"y": y, "z": z, "fold": fold}
    for k in range(5):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        held = np.isin(datasets.folds(y[train], z[train], 10), (0, 3, 6))
        model = trees.fit(X[train[~held]], y[train[~held]])
        found[f"held out {k} rows"] = train[held]
        found[f"held out {k} scores"] = model.predict_proba(X[train[held]])[:, 1]
        found[f"held out {k} test"] = model.predict_proba(X[test])[None, :, 1]
        deals = [
            cross_fit(trees, X[train], y[train], z[train], random_state=seed)
            for seed in range(DEALS)
        ]
        for kind, used in (("cross-fitted", deals[:1]), ("ensemble", deals)):
            found[f"{kind} {k} rows"] = train
            found[f"{kind} {k} scores"] = np.mean([d.scores[:, 1] for d in used], axis=0)
            each = [[q[:, 1] for q in d.posteriors(X[test])] for d in used]
            found[f"{kind} {k} test"] = np.mean(each, axis=0)
        print(f"{name}: trees of fold {k}", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file.with_suffix(".part.npz"), **found)
    os.replace(file.with_suffix(".part.npz"), file)
    return file


def ours(score: Array, y: NDArray[Any], z: NDArray[Any]) -> list[Any]:
    """What `FrontierClassifier` fits; where it refuses, the smallest budget that it promises."""
    groups = tuple(range(int(z.max()) + 1))
    best = Promises(np.stack([1 - score, score], 1), y, z, np.ones(len(y)), groups)
    found = []
    for budget in BUDGETS:
        try:
            found.append(best.rule(budget).rule)
        except InfeasibleError as error:
            found.append(best.rule(error.smallest["eo_gap"]).rule)
    return found


def ours_on_the_rows(score: Array, y: NDArray[Any], z: NDArray[Any]) -> list[Any]:
    """The same with margin=0: every budget is kept on the rows themselves."""
    known = group_curves_borrowing(score, y, z, np.ones(len(y)), borrow=False)
    best = solve(known.curves, known.mass, levels=np.array(BUDGETS))
    regions, groups = regions_of(known), tuple(range(len(known.curves)))
    return [rule_of(x, known.curves, regions, groups) for x in best.rates]


class _Scores(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose features are its scores."""

    classes_ = np.array([0, 1])

    def fit(self, X: Any, y: Any) -> _Scores:
        return self

    def predict_proba(self, X: Any) -> Array:
        return np.column_stack([1.0 - X[:, 0], X[:, 0]])

    def predict(self, X: Any) -> NDArray[Any]:
        return (X[:, 0] > 0.5).astype(int)

    def __sklearn_is_fitted__(self) -> bool:
        return True


class _Fairlearn:
    def __init__(self, score: Array, y: NDArray[Any], z: NDArray[Any]) -> None:
        from fairlearn.postprocessing import ThresholdOptimizer

        self.rule = ThresholdOptimizer(
            estimator=_Scores(),
            constraints="equalized_odds",
            objective="accuracy_score",
            prefit=True,
            predict_method="predict_proba",
        )
        self.rule.fit(score[:, None], y, sensitive_features=z)

    def predict_proba(self, score: Array, *, sensitive_features: NDArray[Any]) -> Array:
        return np.asarray(
            self.rule._pmf_predict(score[:, None], sensitive_features=sensitive_features)
        )


def fairlearn_rules(score: Array, y: NDArray[Any], z: NDArray[Any]) -> list[Any]:
    """One rule: it has no relaxed equalized odds."""
    return [_Fairlearn(score, y, z)]


def decided(file: Path, kind: str, rules: Rules) -> tuple[list[Array], float]:
    """P(U=1) of the test rows of every fold (rules, rows), and the CPU time of all rules."""
    found, cpu = [], 0.0
    with np.load(file) as data:
        for k in range(5):
            rows, z = data[f"{kind} {k} rows"], data["z"][data["fold"] == k]
            score, y, own = data[f"{kind} {k} scores"], data["y"][rows], data["z"][rows]
            start = time.process_time()
            fitted = rules(score, y, own)
            cpu += time.process_time() - start
            members = data[f"{kind} {k} test"]
            each = [
                [rule.predict_proba(s, sensitive_features=z)[:, 1] for s in members]
                for rule in fitted
            ]
            found.append(np.mean(each, axis=1))
    return found, cpu


def error_parity(file: Path, folder: Path) -> dict[str, tuple[list[Array], float]]:
    """The same by error-parity, in an environment of its own."""
    out = file.with_name(f"{file.stem}-error-parity.npz")
    python = str(python_of("error-parity", folder / "environments").absolute())
    quiet = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    command = [python, "-m", "benchmarks.objectives.error_parity_rules"]
    subprocess.run(
        [*command, str(file.absolute()), str(out.absolute())], check=True, env=quiet, cwd=ROOT
    )
    with np.load(out) as found:
        cpu = json.loads(str(found["cpu"]))
        return {kind: ([found[f"{kind} {k}"] for k in range(5)], cpu[kind]) for kind in KINDS}


def measured(file: Path, found: list[Array]) -> tuple[Array, Array, float]:
    """EO gap and accuracy of every rule, means over the folds; the best constant's accuracy."""
    with np.load(file) as data:
        y, z, fold = data["y"], data["z"], data["fold"]
    gaps, right = [], []
    for k, q in enumerate(found):
        own_y, own_z = y[fold == k], z[fold == k]
        rates = np.stack(
            [
                [q[:, (own_y == a) & (own_z == b)].mean(1) for a in (0, 1)]
                for b in range(z.max() + 1)
            ]
        )
        gaps.append(0.5 * np.ptp(rates, axis=0).sum(0))
        right.append(np.where(own_y == 1, q, 1.0 - q).mean(1))
    return np.mean(gaps, 0), np.mean(right, 0), float(max(y.mean(), 1.0 - y.mean()))


def line(title: str, kind: str, file: Path, found: list[Array], cpu: float) -> list[object]:
    """One row of the table."""
    gap, accuracy, constant = measured(file, found)
    best = concave_envelope(np.r_[0.0, gap], np.r_[constant, accuracy])
    area = (best.at(np.linspace(0.0, TOP, 2001)) - constant).mean() * TOP
    at = [f"{float(best.at(np.array([x]))[0]):.4f}" for x in (0.02, 0.05)]
    within = [accuracy[gap <= x].max() if (gap <= x).any() else constant for x in (0.02, 0.05)]
    return [
        title, kind, *at, f"{1e3 * area:.2f}", *(f"{max(x, constant):.4f}" for x in within),
        f"{gap.min():.4f}", f"{cpu / 5:.2f}",
    ]  # fmt: skip


def main() -> None:
    """All series on all data sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    head = ["", "scores", "accuracy at EO ≤ .02", "≤ .05", "hypervolume × 1000"]
    head += ["one rule at ≤ .02", "≤ .05", "smallest EO gap", "CPU s per fold"]
    text = []
    for name in chosen.data:
        file = scores_of(name, chosen.folder / "decisions")
        lines = []
        for kind in KINDS:
            lines.append(line("`FrontierClassifier`", kind, file, *decided(file, kind, ours)))
        for kind in KINDS:
            found = decided(file, kind, ours_on_the_rows)
            lines.append(line("`FrontierClassifier(margin=0)`", kind, file, *found))
        for kind, found in error_parity(file, chosen.folder).items():
            lines.append(line("error-parity", kind, file, *found))
        for kind in KINDS:
            found = decided(file, kind, fairlearn_rules)
            lines.append(line("ThresholdOptimizer (one rule)", kind, file, *found))
        text.append(f"**{DATA[name][2]}**\n\n{markdown(head, lines)}")
        print(text[-1], flush=True)
    text.append(machine("scikit-learn", "scipy", "fairlearn"))
    if chosen.write:
        page = DOCS / "evidence" / "peers.md"
        write_between_markers(page, "objectives/decisions", "\n\n".join(text))


if __name__ == "__main__":
    main()
