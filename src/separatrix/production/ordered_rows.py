"""A batch on the axes of a reference: rows in their order, or rows counted elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.columns.groups import as_groups, intersect
from separatrix.columns.scores import check_posteriors
from separatrix.columns.values import Coded, as_array, as_levels, check_lengths, listed
from separatrix.core.counts import CountTable
from separatrix.errors import InputError

__all__ = ["OrderedRows", "coded_rows", "placed_counts"]

Array = NDArray[np.float64]


class OrderedRows(NamedTuple):
    """The cell (y, z) of each row, and its prediction: a code, or a posterior in (n, u)."""

    shape: tuple[int, ...]
    cell: NDArray[np.intp]
    prediction: NDArray[Any]

    def blocks(self, first: int, others: int) -> Iterator[tuple[int, Array]]:
        """Rows and counts (y, z, u) of the first rows, and of the others in blocks."""
        n, (labels, groups, predictions) = len(self.cell), self.shape
        if not n:
            return
        block = np.maximum(np.arange(n) - first, -1) // others + 1
        cells, count = labels * groups, int(block[-1]) + 1
        fused = block * cells + self.cell
        if self.prediction.ndim == 1:
            size = count * cells * predictions
            counts = np.bincount(fused * predictions + self.prediction, minlength=size)
        else:
            columns = self.prediction.T
            sums = [np.bincount(fused, weights=one, minlength=count * cells) for one in columns]
            counts = np.stack(sums, -1)
        tables = counts.astype(np.float64).reshape(count, *self.shape)
        yield from zip(np.bincount(block).tolist(), tables, strict=True)


def coded_rows(
    reference: CountTable, y: Any, u: Any, z: Any, branch: ArrayLike | None = None
) -> OrderedRows:
    """Places of the rows on the axes of a reference; a value that it does not know is an error."""
    at_y = as_levels(y, "y_true").places(reference.labels, "y_true")
    at_z = as_groups(z).places(reference.groups, "sensitive_features")
    if not isinstance(u, Coded) and as_array(u, "y_pred").ndim == 2:
        predicted: NDArray[Any] = check_posteriors(as_array(u, "y_pred"), "y_pred")
        if predicted.shape[1] != len(reference.predictions):
            raise InputError(
                f"`y_pred` has {predicted.shape[1]} columns for the reference's "
                f"{len(reference.predictions)} predictions ({listed(reference.predictions)})."
            )
    else:
        decided = as_levels(u, "y_pred")
        if branch is not None:
            decided = intersect({"branch": as_levels(branch, "branch"), "y_pred": decided})
        predicted = decided.places(reference.predictions, "y_pred")
    check_lengths({"y_true": at_y, "sensitive_features": at_z, "y_pred": predicted})
    return OrderedRows(reference.counts.shape, at_y * len(reference.groups) + at_z, predicted)


def placed_counts(reference: CountTable, batch: CountTable) -> Array:
    """The counts of a table on the axes of a reference; a level that it lacks is an error."""
    if batch.moments is not None and not np.allclose(batch.weight_squares, batch.counts.sum(2)):
        raise InputError(
            "The batch has weighted rows. The evidence of a stream is for rows of weight one."
        )
    for name in ("labels", "groups", "predictions"):
        axis = getattr(reference, name)
        if unknown := [level for level in getattr(batch, name) if level not in axis]:
            raise InputError(
                f"`{name}` holds {listed(unknown)}, which the reference does not know "
                f"({listed(axis)}). A new level needs a new reference and a new monitor."
            )
    empty = replace(reference, counts=np.zeros_like(reference.counts), rows=0, moments=None)
    return (empty + batch).counts
