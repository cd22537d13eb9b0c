"""How much of separatrix one call runs: modules and functions executed, room by room.

    python tools/walk.py fit           # FrontierClassifier.fit, 600 rows, logistic regression
    python tools/walk.py trace         # sx.trace on the same table
    python tools/walk.py trace --functions

A reader who follows the call must understand every function listed. Functions run while a module is
imported (decorators, dataclasses) do not count: each call is made once before it is watched.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

import numpy as np

import separatrix as sx

PACKAGE = Path(sx.__file__).parent


@contextmanager
def watched() -> Iterator[set[CodeType]]:
    """The functions of separatrix that run inside the block, in this process and thread."""
    seen: set[CodeType] = set()
    names: dict[str, bool] = {}

    def on_event(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code not in seen:
            name = code.co_filename
            if name not in names:
                names[name] = Path(name).is_relative_to(PACKAGE)
            if names[name] and code.co_name != "<module>":
                seen.add(code)

    previous = sys.getprofile()
    sys.setprofile(on_event)
    try:
        yield seen
    finally:
        sys.setprofile(previous)


def by_module(codes: set[CodeType]) -> dict[str, list[str]]:
    """Functions by module path within the package; comprehensions and lambdas belong to their
    function and are left out.
    """
    modules: dict[str, set[str]] = defaultdict(set)
    for code in codes:
        if not code.co_name.startswith("<"):
            path = Path(code.co_filename).relative_to(PACKAGE).as_posix()
            modules[path].add(code.co_qualname)
    return {path: sorted(modules[path]) for path in sorted(modules)}


def fit() -> None:
    """One fit at a budget that binds."""
    from sklearn.linear_model import LogisticRegression

    X, y, z = applicants()
    model = sx.FrontierClassifier(LogisticRegression(), max_eo_gap=0.05, cv=3, random_state=0)
    model.fit(X, y, sensitive_features=z)


def trace() -> None:
    """One trace around logistic regression."""
    X, y, z = applicants()
    sx.trace(X, y, sensitive_features=z, estimator="logistic", cv=3, progress=False)


CALLS: dict[str, Callable[[], None]] = {"fit": fit, "trace": trace}


def applicants(n: int = 600, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two columns, a label that follows both, a group that shifts the second."""
    rng = np.random.default_rng(seed)
    z = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 2)) + np.outer(z, [0.0, 0.8])
    y = (X.sum(1) + rng.normal(size=n) > 0.5).astype(int)
    return X, y, z


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("call", choices=sorted(CALLS))
    parser.add_argument("--functions", action="store_true", help="list the functions as well")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    CALLS[options.call]()
    with watched() as codes:
        CALLS[options.call]()
    modules = by_module(codes)
    rooms: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for path, functions in modules.items():
        room = path.split("/")[0] if "/" in path else "."
        rooms[room][0] += 1
        rooms[room][1] += len(functions)
        if options.functions:
            print(path, *functions, sep="\n    ")
    print(f"{'room':<20}{'modules':>9}{'functions':>11}")
    for room, (n_modules, n_functions) in sorted(rooms.items(), key=lambda item: -item[1][1]):
        print(f"{room:<20}{n_modules:>9}{n_functions:>11}")
    print(f"{'all':<20}{len(modules):>9}{sum(map(len, modules.values())):>11}")


if __name__ == "__main__":
    main()
