"""The choice: by fold means, or with a confidence that holds over the choice itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from separatrix.core import information
from separatrix.core.measures import label_of
from separatrix.errors import InfeasibleError, InputError
from separatrix.frontier.trained_points import BUDGETS, KINDS, Candidate, Metric, Option, Selection
from separatrix.optimum.objectives import Cost
from separatrix.procedure.measuring import mean_cost
from separatrix.report.words import budget_text
from separatrix.statistics.certificates import default_composition, violation_bound
from separatrix.statistics.folds import folds_eo_gap_bound, folds_violation_bound
from separatrix.statistics.gaps import eo_gap_bound

__all__ = ["KINDS", "RULES", "aim_of", "best_pair", "select"]

Array = NDArray[np.float64]
RULES = ("sequence", "holm")


def select(
    candidates: Sequence[Candidate],
    *,
    max_violation: float | None = None,
    max_eo_gap: float | None = None,
    maximize: Metric = "utility",
    confidence: float | None = None,
    rule: str = "sequence",
    option: str | None = None,
    guarantee: str = "finite-sample",
) -> Selection:
    """The best operating point within the budgets.

    Args:
        candidates: what could be shipped.
        max_violation, max_eo_gap: budgets, one or both.
        maximize: "utility", "accuracy", another metric of the candidates, or a function of tables.
        confidence: None for fold means; else the probability that the choice keeps its budgets.
        rule: "sequence" or "holm", with a confidence.
        option: only "deterministic", "single" or "mixture"; it then has the whole error.
        guarantee: "finite-sample" or "large-sample", with a confidence: of the bounds.

    Returns:
        A `Selection`. Otherwise `InfeasibleError` says the smallest budgets that can be kept.

    >>> def table(d):
    ...     return np.array([[[[60 - d, 40 + d], [60, 40]], [[30, 70], [30 + d, 70 - d]]]])
    >>> path = [Candidate("demo", 1.0 - i, "randomized", table(20.0 * i)) for i in range(2)]
    >>> select(path, max_violation=0.005, option="single").chosen.components[0].trade_off
    1.0
    """
    budgets = _budgets(max_violation, max_eo_gap)
    kinds = KINDS if option is None else (option,)
    if option is not None and option not in KINDS:
        raise InputError(f"`option` must be one of {', '.join(KINDS)}, got {option!r}.")
    if rule not in RULES:
        raise InputError(f"`rule` must be one of {', '.join(RULES)}, got {rule!r}.")
    if not candidates:
        raise InputError("`candidates` is empty: there is nothing to choose from.")
    values = np.array([candidate.value(maximize) for candidate in candidates])
    if np.isnan(values).all():
        raise InputError(f"{_name(maximize)} is not defined for any candidate.")
    if confidence is None:
        limits = np.array([[c.means[BUDGETS[name]] for name in budgets] for c in candidates])
        found = {kind: _best(kind, candidates, values, limits, budgets) for kind in kinds}
    else:
        sure = (confidence, rule, guarantee)
        found, limits = _certified(kinds, candidates, values, budgets, *sure)
    options = {}
    best = float(np.nanmax(values))
    for kind, pick in found.items():
        if pick is not None:
            index, weights, bound = pick
            bound = {} if confidence is None else bound
            options[kind] = _option(kind, candidates, values, index, weights, best, bound)
    if not options:
        raise _infeasible(candidates, values, limits, budgets, maximize, best, confidence)
    chosen = max(options.values(), key=lambda one: (round(one.value, 9), -KINDS.index(one.kind)))
    asked = kinds, budgets, _name(maximize)
    return Selection(chosen, options, *asked, best, confidence, rule, tuple(candidates))


def aim_of(maximize: Metric | Cost) -> Metric:
    """What is maximised as a metric of tables: minus the mean cost of a `Cost`."""
    if not isinstance(maximize, Cost):
        return maximize

    def minus_cost(tables: Array) -> Array:
        return -mean_cost(maximize.per_group(tuple(range(tables.shape[-2]))), tables)

    return minus_cost


Pick = tuple[tuple[int, ...], tuple[float, ...], dict[str, float]]


def _best(
    kind: str,
    candidates: Sequence[Candidate],
    values: Array,
    limits: Array,
    budgets: Mapping[str, float],
) -> Pick | None:
    """The best candidate or pair of one kind whose limits (candidates, budgets) keep them."""
    budget = np.array(list(budgets.values()))
    usable = ~np.isnan(values)
    if kind == "mixture":
        pair = best_pair(np.where(usable, values, -np.inf), limits, budget)
        if pair is None:
            return None
        i, j, w = pair
        if w in (0.0, 1.0):
            i = i if w == 1.0 else j
            return (i,), (1.0,), _named(limits[i], budgets)
        return (i, j), (w, 1.0 - w), _named(w * limits[i] + (1.0 - w) * limits[j], budgets)
    policy = "deterministic" if kind == "deterministic" else "randomized"
    good = usable & np.array([c.policy == policy for c in candidates]) & (limits <= budget).all(1)
    if not good.any():
        return None
    i = int(np.argmax(np.where(good, values, -np.inf)))
    return (i,), (1.0,), _named(limits[i], budgets)


def best_pair(values: Array, limits: Array, budget: Array) -> tuple[int, int, float] | None:
    """Pair (i, j) and weight of i with the best mean value whose mean limits keep every budget.

    Args:
        values: (M,), −inf for what may not be used.
        limits: (M, budgets).
        budget: (budgets,).
    """
    first, second = np.triu_indices(len(values))
    use = np.isfinite(values[first]) & np.isfinite(values[second])
    first, second = first[use], second[use]
    if not len(first):
        return None
    low, high = np.zeros(len(first)), np.ones(len(first))
    for k, b in enumerate(budget):
        # w · slope ≤ slack
        slack, slope = b - limits[second, k], limits[first, k] - limits[second, k]
        with np.errstate(divide="ignore", invalid="ignore"):
            at = slack / slope
        high = np.where(slope > 0, np.minimum(high, at), high)
        low = np.where(slope < 0, np.maximum(low, at), low)
        high = np.where((slope == 0) & (slack < 0), -1.0, high)
    open_ = low <= high
    if not open_.any():
        return None
    weight = np.where(values[first] >= values[second], high, low)
    mean = np.where(open_, weight * values[first] + (1.0 - weight) * values[second], -np.inf)
    k = int(np.argmax(mean))
    return int(first[k]), int(second[k]), float(weight[k])


def _certified(
    kinds: Sequence[str],
    candidates: Sequence[Candidate],
    values: Array,
    budgets: Mapping[str, float],
    confidence: float,
    rule: str,
    guarantee: str,
) -> tuple[dict[str, Pick | None], Array]:
    """Options that keep the budgets with the confidence, and all simultaneous bounds."""
    information.check_confidence(confidence)
    missing = [c for c in candidates if not c.held_out]
    if missing:
        raise InputError(
            f"A confidence needs rows that trained nothing, and {missing[0]} has no such table. "
            "Use the fold-mean rule (confidence=None), or candidates with `held_out`."
        )
    budget = np.array(list(budgets.values()))
    error = (1.0 - confidence) / len(kinds)

    def upper(candidate: Candidate, sure: float) -> Array:
        return _upper(candidate, budgets, sure, guarantee)

    shared = 1.0 - error / (len(candidates) * len(budgets))
    together = np.array([_upper(c, budgets, shared, guarantee) for c in candidates])
    found: dict[str, Pick | None] = {}
    for kind in kinds:
        if kind == "mixture":
            found[kind] = _best(kind, candidates, values, together, budgets)
            continue
        policy = "deterministic" if kind == "deterministic" else "randomized"
        mine = [i for i, c in enumerate(candidates) if c.policy == policy]
        passed = np.zeros(len(candidates), dtype=bool)
        if rule == "sequence":
            paths = list(dict.fromkeys(candidates[i].path for i in mine))
            for path in paths:
                own = [i for i in mine if candidates[i].path == path]
                for i in sorted(own, key=lambda i: -candidates[i].strictness):
                    if (upper(candidates[i], 1.0 - error / len(paths)) > budget).any():
                        break
                    passed[i] = True
        else:
            passed[_holm(candidates, mine, budget, error, upper)] = True
        # what these tests prove is the budget itself, not the single bounds
        proved = np.where(passed[:, None], np.minimum(together, budget), np.inf)
        found[kind] = _best(kind, candidates, values, proved, budgets)
    return found, together


def _upper(
    candidate: Candidate, budgets: Mapping[str, float], confidence: float, guarantee: str
) -> Array:
    """Upper bounds of what is budgeted in the population, each with the whole confidence.

    Both budgets are kept or the candidate fails: the bounds need not hold together.
    """
    tables = candidate.held_out
    if len(tables) == 1:
        kind = default_composition(tables[0], guarantee)
        how = {"guarantee": guarantee, "composition": kind}
        bounds = {
            "max_eo_gap": partial(eo_gap_bound, tables[0], confidence, guarantee),
            "max_violation": partial(violation_bound, tables[0], confidence, **how),
        }
    elif guarantee == "large-sample":
        bounds = {
            "max_eo_gap": partial(folds_eo_gap_bound, tables, confidence),
            "max_violation": partial(folds_violation_bound, tables, confidence),
        }
    else:
        raise InputError(
            f"A finite-sample guarantee needs one table of rows that trained nothing; {candidate} "
            f"has {len(tables)}, whose rules were fitted to each other's rows. Pass one, or "
            "guarantee='large-sample'."
        )
    return np.array([bounds[name]() for name in budgets])


def _holm(
    candidates: Sequence[Candidate],
    mine: Sequence[int],
    budget: Array,
    error: float,
    upper: Callable[[Candidate, float], Array],
) -> list[int]:
    """Holm's procedure: what passes at the shared error leaves, the rest share it among fewer."""
    rest, passed = list(mine), []
    while rest:
        sure = 1.0 - error / len(rest)
        now = [i for i in rest if (upper(candidates[i], sure) <= budget).all()]
        if not now:
            break
        passed += now
        rest = [i for i in rest if i not in now]
    return passed


def _option(
    kind: str,
    candidates: Sequence[Candidate],
    values: Array,
    index: tuple[int, ...],
    weights: tuple[float, ...],
    best: float,
    bound: dict[str, float],
) -> Option:
    components = tuple(candidates[i] for i in index)
    value = float(sum(w * values[i] for i, w in zip(index, weights, strict=True)))
    names = [name for name in components[0].means if all(name in c.means for c in components)]
    means = {
        name: float(sum(w * p.means[name] for p, w in zip(components, weights, strict=True)))
        for name in names
    }
    return Option(kind, components, weights, value, best - value, means, bound)


def _infeasible(
    candidates: Sequence[Candidate],
    values: Array,
    limits: Array,
    budgets: Mapping[str, float],
    maximize: Metric,
    best: float,
    confidence: float | None,
) -> InfeasibleError:
    """The smallest budgets, in the proportion asked for, that a candidate keeps."""
    budget = np.array(list(budgets.values()))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(budget > 0, limits / budget, np.where(limits > 0, np.inf, 0.0)).max(1)
    if np.isinf(ratio).all():  # a budget of zero has no multiple
        ratio = limits.max(1)
    i = int(np.nanargmin(np.where(np.isnan(values), np.nan, ratio)))
    smallest = {name: float(limit) for name, limit in zip(budgets, limits[i], strict=True)}
    asked, needed = (
        budget_text({BUDGETS[name]: most for name, most in some.items()})
        for some in (budgets, {name: float(f"{most:.4g}") for name, most in smallest.items()})
    )
    sure = "" if confidence is None else f" with confidence {confidence:g}"
    advice = "" if confidence is None else " More hold-out rows would lower that."
    return InfeasibleError(
        f"No candidate keeps {asked}{sure}. The smallest that one keeps is {needed} "
        f"({candidates[i]}), at {label_of(_name(maximize))} {values[i]:.4f}, "
        f"{best - values[i]:.4f} below "
        f"the best.{advice}",
        smallest,
        float(values[i]),
    )


def _budgets(max_violation: float | None, max_eo_gap: float | None) -> dict[str, float]:
    given = {"max_violation": max_violation, "max_eo_gap": max_eo_gap}
    budgets = {name: float(value) for name, value in given.items() if value is not None}
    if not budgets:
        raise InputError("Pass a budget: `max_violation` (nats), `max_eo_gap`, or both.")
    for name, value in budgets.items():
        if not 0.0 <= value < np.inf:
            raise InputError(f"`{name}` must be a number that is not negative, got {value}.")
    return budgets


def _name(metric: Metric) -> str:
    return metric if isinstance(metric, str) else getattr(metric, "__name__", "metric")


def _named(limits: Array, budgets: Mapping[str, float]) -> dict[str, float]:
    return {BUDGETS[name]: float(limit) for name, limit in zip(budgets, limits, strict=True)}
