"""v and u as metric functions, for scikit-learn's scorers and fairlearn's MetricFrame.

>>> from separatrix import metrics
>>> metrics.violation_score([0, 0, 1, 1], [0, 1, 1, 1], sensitive_features=["f", "m", "f", "m"])
0.34657359027997264
"""

from separatrix.auditing.door import utility_score, violation_score

__all__ = ["utility_score", "violation_score"]


def __dir__() -> list[str]:
    return __all__
