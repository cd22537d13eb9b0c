"""Every public name and every command has a fuzz case."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import separatrix as sx
from separatrix.cli.app import app

HERE = Path(__file__).parent
# results of other names, which a caller does not make, and tools that only take such results
MADE = {"AlignedScore", "Audit", "Comparison", "ContinuousAudit", "Frontier", "NumericFrontier",
        "Predictor", "ScoreAudit", "SeparatedScore", "integrations"}  # fmt: skip
ERRORS = {name for name in sx.__all__ if name.endswith("Error")}


def test_every_public_name_is_fuzzed():
    """Each stands as ``sx.name`` in a file beside this one."""
    used = set()
    for path in HERE.glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "sx":
                used.add(node.attr)
    assert set(sx.__all__) - used - MADE - ERRORS == set()


@pytest.mark.parametrize(
    "command", [c.name or c.callback.__name__ for c in app.registered_commands]
)
def test_every_command_is_fuzzed(command):
    assert f'"{command}": [' in (HERE / "test_files.py").read_text(encoding="utf-8")
