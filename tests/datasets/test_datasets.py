"""The contract: every name in the folder loads, keeps its promises, and says what it is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from separatrix import datasets
from separatrix.errors import DataError, InputError

NAMES = ["acs_occupation", "acs_occupation_large", "adult", "bank", "celeba", "compas", "synthetic"]


@pytest.fixture(scope="module", params=datasets.names())
def options(
    request: pytest.FixtureRequest, make_celeba: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """How to load each dataset: without options, but for CelebA a miniature of it where the images
    are not here.
    """
    if request.param == "celeba" and datasets.dataset("celeba").where() is None:
        folder = make_celeba(tmp_path_factory.mktemp("miniature") / "celeba")
        return {"name": "celeba", "folder": folder, "embeddings": folder / "ready.npy"}
    return {"name": request.param}


@pytest.fixture(scope="module")
def loaded(options: dict[str, Any]) -> datasets.Data:
    try:
        return datasets.load(**options)
    except DataError as error:
        pytest.skip(str(error))


def test_the_folder_is_the_registry() -> None:
    assert set(NAMES) <= set(datasets.names())


def test_names_imports_no_dataset_and_no_heavy_library() -> None:
    code = (
        "import sys, separatrix.datasets as d; d.names(); "
        f"print([m for m in sys.modules if m.split('.')[-1] in {NAMES!r} and "
        f"m.startswith('separatrix')], "
        "[m for m in ('torch', 'pandas', 'polars', 'pyarrow', 'pooch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"


@pytest.mark.slow
def test_embedded_data_need_no_dataframe_library() -> None:
    code = (
        "import sys\n"
        "for m in ('torch', 'pandas', 'polars', 'pyarrow', 'duckdb', 'pooch'): sys.modules[m] = "
        "None\n"
        "from separatrix import datasets\n"
        "print(datasets.load('adult').X.shape, datasets.load('bank').X.shape, "
        "datasets.load('synthetic').X.shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "(32561, 16) (45211, 51) (10000, 8)"


@pytest.mark.slow
def test_sizes_are_those_declared(loaded: datasets.Data, options: dict[str, Any]) -> None:
    declared = datasets.dataset(loaded.card.name)
    rows = 10 if "folder" in options else declared.rows
    assert loaded.X.shape == (rows, declared.features)
    assert loaded.X.dtype == np.float32
    assert (len(loaded.labels), len(loaded.groups)) == (declared.labels, declared.groups)
    assert loaded.y.shape == loaded.z.shape == (rows,)


def test_features_are_finite_and_named(loaded: datasets.Data) -> None:
    assert np.isfinite(loaded.X).all()
    assert len(set(loaded.features)) == loaded.X.shape[1]


def test_every_label_and_group_occurs(loaded: datasets.Data) -> None:
    assert loaded.cells.sum() == len(loaded)
    assert (loaded.cells.sum(0) > 0).all()
    assert (loaded.cells.sum(1) > 0).all()
    assert list(loaded.group_sizes.values()) == np.bincount(loaded.z).tolist()


@pytest.mark.slow
def test_loading_again_gives_the_same(loaded: datasets.Data, options: dict[str, Any]) -> None:
    again = datasets.load(**options)
    assert np.array_equal(again.X, loaded.X)
    assert np.array_equal(again.y, loaded.y)
    assert np.array_equal(again.z, loaded.z)


def test_the_card_is_complete_and_plain(loaded: datasets.Data) -> None:
    card = loaded.card.to_dict()
    assert json.loads(json.dumps(card))["counts"]["rows"] == len(loaded)
    assert card["licence"]
    assert card["source"]
    assert sum(card["counts"]["labels"].values()) == sum(card["counts"]["groups"].values()) == len(loaded)
    assert all(len(digest) == 64 for digest in card["read_from"].values())


@pytest.mark.slow
def test_statistics_are_of_the_training_rows_only(loaded: datasets.Data) -> None:
    """Whatever stands in the other rows, the preprocessing of a fold is the same."""
    train = datasets.folds(loaded.y, loaded.z) != 0
    X, fitted = loaded.prepared(train)
    if loaded.preprocessing is None:
        assert X is loaded.X
        assert fitted is None
        return
    assert fitted is not None
    raw = datasets.take(loaded.columns, np.flatnonzero(train))
    assert fitted == loaded.preprocessing.refit(raw, np.arange(train.sum()))
    assert np.array_equal(X[train], fitted.transform(raw))
    assert X.shape == loaded.X.shape
    numbers = [i for i, name in enumerate(loaded.features) if "=" not in name]
    assert np.allclose(X[train][:, numbers].mean(0, dtype=np.float64), 0, atol=1e-5)
    assert np.allclose(X[train][:, numbers].std(0, dtype=np.float64), 1, atol=1e-4)


def test_the_listing_says_what_is_here() -> None:
    rows = {row["name"]: row for row in datasets.listing()}
    assert list(rows) == datasets.names()
    assert rows["adult"]["where"] == rows["bank"]["where"] == "embedded"
    assert rows["synthetic"]["where"] == "generated"


def test_the_listing_says_what_to_put_where(own_data: object) -> None:
    rows = {row["name"]: row for row in datasets.listing()}
    assert not rows["compas"]["available"]
    assert f"put it at {own_data}/compas/compas-scores-two-years.csv, from https://" in rows["compas"]["where"]
    assert f"{own_data}/celeba/list_attr_celeba.txt" in rows["celeba"]["where"]


def test_an_unknown_name_or_option_is_refused() -> None:
    with pytest.raises(InputError, match="There is no dataset 'adults'; there are acs_occupation, "):
        datasets.load("adults")
    with pytest.raises(InputError, match="'bank' has no option 'features'; it takes marital"):
        datasets.load("bank", features="full")
    for name in ("adult", "compas"):
        with pytest.raises(InputError, match="must be 'paper' or 'full', got 'all'"):
            datasets.load(name, features="all")
