"""Rules on networks: what post-processing and reductions end with, one policy per lane.

A policy draws one of its scores with a given probability and decides by its rule on that score.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix.errors import InputError
from separatrix.nn.networks import Networks
from separatrix.optimum.rules import SoftmaxChannel, ThresholdChannel

Array = NDArray[np.float64]
Channel = ThresholdChannel | SoftmaxChannel


@dataclass(frozen=True, eq=False)
class RuledNetworks:
    """For each lane a random choice between scores of shared networks, and a rule on them.

    Args:
        base: the networks of all lanes.
        members: (T, E), the networks whose mean posterior is one score.
        lane: (T,), the lane of each score.
        share: (T,), its probability there.
        rules: one per lane; None takes the most probable label.
    """

    base: Networks
    members: NDArray[np.int64]
    lane: NDArray[np.int64]
    share: Array
    rules: tuple[Channel | None, ...]

    @property
    def status(self) -> tuple[str, ...]:
        """A lane with a diverged network is diverged."""
        bad = {
            int(lane)
            for lane, networks in zip(self.lane, self.members, strict=True)
            if any(self.base.status[i] != "ok" for i in networks)
        }
        return tuple("diverged" if i in bad else "ok" for i in range(len(self.rules)))

    def posteriors(self, X: ArrayLike, z: ArrayLike | None = None) -> Array:
        """P(U = u | x, z) of each lane, array (M, n, K); z are group codes."""
        if z is None and any(rule is not None for rule in self.rules):
            raise InputError("A rule needs the group of every row: pass the codes `z` as well.")
        scores = normalised(self.base.posteriors(X, z))
        q = np.full((len(self.rules), *scores.shape[1:]), np.nan)
        if not scores.shape[1]:  # a model trained on all rows has none to be tested on
            return q
        for lane, (rule, status) in enumerate(zip(self.rules, self.status, strict=True)):
            if status == "ok":
                drawn = np.flatnonzero(self.lane == lane)
                means = [scores[self.members[t]].mean(0) for t in drawn]
                laws = [np.eye(s.shape[1])[s.argmax(1)] if rule is None else rule.law(s, z) for s in means]
                q[lane] = np.average(laws, axis=0, weights=self.share[drawn])
        return q

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The networks, which of them each lane draws, and its rule."""
        named = {f"base_{name}": value for name, value in self.base.arrays().items()}
        named |= {"members": self.members, "lane": self.lane, "share": self.share}
        for i, rule in enumerate(self.rules):
            if rule is not None:
                described = rule.arrays() | {"groups": np.array(rule.groups)}
                named |= {f"rule_{i}_{name}": value for name, value in described.items()}
        return named

    @staticmethod
    def restore(arrays: Mapping[str, NDArray[Any]]) -> RuledNetworks:
        """What `arrays` described."""
        lane = arrays["lane"]
        rules = tuple(_rule(_starting(arrays, f"rule_{i}_")) for i in range(int(lane.max()) + 1))
        base = Networks.restore(_starting(arrays, "base_"))
        return RuledNetworks(base, arrays["members"], lane, arrays["share"], rules)


def normalised(q: NDArray[Any]) -> Array:
    """Posteriors in double precision; single-precision rows sum to one only within 1e-7."""
    p = np.asarray(q, dtype=np.float64)
    return p / p.sum(-1, keepdims=True)


def _starting(arrays: Mapping[str, NDArray[Any]], head: str) -> dict[str, NDArray[Any]]:
    return {k.removeprefix(head): v for k, v in arrays.items() if k.startswith(head)}


def _rule(arrays: dict[str, NDArray[Any]]) -> Channel | None:
    if not arrays:
        return None
    groups = tuple(arrays.pop("groups").tolist())
    kind = SoftmaxChannel if "mix" in arrays else ThresholdChannel
    return kind.from_arrays(groups, arrays)
