"""
LightGBM with the penalty
=========================

Five lines differ from plain LightGBM (marked + and -). The trees never see the group; only the
penalty does, during training, so prediction needs no group. Both are measured on unseen rows.
"""

import lightgbm as lgb
import numpy as np
from scipy.special import expit  # +

import separatrix as sx
from separatrix.methods.cmi_boosting import SeparationObjective  # +

adult = sx.datasets.load("adult", features="full")
X, y, z = adult.X, adult.y, np.array(adult.groups)[adult.z]
train, test = np.split(np.random.default_rng(0).permutation(len(y)), [24_000])


def fit(trade_off: float) -> lgb.Booster:
    # - params = {"objective": "binary"}
    objective = SeparationObjective(  # +
        y[train], sensitive_features=z[train], trade_off=trade_off, level="score"
    )
    params = {"objective": objective}  # +
    return lgb.train(params | {"verbosity": -1}, lgb.Dataset(X[train], y[train]), 100)


for trade_off in (0.0, 0.45):
    # - p = fit(trade_off).predict(X[test])
    p = expit(fit(trade_off).predict(X[test]))  # +
    decided = sx.audit(y[test], p > 0.5, sensitive_features=z[test])
    score = sx.audit_score(y[test], p, sensitive_features=z[test])
    print(
        f"λ = {trade_off}: accuracy {decided.accuracy:.3f}, EO gap {decided.eo_gap:.3f} at 1/2 and "
        f"at most {score.gap:.3f} at any threshold, AUROC {score.auroc:.3f}"
    )
