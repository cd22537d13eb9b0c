"""Who takes part: the lines of the tables, by package; what each gives out and what it may see."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

OURS = "separatrix"  # also the environment: this interpreter
BOOSTING = "separatrix, boosting"
PLAIN = "trees as they are"
SEEDS = (4101, 4102, 4103, 4104, 4105)  # of the folds; nothing was chosen on them
COLOURS = {
    OURS: "#0072b2",
    BOOSTING: "#56b4e9",
    "error-parity": "#d55e00",
    "oxonfair": "#cc79a7",
    "ThresholdOptimizer": "#009e73",
    "ExponentiatedGradient": "#e69f00",
    "fairret": "#8c6d00",
    PLAIN: "#666666",
}


@dataclass(frozen=True)
class Line:
    """One series.

    Args:
        name: as its module calls it.
        package: who it is of.
        module: of this folder.
        environment: where it runs.
        gives: "decisions", "scores", or "posterior", which is a score and decides by a draw.
        blind: it decides without the group.
        repeats: how many seeds of the folds; one for what trains.
    """

    name: str
    package: str
    module: str
    environment: str = OURS
    gives: str = "decisions"
    blind: bool = False
    repeats: int = len(SEEDS)


def _lines() -> Iterable[Line]:
    yield Line("trees, [Z|X]", PLAIN, "ours", gives="posterior")
    yield Line("trees, X alone", PLAIN, "ours", gives="posterior", blind=True, repeats=1)
    yield Line("FrontierClassifier", OURS, "ours")
    yield Line("FrontierClassifier(blind)", OURS, "ours", blind=True, repeats=1)
    yield Line("SeparatedScorer", OURS, "ours", gives="scores")
    yield Line("SeparatedScorer(blind)", OURS, "ours", gives="scores", blind=True, repeats=1)
    yield Line("error-parity", "error-parity", "error_parity", "error-parity")
    yield Line("oxonfair", "oxonfair", "oxonfair", "oxonfair")
    yield Line("oxonfair, inferred groups", "oxonfair", "oxonfair", "oxonfair", blind=True, repeats=1)
    yield Line("ThresholdOptimizer", "ThresholdOptimizer", "fairlearn_peers")
    for blind, sees in ((False, "[Z|X]"), (True, "X alone")):
        once: dict[str, Any] = {"blind": blind, "repeats": 1}
        for what in ("draw", "score"):
            name = f"cmi_boosting, {what}, {sees}"
            yield Line(name, BOOSTING, "ours", gives="posterior", **once)
        name = f"fairret NormLoss, {sees}"
        yield Line(name, "fairret", "fairret", "fairret", gives="posterior", **once)
        name = "ExponentiatedGradient"
        yield Line(f"{name}, {sees}", name, "fairlearn_peers", **once)


LINES = tuple(_lines())


def result_of(data: str, seed: int | str, line: Line, folder: Path) -> Path:
    """Where a series is kept."""
    slug = re.sub(r"[^a-z0-9]+", "-", line.name.lower()).strip("-")
    return folder / "results" / f"{data}-{seed}" / f"{slug}.npz"
