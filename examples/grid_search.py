"""
Your LightGBM pipeline in GridSearchCV
======================================

Name the column that holds the group, and `FrontierClassifier` is an ordinary scikit-learn
classifier: it takes a pipeline, works in a grid search, and saves without pickle.
"""

import tempfile

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import separatrix as sx

# %%
# A table with text columns, one of which is the group.

rng = np.random.default_rng(0)
n = 6_000
sex, job = rng.choice(["f", "m"], n), rng.choice(["office", "trade", "care"], n)
income = rng.gamma(4 + (sex == "m"), 8, n)
table = pd.DataFrame({"income": income, "debt": rng.gamma(2, 6, n), "job": job, "sex": sex})
chance = 0.08 * income - 0.1 * table["debt"] + 0.6 * (sex == "m") - 0.5 * (job == "care") - 1
repaid = chance + rng.logistic(size=n) > 0
X, X_new, y, y_new = train_test_split(table, repaid, test_size=0.4, random_state=0)

# %%
# The pipeline stays as it is. The search tunes a parameter of LightGBM, and every combination is
# scored as it would ship: with its rule, within the budget.

text = make_column_selector(dtype_exclude="number")
encode = make_column_transformer((OneHotEncoder(), text), remainder="passthrough")
pipeline = make_pipeline(encode, LGBMClassifier(n_estimators=30, n_jobs=1, verbose=-1))
model = sx.FrontierClassifier(pipeline, max_eo_gap=0.05, sensitive_columns="sex", cv=3, random_state=0)
search = GridSearchCV(model, {"estimator__lgbmclassifier__num_leaves": [4, 15]}, cv=2)
search.fit(X, y)
best = search.best_estimator_
print(pd.DataFrame(search.cv_results_)[["params", "mean_test_score"]].to_string(index=False))
print(best.candidates_)

# %%
# Save it, load it, and audit its decisions on the rows that no fit has seen.

folder = tempfile.mkdtemp() + "/model"
best.save(folder)
decision = sx.load(folder).predict(X_new, random_state=0)
audit = sx.audit(y_new, decision, sensitive_features=X_new["sex"])
print(f"unseen rows: accuracy {audit.accuracy:.3f}, EO gap {audit.eo_gap:.3f}")
