"""Saved runs are read by their header first, their arrays when they are asked for."""

from __future__ import annotations

import numpy as np
import pytest
import safetensors

from separatrix.errors import DataError
from separatrix.frontier.store import MODELS, Store
from separatrix.frontier.trained import trained_points

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def frontier(traced):
    return traced


@pytest.fixture
def reads(monkeypatch):
    """The names of the tensors that are read, as they are."""
    names, real = [], safetensors.safe_open

    class Counting:
        def __init__(self, *arguments, **options):
            self.file = real(*arguments, **options)

        def __enter__(self):
            self.file.__enter__()
            return self

        def __exit__(self, *error):
            return self.file.__exit__(*error)

        def metadata(self):
            return self.file.metadata()

        def keys(self):
            return self.file.keys()

        def get_tensor(self, name):
            names.append(name)
            return self.file.get_tensor(name)

    monkeypatch.setattr(safetensors, "safe_open", Counting)
    return names


@pytest.mark.slow
def test_choosing_by_name_reads_no_array(frontier, reads):
    vars(frontier).pop("results", None)
    assert len(trained_points(frontier)) == 6
    assert reads == []
    saved, _ = frontier.saved_run("cmi", 1.0)
    assert reads == []
    assert saved.held_out.shape[1] == 0  # the model of all rows has no test rows
    assert reads == ["held_out"]
    assert all(np.isfinite(array).all() for array in saved.arrays.values())
    assert len(reads) == 1 + len(saved.arrays)


def test_a_damaged_file_of_models_is_one_sentence(tmp_path):
    (tmp_path / MODELS).mkdir()
    (tmp_path / MODELS / "x.safetensors").write_bytes(b"no")
    with pytest.raises(DataError, match="not a file of models"):
        Store(tmp_path).saved_runs()
