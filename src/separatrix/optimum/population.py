r"""A known finite law p[x, y, z]: exact frontier, budgets, and the theorems of section 2.

Nothing here is estimated. `exact_frontier` tries every deterministic predictor f: X×Z → U where
there are at most 2²² of them; for two labels the best *randomised* predictor is computed too, for
any size, by the certified solver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from separatrix.core.envelope import Envelope, concave_envelope, pareto, staircase
from separatrix.core.information import conditional_mutual_information, entropy, mutual_information
from separatrix.core.measures import budget_named
from separatrix.core.numbers import as_floats
from separatrix.core.numerics import Array, Index, quotient
from separatrix.errors import InputError
from separatrix.optimum.law import BlindLaw
from separatrix.optimum.limit import Limit
from separatrix.optimum.multiclass.column_generation import ColumnSolver
from separatrix.optimum.objectives import Cost
from separatrix.optimum.roc.decisions import RocSolver
from separatrix.optimum.roc.regions import roc_curve

__all__ = [
    "Budgets",
    "ExactFrontier",
    "TradeOff",
    "blind_limit",
    "budgets",
    "exact_frontier",
    "frozen",
    "necessary_trade_off",
    "overlap_gap",
    "predictor_point",
    "separated_features",
    "u_x",
]

MAX_PREDICTORS = 1 << 22
_ZERO = 1e-12  # nats: below this a quantity that is zero in theory counts as zero
_PRIVATE = 2e-5  # nats between the private curve and its upper bound


class Budgets(NamedTuple):
    """Lemma "Budget identity and universal bounds": u ≤ `utility`, v ≤ `separation`, in nats."""

    utility: float
    separation: float
    total: float


@dataclass(frozen=True, eq=False)
class ExactFrontier:
    r"""The exact frontier of a law.

    Args:
        violation, utility: U*_det, the staircase of the best deterministic predictors, strictest
            first. Where there are too many to try, and two labels, the private curve instead,
            certified; `deterministic` says which.
        predictors: f[x, z] of each point, where deterministic.
        u_x, u_xz: best utility of a predictor of X alone, and of (X, Z).
        deterministic: whether `violation`, `utility` come from trying all deterministic predictors.
        law, points, n_outputs: what `private` is computed from, when it is first asked for.
    """

    violation: Array
    utility: Array
    predictors: Index | None
    u_x: float
    u_xz: float
    deterministic: bool
    law: Array = field(repr=False)
    points: int = 200
    n_outputs: int = 2

    @cached_property
    def private(self) -> Limit | None:
        """The certified best with a coin that nobody sees; None for more than two labels.

        It may be above U*_rand: at v = 0 a coin can equalise the groups where no mixture of
        deterministic rules can.
        """
        return _private(self.law, self.points) if self.law.shape[1] == self.n_outputs == 2 else None

    def envelope(self) -> Envelope:
        """U*_rand: the concave closure, which revealed mixtures reach."""
        return concave_envelope(self.violation, self.utility)

    def at(self, violation: ArrayLike) -> Array:
        """U*_det(v): the best utility of a single point with at most this violation."""
        return staircase(self.violation, self.utility, violation)


def exact_frontier(p_xyz: ArrayLike, n_outputs: int | None = None, points: int = 200) -> ExactFrontier:
    r"""The exact frontier of all deterministic predictors f: X×Z → U of a law.

    Args:
        p_xyz: array (x, y, z) of probabilities (or counts).
        n_outputs: how many values U has; by default the number of labels.
        points: levels of the certified private curve (two labels, two outputs).

    >>> p = np.zeros((2, 2, 2))
    >>> p[0, 0, 0] = p[1, 1, 0] = 0.25; p[:, :, 1] = 0.125    # X = Y in group 0, noise in group 1
    >>> f = exact_frontier(p)
    >>> [round(float(x), 4) for x in (f.u_x, f.u_xz, f.violation[0], f.utility[-1])]
    [0.1308, 0.2158, 0.0, 0.2158]
    """
    p = _law(p_xyz)
    k = p.shape[1] if n_outputs is None else n_outputs
    if k < 2:
        raise InputError(f"A prediction needs at least two values, got `n_outputs` = {k}.")
    x, _, z = p.shape
    if k ** (x * z) > MAX_PREDICTORS:
        if p.shape[1] != 2 or k != 2:
            raise InputError(
                f"{k}^({x}·{z}) predictors are more than {MAX_PREDICTORS:,} and the labels are "
                "more than two. Merge values of x, or use `separatrix.limit` on drawn rows."
            )
        curve = _private(p, points)
        v, u = curve.levels, curve.values
        return ExactFrontier(v, u, None, u_x(p, k), float(u[-1]), False, p, points, k)
    v, u = _all_points(p.transpose(1, 2, 0).reshape(p.shape[1], z, x), k)
    v = np.where(v < _ZERO, 0.0, v)
    front = pareto(v, u)
    powers = k ** np.arange(x * z - 1, -1, -1)
    maps = (front[:, None] // powers % k).reshape(-1, z, x).transpose(0, 2, 1)
    v, u = v[front], u[front]
    return ExactFrontier(v, u, maps, u_x(p, k), float(u[-1]), True, p, points, k)


def predictor_point(p_xyz: ArrayLike, f: ArrayLike, n_outputs: int | None = None) -> tuple[float, float]:
    """(v, u) of one predictor: f[x, z] values, or f[x, z, u] probabilities.

    >>> v, u = predictor_point(np.full((2, 2, 2), 0.125), [[0, 1], [0, 1]])  # copies the group
    >>> round(v, 4), round(u, 4)
    (0.6931, 0.0)
    """
    p = _law(p_xyz)
    table = np.einsum("xyz,xzu->yzu", p, _channel(p, f, n_outputs))
    return float(conditional_mutual_information(table)), float(mutual_information(table))


def frozen(p_xyz: ArrayLike, f: ArrayLike, z0: int) -> Array:
    """The frozen predictor U_{z0} = f(X, z0), as probabilities (x, z, u), equal for all z."""
    p = _law(p_xyz)
    q, n = _channel(p, f, None), p.shape[2]
    if not 0 <= z0 < n:
        raise InputError(f"`z0` must be one of the {n} groups 0 … {n - 1}, got {z0}.")
    return np.repeat(q[:, z0 : z0 + 1], n, axis=1)


def budgets(p_xyz: ArrayLike) -> Budgets:
    r"""I((X,Z);Y), I((X,Z);Z|Y) = H(Z|Y) and their sum I((X,Z);(Y,Z)).

    >>> b = budgets(np.full((2, 2, 2), 0.125))
    >>> round(b.utility, 4), round(b.separation, 4), round(b.total, 4)
    (0.0, 0.6931, 0.6931)
    """
    p = _law(p_xyz)
    x, y, z = p.shape
    utility = float(mutual_information(p.transpose(1, 0, 2).reshape(y, 1, x * z)))
    separation = float(entropy(p.sum(0), 2) - entropy(p.sum((0, 2)), 1))
    # (y, z) against (x, z): zero unless both z agree
    joint = np.einsum("xyz,zw->yzxw", p, np.eye(z)).reshape(y * z, 1, x * z)
    return Budgets(utility, separation, float(mutual_information(joint)))


def separated_features(p_xyz: ArrayLike) -> float:
    """I(X;Z|Y) in nats: zero exactly if X ⟂ Z | Y, the first assumption of section 2.3."""
    return float(conditional_mutual_information(_law(p_xyz).transpose(1, 2, 0)))


def overlap_gap(p_xyz: ArrayLike) -> float:
    """P_Y ⊗ P_Z of the cells (y, z) that never occur: zero exactly if P_Y ⊗ P_Z ≪ P_YZ."""
    of_yz = _law(p_xyz).sum(0)
    product = of_yz.sum(1)[:, None] * of_yz.sum(0)
    return float(product[of_yz <= 0].sum())


def u_x(p_xyz: ArrayLike, n_outputs: int | None = None) -> float:
    """u*_X: the best utility of a predictor of X alone, deterministic or with a revealed coin.

    For two labels and outputs it is a threshold of P(Y=1|x). Otherwise every map is tried, at most
    2²² of them.
    """
    p = _law(p_xyz)
    k = p.shape[1] if n_outputs is None else n_outputs
    if p.shape[1] == 2 and k == 2:
        order = np.argsort(-quotient(p.sum(2)[:, 1], p.sum((1, 2))), kind="stable")
        ones = np.cumsum(p.sum(2)[order], axis=0)  # convex in the rates: the best is a threshold
        tables = np.stack([p.sum((0, 2)) - ones, ones], axis=-1)[:, :, None, :]  # prefix, y, (z), u
        return float(mutual_information(np.maximum(tables, 0.0)).max())
    if k ** p.shape[0] > MAX_PREDICTORS:
        raise InputError(f"{k}^{p.shape[0]} predictors of X are more than {MAX_PREDICTORS:,}. Merge values of x.")
    return float(_all_points(p.sum(2).T[:, None, :], k)[1].max())


def blind_limit(
    p_xyz: ArrayLike, maximize: str | Cost = "utility", budget: str = "violation", levels: ArrayLike | None = None
) -> Limit:
    """The best that decisions of X alone can do on a law, within each level of a budget; certified.

    Args:
        p_xyz: array (x, y, z) of probabilities (or counts).
        maximize: "utility", "accuracy", "balanced_accuracy" or `Cost`; linear for more than two
            labels.
        budget: "violation", "eo_gap", "eo_max", "tpr_gap", "fpr_gap", "independence" or
            "parity_gap".
        levels: budgets, none negative; by default 0 and 20 more up to 0.1 (EO) or 0.01 nats.

    >>> p = np.zeros((3, 2, 2))
    >>> p[0] = [[4, 4], [1, 1]]; p[1] = [[1, 1], [4, 4]]; p[2] = [[0, 4], [6, 0]]
    >>> best = blind_limit(p, "accuracy", "eo_gap", levels=[0.0, 0.05, 1.0])
    >>> best.values.round(3).tolist(), bool(best.gap < 1e-6)
    ([0.533, 0.603, 0.733], True)
    """
    p = _law(p_xyz)
    top = 0.01 if budget_named(budget).widths is None else 0.1
    levels = top * np.linspace(0.0, 1.0, 21) ** 2 if levels is None else levels
    wanted = np.unique(np.atleast_1d(as_floats(levels, "levels")))
    if (p.sum((0, 2)) <= 0).any():
        raise InputError("One of the labels has probability zero: leave it out of `p_xyz`.")
    p = p[p.sum((1, 2)) > 0]
    of_x = p.sum((1, 2))
    law = BlindLaw(p / of_x[:, None, None], of_x)
    solver = ColumnSolver(law, tuple(range(p.shape[2])), maximize, budget)
    return Limit.from_solver(solver, wanted, len(wanted), tuple(range(p.shape[1])))


class TradeOff(NamedTuple):
    """The conclusion of Theorem "Necessary trade-off beyond u*_X" for a law.

    Args:
        applies: both assumptions hold.
        dependence: I(X;Z|Y), zero under the first assumption.
        missing_overlap: P_Y ⊗ P_Z of the cells that never occur, zero under the second.
        u_x, u_xz: best utility of X alone and of (X, Z).
        price: u_xz − u_x where the theorem applies, else NaN.
        conclusion: in words.
        u_blind: best utility of X alone without any violation: u_x under the first assumption;
            NaN for more than two labels or outputs where it fails. What the assumption misses is
            u_x − u_blind.
    """

    applies: bool
    dependence: float
    missing_overlap: float
    u_x: float
    u_xz: float
    price: float
    conclusion: str
    u_blind: float = float("nan")


def necessary_trade_off(p_xyz: ArrayLike, n_outputs: int | None = None, tolerance: float = 1e-9) -> TradeOff:
    """Check the assumptions, and say what follows or which of them fails.

    >>> p = np.zeros((1, 2, 2)); p[0, 0, 0] = p[0, 1, 1] = 0.5    # the paper's example Y = Z
    >>> necessary_trade_off(p).conclusion
    'no conclusion: overlap fails (cells of product mass 0.5 never occur)'
    """
    p = _law(p_xyz)
    dependence, missing = separated_features(p), overlap_gap(p)
    # u*_XZ is u*_X of a law whose features are (X, Z)
    both = u_x(p.transpose(0, 2, 1).reshape(-1, p.shape[1])[:, :, None], n_outputs)
    x_only = u_x(p, n_outputs)
    fails = []
    if dependence > tolerance:
        fails.append(f"X ⟂ Z | Y fails (I(X;Z|Y) = {dependence:.3g} nats)")
    if missing > 0.0:
        fails.append(f"overlap fails (cells of product mass {missing:.3g} never occur)")
    if fails:
        words = "no conclusion: " + " and ".join(fails)
        blind = x_only if dependence <= tolerance else np.nan
        if np.isnan(blind) and p.shape[1] == 2 and n_outputs in (None, 2) and (p.sum((0, 2)) > 0).all():
            blind = float(blind_limit(p, "utility", "violation", np.zeros(1)).values[0])
            words += f"; without the group v = 0 allows u = {blind:.4g} of u*_X = {x_only:.4g}"
        return TradeOff(False, dependence, missing, x_only, both, float("nan"), words, blind)
    price = max(both - x_only, 0.0)
    if price <= tolerance:
        words = f"no trade-off: u*_XZ = u*_X = {x_only:.4g} is reached at v = 0"
    else:
        words = (
            f"strict trade-off: v = 0 caps u at u*_X = {x_only:.4g}; the last {price:.4g} nats up to u*_XZ cost v > 0"
        )
    return TradeOff(True, dependence, missing, x_only, both, price, words, x_only)


def _private(p: Array, points: int) -> Limit:
    """The certified frontier of all randomised predictors of (X, Z), from P(Y=1|x,z)."""
    mass = p.sum(0).T
    used = np.flatnonzero(mass.sum(1) > 0)
    if mass.sum(0).min() <= 0:
        raise InputError("One of the two labels has probability zero: there is nothing to predict.")
    curves = [roc_curve(quotient(p[:, 1, z], p[:, :, z].sum(1)), p[:, 1, z], p[:, 0, z]) for z in used]
    solver = RocSolver(curves, mass[used], "utility", "violation", tuple(used.tolist()), _PRIVATE)
    return Limit.from_solver(solver, None, points, (0, 1))


def _all_points(p: Array, k: int) -> tuple[Array, Array]:
    """(v, u) of all maps from atoms (z, x) of p[y, z, x] to k outputs, by base-k number.

    The tables of the first half of the atoms and of the second half are built once; a predictor's
    table is the sum of one of each.
    """
    y, z, x = p.shape
    cell = p.transpose(1, 2, 0).reshape(z * x, y)  # atom → mass per label
    low = z * x // 2
    halves = []
    for atoms in (range(low), range(low, z * x)):
        tables = np.zeros((1, y, z, k))
        for atom in atoms:
            choice = np.einsum("y,g,ou->oygu", cell[atom], np.eye(z)[atom // x], np.eye(k))
            tables = (tables[:, None] + choice).reshape(-1, y, z, k)
        halves.append(tables)
    first, second = halves
    v, u = np.empty(len(first) * len(second)), np.empty(len(first) * len(second))
    step = max(1, (1 << 16) // len(second))
    for a in range(0, len(first), step):
        table = (first[a : a + step, None] + second[None]).reshape(-1, y, z, k)
        rows = slice(a * len(second), a * len(second) + len(table))
        v[rows], u[rows] = conditional_mutual_information(table), mutual_information(table)
    return v, u


def _channel(p: Array, f: ArrayLike, n_outputs: int | None) -> Array:
    q = np.asarray(f)
    x, y, z = p.shape
    if q.shape == (x, z) and q.dtype.kind in "iub":
        k = max(int(q.max()) + 1, y if n_outputs is None else n_outputs)
        return np.eye(k)[q.astype(np.intp)]
    if q.ndim == 3 and q.shape[:2] == (x, z) and np.allclose(q.sum(2), 1.0) and (q >= 0).all():
        return q.astype(np.float64)
    raise InputError(
        f"`f` must hold an output per (x, z), shape {(x, z)} of integers, or probabilities "
        f"{(x, z)} + (outputs,), got shape {q.shape} of {q.dtype}."
    )


def _law(p_xyz: ArrayLike) -> Array:
    p = as_floats(p_xyz, "p_xyz")
    if p.ndim != 3 or not p.size:
        raise InputError(f"`p_xyz` needs the axes (x, y, z), got shape {p.shape}.")
    if not np.isfinite(p).all() or (p < 0).any() or p.sum() <= 0:
        raise InputError("`p_xyz` must hold finite probabilities, none negative and not all zero.")
    return p / p.sum()
