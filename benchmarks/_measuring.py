"""What the measurements share: timing, peak memory, a process of one's own, work that is resumed,
and the tables of the documentation.
"""

from __future__ import annotations

import argparse
import csv
import gc
import inspect
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args, get_origin

from benchmarks import _pictures
from separatrix.report.table import Table

DOCS = Path(__file__).parents[1] / "docs"
TABLES = DOCS / "evidence" / "tables"


def best(work: Callable[[], Any], repeats: int = 7) -> float:
    """Shortest time in seconds: the work without what else the machine did."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def peak(who: int = resource.RUSAGE_SELF) -> float:
    """Peak memory of this process in MB."""
    return resource.getrusage(who).ru_maxrss / 1024


def added_memory(work: Callable[[], Any]) -> float:
    """What the work adds to the memory of this process at its peak, in MB; reads and resets Linux's
    own mark.
    """

    def status(name: str) -> float:
        lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(name))

    gc.collect()
    Path("/proc/self/clear_refs").write_text("5", encoding="utf-8")  # the peak starts again at what is held now
    before = status("VmRSS")
    work()
    return max(status("VmHWM") - before, 0.0)


def in_own_process(module: str, name: str, *arguments: Any, python: str = sys.executable) -> dict[str, float]:
    """Call <module>.<name>(*arguments) in a process of its own, so that the peak memory is that of
    it alone.
    """
    code = (
        f"import json, pathlib, sys; import {module} as m; "
        f"pathlib.Path(sys.argv[2]).write_text(json.dumps(m.{name}(*json.loads(sys.argv[1]))))"
    )
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder, "answer.json")
        done = subprocess.run(
            [python, "-c", code, json.dumps(arguments), str(answer)],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        return json.loads(answer.read_text(encoding="utf-8"))


def machine(*packages: str) -> str:
    """One line: the processor, its memory, Python and the packages that matter."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    named = ", ".join(f"{name} {version(name)}" for name in packages)
    return (
        f"{os.cpu_count()} cores of {model or platform.machine()} (a shared virtual machine), "
        f"{memory:.0f} GB, "
        f"{platform.system()}, Python {platform.python_version()}{', ' if named else ''}{named}."
    )


def rows_of(harness: Path) -> dict[str, str]:
    """The rows of a harness and what each measures: its modules with `main` and `QUICK`."""
    found = {}
    for path in sorted(harness.glob("[!_]*.py")):
        text = path.read_text(encoding="utf-8")
        if "\ndef main(" in text and "\nQUICK" in text:
            found[path.stem] = text.split("\n\n")[0].strip('"').replace("\n", " ")
    return found


def run_row(main_file: str) -> None:
    """`python -m benchmarks.<harness> ROW ...`, called by the harness's __main__."""
    harness, arguments = Path(main_file).parent, sys.argv[1:]
    rows = rows_of(harness)
    asked = arguments[0] if arguments else "--help"
    if asked not in rows:
        print(f"python -m benchmarks.{harness.name} ROW ..., with ROW one of")
        print(*(f"  {name:13} {about}" for name, about in rows.items()), sep="\n")
        sys.exit(0 if asked in ("-h", "--help") else f"There is no row {asked!r}.")
    row = import_module(f"benchmarks.{harness.name}.{asked}")
    call(row.main, str(row.__doc__), arguments[1:])


def call(main: Callable[..., None], about: str, arguments: Sequence[str]) -> None:
    """Call the `main` of a row with what stands on the command line.

    Its signature says the options: `repetitions: int = 100` is --repetitions, a bool is a flag, a
    sequence takes several; words must be among those of its default. What is positional-only has
    no dashes.
    """
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parameters = inspect.signature(main, eval_str=True).parameters.values()
    for one in parameters:
        alone, kind = one.kind is one.POSITIONAL_ONLY, one.annotation
        several = get_origin(kind) is Sequence
        how: dict[str, Any] = {} if one.default is one.empty else {"default": one.default}
        if kind is bool:
            how["action"] = "store_true"
        else:
            how["type"] = get_args(kind)[0] if get_args(kind) else kind
        if several:
            how["nargs"] = "+" if one.default is one.empty else "*"
        parser.add_argument(one.name if alone else f"--{one.name.replace('_', '-')}", **how)
    given = vars(parser.parse_args(arguments))
    for one in parameters:
        words = one.annotation == Sequence[str] and one.default
        for word in set(given[one.name]) - set(words) if words else ():
            parser.error(f"{one.name}: {word!r} is not one of {list(words)}")
    places = [given.pop(one.name) for one in parameters if one.kind is one.POSITIONAL_ONLY]
    main(*places, **given)


def quick_of(harness: Path, row: str) -> tuple[str, ...] | None:
    """The arguments with which a row ends within seconds; None where nothing of it does."""
    found: tuple[str, ...] | None = import_module(f"benchmarks.{harness.name}.{row}").QUICK
    return found


def publish(name: str, head: Sequence[str], rows: Sequence[Sequence[object]], write: bool) -> None:
    """Print a table; with `write` store it as tables/<name>.csv, which its page includes."""
    texts = tuple(tuple(str(cell) for cell in row) for row in rows)
    print(Table(name, tuple(head), texts).lines(200), flush=True)
    if write:
        file = TABLES / f"{name}.csv"
        with file.open("w", encoding="utf-8", newline="") as out:
            csv.writer(out, lineterminator="\n").writerows([head, *texts])
        _pictures.draw(file)


class Kept:
    """Finished pieces of work, one JSON object a line: a run that was cut goes on where it was."""

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self.file = file
        lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
        self.rows: list[dict[str, Any]] = [json.loads(line) for line in lines]

    def done(self, *names: str) -> set[tuple[Any, ...]]:
        """The values of these names in all rows."""
        return {tuple(row[name] for name in names) for row in self.rows}

    def add(self, rows: Sequence[dict[str, Any]]) -> None:
        lines = [json.dumps(row) for row in rows]
        with self.file.open("a", encoding="utf-8") as out:
            out.writelines(f"{line}\n" for line in lines)
        self.rows += [json.loads(line) for line in lines]  # as a later run would read them
