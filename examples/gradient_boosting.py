"""Around a gradient-boosted classifier (scikit-learn's; XGBoost and LightGBM work alike): the best
decisions within a budget.

The classifier stays as it is; a rule per group changes its scores into decisions. fairlearn's
ThresholdOptimizer is beside it: one point, exact equalized odds on its own training rows.
"""

import tempfile
from pathlib import Path

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.ensemble import HistGradientBoostingClassifier

import separatrix as sx
from separatrix.deploy.wrapping import from_estimator

# skops asks before it loads these
adult = sx.datasets.load("adult")
X, y, z = np.column_stack([adult.z, adult.X]), adult.y, np.array(adult.groups)[adult.z]
train, fit, test = np.split(np.random.default_rng(0).permutation(len(y)), [14_000, 26_000])
booster = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(X[train], y[train])


def show(name: str, decision: np.ndarray) -> None:
    audit = sx.audit(y[test], decision, sensitive_features=z[test])
    print(
        f"{name:28} v = {audit.violation:.5f}  u = {audit.utility:.4f}  EO gap = {audit.eo_gap:.3f}"
    )


show("booster, threshold 1/2", booster.predict(X[test]))
for budget in (0.05, 0.03):
    model = sx.FrontierClassifier(booster, max_eo_gap=budget, cv="prefit")
    model.fit(X[fit], y[fit], sensitive_features=z[fit])
    with tempfile.TemporaryDirectory() as folder:
        # the booster goes through skops, never pickle
        from_estimator(model).save(Path(folder) / "model")
        shipped = sx.load(Path(folder) / "model")
    show(f"asked for EO gap ≤ {budget:g}", shipped.predict(X[test], z[test], random_state=0))
peer = ThresholdOptimizer(
    estimator=booster, constraints="equalized_odds", prefit=True, predict_method="predict_proba"
)
peer.fit(X[fit], y[fit], sensitive_features=z[fit])
show(
    "fairlearn ThresholdOptimizer",
    peer.predict(X[test], sensitive_features=z[test], random_state=0),
)
