"""
Beside fairlearn and scikit-learn
=================================

A SeparationClassifier in a grid search, its decisions in a MetricFrame, and v of the same
decisions.
"""

import numpy as np
import sklearn
from fairlearn.metrics import MetricFrame, false_positive_rate, selection_rate
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GridSearchCV

import separatrix as sx

adult = sx.datasets.load("adult")
rows = np.random.default_rng(0).permutation(len(adult))[:6_000]
X, y, sex = adult.X[rows], adult.y[rows], np.array(adult.groups)[adult.z[rows]]
train, test = slice(0, 4_000), slice(4_000, None)

# %%
# The groups travel through the search as metadata.

with sklearn.config_context(enable_metadata_routing=True):
    model = sx.SeparationClassifier(hidden=(16,), epochs=5, min_steps=0, learning_rate=5e-3)
    model.set_fit_request(sensitive_features=True)
    less_violation = make_scorer(sx.metrics.violation_score, greater_is_better=False)
    less_violation.set_score_request(sensitive_features=True)
    search = GridSearchCV(model, {"trade_off": [0.0, 0.5, 0.9]}, scoring=less_violation, cv=2)
    search.fit(X[train], y[train], sensitive_features=sex[train])

decision = search.predict(X[test])
print(f"λ = {search.best_params_['trade_off']}")

# %%
# fairlearn's table, group by group, and the audit of the same decisions.

metrics = {"accuracy": accuracy_score, "selection rate": selection_rate, "FPR": false_positive_rate}
frame = MetricFrame(
    metrics=metrics, y_true=y[test], y_pred=decision, sensitive_features=sex[test]
)  # fmt: skip
print(frame.by_group.round(3))
print(sx.audit(y[test], decision, sensitive_features=sex[test]))
