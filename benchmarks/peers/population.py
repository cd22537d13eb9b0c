"""Who is ahead where the truth is known: the rows of a data set are the population.

    python -m benchmarks.peers population compas [--samples 40]

Rules are fitted to samples drawn from the rows with replacement, as many as a training fold has, by
one score for each row (that of trees which did not see it), and are measured on all rows. So there
is no chance in what is found, and no luck in the deal of the folds. One file holds all samples: the
population, once for each of them, with the sample in the place of the training rows.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks._measuring import publish
from benchmarks.peers.compare import trace_rows
from benchmarks.peers.measure import PLANES, Path_, joined, measured, nested
from benchmarks.peers.roster import LINES, OURS, SEEDS, Line, result_of
from benchmarks.peers.rows import DATA, FOLDER, rows_of

QUICK = None  # two of the peers need environments of their own
KIND = "cross-fitted"
PACKAGES = (OURS, "error-parity", "oxonfair", "ThresholdOptimizer")


def samples_of(name: str, samples: int, folder: Path) -> Path:
    """The file of the population and its samples."""
    out = folder / "rows" / f"{name}-population-{samples}.npz"
    if out.is_file():
        return out
    with np.load(rows_of(name, SEEDS[0], folder, joint=False)) as data:
        rows, fold = {key: data[key] for key in ("X", "y", "z")}, data["fold"]
        score, rng = np.empty(len(fold)), np.random.default_rng(SEEDS[0])
        for k in range(5):
            score[fold == k] = data[f"{KIND} {k} test"].mean(0)
        found = {key: np.concatenate([value] * samples) for key, value in rows.items()}
        found |= {"blind": data["blind"], "seed": data["seed"]}
        found |= {"fold": np.repeat(np.arange(samples), len(fold))}
        for k in range(samples):
            drawn = rng.integers(0, len(fold), int((fold != 0).sum()))
            parts = {"rows": drawn, "scores": score[drawn], "test": score[None], "cpu": 0.0}
            found |= {f"{KIND} {k} {part}": value for part, value in parts.items()}
    np.savez_compressed(out, **found)
    return out


def path_of(file: Path, rows: Path, line: Line) -> Path_:
    """Means over the samples are the truth: nothing is taken off for chance."""
    path = measured(file, rows, "decisions", line.gives)
    return Path_(path.x, np.zeros_like(path.x), path.y, path.constant)


def main(data: str, /, samples: int = 40, folder: Path = FOLDER) -> None:
    """Trace every series on samples of the rows, and print who is ahead."""
    rows = samples_of(data, samples, folder)
    budgets, table = PLANES["decisions"].budgets, []
    own = None
    for package in PACKAGES:
        paths = []
        for line in LINES:
            if (line.package, line.gives, line.blind) != (package, "decisions", False):
                continue
            out = result_of(data, f"population-{samples}", line, folder)
            print(line.name, file=sys.stderr, flush=True)
            if not out.is_file() and not trace_rows(line, rows, out, folder, folds=samples):
                sys.exit(f"failed: {line.name}")
            paths.append(path_of(out, rows, line))
        found = nested(joined(paths), budgets, coin=True)
        own = found.y if own is None else own
        ahead = found.y - own
        error = ahead.std(1, ddof=1) / np.sqrt(samples)
        cells = zip(found.y.mean(1), found.x.mean(1), ahead.mean(1), error, strict=True)
        table.append(
            [package]
            + [
                f"{y:.4f} ({x:.4f})" if package == OURS else f"{more:+.4f} ± {sure:.1g} ({x:.4f})"
                for y, x, more, sure in cells
            ]
        )
    head = [DATA[data][2], *(f"EO gap ≤ {b:g}" for b in budgets)]
    publish(f"peers-population-{data}", head, table, write=False)
