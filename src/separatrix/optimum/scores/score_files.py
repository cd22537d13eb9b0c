"""A separated score as one file of plain numbers (safetensors). Nothing in it is ever executed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from separatrix.columns.groups import from_plain, to_plain
from separatrix.columns.values import Levels
from separatrix.errors import DataError
from separatrix.io import write_whole
from separatrix.optimum.scores.separated import SeparatedScore

__all__ = ["load_score", "save_score"]

_KIND = "separatrix separated score 1"


def save_score(score: SeparatedScore, path: str | Path) -> Path:
    """Write a score, whole or not at all.

    Args:
        score: the score.
        path: the file; an older one is replaced.

    Example:
        >>> import tempfile
        >>> from separatrix.optimum.scores.separate import separate
        >>> S = separate([0, 1, 0, 1], [1, 2, 3, 4], sensitive_features=["f", "f", "m", "m"])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     again = load_score(save_score(S, f"{folder}/score.safetensors"))
        >>> again.groups, again.auroc == S.auroc
        (('f', 'm'), True)
    """
    about = {"kind": _KIND, "labels": _text(score.labels), "groups": _text(score.groups)}
    arrays = {name: np.ascontiguousarray(array) for name, array in score.arrays().items()}
    write_whole(Path(path), save(arrays, metadata=about))
    return Path(path)


def load_score(path: str | Path) -> SeparatedScore:
    """A score that `save_score` wrote; anything else is refused."""
    try:
        with safe_open(path, framework="numpy") as file:
            about = file.metadata() or {}
            if about.get("kind") != _KIND:
                raise DataError(f"{str(path)!r} is not a saved separated score.")
            arrays = {name: file.get_tensor(name) for name in ("thresholds", "kernels", "table")}
        labels, groups = (
            tuple(map(from_plain, json.loads(about[name]))) for name in ("labels", "groups")
        )
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise DataError(f"{str(path)!r} is not a whole separated score ({error}).") from error
    sizes = (len(groups), *arrays["thresholds"].shape[1:2], arrays["table"].shape[-1])
    if arrays["kernels"].shape != sizes or arrays["table"].shape[:2] != (len(labels), len(groups)):
        raise DataError(f"{str(path)!r} holds arrays that do not belong together.")
    return SeparatedScore.from_arrays(labels, groups, arrays)


def _text(levels: Levels) -> str:
    return json.dumps([to_plain(level) for level in levels], ensure_ascii=False)
