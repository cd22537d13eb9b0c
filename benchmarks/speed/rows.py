"""Rows for the measurements: random labels, groups, decisions and scores, in memory and on disk."""

from __future__ import annotations

import numpy as np


def people(rows: int, cells: tuple[int, int]) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Labels and groups of equal frequency, and the generator for the rest."""
    rng = np.random.default_rng(0)
    return rng.integers(0, cells[0], rows), rng.integers(0, cells[1], rows), rng


def write_parquet(folder: str, rows: int, files: int = 1) -> str:
    """Labels y, three groups z, decisions u and scores s that know y, evenly in Parquet files."""
    import duckdb

    for part in range(files):
        start, end = part * rows // files, (part + 1) * rows // files
        duckdb.execute(
            f"""COPY (SELECT (hash(i) % 2)::TINYINT y, ('g' || (hash(i + 1) % 3)) z,
            (hash(i + 2) % 2)::TINYINT u,
            ((hash(i + 3) % 1000003) / 1000003.0 + (hash(i) % 2)) / 2 s
            FROM range({start}, {end}) t(i)) TO '{folder}/part-{part}.parquet' (FORMAT parquet)"""
        )
    return f"{folder}/part-*.parquet"
