"""
A score that others will cut
============================

Decisions that treat groups alike at one threshold say nothing about the next one. If someone else
ranks or cuts your score, make the score itself separated: every threshold then has the same error
rates in every group.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier

import separatrix as sx

adult = sx.datasets.load("adult", features="full")
X, y, sex = adult.X, adult.y, np.array(adult.groups)[adult.z]
train, new = slice(0, 6_000), slice(6_000, 14_000)
trees = HistGradientBoostingClassifier(max_iter=25, learning_rate=0.2, random_state=0)

# %%
# The largest gap over all thresholds, before and after.

raw = trees.fit(X[train], y[train]).predict_proba(X[new])[:, 1]
model = sx.SeparatedScorer(trees, penalty=None, cv=3, random_state=0)
model.fit(X[train], y[train], sensitive_features=sex[train])
separated = model.decision_function(X[new], sensitive_features=sex[new], random_state=0)
audits = {
    "raw": sx.audit_score(y[new], raw, sensitive_features=sex[new]),
    "separated": sx.audit_score(y[new], separated, sensitive_features=sex[new]),
}
for name, audit in audits.items():
    print(f"{name:9}  AUROC {audit.auroc:.3f}  largest gap {audit.gap:.3f} at any threshold")
    print(f"{'':9}  (by chance {audit.gap_floor:.3f})")

# %%
# The ROC curves of women and men lie on top of each other: the group that the model predicts worse
# sets the curve of both.

figure, axes = plt.subplots(1, 2, figsize=(9, 4), sharey=True)
for ax, (name, audit) in zip(axes, audits.items(), strict=True):
    audit.plot(ax=ax)
    ax.set_title(name)
