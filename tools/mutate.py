"""Put seeded faults into a copy of the source, one at a time, and see which tests notice.

    python tools/mutate.py                         # every fault, the tests that it names
    python tools/mutate.py --tests tests/contract  # every fault, these tests instead
    python tools/mutate.py --only monitor --marker 'not nightly'

The faults are `tests/faults/faults.toml`. Nothing in the working tree changes. A fault that no test
notices, or whose text is no longer in the source, makes the exit status 1.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
FAULTS = ROOT / "tests" / "faults" / "faults.toml"


@dataclass(frozen=True)
class Fault:
    """One change of the source that would be a bug."""

    name: str
    file: str
    find: str
    replace: str
    tests: list[str]

    def place(self, package: Path) -> Path | None:
        """The file that holds the text once: the one named, else the only one of the package."""
        named = package / self.file
        if named.is_file() and named.read_text(encoding="utf-8").count(self.find) == 1:
            return named
        holders = [
            path
            for path in package.rglob("*.py")
            if (n := path.read_text(encoding="utf-8").count(self.find))
            for _ in range(n)
        ]
        return holders[0] if len(holders) == 1 else None


def load(path: Path = FAULTS) -> list[Fault]:
    """The seeded faults."""
    with path.open("rb") as file:
        return [Fault(**entry) for entry in tomllib.load(file)["fault"]]


def noticed(fault: Fault, tests: list[str], marker: str, everything: bool) -> list[str] | None:
    """The tests that fail with the fault in place; None if its text is not in the source.

    Without `everything` the run stops at the first test that fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(shutil.copytree(ROOT / "src", Path(folder) / "src"))
        place = fault.place(source / "separatrix")
        if place is None:
            return None
        text = place.read_text(encoding="utf-8")
        place.write_text(text.replace(fault.find, fault.replace), encoding="utf-8")
        stop = [] if everything else ["-x"]
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-rfE", "--tb=no", *stop, "-m", marker, *tests],
            cwd=ROOT, env=os.environ | {"PYTHONPATH": str(source)}, text=True, capture_output=True,
        )  # fmt: skip
    if run.returncode not in (0, 1):
        raise SystemExit(f"pytest ended with {run.returncode}:\n{run.stdout}{run.stderr}")
    return re.findall(r"^(?:FAILED|ERROR) (\S+)", run.stdout, re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", nargs="+", help="run these instead of those of the fault")
    parser.add_argument("--only", default="", help="faults whose name or file holds this text")
    parser.add_argument("--marker", default="not browser and not spark", help="pytest's -m")
    parser.add_argument("--all", action="store_true", help="list every test that notices")
    options = parser.parse_args()
    missed = 0
    for fault in load():
        if options.only not in fault.name and options.only not in fault.file:
            continue
        names = noticed(fault, options.tests or fault.tests, options.marker, options.all)
        missed += not names
        words = "TEXT NOT FOUND" if names is None else ", ".join(names) or "NOBODY"
        print(f"{fault.file:<28}{fault.name}\n    {words}", flush=True)
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
