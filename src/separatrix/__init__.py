"""What a prediction still says about a person's group once the true outcome is known, and what removing it costs.

Public names are imported on first use, so that ``import separatrix`` needs neither torch nor pandas nor matplotlib.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from separatrix import datasets, methods, nn, population
    from separatrix.auditing import (
        Audit,
        Comparison,
        audit,
        audit_files,
        audit_frame,
        compare,
        utility_score,
        violation_score,
    )
    from separatrix.counts import CountTable, soft_counts
    from separatrix.envelope import concave_envelope
    from separatrix.errors import DataError, InfeasibleError, InputError, MissingExtraError, SeparatrixError
    from separatrix.estimators import FrontierClassifier, SeparationClassifier
    from separatrix.information import conditional_mutual_information, mutual_information
    from separatrix.limits import limit
    from separatrix.monitor import Monitor
    from separatrix.predictor import Predictor, load
    from separatrix.tracing import Frontier, load_frontier, trace

__version__ = "0.1.0"

_ROOM = {
    "Audit": "auditing",
    "Comparison": "auditing",
    "CountTable": "counts",
    "DataError": "errors",
    "Frontier": "tracing",
    "FrontierClassifier": "estimators",
    "InfeasibleError": "errors",
    "InputError": "errors",
    "MissingExtraError": "errors",
    "Monitor": "monitor",
    "Predictor": "predictor",
    "SeparationClassifier": "estimators",
    "SeparatrixError": "errors",
    "audit": "auditing",
    "audit_files": "auditing",
    "audit_frame": "auditing",
    "compare": "auditing",
    "concave_envelope": "envelope",
    "conditional_mutual_information": "information",
    "limit": "limits",
    "load": "predictor",
    "load_frontier": "tracing",
    "mutual_information": "information",
    "soft_counts": "counts",
    "trace": "tracing",
    "utility_score": "auditing",
    "violation_score": "auditing",
}
_ROOMS: tuple[str, ...] = ("datasets", "methods", "nn", "population")

__all__ = [
    "Audit",
    "Comparison",
    "CountTable",
    "DataError",
    "Frontier",
    "FrontierClassifier",
    "InfeasibleError",
    "InputError",
    "MissingExtraError",
    "Monitor",
    "Predictor",
    "SeparationClassifier",
    "SeparatrixError",
    "audit",
    "audit_files",
    "audit_frame",
    "compare",
    "concave_envelope",
    "conditional_mutual_information",
    "datasets",
    "limit",
    "load",
    "load_frontier",
    "methods",
    "mutual_information",
    "nn",
    "population",
    "soft_counts",
    "trace",
    "utility_score",
    "violation_score",
]


def __getattr__(name: str) -> Any:
    if name in _ROOM:
        return getattr(import_module(f"separatrix.{_ROOM[name]}"), name)
    if name in _ROOMS:
        return import_module(f"separatrix.{name}")
    raise AttributeError(f"module 'separatrix' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
