"""The public names are pinned, and importing separatrix is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import separatrix as sx

# the contract: functions, estimators, results, errors; then the modules
NAMES = [
    "audit", "audit_score", "audit_regression", "compare", "limit", "trace", "load", "sample_size",
    "FrontierClassifier", "SeparatedScorer", "AlignedRegressor", "SeparationClassifier",
    "Audit", "Frontier", "Predictor", "Monitor", "Cost", "CountTable",
    "SeparatrixError", "InfeasibleError",
]  # fmt: skip
ROOMS = ["datasets", "methods", "metrics", "nn", "theory", "integrations"]
THEORY = [
    "AlignedScore", "SeparatedScore", "align", "alignment_path", "concave_envelope",
    "conditional_mutual_information", "mutual_information", "population", "separate", "soft_counts",
]  # fmt: skip


def test_public_names_are_the_26_of_the_contract():
    assert sorted(sx.__all__) == sorted([*NAMES, *ROOMS])
    assert len(sx.__all__) == 26
    assert sorted(sx.theory.__all__) == sorted(THEORY)
    assert sorted(sx.metrics.__all__) == ["utility_score", "violation_score"]


@pytest.mark.parametrize("room", [None, *ROOMS])
def test_dir_shows_public_names_only(room):
    module = sx if room is None else getattr(sx, room)
    assert sorted(dir(module)) == sorted(module.__all__)


def test_errors_that_a_user_may_catch_live_in_one_module():
    from separatrix import errors

    for name in ("DataError", "InputError", "MissingExtraError"):
        assert issubclass(getattr(errors, name), sx.SeparatrixError)


@pytest.mark.parametrize("name", [*NAMES, *ROOMS])
def test_every_public_name_can_be_had_and_is_documented(name):
    assert getattr(sx, name).__doc__


def test_type_checkers_see_the_same_names():
    tree = ast.parse(Path(sx.__file__).with_suffix(".pyi").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    assert {alias.asname for node in imports for alias in node.names} == {*NAMES, *ROOMS}


def test_unknown_names_raise_attribute_error():
    with pytest.raises(AttributeError, match="fairness"):
        _ = sx.fairness


@pytest.mark.slow
def test_core_import_is_light():
    """Neither torch nor pandas nor matplotlib, not even for a whole audit."""
    code = (
        "import sys, separatrix as sx; from separatrix.statistics import inference, bounds;"
        "sx.audit([0, 1, 0, 1], [0, 1, 1, 1], sensitive_features=[0, 0, 1, 1]);"
        "print([m for m in ('torch', 'pandas', 'matplotlib', 'polars', 'pyarrow') if m in "
        "sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr
