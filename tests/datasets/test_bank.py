"""UCI Bank Marketing against an independent reading."""

from __future__ import annotations

import csv
import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from separatrix import datasets
from separatrix.datasets import bank


def test_counts() -> None:
    data = datasets.load("bank")
    assert data.X.shape == (45_211, 51)
    assert data.card.counts["labels"] == {"no": 39_922, "yes": 5_289}
    assert data.group_sizes == {"not married": 17_997, "married": 27_214}
    assert sum("=" not in name for name in data.features) == 7


@pytest.mark.slow
def test_against_the_text() -> None:
    data = datasets.load("bank")
    lines = datasets._files.read(bank._FILE).content.decode().splitlines()
    rows = list(csv.DictReader(lines, delimiter=";"))
    for name in ("age", "balance", "pdays"):
        x = np.array([float(row[name]) for row in rows])
        assert np.allclose(data.X[:, data.features.index(name)], (x - x.mean()) / x.std(), atol=1e-5)
    for name in ("job=blue-collar", "month=may", "poutcome=other", "marital=single"):
        column, level = name.split("=")
        assert data.X[:, data.features.index(name)].tolist() == [row[column] == level for row in rows]
    assert data.y.tolist() == [row["y"] == "yes" for row in rows]
    assert data.z.tolist() == [row["marital"] == "married" for row in rows]


@pytest.mark.slow
def test_marital_status_can_be_left_out() -> None:
    data = datasets.load("bank", marital=False)
    assert data.X.shape == (45_211, 48)
    assert not [name for name in data.features if "marital" in name]
    assert "marital" not in data.columns
    assert np.array_equal(data.z, datasets.load("bank").z)


def test_the_embedded_file_is_the_publishers(data_folder: str) -> None:
    theirs = gzip.decompress(Path(data_folder, "bank/bank-full.csv.gz").read_bytes())
    assert hashlib.sha256(theirs).hexdigest() == datasets._files.read(bank._FILE).sha256


def test_it_is_small_enough_to_embed() -> None:
    folder = Path(bank.__file__).parent / "data"
    assert (folder / "bank-full.csv.xz").stat().st_size < 600_000
