"""The public names are pinned, and importing separatrix is light."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import separatrix as sx

NAMES = [
    "AlignedRegressor",
    "AlignedScore",
    "Audit",
    "Comparison",
    "ContinuousAudit",
    "Cost",
    "CountTable",
    "DataError",
    "Frontier",
    "FrontierClassifier",
    "InfeasibleError",
    "InputError",
    "MissingExtraError",
    "Monitor",
    "NumericFrontier",
    "Predictor",
    "ScoreAudit",
    "SeparatedScore",
    "SeparatedScorer",
    "SeparationClassifier",
    "SeparatrixError",
    "align",
    "alignment_path",
    "audit",
    "audit_regression",
    "audit_score",
    "compare",
    "concave_envelope",
    "conditional_mutual_information",
    "from_estimator",
    "limit",
    "load",
    "load_frontier",
    "mutual_information",
    "sample_size",
    "separate",
    "soft_counts",
    "trace",
    "utility_score",
    "violation_score",
]
ROOMS = ["datasets", "integrations", "methods", "nn", "population"]


def test_public_names_are_pinned():
    assert sorted(sx.__all__) == sorted([*NAMES, *ROOMS])


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
