"""Is the asked budget kept in the population? `FrontierClassifier`'s margin on known laws.

    python -m benchmarks.margins [--repeats 200] [--law report] [--write]

A law is a share, a base rate and a score law per label for each group. Each repeat draws a law of
its own, then rows from it; the rule is fitted to the rows, and its rates are computed on the law,
without sampling. `--law develop` has normal scores: settings were chosen there. `--law report` has
skewed and heavy-tailed scores, one group whose scores are much weaker, and scores with few values.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import expit, logit

from benchmarks._measuring import DOCS, markdown, write_between_markers
from separatrix.errors import InfeasibleError
from separatrix.optimum.promised import Promises

Array = NDArray[np.float64]
GROUPS, ROWS, ASKED = (2, 6, 10), (1_000, 5_000, 20_000, 100_000), (0.02, 0.05, 0.1)
KINDS = {"develop": ("normal",), "report": ("skewed", "weak group", "few values")}
STEPS = 3.0  # values per unit of log odds, where they are few


@dataclass(frozen=True)
class Law:
    """Log odds of the score given label and group: location and scale of one shape per label."""

    share: Array
    base: Array
    location: Array
    scale: Array
    shapes: tuple[Any, Any]
    rounded: bool = False

    @staticmethod
    def draw(kind: str, groups: int, seed: int) -> Law:
        """A law of this kind."""
        rng = np.random.default_rng([seed, groups])
        share = np.maximum(rng.dirichlet(np.full(groups, 4.0)), 0.02)
        base = expit(logit(0.25) + 0.6 * rng.normal(size=groups))
        apart = 2.4 * np.exp(0.15 * rng.normal(size=groups))
        scale = np.sqrt(apart)[:, None] * np.exp(0.1 * rng.normal(size=(groups, 2)))
        shapes = {
            "normal": (stats.norm(), stats.norm()),
            "skewed": (stats.skewnorm(3.0, -0.75), stats.skewnorm(-3.0, 0.75)),
            "weak group": (stats.t(4, 0.0, 0.75), stats.t(4, 0.0, 0.75)),
            "few values": (stats.logistic(0.0, 0.55), stats.logistic(0.0, 0.55)),
        }[kind]
        if kind == "weak group":
            apart[share.argmin()] *= 0.6
        middle = logit(base) + 0.15 * rng.normal(size=groups)
        location = np.stack([middle - apart / 2, middle + apart / 2], axis=1)
        return Law(share / share.sum(), base, location, scale, shapes, kind == "few values")

    @property
    def mass(self) -> Array:
        return np.stack([self.share * (1 - self.base), self.share * self.base], axis=1)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Array, NDArray[Any], NDArray[Any]]:
        """Scores, labels and groups of n rows."""
        z = rng.choice(len(self.share), n, p=self.share)
        y = (rng.random(n) < self.base[z]).astype(np.intp)
        noise = np.where(y == 1, *(self.shapes[k].rvs(n, random_state=rng) for k in (1, 0)))
        x = self.location[z, y] + self.scale[z, y] * noise
        return expit(np.round(x * STEPS) / STEPS if self.rounded else x), y, z

    def above(self, cut: Array, z: int) -> Array:
        """P(score ≥ cut | y, z), array (cuts, 2)."""
        with np.errstate(divide="ignore"):
            x = logit(np.clip(cut, 0.0, 1.0))
        if self.rounded:
            x = (np.ceil(x * STEPS - 1e-6) - 0.5) / STEPS
        place = [(x - self.location[z, y]) / self.scale[z, y] for y in range(2)]
        return np.stack([self.shapes[y].sf(place[y]) for y in range(2)], axis=1)

    def rates(self, rule: Any) -> Array:
        """The rates (groups, 2) of a rule of thresholds."""
        found = np.empty((len(self.share), 2))
        for z, (cuts, levels) in enumerate(zip(rule.thresholds, rule.levels, strict=True)):
            found[z] = levels @ np.diff(self.above(cuts, z), axis=0, prepend=np.zeros((1, 2)))
        return found


def gap(rates: Array) -> float:
    """EO gap of rates (groups, 2)."""
    return float(0.5 * np.ptp(rates, axis=0).sum())


def repeat(kinds: tuple[str, ...], groups: int, rows: int, quick: bool, seed: int) -> list[Any]:
    """One sample: for each budget the smallest promise, if refused, or gap and accuracy."""
    law = Law.draw(kinds[seed % len(kinds)], groups, 10_000 * (kinds[0] != "normal") + seed)
    score, y, z = law.sample(rows, np.random.default_rng([seed, rows, groups]))
    if np.bincount(z, minlength=groups).min() == 0:
        return [None] * len(ASKED)
    best = Promises(np.stack([1 - score, score], 1), y, z, np.ones(rows), tuple(range(groups)))
    found: list[Any] = []
    for asked in ASKED:
        try:
            kept = best.rule(asked).rule
        except InfeasibleError as error:
            found.append(float(error.smallest["eo_gap"]))
            continue
        points: list[Any] = []
        for rule in (kept, best.rule(asked, margin=0.0).rule):
            rates = law.rates(rule)
            right = law.mass * np.stack([1 - rates[:, 0], rates[:, 1]], axis=1)
            points += [gap(rates), float(right.sum())]
        sure = None if quick else _sure(best, asked)
        points.append(None if sure is None else gap(law.rates(sure)) <= asked)
        found.append(tuple(points))
    return found


def _sure(best: Promises, asked: float) -> Any:
    """The rule that keeps the budget in nine of ten samples; None if it is refused."""
    try:
        return best.rule(asked, confidence=0.9).rule
    except InfeasibleError:
        return None


def main() -> None:
    """Simulate all cells and print, or write, the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=200)
    parser.add_argument("--law", choices=KINDS, default="report")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--groups", type=int, nargs="+", default=GROUPS)
    parser.add_argument("--rows", type=int, nargs="+", default=ROWS)
    parser.add_argument("--quick", action="store_true", help="the margin alone")
    parser.add_argument("--write", action="store_true")
    chosen = parser.parse_args()
    lines, worst = [], -1.0
    with ProcessPoolExecutor(chosen.jobs) as pool:
        for groups in chosen.groups:
            for rows in chosen.rows:
                work = partial(repeat, KINDS[chosen.law], groups, rows, chosen.quick)
                all_found = list(pool.map(work, range(chosen.repeats)))
                for k, asked in enumerate(ASKED):
                    each = [found[k] for found in all_found]
                    kept = [one for one in each if isinstance(one, tuple)]
                    least = [one for one in each if isinstance(one, float)]
                    head = [groups, f"{rows:,}", asked, f"{1 - len(kept) / len(each):.0%}"]
                    if len(kept) < 5:
                        lines.append(
                            [*head, f"≥ {np.median(least):.3f}" if least else "-", *["-"] * 5]
                        )
                    else:
                        value = np.array([one[:4] for one in kept])
                        mean, error = value.mean(0), value[:, 0].std() / len(kept) ** 0.5
                        sure = [one[4] for one in kept if one[4] is not None]
                        worst = max(worst, mean[0] - asked)
                        lines.append(
                            [
                                *head,
                                f"{np.median(least):.3f}" if least else "-",
                                f"{mean[0]:.4f} ± {error:.4f}",
                                f"{mean[2]:.4f}",
                                f"{mean[1]:.4f}",
                                f"{mean[3]:.4f}",
                                f"{np.mean(sure):.0%}" if len(sure) >= 20 else "-",
                            ]
                        )
                    print(*lines[-1], sep=" | ", flush=True)
    heads = [
        "groups",
        "rows",
        "asked",
        "refused",
        "smallest promised (median of refused)",
        "gap",
        "gap, margin=0",
        "accuracy",
        "accuracy, margin=0",
        "kept with confidence=0.9",
    ]
    text = markdown(heads, lines) + (
        f"\n\n{chosen.repeats} samples per line, each of a law of its own. Largest mean gap above "
        f"what was asked: {worst:+.4f}."
    )
    print(text)
    if chosen.write:
        write_between_markers(DOCS / "evidence" / "margins.md", "margins", text)


if __name__ == "__main__":
    main()
