"""error-parity's rules for given scores; runs in its own environment, without separatrix.

    python -m benchmarks.objectives.error_parity_rules SCORES.npz OUT.npz [--budgets 0.05 ...]

Each fold of the file has scores with labels and groups to fit a rule to, and scores of test rows,
one row per member of a cross-fitted score; the decision is the mean over the members.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from error_parity import RelaxedThresholdOptimizer
from numpy.typing import NDArray

from benchmarks.objectives.budgets import BUDGETS
from benchmarks.peers.error_parity import _probability


def rules(
    score: NDArray[Any], y: NDArray[Any], z: NDArray[Any], budgets: list[float]
) -> list[dict[int, Any]]:
    """One linear programme per budget."""
    found = []
    for budget in budgets:
        rule = RelaxedThresholdOptimizer(
            predictor=np.ravel,
            constraint="equalized_odds",
            tolerance=budget,
            false_pos_cost=1.0,
            false_neg_cost=1.0,
        )
        rule.fit(X=score[:, None], y=y, group=z)
        found.append(rule._realized_classifier.group_to_clf)
    return found


def decide(rule: dict[int, Any], score: NDArray[Any], z: NDArray[Any]) -> NDArray[Any]:
    """P(U=1) of every row."""
    q = np.empty(len(score))
    for group, own in rule.items():
        q[z == group] = _probability(own, score[z == group])
    return q


def main() -> None:
    """Rules and test decisions of every fold, and the CPU time of the rules."""
    parser = argparse.ArgumentParser()
    parser.add_argument("scores")
    parser.add_argument("out")
    parser.add_argument("--budgets", type=float, nargs="+", default=list(BUDGETS))
    asked = parser.parse_args()
    found: dict[str, Any] = {}
    cpu: dict[str, float] = {}
    with np.load(asked.scores) as data:
        for key in (name.removesuffix(" rows") for name in data.files if name.endswith(" rows")):
            kind, k = key.rsplit(" ", 1)
            rows, test = data[f"{key} rows"], data["fold"] == int(k)
            start = time.process_time()
            own = data[f"{key} scores"], data["y"][rows], data["z"][rows]
            fitted = rules(*own, asked.budgets)
            cpu[kind] = cpu.get(kind, 0.0) + time.process_time() - start
            z = data["z"][test]
            each = [[decide(rule, s, z) for s in data[f"{key} test"]] for rule in fitted]
            found[key] = np.mean(each, axis=1)
    np.savez_compressed(asked.out, cpu=np.array(json.dumps(cpu)), **found)


if __name__ == "__main__":
    main()
