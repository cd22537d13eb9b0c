"""`make demo`: audit a logistic regression on the embedded Adult data (UCI, CC BY 4.0)."""

import lzma
import sys
from importlib.resources import files

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict

import separatrix as sx

raw = lzma.decompress(files("separatrix").joinpath("datasets/data/adult.data.xz").read_bytes()).decode()
table = np.array([line.split(", ") for line in raw.splitlines() if line])
age, education, sex, income = table[:, 0].astype(int), table[:, 4].astype(int), table[:, 9], table[:, 14]
decade = np.clip(age // 10, 1, 7)
years = np.clip(education, 5, 13)
X = np.column_stack([decade[:, None] == np.unique(decade), years[:, None] == np.unique(years), sex == "Male"])

posterior = cross_val_predict(LogisticRegression(), X, income, cv=5, method="predict_proba")
decision = np.where(posterior[:, 1] > 0.3, ">50K", "<=50K")

print(sx.audit(income, decision, sensitive_features=sex))

if len(sys.argv) > 1:  # python examples/demo.py docs/audit.png
    sx.audit(income, decision, sensitive_features=sex).plot().figure.savefig(sys.argv[1], dpi=110)
