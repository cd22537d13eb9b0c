"""fairlearn's ThresholdOptimizer: the most accurate rule with equal error rates. One point: it has
no relaxed equalized odds.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from fairlearn.postprocessing import ThresholdOptimizer
from numpy.typing import NDArray

from benchmarks.peers import base
from benchmarks.peers.protocol import Predict, Rows, Series, hold_out, main


def trace(train: Rows, quick: bool) -> Iterator[tuple[str, Predict]]:
    """One rule for each of the two objectives that fit."""
    part, held = hold_out(train)
    model = base.fitted("trees", part)
    for objective in ("accuracy_score", "balanced_accuracy_score"):
        rule = ThresholdOptimizer(
            estimator=model,
            constraints="equalized_odds",
            objective=objective,
            prefit=True,
            predict_method="predict_proba",
        )
        rule.fit(held.inputs, held.y, sensitive_features=held.z)
        yield objective, partial(_policy, rule)


def _policy(rule: ThresholdOptimizer, rows: Rows) -> NDArray[Any]:
    return rule._pmf_predict(rows.inputs, sensitive_features=rows.z)[:, 1]


SERIES = {
    "fairlearn ThresholdOptimizer, trees": Series(
        f"equalized_odds; accuracy and balanced accuracy, a point each; {base.SETTINGS['trees']} "
        f"{base.SPLIT}",
        trace,
    )
}

if __name__ == "__main__":
    main(SERIES, "fairlearn")
