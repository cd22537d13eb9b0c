"""Decisions without the group: ours, ours with the group, fairlearn's ExponentiatedGradient.

    python -m benchmarks.blind [--data compas ...] [--folder .bench] [--peer] [--write]

Five outer folds, LightGBM as it comes for every model; on COMPAS, a small table with 18 distinct
rows, LightGBM or logistic regression, whichever has the larger likelihood in the inner folds of the
training rows. "With the group": the group is a feature and
each group has its thresholds (`Promises`). "Without": q(y, z | x) and mixtures of half-spaces
(`BlindPromises`). Rules are fitted to scores that are cross-fitted inside the training rows;
budgets hold on the training rows (margin=0) or are promised for the population (margin=None).
Nothing is chosen on test rows. A figure is that of the test decisions of all folds together; the
EO gap is also given as the mean over the folds, which has more noise. "At ≤ x" is the concave
envelope of a method's points with the best constant: a coin between two of its rules.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from lightgbm import LGBMClassifier
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression

from benchmarks._measuring import DOCS, machine, markdown, write_between_markers
from separatrix import datasets
from separatrix.core.envelope import concave_envelope
from separatrix.core.information import (
    accuracy,
    conditional_mutual_information,
    eo_gap,
    mutual_information,
)
from separatrix.crossfit.joint import cross_fit_joint
from separatrix.crossfit.out_of_fold import cross_fit
from separatrix.errors import InfeasibleError
from separatrix.optimum.blind import BlindPromises
from separatrix.optimum.promised import Promises

Array = NDArray[np.float64]
DATA: dict[str, tuple[str, dict[str, Any], str]] = {
    "adult": ("adult", {"features": "full"}, "Adult, all columns but sex"),
    "bank": ("bank", {}, "Bank without the marital columns"),
    "compas": ("compas", {}, "COMPAS"),
}
GAPS, NATS = (0.01, 0.02, 0.05), (1e-4, 1e-3, 1e-2)
QUESTIONS = (("accuracy", "eo_gap", GAPS), ("utility", "violation", NATS))
MARGINS = {"on the rows": 0.0, "promised": None}


def booster() -> LGBMClassifier:
    """The same for everybody."""
    return LGBMClassifier(n_jobs=1, verbose=-1, random_state=0)


def candidates(name: str) -> tuple[Any, ...]:
    """The models that the inner folds choose from.

    Logistic regression was added for COMPAS after a look at six models on the outer folds.
    """
    small = (LogisticRegression(max_iter=500),) if name == "compas" else ()
    return (booster(), *small)


def rows_of(name: str) -> tuple[Array, NDArray[Any], NDArray[Any]]:
    """Features without the group, labels, groups."""
    dataset, options, _ = DATA[name]
    data = datasets.load(dataset, **options)
    X = np.asarray(data.X, dtype=np.float64)
    y, z = np.asarray(data.y, dtype=np.intp), np.asarray(data.z, dtype=np.intp)
    if name == "bank":  # what says who is married is left out
        marital = data.columns["marital"].codes
        told = [j for j in range(X.shape[1]) if _follows(X[:, j], marital)]
        assert len(told) == 3, told
        X = np.delete(X, told, axis=1)
    return X, y, z


def _follows(column: Array, codes: NDArray[Any]) -> bool:
    """Whether a column with two values is the indicator of one code."""
    if len(np.unique(column)) != 2:
        return False
    return any(
        np.ptp(column[codes == c]) == 0 and np.ptp(column[codes != c]) == 0 for c in (0, 1, 2)
    )


def scores_of(name: str, folder: Path) -> Path:
    """Cross-fitted scores of all outer folds, with the CPU time of the models."""
    file = folder / f"{name}.npz"
    if file.is_file():
        return file
    X, y, z = rows_of(name)
    fold, found = datasets.folds(y, z), {}
    cpu = np.zeros((2, 5))
    for k in range(5):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        start = time.process_time()
        both = np.column_stack([X, z])
        aware = max(
            (cross_fit(model, both[train], y[train], z[train]) for model in candidates(name)),
            key=lambda found: np.log(found.scores[np.arange(len(train)), y[train]]).sum(),
        )
        found[f"aware {k}"] = aware.scores
        found[f"aware test {k}"] = aware.posteriors(both[test])[None]
        cpu[0, k] = time.process_time() - start
        start = time.process_time()
        blind = max(
            (cross_fit_joint(model, X[train], y[train], z[train]) for model in candidates(name)),
            key=lambda found: np.log(found.scores[np.arange(len(train)), y[train], z[train]]).sum(),
        )
        found[f"blind {k}"] = blind.scores
        cpu[1, k] = time.process_time() - start
        found[f"blind test {k}"] = blind.posteriors(X[test])[None]
        print(f"{name}: models of fold {k}, {cpu[:, k].round(1)} s", flush=True)
    folder.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part.npz")
    np.savez_compressed(part, y=y, z=z, fold=fold, cpu=cpu, **found)
    os.replace(part, file)
    return file


class Points:
    """Test decisions of all folds, one series of points per method."""

    def __init__(self, y: NDArray[Any], z: NDArray[Any], fold: NDArray[Any]) -> None:
        self.y, self.z, self.fold = y, z, fold
        self.constant = float(max(y.mean(), 1.0 - y.mean()))

    def tables(self, decided: list[Array]) -> Array:
        """Tables (folds, y, z, u) of P(U=1) of each fold's test rows."""
        found = np.zeros((5, 2, int(self.z.max()) + 1, 2))
        for k, one in enumerate(decided):
            here = self.fold == k
            for u, share in enumerate((1.0 - one, one)):
                np.add.at(found[k, ..., u], (self.y[here], self.z[here]), share)
        return found

    def measured(self, decided: list[Array]) -> dict[str, float]:
        tables = self.tables(decided)
        pooled = tables.sum(0)
        return {
            "accuracy": float(accuracy(pooled)),
            "eo_gap": float(eo_gap(pooled)),
            "eo_gap by fold": float(eo_gap(tables).mean()),
            "violation": float(conditional_mutual_information(pooled)),
            "utility": float(mutual_information(pooled)),
        }


def ours(
    file: Path, kind: str, maximize: str, budget: str, levels: tuple[float, ...], margin: Any
) -> tuple[list[dict[str, float]], float]:
    """The points of our rules for the asked levels, and the CPU time of all rules in all folds."""
    make: Callable[..., Any] = BlindPromises if kind == "blind" else Promises
    cpu = 0.0
    with np.load(file) as data:
        y, z, fold = data["y"], data["z"], data["fold"]
        decided: list[list[Array]] = [[] for _ in levels]
        for k in range(5):
            train, own = fold != k, z[fold == k]
            start = time.process_time()
            best = make(
                data[f"{kind} {k}"], y[train], z[train], np.ones(train.sum()),
                tuple(range(int(z.max()) + 1)), maximize=maximize, budget=budget,
            )  # fmt: skip
            rules = []
            for level in levels:
                try:
                    rules.append(best.rule(level, margin=margin).rule)
                except InfeasibleError as error:
                    rules.append(best.rule(error.smallest[budget]).rule)
            cpu += time.process_time() - start
            members = data[f"{kind} test {k}"]
            extra = {} if kind == "blind" else {"sensitive_features": own}
            for j, rule in enumerate(rules):
                each = [rule.predict_proba(one, **extra)[:, 1] for one in members]
                decided[j].append(np.mean(each, axis=0))
        points = Points(y, z, fold)
        return [points.measured(one) for one in decided], cpu


def peer(name: str, file: Path, bounds: tuple[float, ...]) -> tuple[list[dict[str, float]], float]:
    """ExponentiatedGradient with the same booster on X alone; kept beside the scores."""
    kept = file.with_name(f"{name}-exponentiated-gradient.npz")
    if not kept.is_file():
        from fairlearn.reductions import EqualizedOdds, ExponentiatedGradient

        X, y, z = rows_of(name)
        fold, found, cpu = datasets.folds(y, z), {}, 0.0
        for k in range(5):
            train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
            for bound in bounds:
                start = time.process_time()
                mixture = ExponentiatedGradient(booster(), EqualizedOdds(difference_bound=bound))
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    mixture.fit(X[train], y[train], sensitive_features=z[train])
                    cpu += time.process_time() - start
                    found[f"{k} {bound}"] = np.clip(mixture._pmf_predict(X[test])[:, 1], 0.0, 1.0)
                print(f"{name}: peer, fold {k}, bound {bound}: {cpu:.0f} s so far", flush=True)
        np.savez_compressed(kept, cpu=cpu, **found)
    with np.load(file) as data, np.load(kept) as found:
        points = Points(data["y"], data["z"], data["fold"])
        each = [[found[f"{k} {bound}"] for k in range(5)] for bound in bounds]
        return [points.measured(one) for one in each], float(found["cpu"])


def line(
    title: str, points: list[dict[str, float]], maximize: str, budget: str,
    levels: tuple[float, ...], constant: float, cpu: str,
) -> list[object]:  # fmt: skip
    """One row: the envelope at each level, then what was asked → found."""
    floor = constant if maximize == "accuracy" else 0.0
    best = concave_envelope(
        np.r_[0.0, [p[budget] for p in points]], np.r_[floor, [p[maximize] for p in points]]
    )
    at = [f"{float(best.at(np.array([x]))[0]):.4f}" for x in levels]
    shown = [f"{p[maximize]:.4f} ({p[budget]:.2g})" for p in points]
    if budget == "eo_gap":
        shown = [f"{p[maximize]:.4f} ({p[budget]:.4f}, {p['eo_gap by fold']:.4f})" for p in points]
    return [title, *at, *shown, cpu]


def main() -> None:
    """All methods on all data sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    parser.add_argument("--peer", action="store_true", help="also ExponentiatedGradient: minutes")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    text = []
    for name in chosen.data:
        file = scores_of(name, chosen.folder / "blind")
        with np.load(file) as data:
            models, y = data["cpu"].mean(1), data["y"]
        constant = float(max(y.mean(), 1 - y.mean()))
        for maximize, budget, levels in QUESTIONS:
            found = "found (pooled, fold mean)" if budget == "eo_gap" else "found"
            head = ["", *(f"at ≤ {x:g}" for x in levels)]
            head += [*(f"asked {x:g}: {found}" for x in levels), "CPU s per fold"]
            lines = []
            for kind, title in (("aware", "with the group"), ("blind", "without")):
                for how, margin in MARGINS.items():
                    points, cpu = ours(file, kind, maximize, budget, levels, margin)
                    spent = f"{models[int(kind == 'blind')]:.1f} + {cpu / 5:.1f}"
                    own = (f"{title}, {how}", points, maximize, budget, levels, constant, spent)
                    lines.append(line(*own))
            if chosen.peer:
                points, cpu = peer(name, file, GAPS)
                own = ("ExponentiatedGradient", points, maximize, budget, levels, constant)
                lines.append(line(*own, f"{cpu / 5:.0f}"))
            what = "Accuracy by EO gap" if budget == "eo_gap" else "u by v, in nats"
            text.append(f"**{DATA[name][2]}.** {what}.\n\n{markdown(head, lines)}")
            print(text[-1], flush=True)
    text.append(machine("lightgbm", "scipy", "fairlearn"))
    if chosen.write:
        write_between_markers(DOCS / "evidence" / "blind.md", "blind", "\n\n".join(text))


if __name__ == "__main__":
    main()
