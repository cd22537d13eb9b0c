"""The kinds of fitted methods that a saved predictor may hold: ONE list, `COMPONENTS`.

A kind says how its arrays become the method again, and which arrays may hold what is not finite.
Every kind is checked in the same way at load: types, finite values, then one made-up row of each
group, whose posterior must be a law over the labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from separatrix.methods import Fitted, get
from separatrix.nn.networks import Networks
from separatrix.predictor.wrapped import (
    Wrapped,
    WrappedAligned,
    WrappedBlind,
    WrappedBlindScore,
    WrappedPlain,
    WrappedScore,
)

__all__ = ["COMPONENTS", "ComponentKind", "check_law", "restored"]

Arrays = Mapping[str, NDArray[Any]]
_DTYPES = ("float32", "float64", "int32", "int64", "uint8", "bool")


@dataclass(frozen=True)
class ComponentKind:
    """One kind.

    Args:
        restore: name of the method, arrays → the fitted method.
        losses: ends of names of arrays that may hold NaN, since nothing is decided by it.
        padded: ends of names of arrays that may hold ±inf, beyond which nothing lies.
        width: how many columns its rows have; None where only the rows' own names say it.
        check: further rules of its own; raises ValueError.
        outputs: of how many values its law is; None for one per label.
    """

    restore: Callable[[str, Arrays], Fitted]
    losses: tuple[str, ...] = ("losses",)
    padded: tuple[str, ...] = ("thresholds",)
    width: Callable[[Any], int | None] = lambda fitted: None
    check: Callable[[Any], None] = lambda fitted: None
    outputs: Callable[[Any], int | None] = lambda fitted: None


def _network_width(fitted: Networks) -> int:
    return fitted.weights[0].shape[1] - fitted.n_groups - len(fitted.piecewise_linear)


def _check_layers(fitted: Networks) -> None:
    """Each layer takes what the one before gives, in every lane."""
    lanes, before = len(fitted.status), None
    for i, (w, b) in enumerate(zip(fitted.weights, fitted.biases, strict=True)):
        fits = w.ndim == 3 and w.shape[0] == lanes and b.shape == (lanes, w.shape[2])
        if not fits or before not in (None, w.shape[1]):
            raise ValueError(f"layer {i} has the shapes {w.shape} and {b.shape}")
        before = w.shape[2]
    if not fitted.weights or fitted.n_groups < 0 or _network_width(fitted) < 0:
        raise ValueError("its networks have no layers or no inputs")


def _check_levels(fitted: WrappedScore) -> None:
    """Levels are probabilities, rising; each row of a kernel is a law."""
    for kernel in fitted.score.kernels:
        if not np.isfinite(kernel).all() or (kernel < 0).any():
            raise ValueError("a kernel of its score holds no probabilities")
        if abs(kernel.sum(1) - 1.0).max() > 1e-6:
            raise ValueError("a kernel of its score does not sum to one")
    levels = np.asarray(fitted.score.levels)
    good = levels.ndim == 1 and len(levels) > 0 and (levels >= 0).all() and (levels <= 1).all()
    if not good or (np.diff(levels) < 0).any():
        raise ValueError("the levels of its score are no rising probabilities")


def _check_maps(fitted: WrappedAligned) -> None:
    """Maps that never fall on rising knots; cuts and released values that rise."""
    score = fitted.score
    maps = len(score.groups) or len(score.attribute_knots)
    shaped = score.knots.ndim == 2 and score.knots.shape[1] > 1 and fitted.bases > 0
    if not shaped or score.values.shape != score.knots.shape or len(score.knots) != maps:
        raise ValueError(f"its maps have the shapes {score.knots.shape}, {score.values.shape}")
    if (np.diff(score.knots) < 0).any() or (np.diff(score.values) < 0).any():
        raise ValueError("a map of it falls")
    if score.levels.shape != (len(score.cuts) + 1,) or score.attribute_knots.ndim != 1:
        raise ValueError("it has not one released value more than cuts")
    if any((np.diff(x) <= 0).any() for x in (score.levels, score.cuts, score.attribute_knots)):
        raise ValueError("its released values or cuts do not rise")


def _check_worth(fitted: WrappedPlain) -> None:
    """One positive number per label."""
    worth = fitted.rule.worth
    if worth.ndim != 1 or len(worth) < 2 or (worth <= 0).any():
        raise ValueError(f"the worth of its labels is {worth}")


COMPONENTS: dict[str, ComponentKind] = {
    # networks need numpy only, where importing their method would need torch
    Networks.kind: ComponentKind(
        lambda _, arrays: Networks.restore(arrays), width=_network_width, check=_check_layers
    ),
    WrappedPlain.kind: ComponentKind(
        lambda _, arrays: WrappedPlain.restore(arrays), check=_check_worth
    ),
    Wrapped.kind: ComponentKind(lambda _, arrays: Wrapped.restore(arrays)),
    WrappedBlind.kind: ComponentKind(
        lambda _, arrays: WrappedBlind.restore(arrays),
        width=lambda fitted: fitted.bases * int(np.prod(fitted.rule.columns.shape[2:])),
    ),
    WrappedBlindScore.kind: ComponentKind(
        lambda _, arrays: WrappedBlindScore.restore(arrays),
        width=lambda fitted: fitted.bases * 2 * len(fitted.score.values),
    ),
    WrappedScore.kind: ComponentKind(
        lambda _, arrays: WrappedScore.restore(arrays),
        losses=("kernels",),  # NaN marks bins that a group does not have
        check=_check_levels,
        outputs=lambda fitted: len(fitted.score.levels),
    ),
    WrappedAligned.kind: ComponentKind(
        lambda _, arrays: WrappedAligned.restore(arrays), check=_check_maps
    ),
    "method": ComponentKind(lambda method, arrays: get(method).restore(arrays)),
}


def restored(kind: str, method: str, arrays: Arrays) -> Fitted:
    """The fitted method of checked arrays."""
    known = COMPONENTS[kind]
    for name, array in arrays.items():
        if array.dtype.name not in _DTYPES:
            raise ValueError(f"the array {name!r} has the type {array.dtype}")
        if array.dtype.kind != "f" or name.endswith(known.losses):
            continue
        good = np.isfinite(array)
        if name.endswith(known.padded):
            good |= np.isinf(array)
        if not good.all():
            raise ValueError(f"the array {name!r} holds a value that is not finite")
    fitted = known.restore(method, arrays)
    known.check(fitted)
    return fitted


def check_law(
    kind: str,
    fitted: Fitted,
    lane: int,
    shape: tuple[int, int],
    columns: int | None,
    value: float,
) -> None:
    """One made-up row of each group must give a law over the labels, or the levels of a score.

    Args:
        kind, fitted, lane: of a component.
        shape: how many labels and groups.
        columns: of a row; None where only the kind knows.
        value: what the row holds everywhere.
    """
    labels, groups = shape[0], max(shape[1], 1)  # a blind rule may not know any group
    width = COMPONENTS[kind].width(fitted) if columns is None else columns
    if width is None:
        return
    own = COMPONENTS[kind].outputs(fitted)
    outputs = labels if own is None else own
    rows = np.full((groups, width), value)
    with np.errstate(all="ignore"):
        q = np.asarray(fitted.posteriors(rows, np.arange(groups)))
    if q.ndim != 3 or q.shape[1:] != (groups, outputs) or not 0 <= lane < len(q):
        raise ValueError(f"its posteriors have the shape {q.shape} for {outputs} values")
    law = q[lane]
    if not np.isfinite(law).all() or (law < 0).any() or abs(law.sum(1) - 1.0).max() > 1e-4:
        raise ValueError("its posteriors are no probabilities")
