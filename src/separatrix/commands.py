"""What stands behind the commands `trace`, `limit`, `datasets` and `methods`; `cli` only reads argv
and prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import narwhals as nw
import numpy as np

from separatrix import datasets, methods
from separatrix.columns.engines import check_columns
from separatrix.datasets import Data
from separatrix.errors import InputError, MissingExtraError
from separatrix.io import write_whole
from separatrix.optimum.limits import limit, limit_frame
from separatrix.optimum.objectives import Cost
from separatrix.show import report, tables
from separatrix.tracing.frontier import MANIFEST, Frontier, load_frontier
from separatrix.tracing.training import trace_data

__all__ = [
    "dataset_table",
    "limit_of_file",
    "method_table",
    "parse_cost",
    "report_of",
    "trace_source",
]


def trace_source(
    source: str,
    out: Path,
    *,
    target: str | None,
    sensitive: Sequence[str],
    method: Sequence[str],
    drop: Sequence[str] = (),
    keep: Sequence[str] = (),
    categorical: Sequence[str] = (),
    folds: int = 5,
    seed: int = 0,
    jobs: int = -1,
    references: bool = True,
    backend: str = "local",
    scheduler: str | None = None,
) -> Iterator[str]:
    """Trace a file or a dataset into a folder; gives what to print, piece by piece."""
    data = _open(source, target, sensitive, drop, keep, categorical)
    cells = data.cells
    yield (
        f"{source}: {len(data):,} rows, {len(data.features)} features; labels "
        f"{_shares(data.labels, cells.sum(1))}; "
        f"groups {_shares(data.groups, cells.sum(0))}"
    )
    for note in (*data.card.dropped, *data.card.notes):
        yield f"  note: {note}"
    name = source if target is None else Path(source).name
    frontier = trace_data(
        data,
        name=name,
        method=list(method),
        cv=folds,
        random_state=seed,
        references=references,
        jobs=jobs,
        out=out,
        backend=backend,
        scheduler=scheduler,
    )
    yield from write_tables(frontier)


def write_tables(frontier: Frontier) -> Iterator[str]:
    """Write frontier.csv, the figure and the page of a frontier; gives the tables to print."""
    out, columns, name = frontier.folder, frontier.columns, frontier.name
    both = [tables.paths(columns, name, policy) for policy in ("randomized", "deterministic")]
    rows = tuple(
        (policy, *row)
        for policy, table in zip(("randomized", "deterministic"), both, strict=True)
        for row in table.rows
    )
    write_whole(
        out / "frontier.csv", tables.Table("", ("Policy", *both[0].head), rows).csv().encode()
    )
    page = frontier.report(out / "report.html")
    yield both[0].text()
    yield tables.envelopes(columns, name, limit=frontier.limit).text()
    lost = int((columns["status"] != "ok").sum()) // 2
    if lost:
        yield f"{lost} runs are lost (diverged, failed or timed out); `points` says which and why."
    yield f"Models, records and frontier.csv are in {out}; open {page}"
    yield f"Next: separatrix select {out} --max-violation 0.005 --out model"


def report_of(folder: Path, out: Path) -> Path:
    """The page of a folder; of a frontier with all that its held-out posteriors say, of a benchmark
    without.
    """
    return (
        load_frontier(folder).report(out)
        if (folder / MANIFEST).is_file()
        else report.write(folder, out)
    )


def limit_of_file(
    file: str,
    *,
    y: str,
    z: Sequence[str],
    score: Sequence[str],
    maximize: str = "utility",
    cost: str | None = None,
    budget: str = "violation",
    level: Sequence[float] = (),
) -> str:
    """The best decisions from the scores of a file, as text. One score is counted by the engine."""
    from separatrix.auditing.files import open_files

    relation = open_files(file)
    objective = maximize if cost is None else parse_cost(cost)
    levels = list(level) or None
    if len(score) == 1:
        binary = limit_frame(
            relation, y=y, z=list(z), score=score[0], maximize=objective, budget=budget,
            levels=levels,
        )  # fmt: skip
        return str(binary)
    check_columns(nw.from_native(relation).collect_schema(), [y, *z, *score])
    quoted = (f'"{name.replace(chr(34), chr(34) * 2)}"' for name in dict.fromkeys((y, *z, *score)))
    columns = relation.select(*quoted).fetchnumpy()
    for name, values in columns.items():
        gone = np.ma.getmaskarray(values)
        if gone.any():
            raise InputError(
                f"`{name}` has {int(gone.sum()):,} missing values "
                f"(first in row {int(np.argmax(gone)):,})."
            )
    groups = (
        columns[z[0]]
        if len(z) == 1
        else np.array(
            [" & ".join(map(str, row)) for row in zip(*(columns[c] for c in z), strict=True)]
        )
    )
    scores = np.column_stack([np.asarray(columns[name], dtype=np.float64) for name in score])
    found = limit(
        np.asarray(columns[y]), scores, sensitive_features=np.asarray(groups),
        maximize=objective, budget=budget, levels=levels,
    )  # fmt: skip
    return str(found)


def parse_cost(text: str) -> Cost:
    """`fp=1,fn=5` as a `Cost`."""
    parts = dict(part.split("=", 1) for part in text.split(",") if "=" in part)
    try:
        if set(parts) != {"fp", "fn"}:
            raise ValueError
        return Cost(float(parts["fp"]), float(parts["fn"]))
    except ValueError:
        raise InputError(f"A cost is written fp=1,fn=5, got {text!r}.") from None


def dataset_table() -> str:
    """One line per dataset."""
    rows = tuple(
        (
            row["name"],
            row["rows"],
            row["features"],
            row["labels"],
            row["groups"],
            "yes" if row["available"] else "no",
            row["where"],
            row["licence"],
        )
        for row in datasets.listing()
    )
    return tables.Table(
        "Datasets",
        ("Name", "Rows", "Features", "Labels", "Groups", "Here", "Where", "Licence"),
        rows,
    ).text()


def method_table() -> str:
    """One line per method."""
    rows: list[tuple[str, ...]] = []
    for name in methods.names():
        try:
            method = methods.get(name)
        except MissingExtraError as error:
            rows.append((name, "–", "–", "–", "–", str(error)))
            continue
        takes = [
            ("any" if able else "two")
            for able in (method.supports.multiclass, method.supports.multigroup)
        ]
        rows.append((name, method.label, *takes, str(len(method.trade_offs)), method.reference))
    return tables.Table(
        "Methods", ("Name", "Label", "Labels", "Groups", "Trade-offs", "Reference"), tuple(rows)
    ).text()


def _open(
    source: str,
    target: str | None,
    sensitive: Sequence[str],
    drop: Sequence[str],
    keep: Sequence[str],
    categorical: Sequence[str],
) -> Data:
    if source in datasets.names() and not Path(source).is_file():
        if target is not None or sensitive or drop or keep or categorical:
            raise InputError(
                f"{source!r} is a dataset that knows its columns; --target and the like are for "
                f"files."
            )
        return datasets.load(source)
    if not Path(source).is_file():
        raise InputError(
            f"{source!r} is neither a file nor a dataset; the datasets are "
            f"{', '.join(datasets.names())}."
        )
    if target is None or not sensitive:
        raise InputError(f"Name the columns of {source!r}: --target COLUMN --sensitive COLUMN.")
    return datasets.from_file(
        source,
        target=target,
        sensitive=list(sensitive),
        drop=list(drop),
        keep=list(keep),
        categorical=list(categorical),
    )


def _shares(names: Sequence[object], sizes: np.ndarray) -> str:
    shown = [f"{name} {size / sizes.sum():.1%}" for name, size in zip(names, sizes, strict=True)]
    return ", ".join(shown[:6]) + (f" and {len(shown) - 6} more" if len(shown) > 6 else "")
