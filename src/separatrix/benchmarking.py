"""Benchmark: datasets × methods under the paper's protocol, into one folder of records, tables and
figures.

Running it again resumes. Nothing here measures: `sweep` does, and `summary` and `figures` read its
records.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from separatrix import datasets, methods
from separatrix.errors import InputError, MissingExtraError
from separatrix.io import working, write_whole
from separatrix.optimum.limits import limit
from separatrix.runs.jobs import Job, Source, Stack, grid
from separatrix.runs.runner import kept, run
from separatrix.runs.store import Curve, Store
from separatrix.show import figures, tables
from separatrix.show.results import Results

__all__ = ["PAPER", "benchmark"]

PAPER = ("adult", "compas", "bank", "acs_occupation")  # the paper's tables; celeba needs its images
LEFT_OUT = ("exponentiated_gradient",)  # tens of networks for every point; ask for it by name
BATCHES = (512, 1024, 2048, 4096)  # the paper's ablation
_QUICK = (("epochs", 4), ("min_steps", 150))


def benchmark(
    names: Sequence[str] | None,
    out: str | Path,
    *,
    chosen_methods: Sequence[str] | None = None,
    quick: bool = False,
    ablations: bool = False,
    folds: int = 5,
    seed: int = 0,
    jobs: int = -1,
    timeout: float | None = None,
    backend: str = "local",
    scheduler: str | None = None,
    progress: bool | None = None,
) -> Iterator[str]:
    """Run what is not there yet, then write tables and figures; gives what to print, piece by
    piece.

    Args:
        names: datasets; by default the paper's that are on this machine.
        out: folder.
        chosen_methods: by default all but exponentiated gradient, which trains tens of networks for
            every point.
        quick: two folds, at most five trade-offs a method, a fifth of the training. For a look, not
            for a claim.
        ablations: also the paper's two on ACS: batch sizes 512 … 4096, and CMI without gradient
            norms.
        folds, seed: of the protocol.
        jobs, backend, scheduler, timeout, progress: see `sweep.run` and `sweep.grid`.
    """
    place = Path(out)
    chosen = list(dict.fromkeys(names)) if names is not None else _at_hand()
    todo = _jobs(chosen_methods, quick)
    stacks: list[Stack] = []
    for name in chosen:
        source = Source(name)
        own = todo + (_ablations(quick) if ablations and name.startswith("acs") else [])
        own = [_thinned(job, name) for job in own] if quick else own
        stacks += grid(
            [source],
            own,
            folds=2 if quick else folds,
            seeds=(seed,),
            split_seed=seed,
            timeout=timeout,
        )
    yield f"{len(stacks):,} stacks, {sum(len(s.questions) for s in stacks):,} records: {', '.join(chosen)}"
    outcome = run(stacks, place, jobs=jobs, backend=backend, scheduler=scheduler, progress=progress)
    counts = (
        ", ".join(f"{n:,} {status}" for status, n in sorted(outcome.added.items())) or "nothing new"
    )
    yield f"{outcome.skipped:,} records were there; added {counts}"
    add_limits(place)
    results = Results.read(place)
    yield from write_tables(results, place)
    drawn = figures.draw(results, place / "figures")
    yield f"{len(drawn)} figures in {place / 'figures'}"


def add_limits(folder: Path) -> None:
    """The limit of post-processing ERM's held-out posteriors, of every dataset whose ERM was
    kept.
    """
    stacks = [
        k
        for k in kept(folder)
        if (k.questions[0]["method"], k.questions[0]["inputs"]) == ("erm", "xz")
    ]
    with Store(folder) as store:
        for name in dict.fromkeys(k.questions[0]["dataset"] for k in stacks):
            own = [k for k in stacks if k.questions[0]["dataset"] == name]
            first = own[0].questions[0]
            question = f"{first['data']} {first['folds']} {first['split']} {first['recipe']}"
            if store.curves(question):
                continue
            own = [
                k
                for k in own
                if (k.questions[0]["folds"], k.questions[0]["recipe"])
                == (first["folds"], first["recipe"])
            ]
            data = datasets.load(name)
            fold = datasets.folds(data.y, data.z, first["folds"], first["split"])
            posterior = np.full((len(data), len(data.labels)), np.nan, dtype=np.float32)
            for k in own:
                posterior[fold == k.questions[0]["fold"]] = k.held_out[0]
            rows = ~np.isnan(posterior).any(1)
            with working(f"Limit of {name}"):
                found = limit(
                    data.y[rows], posterior[rows], sensitive_features=data.z[rows], points=200
                )
            store.add_curve(Curve(name, "limit", found.violation, found.utility), question)


def write_tables(results: Results, folder: Path) -> Iterator[str]:
    """Write every dataset's tables as CSV, Markdown and LaTeX; gives the operating points to
    print.
    """
    columns = results.columns
    for name in dict.fromkeys(columns["dataset"].tolist()):
        points = tables.operating_points(columns, name)
        written = {
            "operating_points": points,
            "envelopes": tables.envelopes(columns, name, limit=results.limit(name)),
            "randomized": tables.paths(columns, name, "randomized"),
            "deterministic": tables.paths(columns, name, "deterministic"),
        }
        for kind, table in written.items():
            for ending, text in (
                ("csv", table.csv()),
                ("md", table.markdown()),
                ("tex", table.latex()),
            ):
                write_whole(folder / "tables" / f"{name}-{kind}.{ending}", text.encode())
        yield points.text()
        yield written["envelopes"].text()
    lost = columns["status"] != "ok"
    for status, method, message in sorted(
        set(zip(*(columns[c][lost].tolist() for c in ("status", "method", "message")), strict=True))
    ):
        yield f"{status}: {method}: {message}"


def _at_hand() -> list[str]:
    here = {row["name"] for row in datasets.listing() if row["available"]}
    return [name for name in PAPER if name in here]


def _jobs(wanted: Sequence[str] | None, quick: bool) -> list[Job]:
    names = (
        [n for n in methods.names() if n not in LEFT_OUT]
        if wanted is None
        else list(dict.fromkeys(wanted))
    )
    changes = _QUICK if quick else ()
    jobs = []
    for name in names:
        try:
            recipes = methods.get(name).recipes
        except MissingExtraError:
            if wanted is not None:
                raise
            continue  # the rest of the benchmark does not need that extra
        # like for like with the paper needs its recipe as well
        both = "paper" in recipes and recipes["paper"] != recipes["default"]
        jobs.append(Job(name, changes=changes, keep=name == "erm"))
        if name == "erm":
            jobs.append(Job(name, inputs="x", changes=changes))
        if both:
            jobs.append(Job(name, recipe="paper", changes=changes))
    if not jobs:
        raise InputError("There is no method to run.")
    return jobs


def _thinned(job: Job, dataset: str) -> Job:
    """At most five of the λ, both ends among them."""
    own = job.grid(dataset)
    keep = np.unique(np.linspace(0, len(own) - 1, min(5, len(own))).round().astype(int))
    return Job(
        job.method, tuple(own[i] for i in keep), job.inputs, job.recipe, job.changes, job.keep
    )


def _ablations(quick: bool) -> list[Job]:
    """Batch sizes of CMI. CMI without gradient norms is the method `raw_cmi`, which is among the
    methods anyway.
    """
    changes, own = dict(_QUICK) if quick else {}, methods.get("cmi").recipes["paper"].batch
    return [
        Job("cmi", recipe="paper", changes=tuple({**changes, "batch": batch}.items()))
        for batch in BATCHES
        if batch != own  # that one is among the methods anyway
    ]
