"""The pages that are made from the code: every public name, and every command.

The names are those of the stubs, so a new public name has its place without a further line.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import reduce
from importlib import import_module
from inspect import isclass, isfunction, ismodule
from pathlib import Path
from typing import Any

import typer

import separatrix
from separatrix.cli import app

VERSION = separatrix.__version__

# the rooms that a user meets, in the order of the work
PARTS = {
    "auditing": "Audit",
    "statistics": "Audit",
    "frontier": "Trace and select",
    "predictor": "Deploy and monitor",
    "production": "Deploy and monitor",
    "estimators": "Estimators",
    "optimum": "The limit, and separated scores",
    "core": "Numbers",
    "columns": "Numbers",
    "errors": "Errors",
}
MODULES = {
    "nn": "PyTorch: `separatrix.nn`",
    "methods": "Methods: `separatrix.methods`",
    "datasets": "Datasets: `separatrix.datasets`",
    "metrics": "Metric functions: `separatrix.metrics`",
    "theory": "Theory: `separatrix.theory`",
    "integrations": "Integrations: `separatrix.integrations`",
}

# classes of others, whose members are not ours to describe
FOREIGN = (
    "BaseEstimator", "ClassifierMixin", "RegressorMixin", "_MetadataRequester", "Module", "tuple",
    "Exception",
)  # fmt: skip


def write(folder: Path) -> None:
    """Write api/*.rst and cli.md; a file that would not change is left alone."""
    pages = _api()
    toctree = "".join(f"   {name}\n" for name in pages)
    table = "".join(f"* :doc:`{name}`: {', '.join(names)}\n" for name, (_, names) in pages.items())
    top = f"API\n===\n\n{table}\n.. toctree::\n   :hidden:\n\n{toctree}"
    (folder / "api").mkdir(exist_ok=True)
    for name, text in {"index": top, **{n: text for n, (text, _) in pages.items()}}.items():
        _update(folder / "api" / f"{name}.rst", text)
    _update(folder / "cli.md", _commands())


def _api() -> dict[str, tuple[str, list[str]]]:
    """Of each page its text and the names on it."""
    parts: dict[str, list[str]] = {title: [] for title in PARTS.values()}
    modules = []
    for node in _imports(Path(separatrix.__file__).with_suffix(".pyi")):
        for alias in node.names:
            if alias.name in MODULES:
                modules.append(alias.name)
            else:
                room = str(node.module).split(".")[0]
                parts[PARTS[room]].append(alias.name)
    pages = {}
    seen: set[int] = set()  # methods hands on names of nn
    for title, names in parts.items():
        slug = title.lower().split(",")[0].replace(" ", "-")
        links = [f":py:obj:`~separatrix.{name}`" for name in names]
        pages[slug] = _page(title, "separatrix", names), links
    for name in sorted(modules, key=list(MODULES).index):
        module = import_module(getattr(separatrix, name).__name__)
        own = [n for n in module.__all__ if id(_object(f"separatrix.{name}", n)) not in seen]
        seen |= {id(_object(f"separatrix.{name}", n)) for n in own}
        rooms = [n for n in own if ismodule(getattr(module, n))]
        own = [n for n in own if n not in rooms]
        pages[name] = _page(MODULES[name], f"separatrix.{name}", own), []
        for room in rooms:
            place = f"separatrix.{name}.{room}"
            names = list(getattr(module, room).__all__)
            pages[room] = _page(f"`{place}`", place, names), []
    return pages


def _imports(stub: Path) -> Iterable[ast.ImportFrom]:
    return (n for n in ast.parse(stub.read_text()).body if isinstance(n, ast.ImportFrom))


def _page(title: str, module: str, names: list[str]) -> str:
    head = title.replace("`", "``")
    lines = [head, "=" * len(head), "", f".. currentmodule:: {module}", ""]
    for name in names:
        lines += [f".. {_kind(module, name)}:: {module}.{name}", *_options(module, name), ""]
    return "\n".join(lines)


def _object(module: str, name: str) -> Any:
    return getattr(reduce(getattr, module.split(".")[1:], separatrix), name)


def _kind(module: str, name: str) -> str:
    thing = _object(module, name)
    if isclass(thing):
        return "autoexception" if issubclass(thing, Exception) else "autoclass"
    return "autofunction" if isfunction(thing) or callable(thing) else "autodata"


def _options(module: str, name: str) -> list[str]:
    if isclass(_object(module, name)):
        routing = [n for n in dir(_object(module, name)) if re.fullmatch(r"set_\w+_request", n)]
        hidden = [f"   :exclude-members: {', '.join(routing)}"] if routing else []
        return ["   :members:", f"   :inherited-members: {', '.join(FOREIGN)}", *hidden]
    return []


def _commands() -> str:
    """Every command with its arguments, as `--help` has them."""
    group: Any = typer.main.get_command(app)
    lines = ["# Command line", "", f"`separatrix COMMAND --help` says the same. {group.help}", ""]
    for name in group.list_commands(None):
        command = group.commands[name]
        text, _, example = (command.help or "").partition("Example:")
        lines += [f"## separatrix {name}", "", " ".join(text.split()), ""]
        if example:
            lines += ["```text", " ".join(example.split()), "```", ""]
        rows = [_row(parameter) for parameter in command.params if parameter.name != "help"]
        if rows:
            lines += ["| argument | default | |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def _row(parameter: Any) -> str:
    argument = parameter.param_type_name == "argument"
    names = parameter.name.upper() if argument else ", ".join(parameter.opts)
    default = parameter.default
    shown = "required" if parameter.required else ""
    nothing = default is None or default is False or default in ([], ())
    if not parameter.required and not callable(default) and not nothing:
        shown = f"`{default}`"
    help_ = " ".join((parameter.help or "").split()).replace("|", "\\|")
    help_ = re.sub(r"(?<![`\w-])--[a-z][a-z-]*", r"`\g<0>`", help_)  # no typographer's dash
    return f"| `{names}` | {shown} | {help_} |"


def _update(path: Path, text: str) -> None:
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)
