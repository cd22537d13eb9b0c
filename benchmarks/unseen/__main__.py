"""The main job on public tables that nothing was chosen on, rows set aside first.

    python -m benchmarks.unseen [--only NAME ...] [--splits 3] [--folder .bench] [--write]

Of each table 30 % of the rows are set aside at random. The others are traced with the settings as
they come, and two points are selected: the best accuracy within an EO gap of 0.05, and the best
score whose gap is at most 0.05 at every threshold; where that is refused, the smallest budget that
the refusal names. What was promised is compared with the rows set aside. The peers get the same
rows and scikit-learn's boosted trees as they come. Finished splits are kept in a file.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

import separatrix as sx
from benchmarks._measuring import DOCS, machine, markdown, write_between_markers
from benchmarks.unseen.tables import TABLES, Table, fetch
from separatrix.columns.counting import soft_sums
from separatrix.core.metrics import METRICS
from separatrix.estimators.measuring import unseen_score
from separatrix.statistics.unseen import noise_floor, unseen

Array = NDArray[np.float64]
ASKED, ASIDE = 0.05, 0.3


class Split:
    """Rows to fit and rows set aside, with codes of labels and groups."""

    def __init__(self, table: Table, seed: int) -> None:
        rng = np.random.default_rng(seed)
        aside = rng.random(len(table.y)) < ASIDE
        self.seed, self.labels, self.groups = seed, sorted(set(table.y)), sorted(set(table.z))
        self.X, self.y, self.z = (part[~aside] for part in (table.X, table.y, table.z))
        self.fresh = Table(table.X[aside], table.y[aside], table.z[aside])
        text = [c for c in table.X if not pd.api.types.is_numeric_dtype(table.X[c])]
        numbers = pd.get_dummies(table.X, columns=text, dtype=float)
        group = pd.get_dummies(table.z, dtype=float)
        matrix = np.column_stack([numbers.to_numpy(float), group.to_numpy()])
        self.matrix, self.fresh_matrix = matrix[~aside], matrix[aside]

    @property
    def codes(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Labels and groups of the rows set aside."""
        return (
            np.searchsorted(self.labels, self.fresh.y.to_numpy(str)),
            np.searchsorted(self.groups, self.fresh.z.to_numpy(str)),
        )

    def shows(self, q: Array) -> dict[str, tuple[float, float]]:
        """What the rows set aside show of decisions with these probabilities (n, K)."""
        y, z = self.codes
        table, moments = soft_sums(q, y, z, (len(self.labels), len(self.groups)))
        assert moments is not None
        square = np.diagonal(moments, axis1=-2, axis2=-1)
        of = {name: m.of for name, m in METRICS.items() if m.of is not None}
        found = {name: tuple(e) for name, e in unseen(table[None], square[None], of).items()}
        seen = float(METRICS["eo_gap"].of(table))  # type: ignore[misc]
        return found | {"seen gap": (seen, noise_floor(table[None], square[None]))}


def ours(split: Split) -> list[dict[str, Any]]:
    """Trace, select twice, compare the promises with the rows set aside."""
    start = time.process_time()
    frontier = sx.trace(split.X, split.y, sensitive_features=split.z, random_state=split.seed)
    traced = time.process_time() - start
    print(frontier, flush=True)
    rows = []
    for goal in ("accuracy", "auroc")[: 2 if len(split.labels) == 2 else 1]:
        start, budget, asked = time.process_time(), ASKED, {"maximize": goal}
        try:
            point = frontier.select(max_eo_gap=budget, **asked)
        except sx.InfeasibleError as error:
            print(f"  refused: {error}", flush=True)
            budget = next(iter(error.smallest.values()), np.nan) * (1 + 1e-6)
            try:
                point = frontier.select(max_eo_gap=budget, **asked)
            except sx.InfeasibleError as again:
                rows.append({"series": f"separatrix, {goal}", "refused": str(again)})
                continue
        print(point, flush=True)
        cpu = traced + time.process_time() - start
        if point.is_score:
            shown = _score(split, point)
        else:
            q = point.predictor.predict_proba(split.fresh.X, sensitive_features=split.fresh.z)
            shown = split.shows(q)
        promise = {name: tuple(point.promise[name]) for name in shown if name in point.promise}
        said = {"series": f"separatrix, {goal}", "budget": budget, "notes": list(point.notes)}
        rows.append(said | {"shown": shown, "promise": promise, "cpu": cpu})
    return rows


def _score(split: Split, point: Any) -> dict[str, tuple[float, float]]:
    y, z = split.codes
    q = point.predictor.branch_proba(split.fresh.X, split.fresh.z.to_numpy())[0]
    table, moments = soft_sums(q, y, z, (2, len(split.groups)))
    assert moments is not None
    return {name: tuple(e) for name, e in unseen_score(table[None], moments[None]).items()}


def plain(split: Split) -> Array:
    """The trees' own decisions."""
    model = HistGradientBoostingClassifier(random_state=split.seed)
    model.fit(split.matrix, split.y)
    return np.eye(len(split.labels))[model.predict_proba(split.fresh_matrix).argmax(1)]


def threshold_optimizer(split: Split) -> Array:
    """fairlearn's: trees on 70 % of the rows, thresholds on the others."""
    from fairlearn.postprocessing import ThresholdOptimizer

    held = np.random.default_rng(split.seed).random(len(split.y)) < 0.3
    y = (split.y == split.labels[1]).to_numpy(int)
    trees = HistGradientBoostingClassifier(random_state=split.seed)
    trees.fit(split.matrix[~held], y[~held])
    rule = ThresholdOptimizer(
        estimator=trees,
        constraints="equalized_odds",
        objective="accuracy_score",
        prefit=True,
        predict_method="predict_proba",
    )
    rule.fit(split.matrix[held], y[held], sensitive_features=split.z[held])
    return np.asarray(rule._pmf_predict(split.fresh_matrix, sensitive_features=split.fresh.z))


def exponentiated_gradient(split: Split) -> Array:
    """fairlearn's reductions around the same trees, difference bound 0.05."""
    from fairlearn.reductions import EqualizedOdds, ExponentiatedGradient

    model = ExponentiatedGradient(
        HistGradientBoostingClassifier(random_state=split.seed),
        EqualizedOdds(difference_bound=ASKED),
        max_iter=20,
    )
    y = (split.y == split.labels[1]).to_numpy(int)
    model.fit(split.matrix, y, sensitive_features=split.z.to_numpy())
    return np.asarray(model._pmf_predict(split.fresh_matrix))


PEERS: dict[str, Callable[[Split], Array]] = {
    "plain trees": plain,
    "ThresholdOptimizer": threshold_optimizer,
    "ExponentiatedGradient": exponentiated_gradient,
}


def one_split(name: str, table: Table, seed: int) -> list[dict[str, Any]]:
    """All series on one split; what a peer cannot do is said."""
    split = Split(table, seed)
    found = ours(split)
    for series, decide in PEERS.items():
        if len(split.labels) > 2 and series != "plain trees":
            continue
        start = time.process_time()
        try:
            q = decide(split)
        except ValueError as error:
            found.append({"series": series, "refused": str(error).splitlines()[0]})
            continue
        cpu = time.process_time() - start
        found.append({"series": series, "shown": split.shows(q), "cpu": cpu})
    return [{"table": name, "seed": seed, **one} for one in found]


def page(found: list[dict[str, Any]]) -> str:
    """Two tables: what was reached, and whether the promises held."""
    reached, kept = [], []
    for name in dict.fromkeys(one["table"] for one in found):
        own = [one for one in found if one["table"] == name]
        for series in dict.fromkeys(one["series"] for one in own):
            runs = [one for one in own if one["series"] == series]
            done = [one for one in runs if "shown" in one]
            refused = (
                f"{len(runs) - len(done)} of {len(runs)} refused" if len(done) < len(runs) else ""
            )
            if not done:
                reached.append([name, series, "", "", "", "", "", "", refused])
                continue
            reached.append(
                [
                    name,
                    series,
                    *(_mean(done, metric) for metric in ("accuracy", "auroc", "eo_gap")),
                    *(_mean(done, "seen gap", part) for part in (0, 1)),
                    f"{np.mean([one['cpu'] for one in done]):.1f}",
                    refused,
                ]
            )
            for one in done:
                for metric, promised in one.get("promise", {}).items():
                    shown = one["shown"][metric]
                    error = float(np.hypot(promised[1], shown[1]))
                    kept.append((name, series, abs(promised[0] - shown[0]) <= 2 * error + 1e-9))
    head = ["table", "series", "accuracy", "AUROC", "EO gap, corrected", "EO gap, seen"]
    text = markdown([*head, "noise floor", "CPU s", ""], reached)
    rows = []
    for name in dict.fromkeys(k[0] for k in kept):
        own = [k[2] for k in kept if k[0] == name]
        rows.append([name, sum(own), len(own)])
    rows.append(["all", sum(k[2] for k in kept), len(kept)])
    return text + "\n\n" + markdown(["table", "promises held", "of"], rows)


def _mean(done: list[dict[str, Any]], metric: str, part: int = 0) -> str:
    values = [one["shown"][metric][part] for one in done if metric in one["shown"]]
    return f"{np.mean(values):.4f}" if values else "–"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=TABLES, default=list(TABLES))
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    parser.add_argument("--write", action="store_true", help="write docs/evidence/unseen.md")
    options = parser.parse_args()
    kept = options.folder / "unseen.jsonl"
    wheels = fetch(options.folder / "wheels")
    found = [json.loads(line) for line in kept.read_text().splitlines()] if kept.is_file() else []
    done = {(one["table"], one["seed"]) for one in found}
    warnings.simplefilter("ignore")
    for seed in range(options.splits):
        for name in options.only:
            if (name, seed) in done:
                continue
            print(f"{name}, split {seed}", flush=True)
            rows = one_split(name, TABLES[name](wheels), seed)
            found += rows
            with kept.open("a") as file:
                file.writelines(json.dumps(row) + "\n" for row in rows)
    text = page(found) + "\n\n" + machine("scikit-learn", "lightgbm", "fairlearn")
    print(text)
    if options.write:
        write_between_markers(DOCS / "evidence" / "unseen.md", "unseen", text)


if __name__ == "__main__":
    main()
