"""
Decide without knowing the group
================================

Often the group may not be used in a decision, or nobody knows it. Leaving the column out is not
enough: other columns stand in for it. ``blind=True`` learns from the groups of the training rows
and never asks for them again.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

import separatrix as sx

rng = np.random.default_rng(0)
n = 12_000
sex = rng.choice(["f", "m"], n)
y = (rng.random(n) < 0.4).astype(int)
skill = 1.5 * y + rng.normal(size=n) + 0.5 * (sex == "m")  # measured too high for men
stand_in = (sex == "m") + 0.5 * rng.normal(size=n)  # a column that gives the sex away
X = np.column_stack([skill, stand_in])
train, new = slice(0, 6_000), slice(6_000, None)


def show(name: str, decision: np.ndarray) -> None:
    a = sx.audit(y[new], decision, sensitive_features=sex[new])
    print(f"{name:22} accuracy {a.accuracy:.3f}  EO gap {a.eo_gap:.3f}")


# %%
# The plain model never saw the sex, and still has a gap. The blind rule is fitted with it and
# decides from X alone.

plain = LogisticRegression().fit(X[train], y[train])
show("the model as it is", plain.predict(X[new]))
model = sx.FrontierClassifier(LogisticRegression(), max_eo_gap=0.05, blind=True, random_state=0)
model.fit(X[train], y[train], sensitive_features=sex[train])
show("without the group", model.predict(X[new]))

# %%
# With the group at decision time the same budget costs a little less, or the same.

aware = sx.FrontierClassifier(LogisticRegression(), max_eo_gap=0.05, random_state=0)
aware.fit(X[train], y[train], sensitive_features=sex[train])
show("with the group", aware.predict(X[new], sensitive_features=sex[new]))
print(model.candidates_)
