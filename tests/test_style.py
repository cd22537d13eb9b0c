"""Names say the noun (DESIGN, section 4): no variable is called `found`, no method `of`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import separatrix

EMPTY = {"found", "own", "one", "at", "part", "kept", "here", "told"}
SOURCE = Path(separatrix.__file__).parent


def empty_names(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each variable or parameter with an empty name, and of each method `of`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            methods = (item for item in node.body if isinstance(item, ast.FunctionDef))
            yield from ((method.lineno, "def of") for method in methods if method.name == "of")
        elif isinstance(node, ast.arg) and node.arg in EMPTY:
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in EMPTY:
            yield node.lineno, node.id


@pytest.mark.slow
def test_names_say_the_noun():
    files = sorted(SOURCE.rglob("*.py"))
    assert len(files) > 100
    empty = [f"{file}:{line} {name}" for file in files for line, name in empty_names(file.read_text("utf-8"))]
    assert not empty, "\n".join(empty)


@pytest.mark.parametrize(
    "source", ["for at in rows: pass", "def f(*, told): pass", "class A:\n def of(self): pass", "[one for one in rows]"]
)
def test_an_empty_name_is_seen(source):
    assert list(empty_names(source))
