"""
Around a boosted classifier
===========================

Your fitted classifier stays as it is (scikit-learn's here; XGBoost and LightGBM work alike): a rule
turns its scores into decisions within a budget. fairlearn's ThresholdOptimizer, on the same
classifier, aims at exact equalized odds on its training rows.
"""

import tempfile
from pathlib import Path

import numpy as np
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.ensemble import HistGradientBoostingClassifier

import separatrix as sx

adult = sx.datasets.load("adult")
X, y, z = np.column_stack([adult.z, adult.X]), adult.y, np.array(adult.groups)[adult.z]
train, fit, test = np.split(np.random.default_rng(0).permutation(len(y)), [14_000, 26_000])
booster = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(X[train], y[train])


def show(name: str, decision: np.ndarray) -> None:
    a = sx.audit(y[test], decision, sensitive_features=z[test])
    print(f"{name:28} accuracy {a.accuracy:.3f}  EO gap {a.eo_gap:.3f}  v {a.violation:.5f}")


show("booster, threshold 1/2", booster.predict(X[test]))

# %%
# Fit the rule to rows that the booster did not see, save it (through skops, never pickle), load it.

for budget in (0.05, 0.03):
    model = sx.FrontierClassifier(booster, max_eo_gap=budget, cv="prefit")
    model.fit(X[fit], y[fit], sensitive_features=z[fit])
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        shipped = sx.load(Path(folder) / "model")
    show(f"asked for EO gap ≤ {budget:g}", shipped.predict(X[test], z[test], random_state=0))

# %%
# The same booster in fairlearn.

peer = ThresholdOptimizer(estimator=booster, constraints="equalized_odds", prefit=True, predict_method="predict_proba")
peer.fit(X[fit], y[fit], sensitive_features=z[fit])
decided = peer.predict(X[test], sensitive_features=z[test], random_state=0)
show("fairlearn ThresholdOptimizer", decided)
