"""
How good could any rule be?
===========================

Before you tune anything: the best accuracy that any decision from these scores can have, for every
gap. The bound is proven, so a rule that reaches it cannot be improved without better scores.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import separatrix as sx

adult = sx.datasets.load("adult", features="paper")
y, sex = adult.y, np.array(adult.groups)[adult.z]
X = np.column_stack([adult.X, adult.z])

# %%
# Use scores of unseen rows; scores of the training rows would flatter the limit.

score = cross_val_predict(LogisticRegression(), X, y, method="predict_proba")[:, 1]
best = sx.limit(y, score, sensitive_features=sex, maximize="accuracy", budget="eo_gap")
print(best)

# %%
# Ask for one budget and get the rule: thresholds for each group, and a coin between two of them
# where that is better.

rule = best.rule(0.02)
chance = rule.predict_proba(score, sensitive_features=sex)[:, 1]
print(f"decided by a coin: {np.mean((chance > 0) & (chance < 1)):.1%} of people")

# %%
# The threshold 1/2 lies at the right end: its gap of 0.29 buys less than two points of accuracy.

plain = sx.audit(y, score > 0.5, sensitive_features=sex)
ax = best.plot()
ax.plot(plain.eo_gap, plain.accuracy, "k*", ms=14, label="threshold ½")
ax.legend()
