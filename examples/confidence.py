"""
What can I promise?
===================

By default unseen people are *expected* to keep the budget. With ``confidence=0.95`` they keep it
except in one of twenty samples. If the data cannot support that, `fit` refuses and reports the
smallest budget that it can.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

import separatrix as sx

rng = np.random.default_rng(0)
n = 12_000
sex = rng.choice(["f", "m"], n)
income, debt = rng.gamma(4 + (sex == "m"), 8, n), rng.gamma(2, 6, n)
y = (0.08 * income - 0.1 * debt + 0.3 * (sex == "m") - 1 + rng.logistic(size=n) > 0).astype(int)
X = np.column_stack([income, debt, sex == "m"])
train, new = slice(0, 6_000), slice(6_000, None)


def fitted(budget: float, confidence: float | None) -> sx.FrontierClassifier:
    model = sx.FrontierClassifier(LogisticRegression(), max_eo_gap=budget, confidence=confidence, random_state=0)
    return model.fit(X[train], y[train], sensitive_features=sex[train])


# %%
# Confidence costs accuracy: the rule has to be stricter.

print("confidence  promised gap      accuracy on new rows  gap on new rows")
for confidence in (None, 0.95):
    model = fitted(0.08, confidence)
    decision = model.predict(X[new], sensitive_features=sex[new])
    a = sx.audit(y[new], decision, sensitive_features=sex[new])
    print(f"{confidence!s:11} {model.promise_['eo_gap']!s:18} {a.accuracy:.3f} {a.eo_gap:21.3f}")

# %%
# A budget that these rows cannot promise.

try:
    fitted(0.01, confidence=0.95)
except sx.InfeasibleError as error:
    print(error)
    print(error.smallest)

# %%
# How many rows would it take?

print(f"{sx.sample_size(max_eo_gap=0.01, groups=2):,} rows")
