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
    from separatrix.errors import DataError, InputError, MissingExtraError, SeparatrixError
    from separatrix.information import conditional_mutual_information, mutual_information
    from separatrix.limits import limit

__version__ = "0.1.0"

_ROOM = {
    "Audit": "auditing",
    "Comparison": "auditing",
    "CountTable": "counts",
    "DataError": "errors",
    "InputError": "errors",
    "MissingExtraError": "errors",
    "SeparatrixError": "errors",
    "audit": "auditing",
    "audit_files": "auditing",
    "audit_frame": "auditing",
    "compare": "auditing",
    "conditional_mutual_information": "information",
    "limit": "limits",
    "mutual_information": "information",
    "soft_counts": "counts",
    "utility_score": "auditing",
    "violation_score": "auditing",
}
_ROOMS: tuple[str, ...] = ("datasets", "methods", "nn", "population")

__all__ = [
    "Audit",
    "Comparison",
    "CountTable",
    "DataError",
    "InputError",
    "MissingExtraError",
    "SeparatrixError",
    "audit",
    "audit_files",
    "audit_frame",
    "compare",
    "conditional_mutual_information",
    "datasets",
    "limit",
    "methods",
    "mutual_information",
    "nn",
    "population",
    "soft_counts",
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
