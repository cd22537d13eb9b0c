"""Samples of a known law: any finite p[x, y, z], or a named one with a known frontier.

The law and each row's posteriors come with the sample, so a method can be compared with the best.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import softmax

from separatrix.columns.features import Columns
from separatrix.columns.values import Coded
from separatrix.datasets._dataset import Data, Dataset, Truth
from separatrix.datasets._preprocessing import Category, Feature, Number, Preprocessing
from separatrix.errors import InputError

Array = NDArray[np.float64]
_NAMED = ("conditional_independence", "shortcut", "bayes", "gaussian")


def load(
    *,
    law: str | ArrayLike = "conditional_independence",
    n: int = 10_000,
    labels: int = 2,
    groups: int = 2,
    values: int = 8,
    random_state: int = 0,
) -> Data:
    """A sample of `n` rows.

    Args:
        law: an array p[x, y, z] that sums to one, or a name:
            "conditional_independence": X ⟂ Z | Y and every (y, z) possible, so more utility than X
            alone gives costs separation (Theorem "necessary trade-off");
            "shortcut": Y = Z, where that theorem fails: U = Y has v = 0;
            "bayes": X uniform, P(Z|x) and P(Y|x,z) logistic, no independence, and a higher
            threshold for some groups;
            "gaussian": continuous X, in each cell (y, z) a mixture of two Gaussians in R⁵.
        n: rows.
        labels, groups, values: how many of y, z and x a named law has ("gaussian" has no `values`).
        random_state: seed of the draw; a named law itself does not depend on it.
    """
    if n < 1:
        raise InputError(f"`n` must be at least 1, got {n}.")
    rng = np.random.default_rng(random_state)
    columns: Columns
    features: tuple[Feature, ...]
    if isinstance(law, str) and law == "gaussian":
        p = _label_group_law(_at_least(labels, "labels"), _at_least(groups, "groups"))
        y, z = _draw(p, n, rng)
        X, truth = _gaussian(p, y, z, rng)
        columns = {f"x{index}": X[:, index] for index in range(5)}
        features = tuple(map(Number, columns))
    else:
        p = _named(law, labels, groups, values) if isinstance(law, str) else _checked(law)
        x, y, z = _draw(p, n, rng)
        posteriors = _conditional(p, 1)[x, :, z], _conditional(p.sum(2), 1)[x]
        truth = Truth(*posteriors, law=p, x=x)
        levels = tuple(map(str, range(p.shape[0])))
        columns = {"x": Coded(x.astype(np.int32), levels)}
        features = (Category("x", levels),)
    name = law if isinstance(law, str) else "a given p[x, y, z]"
    card = DATASET.card("synthetic", {}, notes=(f"Law: {name}.",))
    coded = Coded(y, tuple(range(p.shape[-2]))), Coded(z, tuple(range(p.shape[-1])))
    return Data.from_columns(*coded, columns, Preprocessing(features), card, truth=truth)


def _draw(p: Array, n: int, rng: np.random.Generator) -> tuple[NDArray[np.intp], ...]:
    """`n` places in a table of probabilities."""
    cumulative = np.cumsum(p.ravel())
    return np.unravel_index(np.searchsorted(cumulative, rng.random(n) * cumulative[-1], side="right"), p.shape)


def _named(name: str, labels: int, groups: int, values: int) -> Array:
    if name not in _NAMED:
        raise InputError(f"`law` must be an array p[x, y, z] or one of {', '.join(_NAMED)}, got {name!r}.")
    for size, what in ((labels, "labels"), (groups, "groups"), (values, "values")):
        _at_least(size, what)
    x, y = np.linspace(0, 1, values)[:, None], np.linspace(0, 1, labels)[None]
    near = np.exp(-3 * np.abs(x - y))
    near /= near.sum(0)  # P(x | y)
    if name == "conditional_independence":
        return near[:, :, None] * _label_group_law(labels, groups)
    if name == "shortcut":
        if labels != groups:
            raise InputError(f"'shortcut' has Y = Z: pass as many `groups` as `labels`, got {groups}, {labels}.")
        return near[:, :, None] * np.eye(labels) / labels
    z = np.linspace(-1, 1, groups)
    of_group = softmax(2 * (x - 0.5) * z[None], 1)  # P(z | x)
    score = 4 * (x[:, :, None] - 0.5 - 0.25 * z) * np.linspace(-1, 1, labels)[None, :, None]
    return softmax(score, 1) * of_group[:, None, :] / values


def _label_group_law(labels: int, groups: int) -> Array:
    """P(y, z) > 0: labels equally likely, groups more likely the nearer they are to the label."""
    y, z = np.linspace(0, 1, labels)[:, None], np.linspace(0, 1, groups)[None]
    p = np.exp(-np.abs(y - z))
    return p / p.sum(1, keepdims=True) / labels


def _gaussian(p: Array, y: NDArray[np.intp], z: NDArray[np.intp], rng: np.random.Generator) -> tuple[Array, Truth]:
    """X of two Gaussians per cell (y, z), centred at (label, group: each on a circle, ± 1)."""
    n = len(y)
    centres = np.zeros((*p.shape, 2, 5))
    for axis, radius in ((0, 1.5), (1, 0.5)):
        angle = 2 * np.pi * np.arange(p.shape[axis]) / p.shape[axis]
        place = radius * np.stack([np.cos(angle), np.sin(angle)], 1)
        others = (1, 2) if axis == 0 else (0, 2)
        centres[..., 2 * axis : 2 * axis + 2] = np.expand_dims(place, others)
    centres[:, :, 0, 4], centres[:, :, 1, 4] = -1, 1
    X = centres[y, z, rng.integers(2, size=n)] + rng.standard_normal((n, 5))
    # log N(x; centre) up to a constant of the row
    flat = centres.reshape(-1, 5)
    density = (X @ flat.T - (flat**2).sum(1) / 2).reshape(n, *centres.shape[:3])
    density = np.exp(density - density.max((1, 2, 3), keepdims=True)).mean(3) * p
    return X, Truth(_conditional(density, 1)[np.arange(n), :, z], _conditional(density.sum(2), 1))


def _conditional(p: Array, axis: int) -> Array:
    """P(axis | the others), uniform where the others have no mass."""
    total = p.sum(axis, keepdims=True)
    return np.divide(p, total, out=np.full(p.shape, 1 / p.shape[axis]), where=total > 0)


def _checked(law: ArrayLike) -> Array:
    p = np.asarray(law, dtype=np.float64)
    if p.ndim != 3:
        raise InputError(f"`law` must have the axes (x, y, z), got shape {p.shape}.")
    if not (np.isfinite(p).all() and (p >= 0).all() and abs(p.sum() - 1) < 1e-9):
        raise InputError(f"`law` must be probabilities that sum to one, got a sum of {p.sum()}. Divide it by its sum.")
    return p / p.sum()


def _at_least(size: int, name: str) -> int:
    if size < 2:
        raise InputError(f"`{name}` must be at least 2, got {size}.")
    return size


DATASET = Dataset(
    title="Synthetic, from a known law",
    source="generated",
    licence="none needed",
    citation="",
    rows=10_000,
    features=8,
    labels=2,
    groups=2,
    read=load,
)
