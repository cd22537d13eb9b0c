"""A user's program, for mypy --strict and pyright: nothing here is `Any` that a reader relies on.

`assert_type` fails where a public name loses its type. It is checked, not run.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np
from numpy.typing import NDArray

import separatrix as sx
from separatrix.procedure.candidates import Candidate, CandidateTable
from separatrix.procedure.promise import Promise

X: NDArray[np.float64] = np.zeros((10, 2))
y: NDArray[np.int64] = np.zeros(10, dtype=np.int64)
z: list[str] = ["f", "m"] * 5

audit = sx.audit(y, y, sensitive_features=z)
assert_type(audit, sx.Audit)
assert_type(audit.eo_gap, float)
print(audit.eo_gap_interval, str(audit), audit.to_dict())

model = sx.FrontierClassifier(max_eo_gap=0.05, sensitive_columns=0, random_state=0)
assert_type(model.fit(X, y), sx.FrontierClassifier)
assert_type(model.choice_, str)
assert_type(model.candidates_, CandidateTable)
assert_type(model.candidates_["plain"], Candidate)
assert_type(model.promise_["eo_gap"], Promise)
assert_type(model.promise_["eo_gap"].value, float)
assert_type(model.predict_proba(X), NDArray[np.float64])
assert_type(model.with_budget(max_eo_gap=0.1), sx.FrontierClassifier)
assert_type(model.score(X, y), float)
assert_type(model.save("folder"), Path)

loaded = sx.load("folder")
assert_type(loaded, sx.Predictor)

scorer = sx.SeparatedScorer(penalty=1.0).fit(X, y, sensitive_features=z)
assert_type(scorer.decision_function(X, z), NDArray[np.float64])
regressor = sx.AlignedRegressor(penalty=1.0).fit(X, y, sensitive_features=z)
assert_type(regressor.predict(X, z), NDArray[np.float64])
network = sx.SeparationClassifier(trade_off=0.5).fit(X, y, sensitive_features=z)
assert_type(network.predict_proba(X), NDArray[np.float64])

frontier = sx.trace(X, y, sensitive_features=z, max_eo_gap=0.05)
