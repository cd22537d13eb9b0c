"""UCI Adult against an independent reading."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pytest

from separatrix import datasets
from separatrix.datasets import adult


@pytest.mark.slow
def test_the_papers_features() -> None:
    data = datasets.load("adult", features="paper")
    assert data.X.shape == (32_561, 16)
    assert np.array_equal(data.X.sum(1), np.full(32_561, 2))
    assert set(np.unique(data.X)) == {0, 1}
    assert data.labels == ("<=50K", ">50K")
    assert data.y.sum() == 7_841
    assert data.group_sizes == {"Female": 10_771, "Male": 21_790}
    assert len(np.unique(np.column_stack([data.X, data.z]), axis=0)) == 124  # distinct (x, z)


def test_the_papers_features_against_the_text() -> None:
    """Row by row from the text, with none of the reader's parts."""
    data = datasets.load("adult")
    text = datasets._files.read(adult._FILE).content.decode()
    for row, line in enumerate(text.splitlines()[:3_000]):
        fields = line.split(", ")
        decade = ">=70" if int(fields[0]) >= 70 else str(int(fields[0]) // 10 * 10)
        years = "<6" if int(fields[4]) < 6 else ">12" if int(fields[4]) > 12 else fields[4]
        on = {data.features[index] for index in np.flatnonzero(data.X[row])}
        assert on == {f"age={decade}", f"education-num={years}"}
        assert (data.labels[data.y[row]], data.groups[data.z[row]]) == (fields[14], fields[9])


@pytest.mark.slow
def test_all_features_against_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    data = datasets.load("adult", features="full")
    content = datasets._files.read(adult._FILE).content.decode()
    from io import StringIO

    frame = pandas.read_csv(
        StringIO(content), header=None, names=adult._COLUMNS, sep=", ", engine="python", na_values="?"
    )
    assert not [name for name in data.features if name.startswith(("sex", "income"))]
    for index, name in enumerate(data.features):
        column, _, level = name.partition("=")
        if not level:
            values = frame[column].to_numpy(float)
            expected = (values - values.mean()) / values.std()
        elif level == "(missing)":
            expected = frame[column].isna().to_numpy(float)
        else:
            expected = (frame[column] == level).to_numpy(float)
        assert np.allclose(data.X[:, index], expected, atol=1e-5), name
    assert frame["workclass"].nunique() + 1 == sum(name.startswith("workclass=") for name in data.features)


def test_the_embedded_file_is_the_publishers(data_folder: str) -> None:
    theirs = gzip.decompress(Path(data_folder, "adult/adult.data.gz").read_bytes())
    assert hashlib.sha256(theirs).hexdigest() == datasets._files.read(adult._FILE).sha256


@pytest.mark.slow
def test_raw_rows_of_a_new_person() -> None:
    """The fitted preprocessing takes the publisher's own columns."""
    data = datasets.load("adult")
    assert data.preprocessing is not None
    X = data.preprocessing.transform({"education-num": [13, 5], "age": [38, 17], "sex": ["Male", "Female"]})
    assert [[data.features[i] for i in np.flatnonzero(row)] for row in X] == [
        ["age=30", "education-num=>12"],
        ["age=10", "education-num=<6"],
    ]
