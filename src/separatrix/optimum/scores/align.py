r"""`align`: from outcomes, scores and groups to an `AlignedScore`, by rising maps of the score.

.. math:: \min_m \; \frac{\mathrm{E}\,(Y - m_Z(S))^2}{\mathrm{Var}(Y)} + β\, I(K; Z \mid B)

over maps m that never fall, with K the soft bin of the output cleared of Y and B bands
of the outcome (`core.conditional_cmi`). The first term is 1 − R². A map is its value at the lowest
knot and its steps between knots, which are not negative: bounds of L-BFGS, so every iterate rises.
Each β starts where a smaller one ended, with the bins at the quantiles of that start, twice. The
penalty is not convex, so what is found is a local optimum. Ten pseudo-rows per map pull it to the
straight line of all rows, so that a group of few rows does not follow its noise.

The output is then cut into cells with the least squared error within cells (a dynamic programme
over 200 quantiles), and a cell's value is the mean outcome of its rows; cells whose means do not
rise are joined. All of it is a function of the map, so it cannot raise I(U; Z | Y).

`AlignedScore` is one rising map of the score per group, released at a few values.

.. math:: m_z(s) = \sum_k H_k(z) \, m_k(s), \qquad U = \text{the level of } m_z(s)

m_k is piecewise linear and never falls. For groups, H picks the group's own map. For a numeric
attribute the m_k belong to knots of z and H are hat functions, so the map changes smoothly with z.
The map is a number on a common scale; its level is the cell between two `cuts` that it falls into,
and the released value is the mean outcome of that cell. Everything is an array, no coin is thrown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import isotonic_regression, minimize
from scipy.sparse import csr_array

from separatrix.columns.draws import seed_of
from separatrix.columns.features import as_numbers, raw_values
from separatrix.columns.groups import as_groups, group_codes, group_columns
from separatrix.columns.scores import check_weight, quantity_column
from separatrix.columns.values import Coded, Levels, check_lengths, refuse_missing, row_numbers
from separatrix.core.binned_cmi import SoftBins, Value, centres, spread_out
from separatrix.core.conditional_cmi import ConditionalCMI, attribute_bins, rank_violation
from separatrix.core.numbers import not_negative, whole_number
from separatrix.core.numerics import Array, Index, best_partition
from separatrix.errors import InfeasibleError, InputError
from separatrix.optimum.rules import Rule

_KNOTS, _BINS = 8, 8  # of a map; of the output in the penalty
_ATTRIBUTE_KNOTS = 12
_ROUNDS, _STEPS = 2, 100
_CELLS, _PSEUDO = 200, 10.0
PENALTIES = (0.0, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
SENSITIVE = ("groups", "continuous")


@dataclass(frozen=True, eq=False)
class AlignedScore(Rule):
    """What `align` returns.

    Args:
        groups: the groups in the order of their maps; empty for a numeric attribute.
        attribute_knots: rising values of the numeric attribute, one per map; empty for groups.
        knots: (maps, J), rising scores.
        values: (maps, J), what each map is at its knots; never falling.
        cuts: (levels − 1,), rising: the edges of the cells on the common scale.
        levels: the released values, rising.
        penalty: β.
        r2: R² of the released values on the rows of the fit.
        violation: v of their conditional ranks there, `core.conditional_cmi.rank_violation`.
    """

    kind: ClassVar[str] = "aligned"
    coins = ()
    groups: Levels
    attribute_knots: Array
    knots: Array
    values: Array
    cuts: Array
    levels: Array
    penalty: float
    r2: float
    violation: float

    def check(self) -> None:
        """Maps that never fall on rising knots; cuts and released values that rise."""
        maps = len(self.groups) or len(self.attribute_knots)
        shaped = self.knots.ndim == 2 and self.knots.shape[1] > 1
        if not shaped or self.values.shape != self.knots.shape or len(self.knots) != maps:
            raise ValueError(f"its maps have the shapes {self.knots.shape}, {self.values.shape}")
        if (np.diff(self.knots) < 0).any() or (np.diff(self.values) < 0).any():
            raise ValueError("a map of it falls")
        if self.levels.shape != (len(self.cuts) + 1,) or self.attribute_knots.ndim != 1:
            raise ValueError("it has not one released value more than cuts")
        if any((np.diff(x) <= 0).any() for x in (self.levels, self.cuts, self.attribute_knots)):
            raise ValueError("its released values or cuts do not rise")

    def law(self, scores: ArrayLike, groups: Any = None) -> Array:
        """One for the released value, zero for the others, array (n, levels)."""
        return np.eye(len(self.levels))[self.place(scores, sensitive_features=groups)]

    def transform(self, scores: ArrayLike, *, sensitive_features: Any) -> Array:
        """The released values (n,): at most `len(levels)` different ones.

        Args:
            scores: the score of each row.
            sensitive_features: its group, or its number where the attribute is numeric.
        """
        return np.asarray(self.levels[self.place(scores, sensitive_features=sensitive_features)])

    def place(self, scores: ArrayLike, *, sensitive_features: Any) -> Index:
        """The place of each row's level, 0 for the lowest."""
        s = quantity_column(scores, "scores")
        if not len(self.groups):
            return self.coded(s, attribute(sensitive_features, len(s)))
        return self.coded(s, group_codes(sensitive_features, self.groups, len(s), "sensitive_features"))

    def coded(self, scores: Array, z: NDArray[Any]) -> Index:
        """The same for checked columns: z holds codes of the groups, or numbers."""
        return np.searchsorted(self.cuts, self.aligned(scores, z), side="right")

    def aligned(self, scores: Array, z: NDArray[Any]) -> Array:
        """m_z(s) on the common scale, before it is rounded to a level."""
        return np.asarray(hats(scores, z, self.knots, self.attribute_knots) @ self.values.ravel())


def attribute(values: Any, n: int | None = None) -> Array:
    """A numeric attribute, one finite number per row.

    >>> attribute(Coded(np.array([1, 0, 1]), ("17", "41")))
    array([41., 17., 41.])
    """
    columns = [values] if isinstance(values, Coded) else list(group_columns(values).values())
    if len(columns) != 1:
        raise InputError(f'`sensitive="continuous"` takes one column of numbers, got {len(columns)} columns.')
    z = as_numbers(columns[0], "sensitive_features")
    if z.ndim != 1 or (n is not None and len(z) != n):
        raise InputError(f"`sensitive_features` must be one number per row, {n}, got shape {z.shape}.")
    if np.isnan(z).any():
        raise InputError(f"`sensitive_features` has no value in row {row_numbers(np.isnan(z))}. Drop such rows.")
    return quantity_column(z, "sensitive_features")


def hats(scores: Array, z: NDArray[Any], knots: Array, attribute_knots: Array) -> csr_array:
    """Weights (n, maps · J) with m_z(s) = weights @ values; each row is non-negative, sums to one.

    >>> knots = np.array([[0.0, 1.0], [0.0, 2.0]])
    >>> hats(np.array([0.5, 0.5]), np.array([0, 1]), knots, np.array([])).toarray()
    array([[0.5 , 0.5 , 0.  , 0.  ],
           [0.  , 0.  , 0.75, 0.25]])
    >>> hats(np.array([0.5]), np.array([30.0]), knots, np.array([20.0, 40.0])).toarray()
    array([[0.25 , 0.25 , 0.375, 0.125]])
    """
    sides: list[tuple[NDArray[Any], Any]] = [(np.asarray(z), 1.0)]
    if len(attribute_knots):
        soft = SoftBins.from_scores(np.asarray(z, dtype=np.float64), attribute_knots)
        sides = [(soft.low, 1.0 - soft.share), (soft.low + 1, soft.share)]
    places, weights = [], []
    for which, share in sides:
        # the knot of its own map below each score, and how far the score is to the next one
        low = sum((scores >= inner[which] for inner in knots[:, 1:-1].T), np.zeros(len(scores), dtype=np.intp))
        left, right = knots[which, low], knots[which, low + 1]
        up = np.clip((scores - left) / np.where(right > left, right - left, 1.0), 0.0, 1.0)
        first = which * knots.shape[1] + low
        places += [first, first + 1]
        weights += [share * (1.0 - up), share * up]
    data, column = np.stack(weights, axis=1).ravel(), np.stack(places, axis=1).ravel()
    start = np.arange(len(scores) + 1) * len(places)
    return csr_array((data, column, start), shape=(len(scores), knots.size))


class RisingMaps:
    """The programme on given rows.

    Args:
        data: the rows.
    """

    def __init__(self, data: Numeric) -> None:
        self.data, y, s, z, groups, weight = data, data.y, data.s, data.z, data.groups, data.weight
        w = np.ones(len(y)) if weight is None else weight
        self.share, self.codes = w / w.sum(), data.codes
        self.attribute_knots = np.array([])
        if groups:
            members = np.eye(len(groups))[z]
        else:
            places = centres(z, _ATTRIBUTE_KNOTS, weight)
            self.attribute_knots = places if len(places) > 1 else np.array([places[0], places[0] + 1.0])
            unit = np.tile([0.0, 1.0], (len(self.attribute_knots), 1))
            members = hats(np.zeros(len(z)), z, unit, self.attribute_knots).toarray()[:, ::2]
        self.knots = np.stack([_knots(s, w * member) for member in members.T])
        self.basis = hats(s, z, self.knots, self.attribute_knots)
        self.adjoint = self.basis.T.tocsr()
        mean, middle = float(self.share @ y), self.share @ s
        self.spread = float(np.sqrt(self.share @ (y - mean) ** 2)) or 1.0
        self.target = (y - mean) / self.spread
        slope = max(float(self.share @ ((s - middle) * self.target)), 0.0) / (self.share @ (s - middle) ** 2 or 1.0)
        self.line = slope * (self.knots - middle)
        self.pull = _PSEUDO / (len(y) * self.knots.shape[1])
        self.n_codes = len(groups) or int(self.codes.max()) + 1
        self.violation = ConditionalCMI.from_outcome(y, self.codes, self.n_codes, weight, bins=_BINS)

    def start(self) -> Array:
        """The steps (maps, J) of the line of all rows."""
        return np.concatenate([self.line[:, :1], np.diff(self.line, axis=1)], axis=1)

    def loss(self, steps: Array, penalty: float, bins: Array) -> Value:
        """1 − R² + β v and its derivative at the steps, for fixed centres of the bins."""
        values = np.cumsum(steps, axis=1)
        u, off = self.basis @ values.ravel(), values - self.line
        rest = u - self.target
        value, slope = float(self.share @ rest**2 + self.pull * (off**2).sum()), 2.0 * self.share * rest
        if penalty:
            v = self.violation(u, bins)
            value, slope = value + penalty * v.value, slope + penalty * v.gradient
        at_knots = (self.adjoint @ slope).reshape(steps.shape) + 2.0 * self.pull * off
        return Value(value, np.cumsum(at_knots[:, ::-1], axis=1)[:, ::-1])

    def descend(self, steps: Array, penalty: float) -> Array:
        """The steps of a local optimum for one β, from given ones."""
        shape, options = steps.shape, {"maxiter": _STEPS}
        bounds = [(None if j == 0 else 0.0, None) for _ in steps for j in range(shape[1])]

        def loss(x: Array, bins: Array) -> Any:
            value, gradient = self.loss(x.reshape(shape), penalty, bins)
            return value, gradient.ravel()

        for _ in range(_ROUNDS if penalty else 1):
            bins = self.violation.centres(self.basis @ np.cumsum(steps, axis=1).ravel(), _BINS)
            args = (bins[spread_out(bins)],)
            optimum = minimize(loss, steps.ravel(), args, "L-BFGS-B", True, bounds=bounds, options=options)
            steps = optimum.x.reshape(shape)
        return steps

    def released(self, steps: Array, penalty: float, levels: int) -> AlignedScore:
        """The map of these steps, released at no more than `levels` values."""
        values = np.cumsum(steps, axis=1)
        u = self.basis @ values.ravel()
        cuts = _cells(u, self.share, levels)
        place = np.searchsorted(cuts, u, side="right")
        mass = np.bincount(place, self.share, len(cuts) + 1)
        y, groups = self.data.y, self.data.groups
        mean = np.bincount(place, self.share * y, len(cuts) + 1) / mass
        mean = isotonic_regression(mean, weights=mass).x
        rises = np.flatnonzero(np.diff(mean) > 0)
        cuts, level = cuts[rises], mean[np.append(0, rises + 1)]
        out = level[np.searchsorted(cuts, u, side="right")]
        r2 = 1.0 - float(self.share @ (y - out) ** 2) / self.spread**2
        v = rank_violation(y, out, self.codes, self.n_codes, self.data.weight)
        return AlignedScore(groups, self.attribute_knots, self.knots, values, cuts, level, penalty, r2, v)


def _knots(s: Array, weight: Array) -> Array:
    """Quantiles of the scores of a map's rows, or of all rows where these are few.

    Where few scores differ, more knots lie on the lines between them.
    """
    members = weight > 0
    few = members.sum() < 2 * _KNOTS
    places = centres(s, _KNOTS) if few else centres(s[members], _KNOTS, weight[members])
    places = places[spread_out(places)]
    return np.interp(np.linspace(0, len(places) - 1, _KNOTS), np.arange(len(places)), places)


def _cells(u: Array, weight: Array, levels: int) -> Array:
    """Edges of at most `levels` cells of u with the least squared error within cells.

    >>> _cells(np.array([0.0, 0.1, 5.0, 5.1, 9.0]), np.ones(5) / 5, 3)
    array([5., 9.])
    """
    edges = centres(u, _CELLS + 1, weight)
    edges = edges[(edges > u.min()) & (edges <= u.max())]
    place, k = np.searchsorted(edges, u, side="right"), len(edges) + 1
    sums = (np.append(0.0, np.cumsum(np.bincount(place, w, k))) for w in (weight, weight * u))
    mass, total = (np.subtract.outer(x, x).T for x in sums)  # [i, j]: of the cells i … j − 1
    some = np.triu(mass > 0, 1)
    gain = np.where(some, total**2 / np.where(some, mass, 1.0), -np.inf)
    return np.asarray(edges[best_partition(gain, min(levels, k))[1:-1] - 1])


def align(
    y_true: ArrayLike,
    scores: ArrayLike,
    *,
    sensitive_features: Any,
    levels: int = 16,
    penalty: float | None = None,
    max_violation: float | None = None,
    sensitive: str = "groups",
    sample_weight: ArrayLike | None = None,
    cv: int = 5,
    random_state: int = 0,
) -> AlignedScore:
    r"""A score whose law given a numeric outcome is nearly the same in all groups.

    .. math:: \min_m \; \frac{\mathrm{E}\,(Y - m_Z(S))^2}{\mathrm{Var}(Y)} + β\, I(m_Z(S); Z \mid Y)

    over one rising map per group, or maps that change smoothly with a numeric attribute; then
    released at `levels` values. No coin is thrown.

    Args:
        y_true: numbers, or two labels.
        scores: one number per row. Take scores of rows that the model did not see in training.
        sensitive_features: the group of each row, or its number for ``sensitive="continuous"``.
        levels: at most so many different outputs. Only an output of finite resolution can be
            audited from above: a digit far behind the point can hide the group.
        penalty: β ≥ 0. None: the β that `max_violation` needs, or the largest of `PENALTIES`.
        max_violation: v in nats, of conditional ranks, that the output may have on unseen rows:
            the least β whose mean over `cv` inner folds is within it. Not with a penalty.
        sensitive: "groups" or "continuous".
        sample_weight: weight of each row.
        cv: inner folds.
        random_state: seed of these folds.

    Returns:
        An `AlignedScore`; its `transform` releases the output of new rows.

    Example:
        >>> rng = np.random.default_rng(0)
        >>> z, y, e = rng.integers(0, 2, 8000), *rng.normal(size=(2, 8000))
        >>> y = y + z
        >>> score = y + 0.7 * e + z                          # one group is rated higher
        >>> raw = align(y, score, sensitive_features=z, penalty=0.0)
        >>> A = align(y, score, sensitive_features=z, penalty=10.0)
        >>> round(raw.r2, 2), round(raw.violation, 2)
        (0.73, 0.04)
        >>> round(A.r2, 2), bool(A.violation < 0.002), len(A.levels)
        (0.72, True, 16)
        >>> A.transform([1.0, 1.0], sensitive_features=[0, 1]).round(1)
        array([0.9, 0.1])
    """
    if penalty is not None and max_violation is not None:
        raise InputError(f"Pass `penalty` or `max_violation`, not both; got {penalty} and {max_violation}.")
    data = numeric(y_true, scores, sensitive_features, sensitive, sample_weight)
    levels = whole_number(levels, "levels", least=2)
    last = PENALTIES[-1] if penalty is None else not_negative(penalty, "penalty")
    if max_violation is not None:
        folds, seed = whole_number(cv, "cv", least=2), seed_of(random_state)
        inner = inner_violations(data, levels=levels, cv=folds, random_state=seed)
        last = least_penalty(not_negative(max_violation, "max_violation"), inner)
    # the β below it first: it is approached from the best R²
    return aligned_path(data, [*(beta for beta in PENALTIES if beta < last), last], levels)[-1]


def alignment_path(
    y_true: ArrayLike,
    scores: ArrayLike,
    *,
    sensitive_features: Any,
    levels: int = 16,
    penalties: Sequence[float] = PENALTIES,
    sensitive: str = "groups",
    sample_weight: ArrayLike | None = None,
) -> list[AlignedScore]:
    """The aligned scores from the best R² to the least violation, by rising β.

    Args:
        y_true, scores, sensitive_features, levels, sensitive, sample_weight: as in `align`.
        penalties: the β, rising.

    Returns:
        One `AlignedScore` per β.
    """
    betas = [not_negative(beta, "penalties") for beta in penalties]
    if not betas or betas != sorted(betas):
        raise InputError(f"`penalties` must be rising numbers, at least one, got {penalties}.")
    data = numeric(y_true, scores, sensitive_features, sensitive, sample_weight)
    return aligned_path(data, betas, whole_number(levels, "levels", least=2))


@dataclass(frozen=True, eq=False)
class Numeric:
    """Checked rows: outcome, score, and the code or number of the sensitive attribute.

    `groups` are the names behind the codes, empty for numbers.
    """

    y: Array
    s: Array
    z: NDArray[Any]
    groups: Levels
    weight: Array | None = None

    @property
    def codes(self) -> Index:
        """The code of each row's group, or of the bin of its number."""
        return np.asarray(self.z if self.groups else attribute_bins(self.z))

    def __getitem__(self, rows: NDArray[Any]) -> Numeric:
        """The same, only these rows."""
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, y=self.y[rows], s=self.s[rows], z=self.z[rows], weight=weight)


def numeric(
    y_true: Any, scores: Any, sensitive_features: Any, sensitive: str = "groups", sample_weight: ArrayLike | None = None
) -> Numeric:
    """The rows that `align` sees, checked; rows of weight zero are dropped."""
    if sensitive not in SENSITIVE:
        raise InputError(f"`sensitive` must be one of {', '.join(SENSITIVE)}, got {sensitive!r}.")
    y = outcome(y_true)
    s = quantity_column(scores, "scores")
    groups: Levels = ()
    if sensitive == "continuous":
        z: Any = attribute(sensitive_features)
    else:
        z, groups = as_groups(sensitive_features)
    n = check_lengths({"y_true": y, "scores": s, "sensitive_features": z})
    if sample_weight is None:
        return Numeric(y, s, z, groups)
    weight = check_weight(sample_weight, n)
    data = Numeric(y, s, z, groups, weight)[np.flatnonzero(weight > 0)]
    z, groups = Coded(data.z, groups).compact() if groups else (data.z, groups)
    return replace(data, z=z, groups=groups)


def outcome(values: Any, name: str = "y_true") -> Array:
    """A numeric outcome; two labels become 0 and 1 in sorted order.

    >>> outcome(["no", "yes", "no"]), outcome([3, 1.5])
    (array([0., 1., 0.]), array([3. , 1.5]))
    """
    raw = raw_values(values, name)
    if isinstance(raw, Coded):
        if len(raw.levels) != 2:
            raise InputError(f"`{name}` must be numbers, or two labels; it has {len(raw.levels)} labels.")
        refuse_missing(raw.missing, name)
        return raw.codes.astype(np.float64)
    y = quantity_column(raw, name)
    if not len(y) or y.min() == y.max():
        raise InputError(f"`{name}` is the same in all {len(y):,} rows: nothing can be learned.")
    return y


def inner_violations(data: Numeric, *, levels: int, cv: int = 5, random_state: int = 0) -> Iterator[float]:
    """Mean violation over inner folds of each of the `PENALTIES` in turn."""
    n, rng = len(data.y), np.random.default_rng(random_state)
    if not 2 <= cv <= n:
        raise InputError(f"`cv` must be a number of folds between 2 and {n:,}, got {cv}.")
    codes, fold = data.codes, np.empty(n, dtype=np.intp)
    fold[np.lexsort((rng.random(n), codes))] = np.arange(n) % cv  # a group is in every fold
    problems = [RisingMaps(data[fold != k]) for k in range(cv)]
    steps = [problem.start() for problem in problems]
    for penalty in PENALTIES:
        v = []
        for k, problem in enumerate(problems):
            steps[k], test = problem.descend(steps[k], penalty), data[fold == k]
            out = problem.released(steps[k], penalty, levels).coded(test.s, test.z).astype(np.float64)
            v.append(rank_violation(test.y, out, codes[fold == k], int(codes.max()) + 1, test.weight))
        yield float(np.mean(v))


def least_penalty(asked: float, violations: Iterable[float]) -> float:
    """The least of the `PENALTIES` whose violation, of `inner_violations`, is within a budget."""
    least = np.inf
    for penalty, violation in zip(PENALTIES, violations, strict=False):
        if violation <= asked:
            return penalty
        least = min(least, violation)
    raise InfeasibleError(
        f"With these rows no rising map is expected to keep v ≤ {asked:g} on unseen rows: the "
        f"least is {least:.2g}. Ask for that or more, pass fewer `levels`, or bring more rows.",
        {"violation": least},
    )


def aligned_path(data: Numeric, penalties: Sequence[float], levels: int = 16) -> list[AlignedScore]:
    """The scores of rising β, of checked rows."""
    problem = RisingMaps(data)
    steps, path = problem.start(), []
    for penalty in penalties:
        steps = problem.descend(steps, penalty)
        path.append(problem.released(steps, penalty, levels))
    return path
