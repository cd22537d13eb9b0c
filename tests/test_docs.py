"""Every block of code in README and docs runs, in the order of its page.

Blocks of `python` run in one namespace, blocks of `console` in a shell; both in one empty folder.
Other languages (`text`, `diff`, `sh`, `yaml`) only show something.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [p for p in PAGES if not {"_build", "gallery"} & set(p.parts) and p.name != "cli.md"]
FENCE = re.compile(r"^```([\w{}-]*)[^\n]*\n(.*?)^```$", re.M | re.S)
SHOWN = {"text", "diff", "sh", "yaml", "json", "csv"}
DEAR = {"audit", "continuous_control", "deploy", "limit", "monitor", "trace"}  # run every night
NEEDS = {
    "boosting": "lightgbm", "training": "torch", "language_models": "torch", "paper": "torch",
    "fairlearn": "fairlearn",
}  # fmt: skip


def blocks(page: Path) -> list[tuple[str, str, int]]:
    """Language, text and first line of every fenced block; doctest blocks are another test's."""
    text = page.read_text()
    found = [(m[1], m[2], text[: m.start()].count("\n") + 2) for m in FENCE.finditer(text)]
    return [block for block in found if not block[0].startswith("{") and ">>> " not in block[1]]


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_every_block_says_what_it_is(page):
    """A block runs or is marked as shown only: none is left without a language."""
    known = SHOWN | {"python", "console"}
    unknown = [line for language, _, line in blocks(page) if language not in known]
    assert unknown == []


RUN = [page for page in PAGES if any(block[0] in ("python", "console") for block in blocks(page))]


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=pytest.mark.nightly if p.stem in DEAR else ()) for p in RUN], ids=_name
)
def test_the_code_of_the_page_runs(page, tmp_path, monkeypatch):
    """No block raises, no command ends with an error."""
    if page.stem in NEEDS:
        pytest.importorskip(NEEDS[page.stem])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    names: dict[str, object] = {"__name__": "__main__"}
    for language, text, line in blocks(page):
        if language == "python":
            code = compile("\n" * (line - 1) + text, str(page), "exec")
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                exec(code, names)
        elif language == "console":
            done = _shell(text)
            assert done.returncode == 0, f"{_name(page)}:{line}: {done.stderr}"


def _shell(text: str) -> subprocess.CompletedProcess[str]:
    """The lines of a session: `$ command`; what it prints stands below and is not compared."""
    commands = "\n".join(line[2:] for line in text.splitlines() if line.startswith("$ "))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-e", "-o", "pipefail", "-c", commands], env=os.environ | {"PATH": path},
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
