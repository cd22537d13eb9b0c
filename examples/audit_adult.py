"""Audit a scikit-learn model: a logistic regression on the embedded Adult data, and who it treats
differently.

python examples/audit_adult.py [docs/howto/audit.png]
"""

import sys

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import separatrix as sx

adult = sx.datasets.load("adult", features="paper")
sex, income = np.array(adult.groups)[adult.z], np.array(adult.labels)[adult.y]

X = np.column_stack([adult.X, adult.z])
posterior = cross_val_predict(LogisticRegression(), X, income, cv=5, method="predict_proba")
decision = np.where(posterior[:, 1] > 0.3, ">50K", "<=50K")

audit = sx.audit(income, decision, sensitive_features=sex)
print(audit)
print("\nWithout the group among the features:")
blind = cross_val_predict(LogisticRegression(), adult.X, income, cv=5, method="predict_proba")
print(
    sx.audit(income, np.where(blind[:, 1] > 0.3, ">50K", "<=50K"), sensitive_features=sex) - audit
)

if len(sys.argv) > 1:
    audit.plot().figure.savefig(sys.argv[1], dpi=110)
