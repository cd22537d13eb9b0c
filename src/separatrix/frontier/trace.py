"""`trace`: what is possible around a base model, and along trained paths, into a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from separatrix import datasets
from separatrix.columns.groups import group_name
from separatrix.crossfit.base_models import no_other_columns
from separatrix.crossfit.nested import plan_fits
from separatrix.crossfit.proxies import proxies
from separatrix.datasets import Data
from separatrix.errors import DataError, InputError
from separatrix.frontier.answers import measure_answers
from separatrix.frontier.base_models import JOINT, LABELS, WITHOUT, base_key, base_of, fit_base
from separatrix.frontier.folder import check_same, kept_with, remove_checksums, write_manifest, writing
from separatrix.frontier.frontier import Frontier
from separatrix.frontier.numeric import NumericFrontier, trace_numeric
from separatrix.frontier.rows import (
    Settings,
    as_data,
    few_rows,
    leaking_columns,
    repeated_rows,
    split_table,
    useless_model,
)
from separatrix.frontier.store import ALL_ROWS, Store
from separatrix.frontier.sweep import Execution, Job, Source, Stack, grid, run
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
    settings = Settings(
        estimator=estimator, max_eo_gap=max_eo_gap, blind=blind, criterion=criterion,
        method=method, trade_offs=trade_offs, cv=cv, random_state=random_state, out=out,
        sensitive=sensitive, levels=levels,
        execution=Execution(1 if n_jobs is None else n_jobs, progress=progress),
    )  # fmt: skip
    if task == "regression":
        if blind or criterion != "separation" or settings.methods or groups is not None:
            raise InputError(
                "`blind`, `criterion`, `method`, `trade_offs` and `groups` are for labels, not for numbers."
            )
        return trace_numeric(X, y, sensitive_features, settings)
    if sensitive != "groups":
        raise InputError(
            'sensitive="continuous" traces a numeric target: pass task="regression" too; for labels use `theory.align`.'
        )
    data = as_data(X, y, sensitive_features, groups, min_level_rows)
    return trace_data(data, settings, raw=X)


def trace_data(data: Data, settings: Settings, *, name: str = "data", raw: Any = None) -> Frontier:
    """`trace` of data that are loaded already.

    Args:
        data: rows with labels and groups.
        settings: of the trace.
        name: of the data, for people.
        raw: the caller's rows, which an estimator object sees as they are.
    """
    _check(data, settings)
    stages, work = Stages(settings.execution.progress), settings.execution
    stacks = _stacks(data, settings, name)
    with writing(settings.out) as folder:
        check_same(folder, task=Frontier.task, fingerprint=data.fingerprint)
        remove_checksums(folder)
        fold = datasets.folds(data.y, data.z, settings.cv, settings.random_state, data.units)
        with stages.stage("Choosing the base model"):
            base = base_of(data, settings.estimator, raw, fold, settings.random_state)
        key = base_key(data, base, fold)
        # why no model can do without the columns that hold the group; "" if one can
        impossible = no_other_columns(settings.estimator, raw, base.left_out) if base.left_out else ""
        if settings.blind and impossible:
            raise InputError(f"`blind=True` decides without the group, but {impossible}.")
        check_same(folder, key=key, reason=base.note)
        notes = few_rows(data) + repeated_rows(data)
        with stages.stage("Looking for columns that predict the label alone"):
            notes += leaking_columns(data, settings.random_state)
        if settings.blind:
            with stages.stage("Looking for columns that give the group away"):
                notes += _blind_notes(data, settings.random_state)
        kinds = {LABELS: "", WITHOUT: " without the group", JOINT: " for blind rules"}
        if not settings.blind:
            del kinds[JOINT]
        if base.reads != "xz" and (impossible or not base.left_out):
            del kinds[WITHOUT]
        for kind, what in kinds.items():
            with stages.stage(f"Fitting the base model{what}", len(plan_fits(base.bases))) as done:
                try:
                    scores = fit_base(folder, data, base, fold, kind=kind, n_jobs=work.n_jobs, done=done)
                except Exception as error:  # a user's pipeline may raise anything: it is listed
                    if kind != WITHOUT or base.reads == "xz":
                        raise
                    impossible = f"the model cannot be fitted without the group's columns: {error}"
            if kind == LABELS:
                notes = [*useless_model(scores.honest, data.y), *notes]
        if stacks:
            named = ", ".join(dict.fromkeys(stack.job.method for stack in stacks))
            with stages.stage(f"Training {named}", len(stacks)) as done:
                run(stacks, folder, work, done)
            _check_outcome(folder, settings.methods)
        Store(folder).describe(name, data.describe())
        if impossible:
            notes = [*notes, f"Without the group: not possible, {impossible}."]
        known: dict[str, Any] = {"bases": base.bases, "key": key, "reads": base.reads, "note": base.note}
        known |= {"left_out": base.left_out, "impossible": impossible}
        codes = {"y": data.y, "z": data.z, "fold": fold}
        about = _about(data, fold, settings) | {"name": name, "base": known, "notes": notes}
        write_manifest(folder, {k: v.astype(np.int64) for k, v in codes.items()}, about)
        frontier = Frontier(folder)
        with stages.stage("Measuring what could be shipped"):
            measure_answers(frontier)
    return kept_with(frontier, settings.out)


def _check(data: Data, settings: Settings) -> None:
    """Refuse settings that these data do not allow."""
    settings.check_folds(len(data))
    if settings.criterion != "separation" and len(data.labels) > 2:
        raise InputError(
            f"criterion={settings.criterion!r} needs two labels, and there are "
            f"{len(data.labels)}. Leave it out for separation."
        )
    if settings.criterion == "sufficiency" and settings.blind:
        raise InputError("Sufficiency needs the group at decision time: leave `blind` out.")
    if settings.methods and data.units is not None:
        raise InputError("Trained paths do not know which rows are about one person: leave out `method` or `groups`.")
    # every label and group must be in the training rows of every fold
    units = np.arange(len(data)) if data.units is None else data.units
    for what, names, codes in (("label", data.labels, data.y), ("group", data.groups, data.z)):
        sizes = [len(np.unique(units[codes == k])) for k in range(len(names))]
        least = int(np.argmin(sizes))
        if sizes[least] < settings.cv:
            rows = "rows" if data.units is None else "people"
            raise InputError(
                f"The {what} {group_name(names[least])!r} has {sizes[least]} {rows}, too few for "
                f"{settings.cv} folds. Join it with another one, leave its rows out, or pass fewer folds."
            )


def _stacks(data: Data, settings: Settings, name: str) -> list[Stack]:
    """What to train for the paths that were asked for."""
    trade_offs = None if settings.trade_offs is None else tuple(map(float, settings.trade_offs))
    parts = [(*asked.partition(":"), inputs) for asked in settings.methods for inputs in ("xz", "x")]
    jobs = [
        Job(method, trade_offs, inputs, recipe or "default", keep=True)
        for method, _, recipe, inputs in parts
        if inputs == "xz" or settings.blind
    ]
    source = Source(name, data=data)
    stacks = grid([source], jobs, folds=settings.cv, seed=settings.random_state, final=True)
    unable = [job.method for job in jobs if all(stack.job.method != job.method for stack in stacks)]
    if unable:
        raise InputError(
            f"The method {unable[0]!r} cannot learn {len(data.labels)} labels and "
            f"{len(data.groups)} groups. `separatrix methods` lists what each takes; 'cmi' takes any."
        )
    return stacks


def _blind_notes(data: Data, random_state: int) -> list[str]:
    """What a user must know who decides without the group."""
    named = data.grouping.columns if data.grouping is not None else ()
    revealing = str(proxies(data.columns or data.X, data.z, random_state=random_state))
    if named in ((), ("sensitive_features",)):  # an array has no name of its own
        return [revealing]
    return [f"Left out for decisions without the group: {', '.join(map(repr, named))}.", revealing]


def _check_outcome(folder: Path, wanted: Sequence[str]) -> None:
    """Refuse a frontier in which a method that was asked for has no point."""
    for name in wanted:
        records = [lost for lost in Store(folder).records() if lost.run.method == name.partition(":")[0]]
        if records and not any(record.status == "ok" for record in records):
            raise DataError(f"Every run of {name!r} is lost ({records[0].status}): {records[0].message}.")


def _about(data: Data, fold: NDArray[np.intp], settings: Settings) -> dict[str, Any]:
    """What is the same for all points; the preprocessing is that of each fold's training rows."""
    whole, fitted = data.preprocessing, {}
    for k in (ALL_ROWS, *range(settings.cv)):
        prepared = None if whole is None else whole.refit(data.columns, np.flatnonzero(fold != k))
        fitted[k] = None if prepared is None else prepared.to_dict()
    return {
        **data.describe(), "task": Frontier.task, "fingerprint": data.fingerprint,
        "people": len(data) if data.units is None else len(np.unique(data.units)),
        "grouping": None if data.grouping is None else data.grouping.to_dict(),
        "preprocessing": fitted, "seed": settings.random_state, "blind": settings.blind,
        "criterion": settings.criterion, "max_eo_gap": settings.max_eo_gap,
    }  # fmt: skip
