"""Benchmark: datasets × methods under the paper's protocol, into one folder of results.

Running it again resumes. Nothing here measures: `sweep` does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from separatrix import datasets, methods
from separatrix.core.planes import PLANES
from separatrix.errors import DataError, InputError, MissingExtraError
from separatrix.frontier import paper_figures as figures
from separatrix.frontier import paper_page
from separatrix.frontier import path_tables as tables
from separatrix.frontier.results import Results
from separatrix.frontier.sweep.jobs import Job, Source, Stack, grid
from separatrix.frontier.sweep.keys import hash_of
from separatrix.frontier.sweep.runner import Execution, run
from separatrix.frontier.sweep.store import ReferenceCurve, Store
from separatrix.frontier.yardsticks import plane_table
from separatrix.io import Stages, working, write_whole
from separatrix.optimum.limit import limit

__all__ = ["benchmark", "paper_benchmark"]

USUAL = paper_page.DATASETS[:4]  # celeba needs its images, the large ACS hours
LEFT_OUT = ("exponentiated_gradient",)  # tens of networks for every point; ask for it by name
BATCHES = (512, 1024, 2048, 4096)  # the paper's ablation
ALL_CORES = Execution(n_jobs=-1)
Options = Mapping[str, Mapping[str, Any]]
NO_OPTIONS: Options = {}
_LIKE_FOR_LIKE = ("cmi", "erm", "raw_cmi")  # always with the paper's recipe as well
_LIMIT_ROWS = 60_000  # that the limit of many labels is computed on, at most
_QUICK = (("epochs", 4), ("min_steps", 150))
_HELP = {
    "celeba": "Weights: --option celeba.weights=PATH; features that you have: --option "
    "celeba.embeddings=PATH."
}
_NEED_THE_GROUP = ("postprocessing", "threshold_optimizer")  # when they predict


def benchmark(
    names: Sequence[str] | None,
    out: str | Path,
    *,
    chosen_methods: Sequence[str] | None = None,
    quick: bool = False,
    blind: bool = False,
    folds: int = 5,
    seed: int = 0,
    options: Options = NO_OPTIONS,
    execution: Execution = ALL_CORES,
) -> Iterator[str]:
    """Run what is not there yet, write tables and figures; gives what to print, piece by piece.

    Args:
        names: datasets; by default the paper's four tables that are on this machine.
        out: folder.
        chosen_methods: by default all but exponentiated gradient, which takes far longer, and the
            recipes "score". One recipe of a method is "cmi:score".
        quick: two folds, at most five trade-offs a method, a fifth of the training: a first look.
        blind: also every method on X alone, but those that need the group to predict.
        folds, seed: of the protocol.
        options: of `datasets.load`, by dataset.
        execution: where and how it runs.
    """
    place = Path(out)
    chosen = list(dict.fromkeys(names)) if names is not None else _at_hand()
    todo = dict.fromkeys(chosen, _jobs(chosen_methods, quick, blind))
    yield from _run(todo, place, quick, folds, seed, options, execution)
    add_limits(place, options)
    results = Results.read(place)
    yield from write_tables(results, place)
    drawn = figures.draw(results, place / "figures")
    yield f"{len(drawn)} figures in {place / 'figures'}"


def paper_benchmark(
    names: Sequence[str] | None,
    out: str | Path,
    *,
    quick: bool = False,
    folds: int = 5,
    seed: int = 0,
    options: Options = NO_OPTIONS,
    execution: Execution = ALL_CORES,
) -> Iterator[str]:
    """The paper: its methods with its recipe, its ablations, and the page `paper.md`.

    Args:
        names: datasets; by default those of its six that are here or can be downloaded. What is
            not is told on the page, with the reason.
        out, quick, folds, seed, options, execution: see `benchmark`.
    """
    place, missing = Path(out), {}
    todo: dict[str, list[Job]] = {}
    for name in names or paper_page.DATASETS:
        try:
            Source(name, options.get(name, {})).load()
        except (DataError, MissingExtraError) as error:
            if names:
                raise
            missing[name] = f"{error} {_HELP.get(name, '')}".strip()
            continue
        jobs = []
        acs = name.startswith("acs")
        for method in (*paper_page.METHODS, *(paper_page.ABLATION if acs else ())):
            try:
                recipe = paper_page.recipe(method)
            except MissingExtraError as error:
                missing[method] = str(error)
                continue
            changes = _QUICK if quick else ()
            both = ("xz", "x") if method == "erm" else ("xz",)
            jobs += [Job(method, inputs=own, recipe=recipe, changes=changes) for own in both]
        todo[name] = jobs + (_ablations(quick) if acs else [])
    yield from _run(todo, place, quick, folds, seed, options, execution)
    others = [name for name in paper_page.DATASETS if names and name not in names]
    missing |= dict.fromkeys(others, "it was not asked for.")
    yield from paper_page.write_page(Results.read(place), place, missing)


def _run(
    todo: Mapping[str, list[Job]], place: Path, quick: bool, folds: int, seed: int,
    options: Options, execution: Execution,
) -> Iterator[str]:  # fmt: skip
    """Run the jobs of each dataset that have no record yet."""
    stacks: list[Stack] = []
    for name, jobs in todo.items():
        own = [_thinned(job, name) for job in jobs] if quick else jobs
        sources = [Source(name, options.get(name, {}))]
        stacks += grid(sources, own, folds=2 if quick else folds, seeds=(seed,), split_seed=seed)
    records = sum(len(stack.runs) for stack in stacks)
    yield f"{len(stacks):,} stacks, {records:,} records: {', '.join(todo)}"
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
        own = [saved for saved in erm if saved.first.series == first.series]
        key = hash_of([first.series, first.protocol])
        if store.curves(key):
            continue
        data = datasets.load(name, **options.get(name, {}))
        fold = datasets.folds(data.y, data.z, first.folds, first.split_seed)
        posterior = np.full((len(data), len(data.labels)), np.nan, dtype=np.float32)
        for saved in own:
            posterior[fold == saved.first.fold] = saved.held_out[0]
        rows = ~np.isnan(posterior).any(1)
        y, q, z = data.y[rows], posterior[rows], data.z[rows]
        if q.shape[1] > 2:  # every point is a search over all rows
            some = np.random.default_rng(0).permutation(len(y))[:_LIMIT_ROWS]
            y, q, z = y[some], q[some], z[some]
        with working(f"Limit of {name}"):
            found = limit(y, q, sensitive_features=z, points=200)
        curve = ReferenceCurve(name, "limit", found.violation, found.utility)
        store.add_curve(curve, key)


def write_tables(results: Results, folder: Path) -> Iterator[str]:
    """Write every dataset's tables as CSV, Markdown and LaTeX; gives the points to print."""
    columns = results.columns
    for name in dict.fromkeys(columns["dataset"].tolist()):
        points = tables.operating_points(columns, name)
        written = {
            "operating_points": points,
            "envelopes": tables.envelopes(columns, name, limit=results.limit(name)),
            "randomized": tables.paths(columns, name, "randomized"),
            "deterministic": tables.paths(columns, name, "deterministic"),
        }
        planes = PLANES if results.labels(name) == 2 else ("information",)
        written |= {plane: plane_table(columns, name, plane) for plane in planes}
        for kind, table in written.items():
            texts = {"csv": table.csv(), "md": table.markdown(), "tex": table.latex()}
            for ending, text in texts.items():
                write_whole(folder / "tables" / f"{name}-{kind}.{ending}", text)
        yield points.text()
        yield from (written[kind].text() for kind in ("envelopes", *planes))
    lost = columns["status"] != "ok"
    parts = (columns[name][lost].tolist() for name in ("status", "method", "message"))
    yield from sorted({": ".join(one) for one in zip(*parts, strict=True)})


def _at_hand() -> list[str]:
    here = {row["name"] for row in datasets.listing() if row["available"]}
    return [name for name in USUAL if name in here]


def _jobs(wanted: Sequence[str] | None, quick: bool, blind: bool = False) -> list[Job]:
    names = list(dict.fromkeys(methods.names() if wanted is None else wanted))
    if wanted is None:
        names = [name for name in names if name not in LEFT_OUT]
    changes = _QUICK if quick else ()
    jobs = []
    for asked in names:
        name, _, recipe = asked.partition(":")
        try:
            known = methods.get(name).recipes
        except MissingExtraError:
            if wanted is not None or name == "cmi":  # the method whose benchmark this is
                raise
            continue  # the rest of the benchmark does not need that extra
        if recipe:
            jobs.append(Job(name, recipe=recipe, changes=changes))
            continue
        # like for like with the paper needs its recipe as well
        both = wanted is not None or name in _LIKE_FOR_LIKE
        both = both and "paper" in known and known["paper"] != known["default"]
        jobs.append(Job(name, changes=changes, keep=name == "erm"))
        if name == "erm":
            jobs.append(Job(name, inputs="x", changes=changes))
        if both:
            jobs.append(Job(name, recipe="paper", changes=changes))
        if wanted is None and "score" in known:
            jobs.append(Job(name, recipe="score", changes=changes))
    if not jobs:
        raise InputError("There is no method to run.")
    able = [job for job in jobs if job.method not in _NEED_THE_GROUP] if blind else []
    alone = [replace(job, inputs="x", keep=False) for job in able]
    return jobs + [job for job in alone if job not in jobs]


def _thinned(job: Job, dataset: str) -> Job:
    """At most five of the λ, both ends among them."""
    own = job.grid(dataset)
    keep = np.unique(np.linspace(0, len(own) - 1, min(5, len(own))).round().astype(int))
    return replace(job, trade_offs=tuple(own[i] for i in keep))


def _ablations(quick: bool) -> list[Job]:
    """Batch sizes of CMI, every tenth of λ. CMI without gradient norms is the method `raw_cmi`."""
    cmi = methods.get("cmi")
    changes, tenths = dict(_QUICK) if quick else {}, cmi.grid("paper")
    return [
        Job("cmi", tenths, recipe="paper", changes=tuple({**changes, "batch": batch}.items()))
        for batch in BATCHES
        if batch != cmi.recipes["paper"].batch  # that one is among the methods anyway
    ]
