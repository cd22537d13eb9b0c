"""Saved runs: the models of a stack and the posteriors of the rows that did not train them.

One safetensors file per stack. Its header says which runs it holds; an array is read when it is
asked for, so that choosing a point by name loads no model.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix import methods
from separatrix.errors import DataError
from separatrix.frontier.sweep.keys import RunKey
from separatrix.io import write_whole

__all__ = ["MODELS", "SavedRun", "model_file", "saved_runs", "write_run"]

MODELS = "models"
_MODEL, _HELD_OUT = "model.", "held_out"


@dataclass(frozen=True, eq=False)
class SavedRun:
    """One stack on disk.

    Args:
        path: its file.
        runs: what it holds, one per lane.
    """

    path: Path
    runs: tuple[RunKey, ...]

    @property
    def first(self) -> RunKey:
        """The run of its first lane; the others differ in λ alone."""
        return self.runs[0]

    @cached_property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """The models, as `Fitted.arrays` gave them."""
        with _opened(self.path) as file:
            names = list(file.keys())
            own = [name for name in names if name.startswith(_MODEL)]
            return {name[len(_MODEL) :]: file.get_tensor(name) for name in own}

    @cached_property
    def held_out(self) -> NDArray[np.float32]:
        """Posteriors (M, n, K) of the rows of the test fold, in their order."""
        with _opened(self.path) as file:
            return np.asarray(file.get_tensor(_HELD_OUT))

    def fitted(self) -> methods.Fitted:
        """The models, ready to predict."""
        return methods.get(self.first.method).restore(self.arrays)


def saved_runs(folder: str | Path) -> list[SavedRun]:
    """Every stack whose models were kept, by dataset, method, inputs, recipe, fold and seed."""
    found = []
    for path in sorted((Path(folder) / MODELS).glob("*.safetensors")):
        with _opened(path) as file:
            texts = json.loads((file.metadata() or {})["runs"])
        found.append(SavedRun(path, tuple(map(RunKey.from_json, texts))))
    return sorted(found, key=lambda saved: (saved.first.series, saved.first.fold, saved.first.seed))


def model_file(folder: Path, key: str) -> Path:
    """Where the stack with this key is kept."""
    return folder / MODELS / f"{key}.safetensors"


def write_run(
    path: Path,
    runs: Sequence[RunKey],
    arrays: Mapping[str, NDArray[Any]],
    held_out: NDArray[np.float32],
) -> None:
    """Write one stack, whole or not at all."""
    from safetensors.numpy import save

    # safetensors writes the memory as it lies, so a transposed array would come back scrambled
    tensors = {f"{_MODEL}{name}": np.asarray(array, order="C") for name, array in arrays.items()}
    tensors[_HELD_OUT] = np.asarray(held_out, dtype=np.float32, order="C")
    write_whole(path, save(tensors, {"runs": json.dumps([run.to_json() for run in runs])}))


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="numpy") as file:
            yield file
    except (SafetensorError, KeyError, ValueError, OSError) as error:
        raise DataError(f"{path} is not a file of models as `trace` writes it: {error}.") from error
