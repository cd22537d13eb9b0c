"""
Audit a model
=============

A logistic regression on the embedded Adult data: how far apart are the groups, how sure are we, and
who is treated differently?
"""

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import separatrix as sx

adult = sx.datasets.load("adult", features="paper")
sex, income = np.array(adult.groups)[adult.z], np.array(adult.labels)[adult.y]

# %%
# The model sees the group. Its decisions are those of rows that did not train it.

X = np.column_stack([adult.X, adult.z])
posterior = cross_val_predict(LogisticRegression(), X, income, cv=5, method="predict_proba")
decision = np.where(posterior[:, 1] > 0.3, ">50K", "<=50K")
audit = sx.audit(income, decision, sensitive_features=sex)
audit.plot()
print(audit)

# %%
# Is it better without the group among the features? `compare` says how sure one can be.

blind = cross_val_predict(LogisticRegression(), adult.X, income, cv=5, method="predict_proba")
without = np.where(blind[:, 1] > 0.3, ">50K", "<=50K")
print(sx.compare(without, decision, y_true=income, sensitive_features=sex))
