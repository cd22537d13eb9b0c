"""The answer in the user's words and in lines of one width: who is recognised, what it costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from textwrap import wrap
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.groups import group_name
from separatrix.columns.values import Levels
from separatrix.core.information import conditional_rates
from separatrix.core.measures import METRICS, label_of

Array = NDArray[np.float64]
WIDTH = 100  # columns of a terminal


def budget_text(budgets: Mapping[str, float]) -> str:
    """What was asked for.

    >>> budget_text({"eo_gap": 0.05})
    'EO gap ≤ 0.05'
    """
    return " and ".join(f"{label_of(name)} ≤ {most:g}" for name, most in budgets.items())


def number(metric: str, value: float) -> str:
    """A metric as people read it: small violations with an exponent, all else with four digits.

    >>> number("violation", 0.00002), number("accuracy", 0.87214)
    ('2.0e-05', '0.8721')
    """
    nats = metric in METRICS and METRICS[metric].nats
    return f"{value:.1e}" if nats and 0 < value < 5e-4 else f"{value:.4f}"


def percent(share: float) -> str:
    """A share in whole percent.

    >>> percent(0.95)
    '95 %'
    """
    return f"{share:.0%}".replace("%", " %")


class _Estimate(Protocol):
    @property
    def value(self) -> float: ...
    @property
    def error(self) -> float: ...


def estimate_text(metric: str, estimate: _Estimate) -> str:
    """An estimate with its standard error; one of zero as what it is below by two errors.

    >>> from separatrix.statistics.unseen import Promise
    >>> [estimate_text("eo_gap", Promise.normal(x, 0.03)) for x in (0.021, 0.0)]
    ['0.0210 ± 0.03', 'below 0.06']
    """
    shown = number(metric, estimate.value)
    if metric in ("eo_gap", "violation") and float(shown) == 0.0 < estimate.error:
        return f"below {2 * estimate.error:.2g}"
    return f"{shown} ± {estimate.error:.2g}"


def majority(tables: Array, labels: Levels) -> tuple[str, float]:
    """The most frequent label and its share: what always saying it would get right."""
    rows = np.asarray(tables).reshape(-1, *tables.shape[-3:]).sum((0, 2, 3))
    return str(labels[int(rows.argmax())]), float(rows.max() / rows.sum())


def constant_text(label: object, share: float) -> str:
    """What a constant is called everywhere."""
    return f"the same for everybody: always {str(label)!r} (right for {share:.1%} of the rows)"


def recognised(table: Array, labels: Levels, groups: Levels, columns: Sequence[str] = (), most: int = 4) -> str:
    """The rates that matter: of people with the second label, the share of each group that gets it.

    For more than two labels, of the most frequent one.

    >>> N = np.array([[[80.0, 20.0], [70.0, 30.0]], [[40.0, 60.0], [33.0, 67.0]]])
    >>> recognised(N, ("no", "yes"), ("f", "m"), ["sex"])
    "of people with 'yes', 60 % of sex=f and 67 % of sex=m"
    """
    rates = conditional_rates(table)
    y = 1 if len(labels) == 2 else int(table.sum((1, 2)).argmax())
    size = table.sum(2)[y]
    shown = [int(k) for k in np.argsort(-size, kind="stable")[:most] if size[k] > 0]
    names = [group_name(group, columns) for group in groups]
    parts = [f"{percent(rates[y, k, y])} of {names[k]}" for k in shown]
    rest = int((size > 0).sum()) - len(shown)
    more = f" ({rest} smaller group{'s' * (rest > 1)} not shown)" if rest > 0 else ""
    return f"of people with {str(labels[y])!r}, {listed(parts)}{more}"


def listed(parts: Sequence[Any]) -> str:
    """Names in a sentence.

    >>> listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


def preformatted(thing: object) -> str:
    """What it prints, as HTML for a notebook.

    >>> preformatted("v < 0.01")
    '<pre>v &lt; 0.01</pre>'
    """
    return f"<pre>{escape(str(thing))}</pre>"


def wrapped(text: str, indent: str = "") -> list[str]:
    """Lines that fit a terminal, broken between words and never within one.

    >>> wrapped("word " * 21, indent="  ") == ["  " + "word " * 18 + "word", "  word word"]
    True
    """
    how: dict[str, Any] = {"break_on_hyphens": False, "break_long_words": False}
    return wrap(text, WIDTH, initial_indent=indent, subsequent_indent=indent, **how)
