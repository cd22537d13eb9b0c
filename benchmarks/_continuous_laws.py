"""Laws of (Y, U, Z) with numbers whose v = I(U; Z | Y) is known; none of them chose a setting."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, softmax, xlogy

__all__ = ["LAWS", "CopulaLaw", "GroupLaw"]

Array = NDArray[np.float64]
Rows = tuple[NDArray, Array, NDArray]
_OUTCOMES, _NOISES = 1_000, 2_000  # midpoints of the quadrature


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


def _two(a: float, b: float) -> Callable[[Array], Array]:
    """One number for each of two groups, the same at all outcomes."""
    return lambda y: np.tile([a, b], (len(y), 1)).astype(np.float64)


_ALIKE, _AS_WIDE, _NORMAL = _two(0.0, 0.0), _two(1.0, 1.0), stats.norm()


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
    """Two in five have the outcome 0, the others an exponential one."""
    return np.where(t < 0.4, 0.0, -np.log1p(-np.clip((t - 0.4) / 0.6, 0.0, 1 - 1e-12)))


def _rounded(t: Array) -> Array:
    return np.round(stats.logistic.ppf(t, scale=0.6), 1)


def _five(y: Array) -> Array:
    slope, at_zero = np.array([[-1.0, -0.5, 0.0, 0.4, 0.8], [0.0, 0.5, 1.0, 0.0, -0.5]])
    return softmax(y[:, None] * slope + at_zero, axis=1)


_GAMMA, _LAPLACE = stats.gamma(2.0).ppf, stats.laplace().ppf
_UNIFORM, _LOGISTIC = stats.uniform(-2, 4).ppf, stats.logistic().ppf
_TEN = np.linspace(-1.6, 1.6, 9)

LAWS = (
    # v = 0, while the outcome says much about the group
    GroupLaw("separated, t noise, gamma outcome", _GAMMA, _steep(1.2, 2.0), noise=stats.t(3)),
    GroupLaw(
        "separated, R² .997", _UNIFORM, _steep(2.5), spread=lambda y: np.full_like(y, 0.063)
    ),
    GroupLaw(
        "separated, heteroscedastic", _LAPLACE, _steep(1.0), spread=lambda y: np.exp(0.7 * y)
    ),
    GroupLaw("separated, cubic", _LOGISTIC, _steep(1.0), curve=lambda y: y**3),
    GroupLaw("separated, ten-valued U", _LAPLACE, _steep(1.5), edges=_TEN),
    GroupLaw("separated, rounded Y", _rounded, _steep(1.5)),
    GroupLaw("separated, atoms of Y", _some_zero, _steep(1.5, 1.0)),
    GroupLaw("separated, Cauchy noise", _LOGISTIC, _steep(1.0), noise=stats.cauchy()),
    GroupLaw(
        "separated, wavy groups",
        _UNIFORM,
        lambda y: 0.5 + 0.4 * np.sin(6 * y)[:, None] * np.array([-1.0, 1.0]),
        spread=lambda y: np.full_like(y, 0.3),
    ),
    GroupLaw(
        "separated, five groups", _LOGISTIC, _five,
        shift=lambda y: np.zeros((len(y), 5)), scale=lambda y: np.ones((len(y), 5)),
    ),
    CopulaLaw(
        "separated, continuous Z", _LAPLACE, np.zeros_like,
        u=lambda y, e: y**2 + 0.5 * e, z=lambda y, e: y + e,
    ),
    # v > 0
    GroupLaw("shift", _LAPLACE, _steep(0.8), shift=_two(0.0, 0.5)),
    GroupLaw(
        "shift, R² .997", _UNIFORM, _steep(1.0), shift=_two(0.0, 0.6),
        spread=lambda y: np.full_like(y, 0.063),
    ),
    GroupLaw("shift, Cauchy noise", _GAMMA, noise=stats.cauchy(), shift=_two(0.0, 0.9)),
    GroupLaw("shift, t(2) noise", _LOGISTIC, _steep(0.5), noise=stats.t(2), shift=_two(0.0, 0.7)),
    GroupLaw(
        "shift, heteroscedastic", _LAPLACE, _steep(0.5), shift=_two(0.0, 0.5),
        spread=lambda y: np.exp(0.7 * y),
    ),
    GroupLaw("wider group", _GAMMA, noise=stats.logistic(), scale=_two(1.0, 1.6)),
    GroupLaw(
        "crossing", _UNIFORM, noise=stats.logistic(),
        shift=lambda y: np.column_stack([0 * y, 1.5 * np.cos(3 * y)]),
    ),
    GroupLaw("ten-valued U", _LAPLACE, _steep(0.8), shift=_two(0.0, 0.7), edges=_TEN),
    GroupLaw("two-valued U", _LOGISTIC, shift=_two(0.0, 0.8), edges=np.array([0.3])),
    GroupLaw("rounded Y", _rounded, _steep(1.0), shift=_two(0.0, 0.5)),
    GroupLaw("atoms of Y", _some_zero, _steep(0.8, 1.0), shift=_two(0.0, 0.5)),
    GroupLaw(
        "group of 5 %", _LOGISTIC, lambda y: np.tile([0.95, 0.05], (len(y), 1)),
        shift=_two(0.0, 1.0),
    ),
    GroupLaw(
        "five groups", _LOGISTIC, _five, scale=lambda y: np.ones((len(y), 5)),
        shift=lambda y: np.tile([0.0, 0.3, -0.3, 0.6, 0.0], (len(y), 1)),
    ),
    GroupLaw(
        "lognormal Y and U", lambda t: np.exp(stats.norm.ppf(t)), _steep(0.5, 1.0),
        shift=_two(0.0, 0.5), curve=np.log, finish=np.exp,
    ),
    GroupLaw("skewed noise", _GAMMA, noise=stats.gamma(1.5), scale=_two(1.0, 1.5)),
    CopulaLaw(
        "continuous Z, heavy tails", _GAMMA, lambda y: np.full_like(y, 0.25),
        u=lambda y, e: y + np.sinh(2 * e), z=lambda y, e: np.exp(0.3 * y + 1.5 * e),
    ),
    CopulaLaw(
        "continuous Z, crossing", _LOGISTIC, lambda y: 0.5 * np.tanh(y),
        u=lambda y, e: y + e, z=lambda y, e: e - 0.5 * y,
    ),
    CopulaLaw(
        "continuous Z, three labels", lambda t: np.searchsorted([0.5, 0.8], t).astype(float),
        lambda y: 0.2 + 0.1 * y, u=lambda y, e: y + e, z=lambda y, e: 40 + 12 * e + 5 * y,
        target="labels",
    ),
)  # fmt: skip
