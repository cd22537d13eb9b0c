"""Benchmark: datasets × methods under the paper's protocol, into one folder of results.

Running it again resumes. Nothing here measures: `sweep` does. `paper_benchmark` also writes
`paper.md`, the paper's tables and figures beside ours. `paper_tables.csv` has the 204 rows of the
paper's five tables of compact operating points. Ours are chosen as there: the best mean over the
folds among the points whose mean is within the budget.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from separatrix import datasets, methods
from separatrix.core.measures import METRICS
from separatrix.errors import DataError, InputError, MissingExtraError
from separatrix.frontier import figures
from separatrix.frontier.results import REFERENCES, Columns, Results, Series, best, main_series, pair, select
from separatrix.frontier.store import ReferenceCurve, Store, hash_of
from separatrix.frontier.sweep import Execution, Job, Source, Stack, grid, run
from separatrix.io import Stages, working, write_whole
from separatrix.optimum.limit import limit
from separatrix.report.figures import write_figure
from separatrix.report.table import Table

DATASETS = ("adult", "compas", "bank", "acs_occupation", "celeba", "acs_occupation_large")
METHODS = (
    "erm", "cmi", "adversarial", "fr_train", "fair_dummy", "fair_dro", "infofair",
    "exponentiated_gradient", "threshold_optimizer",
)  # fmt: skip
ABLATION = ("raw_cmi", "uniform")  # on ACS occupations only
ABLATED = "acs_occupation"
SCALED = "c=1000"  # the recipe of `raw_cmi` that has the paper's picture
CLOSE = 0.01
_HOW = (
    "Methods have the paper's recipe as we read it, fairlearn's reductions a shorter one. Both "
    "columns are the best mean over the folds among the λ whose mean is within the budget, as in "
    "the paper: with noisy folds that flatters. Written by `separatrix benchmark --paper`."
)
NOTES = {
    "acs_occupation": "another draw of rows than the paper's: compare shapes, not digits",
    "compas": "Some λ are within a budget on one assignment of rows to folds and not on another: "
    "an exactly separated policy shows a gap of 0.012 on such folds.",
}
_TABLES = DATASETS[:4]  # celeba needs its images, the large ACS hours
LEFT_OUT = ("exponentiated_gradient",)  # tens of networks for every point; ask for it by name
BATCHES = (512, 1024, 2048, 4096)  # the paper's ablation
ALL_CORES = Execution(n_jobs=-1)
Options = Mapping[str, Mapping[str, Any]]
NO_OPTIONS: Options = {}
_LIKE_FOR_LIKE = ("cmi", "erm", "raw_cmi")  # always with the paper's recipe as well
_LIMIT_ROWS = 60_000  # that the limit of many labels is computed on, at most
_QUICK = (("epochs", 4), ("min_steps", 150))
_SHORTER = {"acs_occupation_large": (("epochs", 10),)}  # 3,930 updates: still the most of the six
_HELP = {"celeba": "Weights: --option celeba.weights=PATH; features that you have: --option celeba.embeddings=PATH."}
_NEED_THE_GROUP = ("postprocessing", "threshold_optimizer")  # when they predict


class Protocol(NamedTuple):
    """How a benchmark runs.

    Args:
        quick: at most five trade-offs a method, a fifth of the training: a first look.
        folds, seed: of the cross-validation; by default five folds, two with `quick`.
        options: of `datasets.load`, by dataset.
        execution: where the work is done.
    """

    quick: bool = False
    folds: int | None = None
    seed: int = 0
    options: Options = NO_OPTIONS
    execution: Execution = ALL_CORES


USUAL = Protocol()


def benchmark(
    names: Sequence[str] | None, out: str | Path, protocol: Protocol = USUAL, *,
    chosen_methods: Sequence[str] | None = None, blind: bool = False,
) -> Iterator[str]:  # fmt: skip
    """Run what is not there yet, write tables and figures; gives what to print, piece by piece.

    Args:
        names: datasets; by default the paper's four tables that are on this machine.
        out: folder.
        protocol: how it runs.
        chosen_methods: by default all but exponentiated gradient, which takes far longer, and the
            recipes "score". One recipe of a method is "cmi:score".
        blind: also every method on X alone, but those that need the group to predict.
    """
    place = Path(out)
    available = {row["name"] for row in datasets.listing() if row["available"]}
    chosen = dict.fromkeys([name for name in _TABLES if name in available] if names is None else names)
    todo = dict.fromkeys(chosen, _jobs(chosen_methods, protocol.quick, blind))
    yield from _run(todo, place, protocol)
    add_limits(place, protocol.options)
    results = Results.read(place)
    yield from write_tables(results, place)
    drawn = figures.draw(results, place / "figures")
    yield f"{len(drawn)} figures in {place / 'figures'}: {', '.join(path.name for path in drawn)}"


def paper_benchmark(names: Sequence[str] | None, out: str | Path, protocol: Protocol = USUAL) -> Iterator[str]:
    """The paper: its methods with its recipe, its ablations, and the page `paper.md`.

    Args:
        names: datasets; by default those of its six that are here or can be downloaded. What is
            not is told on the page, with the reason.
        out: folder.
        protocol: how it runs.
    """
    place = Path(out)
    others = [name for name in names or () if name not in DATASETS]
    if others:
        raise InputError(
            f"The paper has no dataset {others[0]!r}; it has {', '.join(DATASETS)}. Leave out --paper for another."
        )
    able, missing = _installed([*METHODS, *ABLATION])
    todo: dict[str, list[Job]] = {}
    for name in names or DATASETS:
        try:
            Source(name, protocol.options.get(name, {})).load()
        except (DataError, MissingExtraError) as error:
            if names:
                raise
            missing[name] = f"{error} {_HELP.get(name, '')}".strip()
            continue
        todo[name] = _paper_jobs(name, able, protocol.quick)
    yield from _run(todo, place, protocol)
    results = Results.read(place)
    left_out = [name for name in DATASETS if names and name not in names]
    missing |= dict.fromkeys(left_out, "it was not asked for.")
    # an earlier run into the same folder may have done what this one does not
    missing = {name: why for name, why in missing.items() if name not in results.datasets}
    yield from write_page(results, place, missing)


def _run(todo: Mapping[str, list[Job]], place: Path, protocol: Protocol) -> Iterator[str]:
    """Run the jobs of each dataset that have no record yet."""
    quick, folds, seed, options, execution = protocol
    stacks: list[Stack] = []
    for name, jobs in todo.items():
        chosen = [_thinned(job, name) for job in jobs] if quick else jobs
        sources = [Source(name, options.get(name, {}))]
        stacks += grid(sources, chosen, folds=(2 if quick else 5) if folds is None else folds, seed=seed)
    records = sum(len(stack.runs) for stack in stacks)
    yield f"{', '.join(todo)}: {records:,} results, of {len(stacks):,} trainings"
    with Stages(execution.progress).stage("Training", len(stacks)) as done:
        outcome = run(stacks, place, execution, done)
    counts = ", ".join(f"{n:,} {status}" for status, n in sorted(outcome.added.items()))
    yield f"{outcome.skipped:,} records were there; added {counts or 'nothing new'}"


def add_limits(folder: Path, options: Options = NO_OPTIONS) -> None:
    """Limit of post-processing ERM's held-out posteriors, for every dataset whose ERM was kept."""
    store = Store(folder)
    erm = [s for s in store.saved_runs() if (s.first.method, s.first.inputs) == ("erm", "xz")]
    for name in dict.fromkeys(saved.first.dataset for saved in erm):
        first = next(saved.first for saved in erm if saved.first.dataset == name)
        folds_saved = [saved for saved in erm if saved.first.series == first.series]
        key = hash_of([first.series, first.protocol])
        if any(curve.key == key for curve in store.curves()):
            continue
        data = datasets.load(name, **options.get(name, {}))
        fold = datasets.folds(data.y, data.z, first.folds, first.seed)
        posterior = np.full((len(data), len(data.labels)), np.nan, dtype=np.float32)
        for saved in folds_saved:
            posterior[fold == saved.first.fold] = saved.held_out[0]
        rows = ~np.isnan(posterior).any(1)
        y, q, z = data.y[rows], posterior[rows], data.z[rows]
        if q.shape[1] > 2:  # every point is a search over all rows
            some = np.random.default_rng(0).permutation(len(y))[:_LIMIT_ROWS]
            y, q, z = y[some], q[some], z[some]
        with working(f"Limit of {name}"):
            curve = limit(y, q, sensitive_features=z, points=200)
        store.add_curve(ReferenceCurve(name, "limit", curve.violation, curve.utility, key))


def write_tables(results: Results, folder: Path) -> Iterator[str]:
    """Write every dataset's tables as CSV, Markdown and LaTeX; gives the points to print."""
    columns = results.columns
    for name in dict.fromkeys(columns["dataset"].tolist()):
        points = results.operating_points(name)
        written = {
            "operating_points": points,
            "envelopes": results.envelopes(name),
            "randomized": results.paths(name, "randomized"),
            "deterministic": results.paths(name, "deterministic"),
        }
        for kind, table in written.items():
            texts = {"csv": table.csv(), "md": table.markdown(), "tex": table.latex()}
            for ending, text in texts.items():
                write_whole(folder / "tables" / f"{name}-{kind}.{ending}", text)
        yield points.text()
        yield written["envelopes"].text()
    lost = columns["status"] != "ok"
    parts = (columns[name][lost].tolist() for name in ("status", "method", "message"))
    yield from sorted({": ".join(words) for words in zip(*parts, strict=True)})


def _jobs(wanted: Sequence[str] | None, quick: bool, blind: bool = False) -> list[Job]:
    changes = _QUICK if quick else ()
    if wanted is None:
        names = _installed([name for name in methods.names() if name not in LEFT_OUT])[0]
    else:
        names = list(dict.fromkeys(wanted))
    jobs = []
    for asked in names:
        name, _, recipe = asked.partition(":")
        if recipe:
            jobs.append(Job(name, recipe=recipe, changes=changes))
            continue
        known = methods.get(name).recipes
        jobs.append(Job(name, changes=changes, keep=name == "erm"))
        if name == "erm":
            jobs.append(Job(name, inputs="x", changes=changes))
        # like for like with the paper needs its recipe as well
        both = wanted is not None or name in _LIKE_FOR_LIKE
        if both and "paper" in known and known["paper"] != known["default"]:
            jobs.append(Job(name, recipe="paper", changes=changes))
        if wanted is None and "score" in known:
            jobs.append(Job(name, recipe="score", changes=changes))
    able = [job for job in jobs if job.method not in _NEED_THE_GROUP] if blind else []
    alone = [replace(job, inputs="x", keep=False) for job in able]
    return jobs + [job for job in alone if job not in jobs]


def _installed(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """The methods whose libraries are here, and why the others are missing."""
    methods.get("cmi")  # the method whose benchmark this is: without it there is none
    able, missing = [], {}
    for name in names:
        try:
            methods.get(name)
            able.append(name)
        except MissingExtraError as error:
            missing[name] = str(error)
    return able, missing


def _thinned(job: Job, dataset: str) -> Job:
    """At most five of the λ, both ends among them."""
    trade_offs = job.grid(dataset)
    places = np.unique(np.linspace(0, len(trade_offs) - 1, 5).round().astype(int))
    return replace(job, trade_offs=tuple(trade_offs[i] for i in places))


def methods_on(dataset: str) -> list[str]:
    """The paper's methods on one of its datasets: FairDummy is not among those on ACS."""
    return [name for name in METHODS if name != "fair_dummy" or not dataset.startswith("acs")]


def _paper_jobs(dataset: str, able: Sequence[str], quick: bool) -> list[Job]:
    """The paper's methods; its ablations are `raw_cmi` and batch sizes of CMI, every tenth of λ."""
    ablated = dataset == ABLATED
    wanted = [*methods_on(dataset), *(ABLATION if ablated else ())]
    changes = _QUICK if quick else _SHORTER.get(dataset, ())
    jobs = [Job(n, recipe=recipe_of(n), changes=changes) for n in wanted if n in able]
    jobs.append(Job("erm", inputs="x", recipe=recipe_of("erm"), changes=changes))
    if not ablated:
        return jobs
    jobs.append(Job("raw_cmi", recipe=SCALED, changes=changes))
    cmi = methods.get("cmi")
    for batch in BATCHES:
        if batch != cmi.recipes["paper"].batch:  # that one is among the methods anyway
            sized = (*changes, ("batch", batch))
            jobs.append(Job("cmi", cmi.grid("paper"), recipe="paper", changes=sized))
    return jobs


class PaperRow(NamedTuple):
    """A row of the paper's tables; `trade_off` is None for a method without λ."""

    dataset: str
    method: str
    inputs: str
    policy: str
    trade_off: float | None
    constraint: str
    budget: float
    constraint_value: float
    constraint_sd: float
    metric: str
    value: float
    sd: float


def paper_rows(dataset: str | None = None) -> list[PaperRow]:
    """The paper's rows of a dataset, or all of them, in its order.

    >>> len(paper_rows()), len(paper_rows("adult"))
    (204, 66)
    """
    text = files(__package__).joinpath("paper_tables.csv").read_text(encoding="utf-8")
    numbers = ("trade_off", "budget", "constraint_value", "constraint_sd", "value", "sd")
    rows = []
    for cells in csv.DictReader(text.splitlines()):
        read = {name: float(cells[name]) if cells[name] else None for name in numbers}
        rows.append(PaperRow(**{**cells, **read}))  # type: ignore[arg-type]
    return [row for row in rows if dataset in (None, row.dataset)]


def recipe_of(method: str) -> str:
    """The recipe that follows the paper; nothing is imported.

    The reductions of fairlearn have a shorter training of ours, tens of networks a point.
    """
    return "default" if method in ("exponentiated_gradient", "uniform") else "paper"


def beside(results: Results, dataset: str) -> Table:
    """Every row of the paper's table of a dataset, and ours."""
    rows = []
    for row in paper_rows(dataset):
        path = _path_of(results, row)
        i = best(path, row.constraint, row.budget, row.metric)
        ours: tuple[Any, ...] = (None, None, None, None)
        if i is not None:
            λ = None if row.trade_off is None else float(path["trade_off"][i])
            value = pair(path, row.metric, i)
            ours = λ, pair(path, row.constraint, i), value, value[0] - row.value
        name = Series(row.method, row.inputs, "").name
        about = (name, row.policy, row.budget, METRICS[row.metric].head)
        theirs = (row.constraint_value, row.constraint_sd), (row.value, row.sd)
        rows.append((*about, row.trade_off, *theirs, *ours))
    constraint = METRICS[paper_rows(dataset)[0].constraint].head
    parts = (f"{whose}: {field}" for whose in ("Paper", "Ours") for field in ("λ", constraint, "value"))
    head = ("Method", "Policy", "Budget", "Metric", *parts, "Difference")
    caveat = f" ({NOTES[dataset]})" if dataset.startswith("acs") else ""
    return Table(f"{dataset}: the paper's rows and ours{caveat}", head, tuple(rows))


def same_trade_off(results: Results) -> Table:
    """CMI at the λ of the paper's rows, randomised policy: nothing is chosen here."""
    rows: dict[tuple[str, float], dict[str, tuple[float, float]]] = {}
    for row in paper_rows():
        if row.method != "cmi" or row.policy != "randomized" or row.trade_off is None:
            continue
        path = select(_path_of(results, row), trade_off=row.trade_off, lost=0)
        if len(path["trade_off"]):
            cells = rows.setdefault((row.dataset, row.trade_off), {})
            for name, value in ((row.constraint, row.constraint_value), (row.metric, row.value)):
                cells[name] = (value, float(path[name][0]))
    metrics = ("eo_gap", "violation", "accuracy", "auroc")
    empty = (None, None)
    table = tuple((*key, *(cell for name in metrics for cell in cells.get(name, empty))) for key, cells in rows.items())
    head = (f"{METRICS[name].head}{who}" for name in metrics for who in (", paper", ", ours"))
    return Table("CMI at the paper's λ, randomised policy", ("Dataset", "λ", *head), table)


def stability(results: Results) -> Table:
    """How much of the path of v goes backwards as λ asks for more, and the spread over folds.

    Backwards: rises of v over all its changes, of the means over the folds.
    """
    rows: dict[str, dict[str, Any]] = {}
    for dataset in results.datasets:
        for series, name, points in results.main_paths(dataset, "randomized"):
            v = points["violation"]
            if series.method in REFERENCES or series.inputs == "x" or len(v) < 3:
                continue
            change = np.diff(v if methods.strict_end(series.method) == "high" else v[::-1])
            total = float(np.abs(change).sum())
            backwards = float(change.clip(min=0).sum()) / total if total else 0.0
            spread = float(np.nanmean(points["violation_sd"]))
            rows.setdefault(name, {})[dataset] = f"{backwards:.2f} ({spread:.2g})"
    body = tuple((name, *(cells.get(d) for d in results.datasets)) for name, cells in rows.items())
    title = "Share of the path of v that goes backwards (mean spread of v over the folds)"
    return Table(title, ("Method", *results.datasets), body)


def write_page(results: Results, folder: Path, missing: Mapping[str, str]) -> Iterator[str]:
    """Write `paper.md`, the tables as CSV and the figures; gives what to print.

    Args:
        missing: what was not run, and why.
    """
    results = _of_the_paper(results)
    parts = ["# The paper's results, and ours", ""]
    parts += [f"{_cost(results)} {_HOW}", ""]
    for dataset in DATASETS:
        parts += [f"## {dataset}", ""]
        if dataset == "compas":
            parts += [NOTES[dataset], ""]
        for name, figure in _figures(results, dataset):
            write_figure(figure, folder / "paper" / f"{name}.png")
            parts += [f"![{name}](paper/{name}.png)", ""]
        if dataset in missing:
            parts += [f"Not run: {missing[dataset]}", ""]
        if paper_rows(dataset):
            table = beside(results, dataset)
            write_whole(folder / "paper" / f"{dataset}.csv", table.csv())
            if dataset in results.datasets:
                yield f"{dataset}: {_agreement(table)}"
                parts += [_agreement(table), ""]
            parts.append(table.markdown())
    parts += ["## At the same λ", "", same_trade_off(results).markdown()]
    parts += ["## Stability", "", stability(results).markdown(), "## What is missing", ""]
    parts += [f"- **{name}**: {why}" for name, why in missing.items()] or ["Nothing."]
    write_whole(folder / "paper.md", "\n".join(parts) + "\n")
    yield stability(results).text()
    yield from (f"Not run: {name}. {why}" for name, why in missing.items())
    yield f"The page: {folder / 'paper.md'}"


def _path_of(results: Results, row: PaperRow) -> Columns:
    """Fold means of our path for a row of the paper."""
    wanted = (row.method, row.inputs, recipe_of(row.method))
    paths = [s for s in main_series(results.mean, row.dataset) if (*s[:2], s.base) == wanted]
    names = [s.recipe for s in paths]
    return select(
        results.mean, dataset=row.dataset, method=row.method, inputs=row.inputs, recipe=names,
        policy=row.policy,
    )  # fmt: skip


def _of_the_paper(results: Results) -> Results:
    """The records of the paper's datasets, methods and recipes; a folder may hold others too."""
    columns = results.columns
    keep = np.isin(columns["dataset"], DATASETS)
    recipes = {method: recipe_of(method) for method in (*METHODS, *ABLATION)}
    for i, fields in enumerate(zip(*(columns[name] for name in Series._fields), strict=True)):
        series = Series(*map(str, fields))
        keep[i] &= series.base in (recipes.get(series.method), SCALED)
        keep[i] &= series.inputs == "xz" or series.method == "erm"
    # the limit is ours, not the paper's: its figures are drawn without
    rows = {name: column[keep] for name, column in columns.items()}
    return replace(results, columns=rows, curves=())


def _figures(results: Results, dataset: str) -> Iterator[tuple[str, Any]]:
    """The paper's figure of a dataset, and on ACS those of its ablations."""
    if dataset not in results.datasets:
        return
    main = replace(results, columns=select(results.columns, method=methods_on(dataset)))
    yield dataset, figures.six_panels(main, dataset)
    if dataset.startswith("acs"):
        yield from figures.ablations(results, dataset)


def _agreement(table: Table) -> str:
    """How many rows are met."""
    differences = [row[-1] for row in table.rows]
    known = [d for d in differences if d is not None]
    met = sum(d >= -CLOSE for d in known)
    return (
        f"Of {len(differences)} rows ours is no more than {CLOSE} below in {met} "
        f"(above by more than {CLOSE} in {sum(d > CLOSE for d in known)}), further below in "
        f"{len(known) - met}, and has no point within the budget in {differences.count(None)}."
    )


def _cost(results: Results) -> str:
    models = select(results.columns, policy="randomized")
    folds, minutes = len(set(models["fold"].tolist())), models["train_seconds"].sum() / 60
    lost = int((models["status"] != "ok").sum())
    return (
        f"{len(models['fold']):,} trained models, {folds} folds, {minutes:.1f} minutes of CPU for "
        f"training, {lost} lost."
    )
