"""Tables of counts, laws, envelopes, costs and planning."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

import hostile
import separatrix as sx
from fuzzing import SEEDS, cases, finite, seldom, told

pytestmark = pytest.mark.slow
AXES = ((0, 1), ("a", "b", "c"), (), (0, 0), "ab", None, 5, (np.nan,), ([],))
NUMBERS = (1, 0, -1, np.nan, np.inf, "x", None)


def some_counts(rng):
    shape = tuple(int(x) for x in rng.integers(0, 4, int(rng.integers(1, 5))))
    if rng.random() < 0.3:
        return hostile.column(rng, 8)
    counts = rng.integers(0, 9, shape).astype(float)
    if counts.size and rng.random() < 0.3:
        bad = hostile.pick(rng, (np.nan, -1.0, np.inf, 1e308))
        counts.flat[int(rng.integers(counts.size))] = bad
    return counts


@given(seed=SEEDS)
@cases(60)
def test_information_of_a_table(seed):
    counts = some_counts(np.random.default_rng(seed))
    assert finite(told(lambda: np.asarray(sx.theory.conditional_mutual_information(counts))))
    assert finite(told(lambda: np.asarray(sx.theory.mutual_information(counts))))


@given(seed=SEEDS)
@cases(40)
def test_count_tables(seed):
    rng = np.random.default_rng(seed)
    counts, axes = some_counts(rng), [hostile.pick(rng, AXES) for _ in range(3)]
    rows = hostile.pick(rng, (5, -1, 0, np.nan, "x", 2.5))
    table = told(lambda: sx.CountTable(counts, *axes, rows=rows))
    if table is not None:
        assert finite(table.counts)
        twice = told(lambda: sx.CountTable.merge([table, table]))
        assert twice is None or np.allclose(twice.counts, 2 * table.counts)


@given(seed=SEEDS)
@cases(30)
def test_envelopes_costs_and_laws(seed):
    rng = np.random.default_rng(seed)
    v, u = (seldom(rng, rng.random(6), 6) for _ in range(2))
    envelope = told(lambda: sx.theory.concave_envelope(v, u))
    if envelope is not None and envelope.violation[0] <= 1.0:  # NaN left of all points
        told(lambda: envelope.at(hostile.column(rng, 3)))
        assert finite(envelope.at([1.0, 2.0]))
    cost = told(lambda: sx.Cost(*(hostile.pick(rng, NUMBERS) for _ in range(2))))
    assert cost is None or str(cost)
    law = some_counts(rng) if rng.random() < 0.5 else rng.dirichlet(np.ones(8)).reshape(2, 2, 2)
    found = told(lambda: sx.theory.population.exact_frontier(law))
    assert found is None or finite([found.violation, found.utility])


@given(seed=SEEDS)
@cases(15)
def test_rows_that_are_needed(seed):
    rng = np.random.default_rng(seed)
    names = ("max_violation", "max_eo_gap", "violation", "eo_gap")
    how = {hostile.pick(rng, names): hostile.pick(rng, (0.05, 0.2, 0, -1, np.nan, "x", 1e-12))}
    for name, odd in (
        ("labels", (2, 1, 0, -1, "x", 2.5, None)),
        ("groups", (2, 3, 1, 0, np.nan, "x")),
        ("predictions", (None, 2, 0, "x")),
        ("shares", (None, [[1, 1], [1, 2]], [[0, 1], [1, 1]], "x", [[np.nan] * 2] * 2)),
        ("power", (0.8, 0, 1, np.nan, "x")),
        ("confidence", (0.9, 0, 1, np.nan, "x")),
        ("guarantee", ("large-sample", "x", None)),
    ):
        if rng.random() < 0.25:
            how[name] = hostile.pick(rng, odd)
    rows = told(lambda: sx.sample_size(**how))
    assert rows is None or (isinstance(rows, int) and rows > 0)
