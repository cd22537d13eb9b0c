"""Where the time of the hot paths goes: the functions with the largest share of their own, one line
per path.

    python -m benchmarks.profiles [audit] [scores] [files] [train] [limit] [channel] [report]
    [--write]

cProfile for Python (threads run one after the other), torch's profiler for training,
`-X importtime` for start-up. Shares, since a profiler slows what it watches. `--write` puts the
table into docs/evidence/performance.md.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from benchmarks import growth
from benchmarks._measuring import DOCS, in_own_process, markdown, write_between_markers

PATHS = {
    "audit": ("audit of labels, 10 M rows", {"rows": 10_000_000, "cells": (2, 3)}),
    "audit_scores": ("audit of posteriors, 3 M rows", {"rows": 3_000_000, "cells": (2, 3)}),
    "audit_files": ("audit of Parquet, 10 M rows", {"rows": 10_000_000}),
    "train": (
        "cmi, 11 λ, one epoch of 50,000 rows",
        {"rows": 50_000, "cells": (2, 3), "trade_offs": 11, "features": 16},
    ),
    "limit": (
        "limit, 100,000 rows, 11 levels",
        {"rows": 100_000, "cells": (2, 3), "trade_offs": 11},
    ),
    "channel": (
        "rules for more labels, 100,000 rows × 4 × 3, 5 prices",
        {"rows": 100_000, "cells": (4, 3), "trade_offs": 5},
    ),
}
MOST = 6


def watch(job: str, fixed: dict[str, Any]) -> dict[str, float]:
    """Share of each function in the time of one call, the largest first, in this process."""
    if "cells" in fixed:
        fixed["cells"] = tuple(fixed["cells"])
    work = getattr(growth, job)(**fixed)
    work()  # imports
    for room in (
        "separatrix.core.crosstab",
        "separatrix.core.counts",
    ):
        vars(import_module(room))["ThreadPoolExecutor"] = _Here  # cProfile sees one thread only
    return _in_torch(work) if job == "train" else _in_python(work)


class _Here:
    """A pool that works in the calling thread."""

    def __init__(self, threads: int) -> None:
        pass

    def __enter__(self) -> _Here:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def map(self, work: Callable[..., Any], *items: Any) -> list[Any]:
        return list(map(work, *items))


def _in_python(work: Callable[[], Any]) -> dict[str, float]:
    profile = cProfile.Profile()
    profile.runcall(work)
    stats = pstats.Stats(profile)
    own: dict[str, float] = {}
    for (file, _, function), (_, _, seconds, _, _) in stats.stats.items():  # type: ignore[attr-defined]
        own[_name(file, function)] = own.get(_name(file, function), 0.0) + seconds
    return _largest(own, stats.total_tt)  # type: ignore[attr-defined]


def _in_torch(work: Callable[[], Any]) -> dict[str, float]:
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU]) as seen:
        work()
    own = {event.key: float(event.self_cpu_time_total) for event in seen.key_averages()}
    return _largest(own, sum(own.values()))


def _name(file: str, function: str) -> str:
    """room.function of ours, package: function of others."""
    parts = Path(file).with_suffix("").parts
    if "separatrix" in parts and "site-packages" not in parts:
        return ".".join((*parts[len(parts) - parts[::-1].index("separatrix") :], function))
    if "site-packages" in parts:
        return f"{parts[parts.index('site-packages') + 1]}: {function}"
    return function.strip("<>").removeprefix("built-in method ").removeprefix("method ")


def _largest(own: dict[str, float], total: float) -> dict[str, float]:
    return dict(
        sorted(((name, value / total) for name, value in own.items()), key=lambda item: -item[1])[
            :MOST
        ]
    )


def starting() -> dict[str, float]:
    """Seconds of import of the packages that a report of a tiny sweep loads, the largest first."""
    from separatrix.frontier.sweep.jobs import Job, Source, grid
    from separatrix.frontier.sweep.runner import run

    with tempfile.TemporaryDirectory() as folder:
        source = Source("synthetic", {"n": 400})
        run(grid([source], [Job("uniform")], folds=2), folder)
        command = (
            f"import sys; sys.argv = ['separatrix', 'report', {folder!r}]; "
            "from separatrix.cli import main; main()"
        )
        done = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", command], capture_output=True, text=True
        )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: dict[str, float] = {}
    for line in done.stderr.splitlines():
        if line.startswith("import time:") and "cumulative" not in line:
            own, _, name = (part.strip() for part in line.removeprefix("import time:").split("|"))
            package = name.split(".")[0]
            found[package] = found.get(package, 0.0) + int(own) / 1e6
    return dict(sorted(found.items(), key=lambda item: -item[1])[:MOST])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "paths", nargs="*", choices=[*PATHS, "report", []], default=[], metavar="path"
    )
    parser.add_argument("--write", action="store_true", help="write docs/evidence/performance.md")
    options = parser.parse_args()
    rows = []
    for name in options.paths or [*PATHS, "report"]:
        if name == "report":
            found = in_own_process("profiles", "starting")
            text = ", ".join(f"{package} {seconds:.2f} s" for package, seconds in found.items())
            rows.append(("`separatrix report`: imports by package", text))
        else:
            title, fixed = PATHS[name]
            found = in_own_process("profiles", "watch", name, fixed)
            rows.append(
                (title, ", ".join(f"`{where}` {share:.0%}" for where, share in found.items()))
            )
        print(rows[-1], file=sys.stderr, flush=True)
    text = markdown(("path", "largest shares of its time"), rows)
    if options.write:
        write_between_markers(DOCS / "evidence" / "performance.md", "profiles", text)
    else:
        print(text)


if __name__ == "__main__":
    main()
