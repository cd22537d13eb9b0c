"""`trace`: what is possible around a base model, and along trained paths, into a folder."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from separatrix import datasets
from separatrix.columns.groups import group_name
from separatrix.core.measures import criterion_named
from separatrix.core.numbers import whole_number
from separatrix.crossfit.base_models import no_other_columns
from separatrix.crossfit.nested import plan_fits
from separatrix.crossfit.proxies import proxies
from separatrix.datasets import Data
from separatrix.errors import DataError, InputError
from separatrix.frontier.base_models import JOINT, LABELS, WITHOUT, base_key, base_of, fit_base
from separatrix.frontier.frontier import Frontier
from separatrix.frontier.numeric import MANIFEST as NUMERIC
from separatrix.frontier.numeric import NumericFrontier, trace_numeric
from separatrix.frontier.questions_answered import write_answers
from separatrix.frontier.rows import (
    as_data,
    few_rows,
    leaking_columns,
    repeated_rows,
    split_table,
    useless_model,
)
from separatrix.frontier.store import Store
from separatrix.frontier.sweep import HERE, Execution, Job, Source, describe, grid, run
from separatrix.frontier.traced import (
    check_same_base,
    check_same_rows,
    remove_checksums,
    write_manifest,
    writing,
)
from separatrix.io import Stages


def trace(
    X: Any,
    y: ArrayLike | None = None,
    *,
    sensitive_features: Any,
    target: str | None = None,
    estimator: Any = None,
    max_eo_gap: float = 0.05,
    blind: bool = False,
    criterion: str = "separation",
    method: str | Sequence[str] | None = None,
    trade_offs: Sequence[float] | None = None,
    task: str | None = None,
    cv: int = 5,
    random_state: int = 0,
    n_jobs: int | None = None,
    out: str | Path | None = None,
    progress: bool | None = None,
    sensitive: str = "groups",
    levels: int = 16,
    groups: ArrayLike | None = None,
    min_level_rows: int = 5,
) -> Frontier | NumericFrontier:
    """What is possible on this table: the best decisions and scores for every budget.

    The base model is cross-fitted inside every outer fold: each rule is fitted to scores of unseen
    rows and measured on rows that no part of it saw.

    Args:
        X: features: a dataframe of any library that narwhals takes, a mapping of columns, or a
            numeric array. Text is one-hot, numbers are scaled. With `target` a whole table: a
            frame, a mapping, or the path of a CSV or Parquet file.
        y: labels, two or more; not with `target`.
        sensitive_features: groups; several columns make their intersection. A column of X of the
            same name is left out of X. With `target` the names of the columns.
        target: the column of the table to predict.
        estimator: the base model. None for the best of boosted trees, logistic regression and,
            with torch, a network, by inner log-loss; "trees", "logistic", "network" or
            "MODULE:CLASS"; or a classifier with `predict_proba`, which gets X as it is.
        max_eo_gap: the budget of the first sentence; the curve covers all budgets. With
            another criterion, its own gap.
        blind: also trace decisions made without the group.
        criterion: whose gap the usual questions are about: "separation", or for two labels
            "independence", "sufficiency" (not blind) or "equal_opportunity". `select` answers all
            of them on any frontier.
        method: trained paths beside the base model, of `methods.names()`, as "cmi" or with a
            recipe, as "cmi:score". By default none: they take most of the time of a trace.
        trade_offs: λ of the trained paths; by default each method's own grid.
        cv: folds, stratified on (label, group).
        random_state: seed of folds and models.
        n_jobs: processes; −1 for all cores.
        out: folder that the frontier is written to; calling again with the same folder resumes. By
            default a temporary one: `Frontier.save` keeps it.
        progress: what is being done, on stderr; by default if that is a terminal.
        task: None for labels, "regression" for numbers: then the base model is a regressor (None or
            "trees", "linear", or an object), every group gets a rising map of its predictions
            (`AlignedRegressor`), and the frontier has R², RMSE and v.
        sensitive: "groups", or "continuous" for a number such as age, in a regression.
        levels: of a regression, the largest number of different predictions.
        groups: who each row is about, where several rows may be about one person; not the
            sensitive groups. A person is in one fold, and counts once in errors and bounds.
        min_level_rows: levels of a feature or a sensitive column with fewer rows are joined as
            "(other)": a level that one person has is a person. 1 keeps all.

    Returns:
        The frontier; a `NumericFrontier` for a regression.
    """
    if task not in (None, "regression"):
        raise InputError(f"`task` must be None for labels or 'regression', got {task!r}.")
    if (y is None) == (target is None):
        raise InputError(
            "Pass the labels `y`, or a table as `X` with the name of its label column as `target`"
            + (", not both." if target is not None else ".")
        )
    if target is not None:
        X, y, sensitive_features = split_table(X, target, sensitive_features)
    processes = 1 if n_jobs is None else n_jobs
    if task == "regression":
        others = blind or criterion != "separation" or method or trade_offs is not None
        if others or groups is not None:
            raise InputError(
                "`blind`, `criterion`, `method`, `trade_offs` and `groups` are for labels, not for "
                "numbers."
            )
        return trace_numeric(
            X, y, sensitive_features=sensitive_features, sensitive=sensitive, estimator=estimator,
            levels=levels, cv=cv, random_state=random_state, n_jobs=processes, out=out,
            progress=progress,
        )  # fmt: skip
    if sensitive != "groups":
        raise InputError(
            'sensitive="continuous" traces a numeric target: pass task="regression" too; for '
            "labels use `theory.align`."
        )
    rows = X if estimator is not None and not isinstance(estimator, str) else None
    data = as_data(X, y, sensitive_features, groups, min_level_rows)
    return trace_data(
        data, name="data", estimator=estimator, raw=rows, blind=blind, max_eo_gap=max_eo_gap,
        criterion=criterion, method=method, trade_offs=trade_offs, cv=cv, out=out,
        random_state=random_state, execution=Execution(n_jobs=processes, progress=progress),
    )  # fmt: skip


def trace_data(
    data: Data,
    *,
    name: str,
    estimator: Any = None,
    raw: Any = None,
    max_eo_gap: float = 0.05,
    blind: bool = False,
    criterion: str = "separation",
    method: str | Sequence[str] | None = None,
    trade_offs: Sequence[float] | None = None,
    cv: int = 5,
    random_state: int = 0,
    out: str | Path | None = None,
    execution: Execution = HERE,
) -> Frontier:
    """`trace` of data that are loaded already, under a name."""
    cv = whole_number(cv, "cv")
    if not 3 <= cv <= len(data):  # a model that saw neither of two folds needs a third
        raise InputError(f"`cv` must be between 3 and the {len(data):,} rows of {name}, got {cv}.")
    _check_sizes(data, cv)
    _check_criterion(criterion, data, blind)
    wanted = _methods(method)
    if wanted and data.units is not None:
        raise InputError(
            "Trained paths do not know which rows are about one person: leave out `method` or "
            "`groups`."
        )
    if trade_offs is not None and not wanted:
        raise InputError("`trade_offs` are the λ of trained paths: pass `method` too, as 'cmi'.")
    source = Source(name, data=data)
    jobs = _jobs(wanted, trade_offs, blind)
    stacks = grid([source], jobs, folds=cv, seed=random_state, final=True)
    if method is not None:
        _check_methods(wanted, {stack.job.method for stack in stacks}, data)
    stages = Stages(execution.progress)
    with writing(out) as folder:
        if (folder / NUMERIC).is_file():
            raise InputError(
                f"{str(folder)!r} holds the frontier of a numeric target. Pass another folder for "
                "labels, or remove that one."
            )
        check_same_rows(folder, data)
        remove_checksums(folder)
        fold = datasets.folds(data.y, data.z, cv, random_state, data.units)
        with stages.stage("Choosing the base model"):
            base = base_of(data, estimator, raw, fold, random_state)
        key = base_key(data, base, fold)
        check_same_base(folder, key, base.note)
        notes = few_rows(data) + repeated_rows(data)
        with stages.stage("Looking for columns that predict the label alone"):
            notes += leaking_columns(data, random_state)
        if blind:
            with stages.stage("Looking for columns that give the group away"):
                notes += _blind_notes(data, random_state)
        impossible = no_other_columns(estimator, raw, base.left_out) if base.left_out else ""
        if blind and impossible:
            raise InputError(f"`blind=True` decides without the group, but {impossible}.")
        another = base.reads == "xz" or (base.left_out and not impossible)
        kinds = [LABELS, *([WITHOUT] if another else []), *([JOINT] if blind else [])]
        fits = len(plan_fits(base.bases))
        for kind in kinds:
            what = {LABELS: "", WITHOUT: " without the group", JOINT: " for blind rules"}[kind]
            with stages.stage(f"Fitting the base model{what}", fits) as done:
                try:
                    scores = fit_base(
                        folder, data, base, fold, kind=kind, n_jobs=execution.n_jobs, done=done
                    )
                except Exception as error:  # a user's pipeline may raise anything: it is listed
                    if kind != WITHOUT or base.reads == "xz":
                        raise
                    impossible = f"the model cannot be fitted without the group's columns: {error}"
            if kind == LABELS:
                notes = [*useless_model(scores.honest, data.y), *notes]
        if stacks:
            named = ", ".join(dict.fromkeys(job.method for job in jobs))
            with stages.stage(f"Training {named}", len(stacks)) as done:
                run(stacks, folder, execution, done)
            _check_outcome(folder, wanted)
        Store(folder).describe(name, describe(data))
        if impossible:
            notes = [*notes, f"Without the group: not possible, {impossible}."]
        about = {
            "bases": base.bases, "key": key, "reads": base.reads, "note": base.note,
            "left_out": base.left_out, "impossible": impossible,
        }  # fmt: skip
        settings = {"name": name, "seed": random_state, "base": about, "blind": blind}
        settings |= {"criterion": criterion, "max_eo_gap": max_eo_gap, "notes": notes}
        write_manifest(folder, data, fold, settings)
        frontier = Frontier(folder)
        with stages.stage("Measuring what could be shipped"):
            write_answers(frontier)
    if out is None:  # a temporary folder lives as long as its frontier
        weakref.finalize(frontier, shutil.rmtree, folder, ignore_errors=True)
    return frontier


def _check_criterion(criterion: str, data: Data, blind: bool) -> None:
    criterion_named(criterion)
    if criterion != "separation" and len(data.labels) > 2:
        raise InputError(
            f"criterion={criterion!r} needs two labels, and there are {len(data.labels)}. Leave it "
            "out for separation."
        )
    if criterion == "sufficiency" and blind:
        raise InputError("Sufficiency needs the group at decision time: leave `blind` out.")


def _check_sizes(data: Data, cv: int) -> None:
    """Every label and group must be in the training rows of every fold."""
    units = np.arange(len(data)) if data.units is None else data.units
    for what, names, codes in (("label", data.labels, data.y), ("group", data.groups, data.z)):
        sizes = [len(np.unique(units[codes == k])) for k in range(len(names))]
        least = int(np.argmin(sizes))
        if sizes[least] < cv:
            rows = "rows" if data.units is None else "people"
            raise InputError(
                f"The {what} {group_name(names[least])!r} has {sizes[least]} {rows}, too few for "
                f"{cv} folds. Join it with another one, leave its rows out, or pass fewer folds."
            )


def _methods(method: str | Sequence[str] | None) -> list[str]:
    """The trained paths that were asked for."""
    asked = [] if method is None else [method] if isinstance(method, str) else method
    return list(dict.fromkeys(asked))


def _blind_notes(data: Data, random_state: int) -> list[str]:
    """What a user must know who decides without the group."""
    named = data.grouping.columns if data.grouping is not None else ()
    said = [f"Left out for decisions without the group: {', '.join(map(repr, named))}."]
    found = proxies(data.columns or data.X, data.z, random_state=random_state)
    known = bool(named) and named != ("sensitive_features",)  # an array has no name of its own
    return [*(said if known else []), str(found)]


def _jobs(wanted: Sequence[str], trade_offs: Sequence[float] | None, blind: bool) -> list[Job]:
    own = None if trade_offs is None else tuple(float(t) for t in trade_offs)
    inputs = ("xz", "x") if blind else ("xz",)
    jobs = []
    for name in wanted:
        method, _, recipe = name.partition(":")
        jobs += [Job(method, own, one, recipe or "default", keep=True) for one in inputs]
    return jobs


def _check_methods(wanted: Sequence[str], able: set[str], data: Data) -> None:
    missing = [m for m in wanted if m.partition(":")[0] not in able]
    if missing:
        raise InputError(
            f"The method {missing[0]!r} cannot learn {len(data.labels)} labels and "
            f"{len(data.groups)} groups. `separatrix methods` lists what each takes; 'cmi' takes "
            "any."
        )


def _check_outcome(folder: Path, wanted: Sequence[str]) -> None:
    """Refuse a frontier in which a method that was asked for has no point."""
    records = Store(folder).records()
    for name in wanted:
        own = [record for record in records if record.run.method == name.partition(":")[0]]
        if own and not any(record.status == "ok" for record in own):
            raise DataError(f"Every run of {name!r} is lost ({own[0].status}): {own[0].message}.")
