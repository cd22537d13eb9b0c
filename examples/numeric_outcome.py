"""
Predict a number
================

A wage has no false-positive rate. The question is the same: do people with the same true wage get
other predictions because of their group? `audit_regression` answers it, `AlignedRegressor` changes
it.
"""

import numpy as np
from sklearn.linear_model import LinearRegression
from sklearn.metrics import r2_score

import separatrix as sx

rng = np.random.default_rng(0)
n = 4_000
sex = rng.choice(["f", "m"], n)
wage = rng.normal(size=n) + 0.8 * (sex == "m")
X = np.column_stack([wage + 0.7 * rng.normal(size=n), sex == "m"]).astype(float)
train, new = slice(0, 2_000), slice(2_000, None)

# %%
# A plain regression uses the sex: among people with the same wage, men are predicted more.

plain = LinearRegression().fit(X[train], wage[train])
before = sx.audit_regression(wage[new], plain.predict(X[new]), sensitive_features=sex[new])
print(before)
before.plot()

# %%
# One rising map per group brings the predictions of people with the same wage together. Nobody
# overtakes anybody within a group, and no coin is thrown.

model = sx.AlignedRegressor(LinearRegression(), max_violation=0.02, random_state=0)
model.fit(X[train], wage[train], sensitive_features=sex[train])
predicted = model.predict(X[new], sensitive_features=sex[new])
after = sx.audit_regression(wage[new], predicted, sensitive_features=sex[new])
print(f"R² {r2_score(wage[new], plain.predict(X[new])):.3f} → {r2_score(wage[new], predicted):.3f}")
print(f"v at least {before.violation_lower:.4f} → {after.violation_lower:.4f} nats")
