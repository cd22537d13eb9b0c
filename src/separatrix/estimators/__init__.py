"""scikit-learn estimators: one method at one trade-off (`single`), and a whole path with the choice of its point (`path`).

`fit` takes ``sensitive_features``; with metadata routing it reaches them through pipelines and searches:
``SeparationClassifier().set_fit_request(sensitive_features=True)``. Without groups there is nothing to separate: they warn
and train plain ERM. Networks are dense: a sparse X is made dense.
"""

from separatrix.estimators.path import FrontierClassifier
from separatrix.estimators.single import SeparationClassifier

__all__ = ["FrontierClassifier", "SeparationClassifier"]
