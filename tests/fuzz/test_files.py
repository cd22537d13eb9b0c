"""Files of rows, and every command of the command line."""

from __future__ import annotations

import contextlib
import io
import json
import sys

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given

import hostile
import separatrix as sx
from fuzzing import SEEDS, cases, finite, shows, told
from separatrix.cli import main
from separatrix.columns import readers

pytestmark = pytest.mark.slow
NAMES = ["y", "z", "u"]
ENDINGS = ("a.csv", "a.csv", "a.csv", "a.tsv", "a.parquet", "a.txt")


def a_file(rng, base):
    """A file of rows that may be damaged, and the columns that a caller names."""
    folder = base / "fuzz"
    folder.mkdir(exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    path, n = folder / hostile.pick(rng, ENDINGS), int(rng.integers(0, 30))
    if path.suffix == ".parquet" and rng.random() < 0.8:
        pq.write_table(hostile.arrow_table(rng, NAMES, n), path)
    else:
        path.write_bytes(hostile.csv_bytes(rng, NAMES, n))
    return path, *(hostile.pick(rng, (own, own, own, own, "y", "none", "")) for own in NAMES)


@pytest.mark.nightly
@given(seed=SEEDS)
@cases(80)
def test_files(seed, tmp_path_factory):
    rng = np.random.default_rng(seed)
    path, y, z, u = a_file(rng, tmp_path_factory.getbasetemp())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "LARGE", hostile.pick(rng, (0, readers.LARGE)))  # DuckDB, or not
        result = told(lambda: sx.audit(path, target=y, sensitive_features=[z], prediction=[u]))
        assert result is None or shows(result)
        result = told(lambda: sx.audit_score(path, target=y, sensitive_features=[z], prediction=u))
        assert result is None or shows(result)
        data = told(lambda: sx.datasets.from_frame(path, target=y, sensitive=[z]))
        assert data is None or finite(data.X)


def run(words):
    """Status, standard output and standard error of the command."""
    out, err = io.StringIO(), io.StringIO()
    before, sys.argv = sys.argv, ["separatrix", *map(str, words)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
        code = 0
    except SystemExit as ended:
        code = ended.code or 0
    finally:
        sys.argv = before
    return code, out.getvalue(), err.getvalue()


def sentence(rng, path, y, z, u):
    """The words of a call of some command, the columns mostly right."""
    place, out = path.parent, path.parent / "out"
    columns, named = ["--y", y, "--z", z], ["--target", y, "--sensitive", z]
    each = {
        "audit": [path, *named, "--prediction", u, "--json"],
        "limit": [path, *named, "--score", u, "--level", "0.01"],
        "monitor": [path, *columns, "--pred", u, "--state", out, "--budget", "0.1"],
        "predict": [place, path, "--out", place / "o.csv"],
        "replay": [place, path],
        "select": [place, "--max-violation", "0.1", "--out", place / "m"],
        "report": [place],
        "trace": [path, "--target", y, "--sensitive", "none", "--out", out],
        "benchmark": ["nothing", "--quick", "--out", out],
        "card": [place],
        "datasets": [],
        "methods": [],
    }
    name = hostile.pick(rng, tuple(each))
    odd = ([], [], ["--seed", "-1"], ["--confidence", "2"], ["--fail-above", "x"],
           ["--fail-above", "eo_gap=nan"], ["--fail-above", "eo_gap=0"], ["--weight", "y"],
           ["--score"], ["--cost", "fp=x"], ["--budget", "x"], ["--maximize", "x"],
           ["--level", "nan"], ["--folds", "0"], ["--nonsense"])  # fmt: skip
    return [name, *each[name], *hostile.pick(rng, odd)]


@pytest.mark.nightly
@given(seed=SEEDS)
@cases(90)
def test_commands(seed, tmp_path_factory):
    """Status 0, 2 or 3; a refusal says why; JSON has finite numbers."""
    rng = np.random.default_rng(seed)
    words = sentence(rng, *a_file(rng, tmp_path_factory.getbasetemp()))
    code, out, err = run(words)
    assert code in (0, 2, 3), (code, words, err)
    assert "Traceback" not in err
    if code == 2:
        assert err.strip()
    elif words[0] == "audit":
        assert finite(json.loads(out, parse_constant=pytest.fail))
