"""The work that `benchmarks.growth` measures: each makes its input and gives what to time."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

Work = Callable[[], Any]


def _people(
    rows: int, cells: tuple[int, int]
) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    rng = np.random.default_rng(0)
    return rng.integers(0, cells[0], rows), rng.integers(0, cells[1], rows), rng


def _posteriors(y: np.ndarray, z: np.ndarray, labels: int, rng: np.random.Generator) -> np.ndarray:
    """Posteriors that know the label, and the group a little."""
    logits = rng.normal(size=(len(y), labels))
    logits[np.arange(len(y)), y] += 1.5
    logits[:, 0] += 0.1 * (z % 3)
    p = np.exp(logits)
    return p / p.sum(1, keepdims=True)


def audit(rows: int, cells: tuple[int, int], **_: Any) -> Work:
    import separatrix as sx

    y, z, rng = _people(rows, cells)
    u = np.where(rng.random(rows) < 0.3, rng.integers(0, cells[0], rows), y)
    return lambda: sx.audit(y, u, sensitive_features=z)


def audit_scores(rows: int, cells: tuple[int, int], **_: Any) -> Work:
    import separatrix as sx

    y, z, rng = _people(rows, cells)
    p = _posteriors(y, z, cells[0], rng)
    return lambda: sx.audit(y, p, sensitive_features=z)


def audit_files(rows: int, **_: Any) -> Work:
    import duckdb

    import separatrix as sx

    folder = tempfile.TemporaryDirectory()
    path = f"{folder.name}/rows.parquet"
    duckdb.execute(
        f"""COPY (SELECT (hash(i) % 2)::TINYINT y, ('g' || (hash(i + 1) % 3)) z,
        (hash(i + 2) % 2)::TINYINT u
        FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)"""
    )
    return lambda keep=folder: sx.audit(path, target="y", sensitive_features="z", prediction="u")


def train(rows: int, cells: tuple[int, int], trade_offs: int, features: int) -> Work:
    import torch

    from separatrix import methods
    from separatrix.methods import Recipe

    torch.set_num_threads(1)
    sample, lanes = _sample(rows, cells, trade_offs, features)
    return lambda: methods.fit("cmi", sample, lanes, recipe=Recipe(epochs=1, min_steps=0))


def _sample(rows: int, cells: tuple[int, int], trade_offs: int, features: int) -> tuple[Any, Any]:
    from separatrix.methods import Lane, Sample

    y, z, rng = _people(rows, cells)
    x = rng.standard_normal((rows, features), dtype=np.float32)
    x[:, 0] += y
    x[:, 1] += z
    lanes = [Lane(float(t), np.arange(rows), 0) for t in np.linspace(0.0, 1.0, trade_offs)]
    return Sample(x, y, z, n_labels=cells[0], n_groups=cells[1]), lanes


def _scored(rows: int, groups: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Labels, a score that knows them better in some groups, and the groups."""
    _, z, rng = _people(rows, (2, groups))
    y = (rng.random(rows) < 0.2 + 0.4 * z / groups).astype(int)
    return y, rng.normal(size=rows) + y * (0.6 + 1.5 * z / groups) + z / groups, z


def limit(rows: int, cells: tuple[int, int], trade_offs: int, **_: Any) -> Work:
    import separatrix as sx

    y, s, z = _scored(rows, cells[1])
    return lambda: sx.limit(y, s, sensitive_features=z, points=max(trade_offs, 2))


def limit_accuracy(rows: int, cells: tuple[int, int], trade_offs: int, **_: Any) -> Work:
    import separatrix as sx

    y, s, z = _scored(rows, cells[1])
    asked = {"maximize": "accuracy", "budget": "eo_gap", "points": max(trade_offs, 2)}
    return lambda: sx.limit(y, s, sensitive_features=z, **asked)


def limit_cost(rows: int, cells: tuple[int, int], trade_offs: int, **_: Any) -> Work:
    import separatrix as sx

    y, s, z = _scored(rows, cells[1])
    cost = sx.Cost(false_positive=1, false_negative=5)
    asked = {"maximize": cost, "budget": "violation", "points": max(trade_offs, 2)}
    return lambda: sx.limit(y, s, sensitive_features=z, **asked)


def separate(rows: int, cells: tuple[int, int], **_: Any) -> Work:
    import separatrix as sx

    y, s, z = _scored(rows, cells[1])
    return lambda: sx.theory.separate(y, s, sensitive_features=z)


def blind(rows: int, cells: tuple[int, int], trade_offs: int, **_: Any) -> Work:
    """Column generation for accuracy within EO gaps, from the true q(y, z | x)."""
    from separatrix.optimum.promised import BlindPromises

    y, z, rng = _people(rows, (2, cells[1]))
    means = np.stack([np.linspace(0.0, 1.0, cells[1]), np.linspace(1.5, 2.0, cells[1])])
    x = rng.normal(size=rows) + means[y, z]
    q = np.exp(-0.5 * (x[:, None, None] - means) ** 2)
    q /= q.sum((1, 2), keepdims=True)
    levels = np.linspace(0.01, 0.2, max(trade_offs, 1)).tolist()

    def path() -> None:
        best = BlindPromises(q, y, z, np.ones(rows), tuple(range(cells[1])))
        for level in levels:
            best.point(level)

    return path


def boosting(rows: int, cells: tuple[int, int], trade_offs: int, features: int) -> Work:
    from separatrix import methods

    sample, lanes = _sample(rows, cells, trade_offs, features)
    return lambda: methods.fit("cmi_boosting", sample, lanes)


def _score_file(rows: int, groups: int) -> tuple[Any, str]:
    import duckdb

    folder = tempfile.TemporaryDirectory()
    path = f"{folder.name}/scores.parquet"
    with duckdb.connect() as connection:
        connection.execute(
            f"""COPY (SELECT (hash(i) % 2)::TINYINT y, (hash(i + 1) % {groups})::TINYINT z,
            ((hash(i + 2) % 1000003) / 1000003.0 + (hash(i) % 2)) / 2 AS score
            FROM range({rows}) t(i)) TO '{path}' (FORMAT parquet)"""
        )
    return folder, path


def audit_score_files(rows: int, cells: tuple[int, int], **_: Any) -> Work:
    import separatrix as sx

    folder, path = _score_file(rows, cells[1])
    return lambda keep=folder: sx.audit_score(
        path, target="y", sensitive_features="z", prediction="score"
    )


def limit_files(rows: int, cells: tuple[int, int], trade_offs: int, **_: Any) -> Work:
    import duckdb

    import separatrix as sx

    folder, path = _score_file(rows, cells[1])
    connection = duckdb.connect()
    asked = {"maximize": "accuracy", "budget": "eo_gap", "points": max(trade_offs, 2)}
    asked |= {"target": "y", "sensitive_features": "z", "score": "score"}
    return lambda keep=folder: sx.limit(connection.read_parquet(path), **asked)


def channel(rows: int, cells: tuple[int, int], trade_offs: int, **_: Any) -> Work:
    from separatrix.optimum.multiclass.cross_fitted import LabelRules

    labels = max(cells[0], 3)  # with two labels the limit above is exact and takes its place
    y, z, rng = _people(rows, (labels, cells[1]))
    p = _posteriors(y, z, labels, rng)
    prices = np.geomspace(0.05, 20.0, max(trade_offs, 1)).tolist()

    def path() -> None:
        rules = LabelRules(p, y, z, np.ones(rows), cells[1], "utility")
        for price in prices:
            rules.point(price, (1.0, 30.0))

    return path
