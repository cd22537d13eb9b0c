"""docs/paper.md names what exists: dotted names resolve, test files and pages are there."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "paper.md"
TABLE = PAGE.read_text().split("## Where it is")[1].split("## Our reading")[0]


# every environment of the paper that has a title, its tables and its figures
PARTS = (
    "Proposition, deterministic frontier is non-decreasing",
    "Theorem, randomized frontier equals the concave closure",
    "Proposition, CMI characterizes separation",
    "Lemma, mutual information controls dependence",
    "Theorem, CMI controls average conditional dependence",
    "Lemma, budget identity and universal bounds",
    "Lemma, conditional law matching",
    "Theorem, necessary trade-off",
    "Proposition, bias and concentration of hard-count plug-in CMI",
    "Example, binary indicator",
    "Example, 1-dimensional covariance control",
    "Example, why not correlation",
    "Algorithm, CMI-regularized training",
    "tables, datasets: Adult, COMPAS, Bank",
    "table, metrics",
    "table, comparison methods",
    "figures Bank, Adult, COMPAS, ACSOccupation; tables of compact operating points",
    "figure and table CelebA",
    "figure ACSOccupation-Large",
    "ablation, batch size",
    "ablation, gradient normalization",
)


def _resolve(name: str) -> object:
    """The object of a dotted name: the longest module, then attributes."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        try:
            found: object = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError as error:
            if not name.startswith(str(error.name)):  # an extra that is not installed
                pytest.skip(str(error))
            continue
        for attribute in parts[end:]:
            found = getattr(found, attribute)
        return found
    raise AssertionError(name)


def test_every_name_of_the_map_exists():
    names = sorted(set(re.findall(r"`(separatrix\.[\w.]+)`", PAGE.read_text())))
    assert len(names) > 30
    for name in names:
        assert _resolve(name) is not None, name


def test_every_part_of_the_paper_is_on_the_map():
    rows = [line for line in TABLE.splitlines() if line.startswith("|")]
    lacking = [part for part in PARTS if not any(part in row.split(" | ")[0] for row in rows)]
    assert not lacking
    for method in ("ERM-Deep", "Threshold Optimizer", "ExpGrad", "Adversarial", "FR-Train",
                   "FairDRO", "InfoFair", "Fair Dummy", "uniform"):  # fmt: skip
        assert method in TABLE, method


def test_every_test_and_page_of_the_map_exists():
    tests = {path.name for path in (ROOT / "tests").rglob("test_*.py")}
    named = set(re.findall(r"`(test_\w+\.py)`", TABLE))
    assert named
    assert named <= tests, named - tests
    for link in re.findall(r"\]\(([\w/-]+\.md)", PAGE.read_text()):
        assert (PAGE.parent / link).exists(), link


def test_the_paper_is_named_where_people_look():
    title = "Separation-Utility Pareto Frontier: An Information-Theoretic Characterization"
    for page in ("README.md", "CITATION.cff", "docs/index.md", "docs/reference/references.md"):
        text = " ".join((ROOT / page).read_text().split())
        assert title in text, page
        assert "Xu" in text, page


def test_the_script_of_the_page_is_short():
    script = PAGE.read_text().split("```python\n")[1].split("```")[0]
    assert len(script.splitlines()) <= 20
