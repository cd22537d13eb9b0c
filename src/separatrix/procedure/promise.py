"""Promises by metric, and rules that keep what was asked.

`tightened` sees to it that nothing ships whose promise is above its budget: a stricter rule, or a
refusal with the smallest budget that succeeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from separatrix.core.measures import label_of
from separatrix.errors import InfeasibleError
from separatrix.optimum.margin import up
from separatrix.report.table import Table
from separatrix.report.words import budget_text
from separatrix.statistics.unseen import Promise

__all__ = ["Promise", "PromiseTable", "tightened"]

T = TypeVar("T")
_TRIES = 6
_SAME = 1e-12  # rounding


class PromiseTable(Mapping[str, Promise]):
    """Promises by the name of their metric: a mapping that prints as a table, also in a notebook.

    >>> table = PromiseTable({"accuracy": Promise.normal(0.81, 0.01)})
    >>> table["accuracy"].value
    0.81
    >>> print(table)
    accuracy  0.8100 ± 0.01  (0.7904 to 0.8296)
    """

    def __init__(self, promises: Mapping[str, Promise]) -> None:
        self._promises = {name: one.within(name) for name, one in promises.items()}

    def __getitem__(self, metric: str) -> Promise:
        return self._promises[metric]

    def __iter__(self) -> Iterator[str]:
        return iter(self._promises)

    def __len__(self) -> int:
        return len(self._promises)

    def __str__(self) -> str:
        width = max(map(len, map(label_of, self)), default=0)
        return "\n".join(
            f"{label_of(name):<{width}}  {one}  ({one.low:.4f} to {one.high:.4f})"
            for name, one in self.items()
        )

    def __repr__(self) -> str:
        return f"<PromiseTable: {', '.join(f'{name} {one}' for name, one in self.items())}>"

    def _repr_html_(self) -> str:
        rows = (
            (label_of(name), f"{one.value:.4f}", f"{one.error:.2g}",
             f"{one.low:.4f} to {one.high:.4f}")
            for name, one in self.items()
        )  # fmt: skip
        return Table("", ("", "on unseen rows", "standard error", "95 %"), tuple(rows)).html()

    def to_dict(self) -> dict[str, Any]:
        """Plain data: value, error, low and high of each metric."""
        return {name: one._asdict() for name, one in self.items()}


def tightened(
    solve: Callable[[Mapping[str, float]], T],
    used: Callable[[T], Mapping[str, float]],
    asked: Mapping[str, float],
) -> T:
    """The first of ever stricter rules whose promise is within what was asked.

    Args:
        solve: budgets → a rule that is expected to keep them; `InfeasibleError` names the smallest.
        used: what a rule promises of each budget.
        asked: the budgets.

    Raises:
        InfeasibleError: not even the strictest rule; asking for what it names succeeds.

    >>> def used(b): return {"eo_gap": b["eo_gap"] + 0.01}      # promises .01 more than it was for
    >>> round(tightened(lambda b: b, used, {"eo_gap": 0.05})["eo_gap"], 3) <= 0.04
    True
    """
    levels = dict(asked)
    for _ in range(_TRIES):
        try:
            found = solve(levels)
        except InfeasibleError as error:
            found = _strictest(solve, levels, error)
            break
        over = {name: used(found)[name] - most for name, most in asked.items()}
        if max(over.values()) <= _SAME:
            return found
        # a promise falls about as fast as the budget, and now and then a little less
        levels = {
            name: max(most - 1.25 * max(over[name], 0.0), 0.0) for name, most in levels.items()
        }
    else:
        try:
            found = solve(dict.fromkeys(asked, 0.0))
        except InfeasibleError as error:
            found = _strictest(solve, dict.fromkeys(asked, 0.0), error)
    shown = used(found)
    if all(shown[name] <= most + _SAME for name, most in asked.items()):
        return found
    raise _refusal(asked, {name: max(shown[name], most) for name, most in asked.items()})


def _strictest(
    solve: Callable[[Mapping[str, float]], T], levels: Mapping[str, float], error: InfeasibleError
) -> T:
    """The rule of the smallest budgets that can be solved for."""
    for _ in levels:
        levels = {name: max(most, error.smallest.get(name, 0.0)) for name, most in levels.items()}
        try:
            return solve(levels)
        except InfeasibleError as again:  # another of several budgets
            error = again
    raise error


def _refusal(asked: Mapping[str, float], smallest: Mapping[str, float]) -> InfeasibleError:
    least = " and ".join(f"{label_of(name)} {up(most)}" for name, most in smallest.items())
    return InfeasibleError(
        f"With these rows no rule can promise {budget_text(asked)} in the population: the "
        f"strictest promises {least}. Ask for that or more, bring more rows of the small groups, "
        "or join them.",
        dict(smallest),
        float("nan"),
    )
