"""MLflow: log an audit, a frontier, or a model that MLflow serves; no pickle anywhere.

A model is logged as the folder that `Predictor.save` writes. MLflow finds `_load_pyfunc` here and
calls it, so what is served was checked and loaded by `separatrix.load`.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from separatrix.errors import InputError, require
from separatrix.frontier.numeric import NumericFrontier
from separatrix.io import write_whole
from separatrix.predictor.predictor import load

if TYPE_CHECKING:
    from separatrix.auditing.result import Audit
    from separatrix.auditing.scores import ScoreAudit
    from separatrix.frontier.frontier import Frontier
    from separatrix.predictor.predictor import Predictor

__all__ = ["log_audit", "log_frontier", "log_model"]

_NUMBERS = (
    "violation", "violation_corrected", "violation_upper", "violation_lower",
    "violation_at_resolution", "p_value", "utility", "accuracy", "eo_gap", "eo_gap_upper",
    "eo_gap_floor", "gap", "gap_upper", "gap_floor", "auroc",
)  # fmt: skip


def log_audit(audit: Audit | ScoreAudit, prefix: str = "audit") -> dict[str, float]:
    """Log an audit to the active run: its numbers as metrics, its page and JSON as artifacts.

    Args:
        audit: of decisions or of a score.
        prefix: in front of every metric, and the folder of the artifacts.

    Returns:
        The metrics that were logged.
    """
    mlflow = _mlflow()
    values = {name: getattr(audit, name, None) for name in _NUMBERS}
    metrics = {f"{prefix}.{name}": float(x) for name, x in values.items() if x is not None}
    mlflow.log_metrics(metrics)
    mlflow.log_text(audit.to_html(), f"{prefix}/audit.html")
    mlflow.log_text(audit.to_json(), f"{prefix}/audit.json")
    return metrics


def log_frontier(frontier: Frontier | NumericFrontier, prefix: str = "frontier") -> None:
    """Log the report of a frontier as an artifact to the active run; of decisions also the table.

    Args:
        frontier: of `separatrix.trace`.
        prefix: the folder of the artifacts.
    """
    mlflow = _mlflow()
    with tempfile.TemporaryDirectory() as folder:
        files = [frontier.report(Path(folder) / "report.html")]
        if not isinstance(frontier, NumericFrontier):
            files.append(Path(folder) / "frontier.csv")
            write_whole(files[-1], frontier.shippable.csv())
        for file in files:
            mlflow.log_artifact(str(file), prefix)


def log_model(predictor: Predictor, name: str = "model") -> Any:
    """Log a predictor as a pyfunc model, with its card, to the active run.

    Served, it answers rows with P(U = label) for every label, before any coin is thrown. Decisions
    with coins that belong to people are made by `separatrix.load(folder).predict`.

    Args:
        predictor: of `Frontier.select` or `Predictor.from_estimator`; decisions, not a drawn score.
        name: of the model in the run.

    Returns:
        What MLflow knows about the logged model.
    """
    mlflow = _mlflow()
    if predictor.is_score and predictor.randomized:
        raise InputError(
            "A drawn score has no probabilities before its coin, so MLflow cannot serve it. Log "
            "decisions, or a score without the group (`blind=True`)."
        )
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "predictor"
        predictor.save(place)
        return mlflow.pyfunc.log_model(
            name=name, loader_module=__name__, data_path=str(place),
            pip_requirements=["separatrix"],
        )  # fmt: skip


class _Served:
    """What MLflow calls for every batch."""

    def __init__(self, predictor: Predictor) -> None:
        self.predictor = predictor

    def predict(self, rows: Any, params: Any = None) -> Any:
        pandas = require("pandas", "mlflow", "A served model")
        columns = list(map(str, self.predictor.labels))
        return pandas.DataFrame(self.predictor.predict_proba(rows), columns=columns)


def _load_pyfunc(path: str) -> _Served:
    """MLflow's door to a logged model."""
    place = Path(path)
    return _Served(load(place if (place / "manifest.json").is_file() else place / "predictor"))


def _mlflow() -> Any:
    require("mlflow.pyfunc", "mlflow", "Logging")
    return require("mlflow", "mlflow", "Logging")
