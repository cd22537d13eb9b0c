"""Work in several processes."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from separatrix.errors import SeparatrixError

__all__ = ["in_processes"]


@contextmanager
def in_processes(
    calls: Iterable[Any], n_jobs: int, *, in_order: bool = True, kept: bool = True
) -> Iterator[Iterator[Any]]:
    """The answers of joblib's `delayed` calls as they come; each process has one thread.

    Where the system ended a process, most often for want of memory, one sentence says so. An error
    meanwhile stops the others without a warning of joblib.

    Args:
        calls: what to do.
        n_jobs: processes; 1 for this one, -1 for all cores.
        in_order: answers come in the order of the calls.
        kept: whether what was finished is on disk, so that the next run resumes.
    """
    from joblib import Parallel, parallel_config

    again = "What was finished is kept: run again to resume" if kept else "Run again"
    order = "generator" if in_order else "generator_unordered"
    with parallel_config("loky", inner_max_num_threads=1):
        answers = Parallel(n_jobs=n_jobs, return_as=order, batch_size=1)(calls)
        try:
            yield answers
        except BrokenProcessPool as error:  # loky's own is a kind of it
            raise SeparatrixError(
                "A worker process was ended by the system, most often because memory ran out. "
                f"{again}, with fewer processes (`n_jobs`, --jobs)."
            ) from error
        finally:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=r"\d+ tasks which were still")
                answers.close()
