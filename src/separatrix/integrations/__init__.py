"""Integrations with other tools, one module each, imported on first use.

`separatrix.integrations.mlflow` logs audits, frontiers and models to MLflow.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

__all__ = ["mlflow"]


def __getattr__(name: str) -> ModuleType:
    if name in __all__:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
