"""The package's own facts agree with each other."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import separatrix as sx

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CORE = PROJECT["project"]["dependencies"]
EXTRAS = PROJECT["project"]["optional-dependencies"]


def _name(requirement: str) -> str:
    return re.split(r"[\[<>=]", requirement)[0].lower().replace("_", "-")


def test_the_lowest_versions_are_those_of_the_requirements():
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    lowest = dict(line.split("==") for line in lines if "==" in line)
    lowest = {_name(name): version for name, version in lowest.items()}
    for requirement in [*CORE, *EXTRAS["figures"], *EXTRAS["boosting"]]:
        asked = requirement.split(">=")[1].split(".")
        assert lowest[_name(requirement)].split(".")[: len(asked)] == asked, requirement


def test_every_requirement_is_pinned_for_the_checkout():
    """But MLflow, whose own pins contradict ours: its tests run where it is installed."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert [line for line in lines[1:] if not re.fullmatch(r"[\w.-]+==[\w.+]+", line)] == []
    pinned = {_name(line) for line in lines if "==" in line}
    asked = {_name(one) for extra in EXTRAS.values() for one in extra} | set(map(_name, CORE))
    assert asked - pinned - {"mlflow-skinny", "separatrix"} == set()  # [all] names other extras


def test_the_citation_has_the_version_of_the_package():
    assert f"version: {sx.__version__}\n" in (ROOT / "CITATION.cff").read_text()


def test_links_of_the_readme_lead_to_files_and_are_absolute_on_pypi():
    hooks = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    text = readme = (ROOT / "README.md").read_text()
    for rule in hooks["substitutions"]:
        text = re.sub(rule["pattern"], rule["replacement"], text)
    relative = re.findall(r"\]\((?!https?:)([^)]+)\)|(?:src|srcset)=\"(?!https?:)([^\"]+)\"", readme)
    files = {a or b for a, b in relative}
    assert {name for name in files if not (ROOT / name).exists()} == set()
    source = PROJECT["project"]["urls"]["Source"]
    raw = source.replace("github.com", "raw.githubusercontent.com")
    for name in files:
        assert f"{source}/blob/main/{name}" in text or f"{raw}/main/{name}" in text
