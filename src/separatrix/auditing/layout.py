"""What the views of both audits share: a table of text, a filled-in page, numbers as text."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from importlib.resources import files
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from separatrix.columns.groups import group_name
from separatrix.core.measures import BASE_DEPENDENCE, CRITERIA
from separatrix.report.terminal import WIDTH, wrapped
from separatrix.statistics.certificates import promise

if TYPE_CHECKING:
    from separatrix.auditing.result import Audit
    from separatrix.auditing.scores import ScoreAudit
    from separatrix.statistics.dependence import Gap

__all__ = [
    "OTHERS",
    "PALETTE",
    "certainty",
    "certified",
    "criteria",
    "few_groups",
    "lines_of",
    "named_rows",
    "nats",
    "render",
    "verdict",
]

OTHERS = "Other criteria, in nats, and their gaps"
_GAPS = {c.gap_name: c.gap_label for c in (*CRITERIA.values(), BASE_DEPENDENCE)} | {
    "ppv_gap": "PPV gap",
    "npv_gap": "NPV gap",
    "calibration_gap": "calibration gap",
}
# Okabe and Ito's palette: told apart by every kind of colour vision
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#999999")


def lines_of(
    headlines: Sequence[str],
    measures: Sequence[dict[str, str]],
    title: str,
    rows: Sequence[dict[str, str]],
    criteria: tuple[Sequence[dict[str, str]], str],
    notes: Sequence[str],
    scope: str,
) -> str:
    """Headlines, measures, an aligned table, the other criteria, scope and notes."""
    width = max(len(row["name"]) for row in measures)
    lines = [*(line for part in headlines for line in wrapped(part)), ""]
    for row in measures:
        lines += _fitted(f"  {row['name']:<{width}}  {row['value']:>9}  ", row["note"])
    lines += _aligned(title, rows)
    others, identity = criteria
    lines += [*_aligned(OTHERS, others), *wrapped(identity)]
    lines += ["", *(line for part in scope.splitlines() for line in wrapped(part))]
    lines += ["", *(line for note in notes for line in wrapped(f"! {note}"))] if notes else []
    return "\n".join(lines)


def _aligned(title: str, rows: Sequence[dict[str, str]]) -> list[str]:
    if not rows:
        return []
    widths = [max(map(len, column)) for column in zip(*map(dict.values, rows), strict=True)]
    lines = ["", title]
    for row in rows:
        *cells, last = (f"{x:<{w}}" for x, w in zip(row.values(), widths, strict=True))
        lines += _fitted("  " + "".join(f"{cell}  " for cell in cells), last.rstrip())
    return lines


def _fitted(start: str, last: str) -> list[str]:
    """A row as lines: where it is too long, the parts of its last column stand below each other."""
    if len(start + last) <= WIDTH:
        return [(start + last).rstrip()]
    indent = " " * min(len(start), 2 * WIDTH // 3)
    first, *more = last.replace("; ", ";\n").splitlines()
    return [
        line
        for part in (start + first, *(indent + one for one in more))
        for line in wrap(part, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    ]


def render(template: str, values: Mapping[str, Any]) -> str:
    """A template of this room, filled in. Names are the user's, so all of them are escaped."""
    from jinja2 import Environment
    from markupsafe import Markup

    room = files("separatrix.auditing")
    source, style = (room.joinpath(n).read_text(encoding="utf-8") for n in (template, "audit.css"))
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    return environment.from_string(source).render(values, style=Markup(style))


def verdict(gap: float, floor: float, p_value: float) -> str:
    """A gap beside what chance shows, in words."""
    found = "more than chance explains" if p_value < 0.05 else "no more than chance explains"
    return f"groups differ by {gap:.3f} (by chance: {floor:.3f}): {found}."


def few_groups(groups: Sequence[Hashable]) -> str:
    """The groups by name, or how many where they are more than four."""
    if len(groups) > 4:
        return f"{len(groups)} groups"
    return f"groups {', '.join(map(group_name, groups))}"


def named_rows(*rows: tuple[str, str, str]) -> list[dict[str, str]]:
    """Rows of a name, a value and a note."""
    return [dict(zip(("name", "value", "note"), row, strict=True)) for row in rows]


def certainty(a: Audit | ScoreAudit) -> tuple[str, str, tuple[str, str, str]]:
    """The confidence and the interval of v as text, and the row of the test of v = 0."""
    low, high = a.violation_interval
    sure = f"{a.confidence:.0%}".replace("%", " %")
    interval = f"{sure} interval {nats(low)} … {nats(high)}" if a.estimable else "no interval"
    least = a.table.moments is None and a.p_value < 1.0005e-3 and a.violation > 0
    verdict = "" if a.p_value < 0.05 else "separation is not rejected"
    value = f"p {'≤' if least else '='} {a.p_value:.2g}"
    if not least and a.p_value < 1e-3:
        value = "p < 0.001"
    return sure, interval, ("test of v = 0", value, verdict)


def criteria(a: Audit | ScoreAudit, letter: str = "U") -> list[dict[str, str]]:
    """The criteria beside separation: information, test and gaps; `letter` is what was audited."""
    rows = []
    for name, found in a.criteria.items():
        kind = BASE_DEPENDENCE if name == BASE_DEPENDENCE.name else CRITERIA[name]
        rows.append(
            {
                "name": f"{name.replace('_', ' ')} {kind.symbol.replace('U', letter)}",
                "value": nats(found.value),
                "test": "p < 0.001" if found.p_value <= 1e-3 else f"p = {found.p_value:.2g}",
                "gaps": "; ".join(_gap(*one) for one in found.gaps.items()),
            }
        )
    return rows


def _gap(name: str, gap: Gap) -> str:
    value = "unknown" if gap.value is None else f"{gap.value:.3f}"
    if gap.interval is None:
        return f"{_GAPS[name]} {value}"
    low, high = gap.interval
    return f"{_GAPS[name]} {value} [{low:.3f}, {high:.3f}]"


def certified(a: Audit | ScoreAudit) -> str:
    """What the bound on v promises, in plain words."""
    kind = f"The bound on v: {a.guarantee}, {a.composition} composition: it"
    said = f"{kind} {promise(a.guarantee, a.composition)}."
    if a.simulated_failure is None:
        return said
    return (
        f"{said} On simulated tables like this one, with v at its bound, it failed in "
        f"{a.simulated_failure:.1%}."
    )


def nats(x: float) -> str:
    """Information as text: four digits behind the point, or a power of ten."""
    return f"{x:.4f}" if abs(x) >= 0.001 or x == 0 else f"{x:.1e}"
