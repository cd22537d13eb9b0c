"""What ships at an EO gap ≤ 0.05, and the separated score, beside the peers on the same trees.

    python -m benchmarks.objectives.same_trees [--data compas ...] [--folds 2] [--write]

Every data set with two labels, outer folds of a seed that nothing was chosen on; groups that have
at least 10 rows of both labels. At most 6,000 training rows of each; the test rows are the whole
fold. The base model is ours (`BoostedTrees`, the group among its features), the same for all, in
two ways: fitted to 70 % of the training rows with the other 30 % for the rule, as the peers' guides
advise ("held out"), or cross-fitted in five parts, as `select` does it ("cross-fitted"). Accuracy
and EO gap are those of the expected test decision. fairlearn's rule has no relaxed equalized odds,
so it asks for a gap of 0. AUROC is that of what each gives out: our separated score, made from the
cross-fitted scores, and the decisions of all else. Finished data sets are kept in the folder and
not run again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import roc_auc_score

from benchmarks._measuring import DOCS, machine, markdown, write_between_markers
from benchmarks.objectives.decisions import ROOT, fairlearn_rules
from benchmarks.peers.environments import python_of
from separatrix import datasets
from separatrix.errors import InfeasibleError
from separatrix.estimators.boosted import BoostedTrees
from separatrix.estimators.crossfit import cross_fit
from separatrix.optimum.promised import Promises
from separatrix.optimum.separating import separate

Array = NDArray[np.float64]
BUDGET, TRAIN, SEED = 0.05, 6_000, 1_000
SMALLEST = 10  # rows of each label in a group that takes part
KINDS = ("held out", "cross-fitted")
DATA: dict[str, tuple[str, dict[str, Any]]] = {
    "Adult paper": ("adult", {"features": "paper"}),
    "Adult all": ("adult", {"features": "full"}),
    "Bank": ("bank", {}),
    "COMPAS": ("compas", {}),
    "ACS, manager or not": ("acs_occupation", {}),
    "synthetic": ("synthetic", {}),
}


def scores_of(name: str, folds: int) -> dict[str, NDArray[Any]]:
    """Labels, groups, folds, and the trees' scores of both kinds, by the names of the peers."""
    dataset, options = DATA[name]
    data = datasets.load(dataset, **options)
    y = data.y if len(data.labels) == 2 else (data.y == np.bincount(data.y).argmax()).astype(int)
    cells = np.bincount(2 * data.z + y, minlength=2 * len(data.groups)).reshape(-1, 2)
    large = np.flatnonzero(cells.min(1) >= SMALLEST)
    kept = np.flatnonzero(np.isin(data.z, large))
    y, z = y[kept], np.searchsorted(large, data.z[kept])
    X = np.column_stack([np.eye(len(large))[z], data.X[kept]]).astype(np.float32)
    fold = datasets.folds(y, z, 5, SEED)
    rng = np.random.default_rng(SEED)
    found: dict[str, NDArray[Any]] = {"y": y, "z": z, "fold": fold}
    for k in range(folds):
        train, test = np.flatnonzero(fold != k), np.flatnonzero(fold == k)
        train = np.sort(rng.permutation(train)[:TRAIN])
        held = np.isin(datasets.folds(y[train], z[train], 10, SEED), (0, 3, 6))
        model = BoostedTrees().fit(X[train[~held]], y[train[~held]])
        found[f"held out {k} rows"] = train[held]
        found[f"held out {k} scores"] = model.predict_proba(X[train[held]])[:, 1]
        found[f"held out {k} test"] = model.predict_proba(X[test])[None, :, 1]
        own = cross_fit(BoostedTrees(), X[train], y[train], z[train], random_state=SEED)
        found[f"cross-fitted {k} rows"] = train
        found[f"cross-fitted {k} scores"] = own.scores[:, 1]
        found[f"cross-fitted {k} test"] = np.stack([q[:, 1] for q in own.posteriors(X[test])])
    return found


def ours(score: Array, y: NDArray[Any], z: NDArray[Any]) -> Any:
    """What `select` fits; where it refuses, the smallest gap that it promises."""
    groups = tuple(range(int(z.max()) + 1))
    best = Promises(np.stack([1 - score, score], 1), y, z, np.ones(len(y)), groups)
    try:
        return best.rule(BUDGET).rule
    except InfeasibleError as error:
        return best.rule(error.smallest["eo_gap"]).rule


def fairlearn(score: Array, y: NDArray[Any], z: NDArray[Any]) -> Any:
    """The most accurate rule with equal rates."""
    return fairlearn_rules(score, y, z)[0]


def decided(found: dict[str, NDArray[Any]], kind: str, k: int, make: Any) -> Array:
    """P(U=1) of the test rows of fold k: the mean of the rule over the members."""
    rows, z = found[f"{kind} {k} rows"], found["z"]
    rule = make(found[f"{kind} {k} scores"], found["y"][rows], z[rows])
    own = z[found["fold"] == k]
    each = [rule.predict_proba(s, sensitive_features=own)[:, 1] for s in found[f"{kind} {k} test"]]
    return np.asarray(np.mean(each, axis=0))


def error_parity(found: dict[str, NDArray[Any]], folder: Path, name: str) -> dict[str, Array]:
    """Its decisions by kind and fold, made in an environment of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    file, out = folder / f"{name}.npz", folder / f"{name}-error-parity.npz"
    np.savez_compressed(file, **found)  # type: ignore[arg-type]  # arrays by name
    python = str(python_of("error-parity", folder / "environments").absolute())
    quiet = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    command = [python, "-m", "benchmarks.objectives.error_parity_rules"]
    files = [str(file.absolute()), str(out.absolute())]
    subprocess.run([*command, *files, "--budgets", str(BUDGET)], check=True, env=quiet, cwd=ROOT)
    with np.load(out) as made:
        return {key: made[key][0] for key in made.files if key != "cpu"}


def measured(found: dict[str, NDArray[Any]], k: int, q: Array) -> tuple[float, float, float]:
    """Accuracy, EO gap and AUROC of expected decisions on the test rows of fold k."""
    test = found["fold"] == k
    y, z = found["y"][test], found["z"][test]
    cells = [[q[(y == a) & (z == b)] for b in range(z.max() + 1)] for a in (0, 1)]
    rates = [[cell.mean() for cell in label if len(cell)] for label in cells]
    right = float(np.where(y == 1, q, 1.0 - q).mean())
    true, false = (float(q[y == a].mean()) for a in (1, 0))  # a coin's ROC has one corner
    return right, 0.5 * sum(np.ptp(own) for own in rates), 0.5 * (1.0 + true - false)


def separated(found: dict[str, NDArray[Any]], k: int) -> float:
    """AUROC of the separated score on the test rows of fold k, one draw."""
    rows, test = found[f"cross-fitted {k} rows"], found["fold"] == k
    y, z = found["y"], found["z"]
    score = found[f"cross-fitted {k} scores"]
    best = separate(y[rows], score, sensitive_features=z[rows], borrow=True)
    members = found[f"cross-fitted {k} test"]
    drawn = [best.transform(s, sensitive_features=z[test], random_state=0) for s in members]
    return float(np.mean([roc_auc_score(y[test], s) for s in drawn]))


def lines_of(name: str, folds: int, folder: Path) -> list[list[object]]:
    """The rows of one data set: means over the folds."""
    found = scores_of(name, folds)
    theirs = error_parity(found, folder, name.replace(" ", "-").replace(",", ""))
    area = f"{np.mean([separated(found, k) for k in range(folds)]):.4f}"
    lines: list[list[object]] = []
    for title in ("separatrix", "error-parity", "ThresholdOptimizer"):
        for kind in KINDS:
            each = []
            for k in range(folds):
                make = ours if title == "separatrix" else fairlearn
                rival = title == "error-parity"
                q = theirs[f"{kind} {k}"] if rival else decided(found, kind, k, make)
                each.append(measured(found, k, q))
            right, gap, corner = np.mean(each, axis=0)
            shown = area if (title, kind) == ("separatrix", KINDS[1]) else f"{corner:.4f}"
            lines.append([name, title, kind, f"{right:.4f}", f"{gap:.4f}", shown])
    return lines


def main() -> None:
    """All data sets that are here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA))
    parser.add_argument("--folds", type=int, default=2, choices=range(1, 6))
    parser.add_argument("--folder", type=Path, default=Path(".bench"))
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    head = ["", "", "scores", f"accuracy at EO ≤ {BUDGET:g}", "EO gap on test", "AUROC"]
    lines = []
    folder = chosen.folder / "same-trees"
    for name in chosen.data:
        known = folder / f"{name}, {chosen.folds} folds.json"
        if not known.is_file():
            found = lines_of(name, chosen.folds, folder)
            known.write_text(json.dumps(found), encoding="utf-8")
        lines += json.loads(known.read_text(encoding="utf-8"))
        print(markdown(head, lines[-6:]), flush=True)
    text = f"{markdown(head, lines)}\n\n{chosen.folds} outer folds of seed {SEED}. "
    text += machine("scikit-learn", "fairlearn")
    if chosen.write:
        page = DOCS / "evidence" / "peers.md"
        write_between_markers(page, "objectives/same_trees", text)


if __name__ == "__main__":
    main()
