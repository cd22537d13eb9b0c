"""Laws of (Y, U, Z) with numbers whose v = I(U; Z | Y) is known.

None of them chose a setting of the audit. An earlier list was looked at once, at ten repetitions:
its shares of v were too low for crossing groups, wider groups and scores with few values, so the
resolution was made finer, on other laws. This list was written after that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, softmax, xlogy

Array = NDArray[np.float64]
Rows = tuple[NDArray, Array, NDArray]
_OUTCOMES, _NOISES = 500, 1_000  # midpoints of the quadrature


def _middles(k: int) -> Array:
    return (np.arange(k) + 0.5) / k


def _flat(y: Array) -> Array:
    return np.full((len(y), 2), 0.5)


def _steep(slope: float, centre: float = 0.0) -> Callable[[Array], Array]:
    """Two groups; the share of the second rises with the outcome."""

    def share(y: Array) -> Array:
        p = expit(slope * (y - centre))
        return np.column_stack([1 - p, p])

    return share


def _constant(*values: float) -> Callable[[Array], Array]:
    """One number for each group, the same at all outcomes."""
    return lambda y: np.tile(np.array(values), (len(y), 1))


_ALIKE, _AS_WIDE, _NORMAL = _constant(0.0, 0.0), _constant(1.0, 1.0), stats.norm()


@dataclass(frozen=True)
class GroupLaw:
    """U = curve(Y) + spread(Y) (shift_Z(Y) + scale_Z(Y) E), cut at `edges` if there are any."""

    name: str
    outcome: Callable[[Array], Array]  # quantile function of Y
    share: Callable[[Array], Array] = _flat
    shift: Callable[[Array], Array] = _ALIKE
    scale: Callable[[Array], Array] = _AS_WIDE
    noise: stats.distributions.rv_frozen = _NORMAL
    curve: Callable[[Array], Array] = lambda y: y
    spread: Callable[[Array], Array] = np.ones_like
    edges: Array | None = None
    finish: Callable[[Array], Array] = lambda u: u  # a rising function changes nothing

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        y = self.outcome(rng.random(n))
        below = np.cumsum(self.share(y), axis=1)[:, :-1]
        z = (rng.random(n)[:, None] > below).sum(1)
        own = np.arange(n), z
        e = self.noise.ppf(rng.random(n))
        u = self.curve(y) + self.spread(y) * (self.shift(y)[own] + self.scale(y)[own] * e)
        u = self.finish(u) if self.edges is None else np.searchsorted(self.edges, u).astype(float)
        return y, u, z

    def violation(self) -> float:
        """By quadrature over the quantiles of Y and of the noise; exact in E where U is cut."""
        y = self.outcome(_middles(_OUTCOMES))
        p, shift, scale = self.share(y), self.shift(y), self.scale(y)
        if self.edges is not None:
            at = (self.edges[None] - self.curve(y)[:, None]) / self.spread(y)[:, None]
            below = self.noise.cdf((at[:, None] - shift[..., None]) / scale[..., None])
            rates = np.diff(below, axis=2, prepend=0.0, append=1.0)
            pooled = (p[..., None] * rates).sum(1, keepdims=True)
            terms = xlogy(rates, np.divide(rates, pooled, out=np.ones_like(rates), where=rates > 0))
            return float((p[..., None] * terms).sum((1, 2)).mean())
        e, v = self.noise.ppf(_middles(_NOISES)), np.zeros(len(y))
        for z in range(p.shape[1]):
            x = shift[:, z, None] + scale[:, z, None] * e
            f = [
                self.noise.pdf((x - shift[:, k, None]) / scale[:, k, None]) / scale[:, k, None]
                for k in range(p.shape[1])
            ]
            pooled = sum(p[:, k, None] * f[k] for k in range(p.shape[1]))
            v += p[:, z] * np.log(f[z] / pooled).mean(1)
        return float(v.mean())

    sensitive = "groups"
    target = "continuous"


@dataclass(frozen=True)
class CopulaLaw:
    """U and Z given Y have the Gaussian copula with correlation ρ(Y): v = −½ E log(1 − ρ(Y)²)."""

    name: str
    outcome: Callable[[Array], Array]
    correlation: Callable[[Array], Array]
    u: Callable[[Array, Array], Array]  # of the outcome and a normal number, rising in the latter
    z: Callable[[Array, Array], Array]
    target: str = "continuous"
    sensitive = "continuous"

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        y = self.outcome(rng.random(n))
        a, b = rng.normal(size=(2, n))
        rho = self.correlation(y)
        return y, self.u(y, a), self.z(y, rho * a + np.sqrt(1 - rho**2) * b)

    def violation(self) -> float:
        rho = self.correlation(self.outcome(_middles(100_000)))
        return float(-0.5 * np.log1p(-(rho**2)).mean())


def _some_zero(t: Array) -> Array:
    """A quarter has the outcome 0, the others a Weibull one."""
    rest = np.clip((t - 0.25) / 0.75, 0.0, 1 - 1e-12)
    return np.where(t < 0.25, 0.0, stats.weibull_min.ppf(rest, 1.5))


def _rounded(t: Array) -> Array:
    return np.round(stats.t.ppf(t, 8), 1)


def _waves(y: Array) -> Array:
    p = 0.5 + 0.35 * np.sin(5 * y)
    return np.column_stack([1 - p, p])


def _four(y: Array) -> Array:
    slope, at_zero = np.array([[-0.8, 0.0, 0.4, 0.9], [0.3, 1.0, 0.0, -0.6]])
    return softmax(y[:, None] * slope + at_zero, axis=1)


def _times(factor: float) -> Callable[[Array], Array]:
    return lambda y: np.full_like(y, factor)


_BETA, _GUMBEL = stats.beta(2, 3, -1, 3).ppf, stats.gumbel_r().ppf
_LOGISTIC, _T = stats.logistic(scale=0.7).ppf, stats.t(4).ppf
_TEN = np.linspace(-1.4, 2.2, 9)

LAWS = (
    # v = 0, while the outcome says much about the group
    GroupLaw("separated, t(2.5) noise", _GUMBEL, _steep(1.3, 0.5), noise=stats.t(2.5)),
    GroupLaw("separated, R² .997", _BETA, _steep(3.0), spread=_times(0.033)),
    GroupLaw("separated, heteroscedastic", _T, _steep(1.1), spread=lambda y: np.exp(0.6 * y)),
    GroupLaw("separated, cubic", _GUMBEL, _steep(1.2), curve=lambda y: y**3),
    GroupLaw("separated, ten-valued U", _T, _steep(1.4), edges=_TEN),
    GroupLaw("separated, rounded Y", _rounded, _steep(1.6)),
    GroupLaw("separated, atoms of Y", _some_zero, _steep(1.8, 0.8)),
    GroupLaw("separated, Cauchy noise", _T, _steep(1.1), noise=stats.cauchy()),
    GroupLaw("separated, wavy groups", _BETA, _waves, spread=_times(0.25)),
    GroupLaw(
        "separated, four groups", _T, _four, shift=_constant(0.0, 0.0, 0.0, 0.0),
        scale=_constant(1.0, 1.0, 1.0, 1.0),
    ),
    CopulaLaw(
        "separated, continuous Z", _T, np.zeros_like,
        u=lambda y, e: np.exp(y / 2) + 0.4 * e, z=lambda y, e: y + 0.7 * e,
    ),
    # v > 0
    GroupLaw("shift", _T, _steep(0.7), shift=_constant(0.0, 0.6)),
    GroupLaw("shift, R² .997", _BETA, _steep(1.5), shift=_constant(0.0, 0.7), spread=_times(0.033)),
    GroupLaw("shift, Cauchy noise", _GUMBEL, noise=stats.cauchy(), shift=_constant(0.0, 1.1)),
    GroupLaw("shift, t(2) noise", _T, _steep(0.6), noise=stats.t(2), shift=_constant(0.0, 0.8)),
    GroupLaw(
        "shift, heteroscedastic", _GUMBEL, _steep(0.6), shift=_constant(0.0, 0.6),
        spread=lambda y: np.exp(0.5 * y),
    ),
    GroupLaw("wider group", _GUMBEL, noise=stats.laplace(), scale=_constant(1.0, 1.8)),
    GroupLaw(
        "crossing", _BETA, noise=stats.laplace(),
        shift=lambda y: np.column_stack([0 * y, 1.3 * np.sin(4 * y)]),
    ),
    GroupLaw("ten-valued U", _T, _steep(0.7), shift=_constant(0.0, 0.8), edges=_TEN),
    GroupLaw("two-valued U", _T, shift=_constant(0.0, 1.0), edges=np.array([0.6])),
    GroupLaw("rounded Y", _rounded, _steep(0.8), shift=_constant(0.0, 0.6)),
    GroupLaw("atoms of Y", _some_zero, _steep(1.0, 0.8), shift=_constant(0.0, 0.6)),
    GroupLaw("group of 4 %", _T, _constant(0.96, 0.04), shift=_constant(0.0, 1.2)),
    GroupLaw(
        "four groups", _T, _four, shift=_constant(0.0, 0.4, -0.4, 0.2),
        scale=_constant(1.0, 1.0, 1.0, 1.0),
    ),
    CopulaLaw(
        "continuous Z, heavy tails", _GUMBEL, lambda y: np.full_like(y, 0.3),
        u=lambda y, e: y + np.sinh(1.8 * e), z=lambda y, e: np.exp(0.4 * y + 1.2 * e),
    ),
    CopulaLaw(
        "continuous Z, crossing", _T, lambda y: 0.6 * np.tanh(y),
        u=lambda y, e: y + e, z=lambda y, e: e - 0.4 * y,
    ),
    CopulaLaw(
        "continuous Z, three labels", lambda t: np.searchsorted([0.4, 0.75], t).astype(float),
        lambda y: 0.35 - 0.1 * y, u=lambda y, e: y + e, z=lambda y, e: 42 + 11 * e + 4 * y,
        target="labels",
    ),
)  # fmt: skip
