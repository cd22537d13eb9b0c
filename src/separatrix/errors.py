"""The exceptions that separatrix raises on purpose.

Anything else that escapes is a bug: the command line gives these one sentence and exit
status 2, all others a traceback.
"""

from __future__ import annotations

__all__ = ["DataError", "InputError", "MissingExtraError", "SeparatrixError"]


class SeparatrixError(Exception):
    """Base of everything that separatrix raises on purpose."""


class InputError(SeparatrixError, ValueError):
    """The caller passed something that cannot be right; the message says what it was and what to pass instead."""


class DataError(SeparatrixError):
    """A data file is absent, damaged or another one; the message says which file belongs where."""


class MissingExtraError(SeparatrixError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""
