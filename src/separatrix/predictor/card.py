"""MODEL_CARD.md: what a person must know before using the model."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Any

from separatrix import methods
from separatrix.columns.groups import group_name
from separatrix.core.measures import label_of
from separatrix.optimum.rules import OneThreshold, PlainRule
from separatrix.report.words import estimate_text
from separatrix.statistics.unseen import Promise

if TYPE_CHECKING:
    from separatrix.predictor.predictor import Branch, Predictor

CARD = "MODEL_CARD.md"
_RULES = {
    "thresholds_by_group": "thresholds by group",
    "softmax": "a rule by group",
    "hard_mixture": "a rule by group",
    "blind": "a rule without the group",
    "separated_score": "none: it is a score",
    "blind_score": "none: it is a score",
    "aligned": "none: it is a number, one of the released values",
    "posterior": "drawn from the posterior",
}
_MIXTURE = (
    "A **revealed mixture**: for each decision one of the models below is drawn, independently of the person, and "
    "the draw is reported with the decision."
)
_LIMITS = (
    "The violation v = I(U;Z|Y) is what the decision says about the group beyond the true outcome, in nats. It was "
    "measured on data like the training data, with the recorded outcome taken as the true one; another population or "
    "another way of recording outcomes needs another audit, and `separatrix.Monitor` watches the one in use. A low v "
    "says nothing about accuracy within a group, nor whether the outcome itself is the right thing to predict."
)
_TITLES = {"choice": "Why this point", "audit": "Audit at selection, all folds pooled", "card": "Data"}


def text(predictor: Predictor) -> str:
    """The card as Markdown."""
    about = predictor.about
    lines = ["# Model card", ""]
    if len(predictor.branches) > 1:
        lines += [_MIXTURE, "", "| branch | drawn | model | λ | decision |", "|---|---|---|---|---|"]
        for i, (branch, weight) in enumerate(zip(predictor.branches, predictor.weights, strict=True)):
            model, trade_off = _trained(branch)
            lines.append(f"| {i} | {weight:.1%} | {model} | {trade_off} | {_decision(predictor, branch)} |")
        lines.append("")
    else:
        (branch,) = predictor.branches
        if branch.base.method:
            lines.append("- trained by: {}, λ = {}".format(*_trained(branch)))
        lines.append(f"- decision: {_decision(predictor, branch)}")
    coin = "yes; use `ids` and a secret `salt` in production" if predictor.randomized else "no"
    lines += [*_axes(predictor), f"- throws a coin: {coin}"]
    if predictor.randomized:
        bound = predictor.key_id or "none; bind one with `predictor.with_key(salt)`"
        lines.append(f"- key id of the secret: {bound}")
    lines.append(f"- model hash: {predictor.model_hash}")
    if predictor.columns:
        lines.append(f"- reads the columns: {_names(predictor.columns)}")
    for key, title in _TITLES.items():
        if about.get(key):
            lines += ["", f"## {title}", "", *_listed(_with_errors(about[key]))]
    return "\n".join([*lines, "", "## Limits", "", _LIMITS]) + "\n"


def _axes(predictor: Predictor) -> list[str]:
    """What is predicted, for whom, and whether it reads the group."""
    columns = predictor.grouping.columns if predictor.grouping else ()
    groups = _names([group_name(group, columns) for group in predictor.groups])
    if not predictor.groups and predictor.uses_groups:
        groups = f"none: the attribute is a number {' '.join(map(_escape, columns))}".rstrip()
    labels = f"labels: {_names(predictor.labels)}"
    if predictor.is_value:
        labels = f"released values: {', '.join(f'{value:.5g}' for value in predictor.labels)}"
    reads = "yes" if predictor.uses_groups else "no"
    if columns and predictor.uses_groups and not columns[0].startswith("sensitive_features"):
        reads = f"yes, the column {_escape(' & '.join(columns))}"
    return [f"- {labels}", f"- groups: {groups}", f"- uses the group to predict: {reads}"]


def _with_errors(value: Any) -> Any:
    """A promise as the terminal and the report write it: estimate ± standard error."""
    if not isinstance(value, Mapping) or "promise" not in value:
        return value
    promise = {
        label_of(name): estimate_text(name, Promise.normal(*promised[:2]))
        for name, promised in value["promise"].items()
    }
    return {**value, "promise": promise}


def _trained(branch: Branch) -> tuple[str, str]:
    """The method that trained a model, and its λ; a rule around a model has a budget instead."""
    method = branch.base.method
    return methods.style(method or "postprocessing").label, f"{branch.base.trade_off:g}" if method else "–"


def _decision(predictor: Predictor, branch: Branch) -> str:
    rule = branch.rule
    if rule.kind in _RULES:
        coin = "" if rule.certain or rule.kind == "posterior" else "; a coin where the budget binds"
        coin = ", a level that is drawn" if coin and predictor.is_score else coin
        return f"{_RULES[rule.kind]}{coin}"
    if len(predictor.labels) > 2:
        return "the most probable label"
    assert isinstance(rule, PlainRule | OneThreshold)
    return f"{_escape(predictor.labels[1])} if its probability exceeds {rule.threshold:.4g}"


def _listed(value: Any, depth: int = 0) -> list[str]:
    """Plain data as a nested list; what is empty is left out."""
    if not isinstance(value, Mapping):
        return [_escape(value)]
    lines = []
    for key, entry in value.items():
        start = f"{'  ' * depth}- {_escape(str(key).replace('_', ' '))}:"
        if isinstance(entry, Mapping) and entry:
            lines += [start, *_listed(entry, depth + 1)]
        elif isinstance(entry, list | tuple) and entry:
            lines.append(f"{start} {_escape(', '.join(map(_number, entry)))}")
        elif entry not in ("", None, {}, [], ()):
            lines.append(f"{start} {_escape(_number(entry))}")
    return lines


def _number(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _names(levels: Any) -> str:
    shown = ", ".join(_escape(level) for level in levels[:30])
    return shown + (f" and {len(levels) - 30} more" if len(levels) > 30 else "")


def _escape(value: Any) -> str:
    """The user's words as text: no markup, no line breaks."""
    out = escape(str(value), quote=False).replace("\n", " ")
    for mark in "\\`*_[]|":
        out = out.replace(mark, "\\" + mark)
    return out
