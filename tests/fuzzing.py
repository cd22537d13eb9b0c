"""What every fuzz test asks: a right answer or a `SeparatrixError`, nothing else.

A case is one number, the seed of its generator; the number that fails repeats it. `make fuzz` runs
ten times as many, fresh ones.
"""

from __future__ import annotations

import json
import math
import re
import traceback
import warnings

import numpy as np
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

import hostile
from separatrix.errors import SeparatrixError

TIMES = 10 if settings.get_current_profile_name() == "fuzz" else 1
SEEDS = st.integers(0, 2**40)
_PATH = re.compile(r"/\w+/|\.py\b")


def cases(count):
    """So many cases; nothing to shrink in a number."""
    quiet = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
    phases = (Phase.explicit, Phase.generate)
    return settings(max_examples=count * TIMES, suppress_health_check=quiet, phases=phases, deadline=None)


def told(call, *, by_sklearn=False):
    """The answer, or None where a `SeparatrixError` said why not, in one sentence.

    Warnings for the user may be given, without paths; any other warning is a fault.

    Args:
        call: what to try.
        by_sklearn: an estimator may also refuse in scikit-learn's own words: its checks of X and
            y, and those of the caller's model, are what `check_estimator` asks for.
    """
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("error")
        warnings.filterwarnings("always", category=UserWarning)
        try:
            answer = call()
        except SeparatrixError as error:
            answer, text = None, str(error)
            assert text.strip(), "an error without a word"
            assert len(text) < 1_500, f"{len(text)} characters of error"
            assert "\n" not in text, "an error of several lines"
        except (TypeError, ValueError) as error:
            if not (by_sklearn and _of_sklearn(error)):
                raise
            answer = None
    shown = [str(one.message) for one in given if _PATH.search(str(one.message))]
    assert not shown, f"a warning with a path: {shown}"
    return answer


def finite(value):
    """Whether every number in it is finite; undefined ones are None."""
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list | tuple):
        return all(map(finite, value))
    if isinstance(value, np.ndarray):
        return value.dtype.kind not in "fc" or bool(np.isfinite(value).all())
    return not isinstance(value, float) or math.isfinite(value)


def shows(result):
    """Whether a result has text, JSON with finite numbers, and a page."""

    def refuse(word):
        raise AssertionError(f"{word} in JSON")

    plain = json.loads(result.to_json(), parse_constant=refuse)
    return bool(str(result)) and finite(plain) and "<" in result._repr_html_()


def seldom(rng, right, n, share=0.15):
    """The right argument, or with a small probability a hostile column of about n values."""
    return hostile.column(rng, max(n, 1)) if rng.random() < share else right


def _of_sklearn(error):
    """Whether scikit-learn raised it: it is what our last line called."""
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    ours = max(i for i, name in enumerate(files) if "separatrix" in name)
    return ours + 1 < len(files) and "sklearn" in files[ours + 1]
