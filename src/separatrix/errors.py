"""The exceptions that separatrix raises on purpose.

Anything else that escapes is a bug: the command line gives these one sentence and exit
status 2, all others a traceback.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = [
    "DataError", "InfeasibleError", "InputError", "MissingExtraError", "SeparatrixError",
    "require",
]  # fmt: skip


_LONGEST = 600


class SeparatrixError(Exception):
    """Base class of the errors that separatrix raises on purpose."""

    def __init__(self, message: str = "") -> None:
        text = " ".join(str(message).split())
        if len(text) > _LONGEST:  # a value of the user's, most often
            text = f"{text[: _LONGEST - 200]} … {text[-200:]}"
        super().__init__(text.encode("utf-8", "backslashreplace").decode())


class InputError(SeparatrixError, ValueError):
    """The caller passed something that cannot be right; the message says what it was and what to
    pass instead.
    """


class DataError(SeparatrixError):
    """A data file is absent, damaged or another one; the message says which file belongs where."""


class InfeasibleError(SeparatrixError):
    """No candidate keeps the budget; the message says the smallest budget that one keeps, and what
    it costs.

    Args:
        message: the sentence.
        smallest: the smallest budgets that can be kept, by name, in the proportion that was asked
            for.
        value: the maximised metric there; NaN where it is not known.
    """

    def __init__(self, message: str, smallest: dict[str, float], value: float = float("nan")) -> None:
        super().__init__(message)
        self.smallest, self.value = smallest, value


class MissingExtraError(SeparatrixError, ImportError):
    """An optional dependency is not installed; the message names the extra to install."""


def require(module: str, extra: str, what: str) -> Any:
    """An optional dependency, or one sentence that says which extra has it.

    >>> require("json", "figures", "A figure").__name__
    'json'

    Args:
        module: to import.
        extra: of separatrix that installs it.
        what: needs it; the beginning of the sentence.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise MissingExtraError(f"{what} needs {library}: pip install 'separatrix[{extra}]'.") from error
