"""
Coming from fairlearn
=====================

The argument names are the same. `ThresholdOptimizer` aims at no gap at all; `FrontierClassifier`
takes a budget and keeps the model as it is where that is enough.
"""

import numpy as np
from fairlearn.metrics import equalized_odds_difference
from fairlearn.postprocessing import ThresholdOptimizer
from sklearn.linear_model import LogisticRegression

import separatrix as sx

rng = np.random.default_rng(0)
n = 12_000
sex = rng.choice(["f", "m"], n)
income, debt = rng.gamma(4 + (sex == "m"), 8, n), rng.gamma(2, 6, n)
y = (0.08 * income - 0.1 * debt + 0.3 * (sex == "m") - 1 + rng.logistic(size=n) > 0).astype(int)
X = np.column_stack([income, debt, sex == "m"])
train, new = slice(0, 6_000), slice(6_000, None)
classifier = LogisticRegression().fit(X[train], y[train])

# %%
# Before.

theirs = ThresholdOptimizer(
    estimator=classifier, constraints="equalized_odds", prefit=True, predict_method="predict_proba"
)
theirs.fit(X[train], y[train], sensitive_features=sex[train])
decisions = {
    "as it is": classifier.predict(X[new]),
    "fairlearn": theirs.predict(X[new], sensitive_features=sex[new], random_state=0),
}

# %%
# After: any budget on the gap. A second budget needs no second fit.

ours = sx.FrontierClassifier(LogisticRegression(), max_eo_gap=0.1, random_state=0)
ours.fit(X[train], y[train], sensitive_features=sex[train])
decisions["gap ≤ 0.1"] = ours.predict(X[new], sensitive_features=sex[new])
stricter = ours.with_budget(max_eo_gap=0.02)
decisions["gap ≤ 0.02"] = stricter.predict(X[new], sensitive_features=sex[new])

# %%
# fairlearn's `equalized_odds_difference` is the larger of the two differences: our `eo_max`.
# Our `eo_gap` is their mean.

print("            accuracy  eo_gap  eo_max  equalized_odds_difference")
for name, decision in decisions.items():
    a = sx.audit(y[new], decision, sensitive_features=sex[new])
    difference = equalized_odds_difference(y[new], decision, sensitive_features=sex[new])
    print(f"{name:11} {a.accuracy:8.3f} {a.eo_gap:7.3f} {a.eo_max:7.3f} {difference:12.3f}")
