"""Ours as a method of Aequitas Flow, by its own experiment, splits, threshold and metrics, on ACSIncome.

    python -m benchmarks.peers aequitas_flow [--tables sample ...] [--groups SEX ...] [--write]

Their protocol: random splits of 70/15/15, scores cut at 0.5, race or sex. Every method gets LightGBM
as it comes and a small grid of its own settings. A cell, a table × group × criterion × budget, takes
the setting that is most accurate on the validation rows among those that keep the budget there, or
else the one with the smallest gap; ours is the point that was asked for this budget. Test rows
report. `full` is every row that we have, for what trains few trees; `sample` is 50,000 of them, with
the rare races joined.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import separatrix as sx
from benchmarks._measuring import DOCS, Kept, in_own_process, publish
from benchmarks.peers.compare import python_of
from benchmarks.peers.rows import FOLDER

QUICK = None  # its environment takes minutes to install
SEEDS = (6101, 6102, 6103)
TABLES = ("sample, SEX", "sample, RACE", "full, SEX", "full, RAC1P")  # rows, group
SAMPLE = 50_000
RARE = (3, 4, 5, 7)  # of RAC1P, joined with 8, other
CATEGORIES = ["COW", "MAR", "OCCP", "POBP", "RELP"]
CRITERIA = {  # our budget, and what they measure
    "equalized odds": ("eo_gap", ("fpr_diff", "tpr_diff")),
    "equal opportunity": ("tpr_gap", ("tpr_diff",)),
    "predictive equality": ("fpr_gap", ("fpr_diff",)),
}
LEVELS = (0.02, 0.05)
PLAIN, OURS, WHOLE = "LightGBM", "separatrix", "separatrix, whole budget"
TREES = {"n_jobs": 1, "random_state": 0}
HERE, FLOW = "benchmarks.peers.aequitas_flow.", "aequitas.flow.methods."


def _method(kind: str, classpath: str, **settings: Any) -> dict[str, Any]:
    """A step before, after or in the place of LightGBM; a list of values is a grid."""
    trees = {"classpath": FLOW + "base_estimator.LightGBM", "args": TREES}
    return {"inprocessing": {"step": trees}} | {kind: {"step": {"classpath": classpath, "args": settings}}}


_sampling = partial(_method, "preprocessing", FLOW + "preprocessing.PrevalenceSampling", alpha=[0.5, 1.0])
_by_group = partial(_method, "postprocessing", FLOW + "postprocessing.GroupThreshold")
_balanced = partial(_method, "postprocessing", FLOW + "postprocessing.BalancedGroupThreshold")
_reduction = partial(
    _method, "inprocessing", FLOW + "inprocessing.FairlearnClassifier",
    estimator="lightgbm.LGBMClassifier", constraint="fairlearn.reductions.EqualizedOdds",
    model__verbose=-1, **{f"model__{key}": value for key, value in TREES.items()},
)  # fmt: skip
_FAIRGBM = {"constraint_type": ["fnr", "fpr", "fpr,fnr"], "multiplier_learning_rate": [0.01, 0.1]}
_ASKED = {"budget": [budget for budget, _ in CRITERIA.values()], "level": list(LEVELS), "whole": [False, True]}
METHODS: dict[str, dict[str, Any]] = {
    PLAIN: _method("inprocessing", FLOW + "base_estimator.LightGBM", **TREES),
    "Undersampling": _sampling(strategy="undersample"),
    "Oversampling": _sampling(strategy="oversample"),
    "GroupThreshold, TPR": _by_group(threshold_type="tpr", threshold_value=[0.25, 0.3]),
    "GroupThreshold, FPR": _by_group(threshold_type="fpr", threshold_value=[0.12, 0.15]),
    "BalancedGroupThreshold": _balanced(threshold_type="top_pct", threshold_value=0.35, fairness_metric=["tpr", "fpr"]),
    "FairGBM": _method("inprocessing", HERE + "fairgbm", **_FAIRGBM, **TREES),
    "ExponentiatedGradient": _reduction(reduction="fairlearn.reductions.ExponentiatedGradient", eps=0.01, max_iter=10),
    "GridSearch": _reduction(reduction="fairlearn.reductions.GridSearch", grid_size=10),
    OURS: _method("inprocessing", HERE + "Ours", **_ASKED),
}
MANY_TREES = ("FairGBM", "ExponentiatedGradient", "GridSearch")  # on the sample only


def fairgbm(**settings: Any) -> Any:
    """Their FairGBM, which does not run as it is: Aequitas asks for categories, FairGBM for numbers."""
    from aequitas.flow.methods.inprocessing import FairGBM

    model = FairGBM(**settings)
    model.fit = lambda X, y, s: FairGBM.fit(model, X, y, s.to_numpy(np.int32))
    return model


class Ours:
    """Their `InProcessing`, by its methods: decisions within a budget.

    Fitted once and asked for every budget; where one is refused, for the smallest that the refusal
    names.
    """

    fitted: Any = None
    refused: ClassVar[list[str]] = []

    def __init__(self, budget: str, level: float, whole: bool) -> None:
        self.budget, self.level, self.whole = budget, level, whole

    def fit(self, X: Any, y: Any, s: Any) -> None:
        from lightgbm import LGBMClassifier

        if Ours.fitted is None:
            trees, settings = LGBMClassifier(**TREES, verbose=-1), {"sensitive_columns": s.name, "random_state": 0}
            model = sx.FrontierClassifier(trees, max_eo_gap=1.0, **settings)
            Ours.fitted = model.fit(X.assign(**{s.name: s}), y)
        self.model, refused = within(Ours.fitted, self.budget, self.level, self.whole)
        Ours.refused += [f"{self.budget}, {self.level:g}"] * refused

    def predict_proba(self, X: Any, s: Any) -> Any:
        return pd.Series(self.model.predict(X.assign(**{s.name: s})), index=X.index, name="predictions")


def within(fitted: Any, budget: str, level: float, whole: bool) -> tuple[Any, bool]:
    """The classifier within a budget or, where it is refused, the smallest that the refusal names."""
    for times in range(4):
        try:
            return fitted.with_budget(budgets={budget: level}, use_whole_budget=whole), times > 0
        except sx.InfeasibleError as error:
            level = error.smallest[budget] * (1 + 1e-6)
    raise RuntimeError(f"the smallest {budget} that a refusal names was refused, four times")


def table(name: str, seed: int) -> tuple[pd.DataFrame, str]:
    """ACSIncome as their FolkTables class prepares it, and the group's column."""
    rows, group = name.split(", ")
    data = pd.read_parquet(Path(os.environ["SEPARATRIX_DATA"], "acs", "acs_income_2018_1yr_us.parquet"))
    data = data.drop(columns=["row", "split", "ST"]).rename(columns={"PINCP_gt_50000": "PINCP"})
    if rows == "sample":
        data = data.sample(SAMPLE, random_state=seed).reset_index(drop=True)
    race = "RACE" if group == "RACE" else "RAC1P"
    if race == "RACE":
        data[race] = data.pop("RAC1P").replace(dict.fromkeys(RARE, 8))
    data["SEX"], data[race] = data["SEX"] == 1, data[race] - 1
    return data.astype(dict.fromkeys([*CATEGORIES, race, group], "category")), group


def trials(tables: Sequence[str], seeds: Sequence[int], file: str) -> dict[str, float]:
    """All trials that are not in the file yet, by their `Experiment`; called in its environment."""
    logging.disable(logging.WARNING)
    done = Kept(Path(file))
    for seed, name, method in product(seeds, tables, METHODS):
        left_out = name.startswith("full") and method in MANY_TREES
        if left_out or (name, seed, method) in done.done("table", "seed", "method"):
            continue
        Ours.fitted, Ours.refused = None, []
        found = trials_of(method, *table(name, seed), seed)
        one = {"table": name, "seed": seed, "method": method, "found": found}
        done.add([one | {"refused": sorted(set(Ours.refused))}])
    return {}


def trials_of(method: str, data: pd.DataFrame, group: str, seed: int) -> list[dict[str, Any]] | str:
    """Settings, CPU and metrics of each trial, or what stopped them."""
    from aequitas.flow import Experiment
    from aequitas.flow.utils import read_results

    dataset = {
        "classpath": "aequitas.flow.datasets.GenericDataset",
        "threshold": {"threshold_type": "fixed", "threshold_value": 0.5},
        "args": {"df": data, "label_column": "PINCP", "sensitive_column": group, "seed": seed},
    }
    every = {"n_trials": 100, "n_jobs": 1, "sampler": "BruteForceSampler", "sampler_args": {}}  # ends with the grid
    config = {"methods": [{"method": METHODS[method]}], "datasets": [{"acs": dataset}], "optimization": every}
    with tempfile.TemporaryDirectory() as folder:
        experiment = Experiment(config=config, artifacts=("results",), save_folder=Path(folder))
        try:
            experiment.run()
        except Exception as error:  # a peer may raise anything: it is reported
            return f"{type(error).__name__}: {error}"
        results = read_results(experiment.exp_folder)["acs"]["method"]
    return [
        {"settings": {key[2:]: value for key, value in one.hyperparameters.items()}, "cpu": one.fit_time}
        | {rows: {key: float(values[key]) for key in ("accuracy", "fpr_diff", "tpr_diff")}
           for rows, values in (("validation", one.validation_results), ("test", one.test_results))}
        for one in results
    ]  # fmt: skip


def _point(measured: Mapping[str, float], criterion: str) -> tuple[float, float]:
    return measured["accuracy"], float(np.mean([measured[name] for name in CRITERIA[criterion][1]]))


def chosen(found: Sequence[Mapping[str, Any]], criterion: str, level: float, name: str) -> tuple[float, float]:
    """What the test rows show of the setting that a cell takes."""
    if name in (OURS, WHOLE):
        asked = {"budget": CRITERIA[criterion][0], "level": level, "whole": name == WHOLE}
        return next(_point(one["test"], criterion) for one in found if one["settings"] == asked)

    def rank(trial: Mapping[str, Any]) -> tuple[bool, float]:
        accuracy, gap = _point(trial["validation"], criterion)
        return gap <= level, accuracy if gap <= level else -gap

    return _point(max(found, key=rank)["test"], criterion)


def cell(rows: Sequence[Mapping[str, Any]], table: str, criterion: str, level: float) -> dict[str, np.ndarray]:
    """Accuracy and gap, (seeds, 2), of every method that ran on all seeds of ours."""
    ran = {(one["method"], one["seed"]): one["found"] for one in rows if one["table"] == table}
    seeds = [seed for method, seed in ran if method == OURS]
    out = {}
    for name in (*METHODS, WHOLE):
        found = [ran.get((OURS if name == WHOLE else name, seed), "") for seed in seeds]
        if not any(isinstance(one, str) for one in found):
            out[name] = np.array([chosen(one, criterion, level, name) for one in found])
    return out


def line(points: Mapping[str, np.ndarray]) -> list[str]:
    """Plain and ours, and who is more accurate than ours at no larger gap, with the lead."""
    shown = ["{:.4f} ({:.3f})".format(*points[name].mean(0)) for name in (PLAIN, OURS, WHOLE)]
    for own in (OURS, WHOLE):
        ahead = []
        for name in points.keys() - {OURS, WHOLE}:
            lead = points[name] - points[own]
            if lead[:, 0].mean() > 0 >= lead[:, 1].mean():
                mean, error = lead[:, 0].mean(), lead[:, 0].std() / np.sqrt(max(len(lead) - 1, 1))
                ahead.append(f"{name} {mean:+.4f} ± {error:.4f}")
        shown.append("; ".join(sorted(ahead)) or "nobody")
    return [*shown, str(len(points[OURS]))]


def main(
    tables: Sequence[str] = TABLES, seeds: Sequence[int] = SEEDS, only_page: bool = False, write: bool = False
) -> None:
    """Run what is not there yet, then the table and the picture of docs/evidence/outside.md."""
    file = FOLDER / "aequitas_flow.jsonl"
    if not only_page:
        python = str(python_of("aequitas", FOLDER / "environments").absolute())
        in_own_process("benchmarks.peers.aequitas_flow", "trials", tables, seeds, str(file), python=python)
    rows, out = Kept(file).rows, []
    tables = [name for name in tables if any(one["table"] == name and one["method"] == OURS for one in rows)]
    for name, criterion, level in product(tables, CRITERIA, LEVELS):
        out.append([name, criterion, f"{level:g}", *line(cell(rows, name, criterion, level))])
    head = [
        "table",
        "criterion",
        "budget",
        PLAIN,
        OURS,
        WHOLE,
        "ahead of as it comes",
        "ahead of whole budget",
        "seeds",
    ]
    publish("outside-aequitas", head, out, write)
    for one in rows:
        if one["refused"] or isinstance(one["found"], str):
            print(one["table"], one["seed"], one["method"], one["refused"] or one["found"])
    if write:
        draw(rows, tables, DOCS / "evidence" / "outside.png")


def draw(rows: Sequence[Mapping[str, Any]], tables: Sequence[str], file: Path) -> None:
    """Everybody asked for equalized odds within 0.05: up and to the left is better."""
    figure, axes = plt.subplots(1, len(tables), figsize=(4.2 * len(tables), 3.6), layout="constrained", squeeze=False)
    for axis, name in zip(axes.flat, tables, strict=True):
        points = cell(rows, name, "equalized odds", LEVELS[-1])
        for method, colour in zip((*METHODS, WHOLE), plt.get_cmap("tab20").colors, strict=False):
            accuracy, gap = points.get(method, np.full((1, 2), np.nan)).mean(0)
            seen = accuracy if accuracy > 0.75 else np.nan  # GridSearch, and FairGBM for race, may be far below
            axis.plot(gap, seen, "D" if method in (OURS, WHOLE) else "o", color=colour, label=method)
        axis.set(title=name, xlabel="EO gap", ylabel="accuracy")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    figure.savefig(file, dpi=110)
