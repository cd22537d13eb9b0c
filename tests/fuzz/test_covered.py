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
    """Each is called inside `told(…)` of a test with random cases, or makes what is."""
    used = set()
    for path in HERE.glob("test_*.py"):
        for test in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(test, ast.FunctionDef) and "given(seed=SEEDS)" in _decorators(test):
                used |= _called(test)
    assert set(sx.__all__) - used - MADE - ERRORS == set()


def test_a_name_beside_the_cases_does_not_count():
    beside = "odd = (None, sx.Cost)\nmodel = sx.Monitor(1)\nassert told(lambda: sx.audit(odd))"
    assert _called(ast.parse(beside)) == {"audit"}
    assert _called(ast.parse("model = sx.Monitor(1)\ntold(lambda: model.update(2))")) == {"Monitor"}


def _decorators(test):
    return [ast.unparse(one) for one in test.decorator_list]


def _called(test):
    """The public names inside `told(…)`, and of those variables that are called there."""
    nodes = list(ast.walk(test))
    made = {
        node.targets[0].id: node.value.func.attr
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call)
        if isinstance(node.targets[0], ast.Name) and _is_public(node.value.func)
    }
    tried = [node for node in nodes if isinstance(node, ast.Call) and _is(node.func, "told")]
    inside = [node for call in tried for node in ast.walk(call)]
    used = {node.attr for node in inside if _is_public(node)}
    return used | {
        made[node.id] for node in inside if isinstance(node, ast.Name) and node.id in made
    }


def _is_public(node):
    return isinstance(node, ast.Attribute) and _is(node.value, "sx")


def _is(node, name):
    return isinstance(node, ast.Name) and node.id == name


@pytest.mark.parametrize(
    "command", [c.name or c.callback.__name__ for c in app.registered_commands]
)
def test_every_command_is_fuzzed(command):
    assert f'"{command}": [' in (HERE / "test_files.py").read_text(encoding="utf-8")
