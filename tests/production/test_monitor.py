"""The audit of a stream: state, merging, alarms, and that one may look as often as one likes."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise, product

import numpy as np
import pytest
from scipy import stats

import separatrix as sx
from separatrix.columns.counting import count_labels, count_posteriors
from separatrix.core.counts import CountTable
from separatrix.errors import InputError
from separatrix.production.monitor import Monitor
from separatrix.production.stream import Starts, share_of
from separatrix.statistics.gap_evidence import GapEvidence


def forged(monitor, name, value):
    state = json.loads(monitor.to_json())
    state["tests"][name] = value
    return json.dumps(state)


def feed(monitor, batch, **options):
    y, z, u = batch
    return monitor.update(y, u, sensitive_features=z, **options)


def stream(rng, n, copies):
    """Predictions that copy the group instead of the label in a share of the rows."""
    y, z = rng.choice(["no", "yes"], n), rng.choice(["f", "m"], n)
    return y, z, np.where(rng.random(n) < copies, np.where(z == "m", "yes", "no"), y)


def reference(n=4_000):
    return sx.audit(
        *(lambda y, z, u: (y, u))(*(rows := stream(np.random.default_rng(9), n, 0.02))), sensitive_features=rows[1]
    )


def test_a_quiet_stream_raises_no_alarm_and_a_change_does():
    rng, monitor = np.random.default_rng(0), Monitor(reference(), max_violation=0.01)
    for _ in range(30):
        assert feed(monitor, stream(rng, 500, 0.02)) is None
    alarms = [feed(monitor, stream(rng, 500, 0.3)) for _ in range(12)]
    assert alarms[-1] is not None
    assert alarms[-1].window < alarms[-1].rows  # a window saw it before the mean of all rows did
    assert alarms[-1] is monitor.alarm
    assert monitor.alarm == next(a for a in alarms if a)  # the first one is kept


def test_the_table_is_that_of_all_rows_and_the_report_holds_the_truth():
    rng, monitor = np.random.default_rng(1), Monitor(reference(), max_violation=0.05)
    batches = [stream(rng, 700, 0.1) for _ in range(5)]
    for batch in batches:
        feed(monitor, batch)
    y, z, u = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    whole = sx.audit(y, u, sensitive_features=z)
    report = monitor.report()
    np.testing.assert_array_equal(monitor.table.counts, whole.table.counts)
    assert report.violation == pytest.approx(whole.violation)
    assert report.utility == pytest.approx(whole.utility)
    low, high = report.interval
    assert low < report.violation < high
    assert report.reference == pytest.approx(reference().violation)
    assert json.loads(json.dumps(report.to_dict()))["rows"] == 3_500


def test_before_the_first_row_the_report_says_that_nothing_is_known():
    report = Monitor(reference(), max_violation=0.01).report()
    assert report.rows == 0
    assert np.isnan(report.violation)
    assert report.interval == (0.0, float("inf"))


def test_after_one_row_the_report_is_about_that_row():
    """Wherever the row falls: the cells without rows cause nothing."""
    for y, u, z in product(["no", "yes"], ["no", "yes"], ["f", "m"]):
        monitor = Monitor(reference(200), max_eo_gap=0.05)
        monitor.update([y], [u], sensitive_features=[z])
        report = monitor.report()
        assert (report.cell.label, report.cell.group) == (y, z)
        assert "Quiet: 1 row seen" in str(report)
        assert "separatrix_rows_total 1" in monitor.metrics()


def test_state_survives_json_and_a_file(tmp_path):
    rng, monitor = np.random.default_rng(2), Monitor(reference(), max_violation=0.01)
    feed(monitor, stream(rng, 3_000, 0.02))
    monitor.save(tmp_path / "monitor.json")
    again = Monitor.load(tmp_path / "monitor.json")
    assert again.to_json() == monitor.to_json()
    assert [p.name for p in tmp_path.iterdir()] == ["monitor.json"]
    batch = stream(rng, 9_000, 0.4)
    assert feed(again, batch) == feed(monitor, batch)
    assert again.alarm is not None
    assert Monitor.from_json(again.to_json()).alarm == again.alarm


@pytest.mark.slow
def test_workers_merge_to_the_monitor_of_all_rows():
    rng, audited = np.random.default_rng(3), reference()
    workers = [Monitor(audited, max_violation=0.01) for _ in range(3)]
    one = Monitor(audited, max_violation=0.01)
    for worker in workers:
        batch = stream(rng, 2_000, 0.15)
        feed(worker, batch, check=False)
        feed(one, batch, check=False)
    merged = Monitor.merge([Monitor.from_json(worker.to_json()) for worker in workers])
    assert merged.alarm is None
    assert merged.rows == one.rows == 6_000
    np.testing.assert_array_equal(merged.table.counts, one.table.counts)
    assert merged.report().evidence == pytest.approx(one.report().evidence, rel=0.2)
    assert merged.check() is not None
    assert one.check() is not None


@pytest.mark.slow
def test_merged_workers_alarm_as_early_as_one_monitor():
    """Windows close as rows come in, checked or not: 40,000 quiet rows hide nothing."""
    rng, audited = np.random.default_rng(8), reference()
    workers = [Monitor(audited, max_violation=0.01) for _ in range(4)]
    one = Monitor(audited, max_violation=0.01)
    first: dict[str, int] = {}
    for round_ in range(30):
        for worker in workers:
            batch = stream(rng, 400, 0.02 if round_ < 25 else 0.3)
            feed(worker, batch, check=False)
            if feed(one, batch):
                first.setdefault("one", one.rows)
        if Monitor.merge(workers).check():
            first.setdefault("merged", sum(worker.rows for worker in workers))
    assert 40_000 < first["one"] <= first["merged"] <= first["one"] + 2_500


def test_a_merged_test_holds_the_rows_since_each_workers_own_start():
    """And a test that one of the workers has ended is gone: its rows may only grow."""
    rng, audited = np.random.default_rng(8), reference()
    quick, slow = Monitor(audited, max_violation=0.01), Monitor(audited, max_violation=0.01)
    feed(quick, stream(rng, 5_000, 0.1), check=False)
    feed(slow, stream(rng, 700, 0.1), check=False)
    merged = Monitor.merge([quick, slow])
    names = {
        tuple(name): rows
        for *name, rows in zip(merged._starts.level, merged._starts.index, merged._starts.rows, strict=True)
    }
    assert names[(-1, 1)] == 5_700
    own = list(zip(quick._starts.level, quick._starts.index, quick._starts.rows, strict=True))
    for level, index, rows in own[1:]:
        # the slow worker has not come to these, or has the rest of its rows in them
        begun = 100 * (2 * index - 1) * 2**level
        if (level, index) in names:
            assert names[(level, index)] == rows + max(700 - begun, 0)
    ended = set(zip(slow._starts.level, slow._starts.index, strict=True)) - {(a, r) for a, r, _ in own}
    assert ended
    assert not ended & set(names)


def test_batches_of_any_size_give_the_same_tests():
    rng, audited = np.random.default_rng(5), reference()
    y, z, u = stream(rng, 7_345, 0.1)
    whole, parts = Monitor(audited, max_violation=0.5), Monitor(audited, max_violation=0.5)
    whole.update(y, u, sensitive_features=z, check=False)
    cuts = [0, 1, 99, 100, 101, 1_000, 1_050, 4_321, 7_345]
    for a, b in pairwise(cuts):
        parts.update(y[a:b], u[a:b], sensitive_features=z[a:b], check=False)
    assert whole.to_json() == parts.to_json()


def test_a_change_inside_one_long_batch_is_seen():
    rng = np.random.default_rng(6)
    pieces = [stream(rng, n, c) for n, c in ((20_000, 0.02), (4_000, 0.35), (60_000, 0.02))]
    batch = [np.concatenate(parts) for parts in zip(*pieces, strict=True)]
    alarm = feed(Monitor(reference(), max_violation=0.01), batch)
    assert alarm is not None
    assert 20_000 < alarm.rows <= 24_000
    assert alarm.window < 5_000


def test_eight_threads_lose_no_row():
    rng, monitor = np.random.default_rng(7), Monitor(reference(), max_violation=0.5)
    batches = [stream(rng, 50, 0.1) for _ in range(160)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda batch: feed(monitor, batch), batches))
    y, z, u = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    assert monitor.rows == 8_000
    np.testing.assert_array_equal(monitor.table.counts, sx.audit(y, u, sensitive_features=z).table.counts)
    assert (monitor._starts.tables.sum((1, 2, 3)) == monitor._starts.rows).all()


@pytest.mark.slow
def test_the_alarm_names_the_label_and_the_group():
    rng, monitor = np.random.default_rng(8), Monitor(reference(), max_violation=0.01)
    y, z = rng.choice(["no", "yes"], 4_000), rng.choice(["f", "m"], 4_000, p=[0.2, 0.8])
    wrong = (y == "yes") & (z == "f") & (rng.random(4_000) < 0.5)
    u = np.where(wrong | (rng.random(4_000) < 0.1), "no", y)
    alarm = monitor.update(y, u, sensitive_features=z)
    cell = alarm.cell
    assert (cell.label, cell.group, cell.prediction) == ("yes", "f", "yes")
    assert cell.rate < 0.6 < 0.75 < cell.overall
    assert "ALARM" in str(monitor.report())
    assert "with label yes, group f gets yes in " in str(monitor.report())


@pytest.mark.slow
def test_the_alarm_of_a_gap_is_about_the_rates_of_that_gap():
    """Parity is about decisions whatever the label is; the gap of one label about that label."""
    rng, n = np.random.default_rng(8), 8_000
    z = rng.choice(["f", "m"], n)
    y = np.where(rng.random(n) < np.where(z == "f", 0.2, 0.8), "yes", "no")
    # of the few f with yes most are rejected, which is most of v, but m get yes far more often
    u = np.where((y == "yes") & (z == "f") & (rng.random(n) < 0.7), "no", y)
    cells = {}
    for budget in ("max_parity_gap", "max_fpr_gap"):
        monitor = Monitor(reference(), **{budget: 0.05})
        monitor.update(y, u, sensitive_features=z)
        cells[budget] = monitor.report().cell
    parity = cells["max_parity_gap"]
    assert parity.label is None
    assert parity.rate == pytest.approx((u[z == parity.group] == parity.prediction).mean(), abs=0.03)
    assert str(parity).startswith("group ")
    assert cells["max_fpr_gap"].label == "no"


def drifting(rng, n, share, rate):
    """U ⟂ Z | Y at every moment: the rate is that of the time, not of the group."""
    z = np.where(rng.random(n) < share, "f", "m")
    return rng.choice(["no", "yes"], n), z, np.where(rng.random(n) < rate, "yes", "no")


def test_drift_of_rates_and_composition_together_alarms_unless_a_horizon_bounds_the_tests():
    """Documented: v = 0 at every moment, yet the pooled rows have v = 0.03."""
    rng, found = np.random.default_rng(9), {}
    batches = [drifting(rng, 500, s, s) for s in np.repeat([0.2, 0.5, 0.8], 10)]
    for horizon in (None, 2_000):
        monitor = Monitor(reference(), max_violation=0.01, horizon=horizon)
        for batch in batches:
            feed(monitor, batch)
        found[horizon] = monitor.alarm
    assert found[None] is not None
    assert found[2_000] is None


def test_with_a_horizon_no_test_is_longer_and_changes_are_still_seen():
    rng, monitor = (np.random.default_rng(10), Monitor(reference(), max_violation=0.01, horizon=2_000))
    feed(monitor, stream(rng, 10_000, 0.02))
    assert monitor._starts.rows[1:].max() <= 2_000
    assert Monitor.from_json(monitor.to_json()).horizon == 2_000
    alarm = feed(monitor, stream(rng, 3_000, 0.35))
    assert alarm is not None
    assert alarm.window <= 2_000


@pytest.mark.slow
def test_history_has_a_bounded_number_of_points():
    rng, monitor = np.random.default_rng(11), Monitor(reference(), max_violation=0.5)
    for _ in range(400):
        feed(monitor, stream(rng, 8, 0.1))
    assert 60 < len(monitor.history) <= 257
    assert [at for at, _, _ in monitor.history] == sorted(at for at, _, _ in monitor.history)
    assert monitor.history[-1][0] > 3_000


def test_posteriors_and_counts_from_elsewhere_are_taken():
    rng, monitor = np.random.default_rng(4), Monitor(reference(), max_violation=0.01)
    y, z, _ = stream(rng, 1_000, 0.0)
    q = rng.dirichlet([2, 2], 1_000)
    monitor.update(y, q, sensitive_features=z)
    other = Monitor(reference(), max_violation=0.01)
    other.update_counts(sx.audit(y, q, sensitive_features=z).table)
    np.testing.assert_allclose(monitor.table.counts, other.table.counts)
    np.testing.assert_allclose(monitor.table.counts, count_posteriors(y, q, sensitive_features=z).counts)


def test_a_mixture_is_watched_with_its_branches():
    rng = np.random.default_rng(7)
    y, z, u = stream(rng, 2_000, 0.1)
    branch = rng.integers(0, 2, 2_000)
    names = tuple((b, label) for b in (0, 1) for label in ("no", "yes"))
    shares = np.ones((2, 2, 4))
    table = CountTable(shares, ("no", "yes"), ("f", "m"), names, rows=16)
    monitor = Monitor(table, max_violation=0.05)
    monitor.update(y, u, sensitive_features=z, branch=branch)
    assert monitor.table.counts[1, 0, 3] == ((y == "yes") & (z == "f") & (branch == 1) & (u == "yes")).sum()
    assert Monitor.from_json(monitor.to_json()).update(y, u, sensitive_features=z, branch=branch) is None
    with pytest.raises(InputError, match="`y_pred` holds 'no'"):
        monitor.update(y, u, sensitive_features=z)
    with pytest.raises(InputError, match="2 columns, the reference the predictions"):
        monitor.update(y, rng.dirichlet([1, 1], 2_000), sensitive_features=z)


def test_memory_is_constant():
    starts, alive = Starts.without_rows((2, 2, 2), None), []
    for rows in np.tile([100, 700, 2_500], 1_200):
        starts.add(np.full((2, 2, 2), rows / 8), int(rows))
        alive.append(len(starts.rows))
    assert starts.clock == 3_960_000
    assert max(alive) <= 1 + 3 * 15 + 3
    later = alive[2_000:]
    assert max(later) - min(later) <= 15  # and no trend


def test_the_shares_of_the_error_sum_to_at_most_one():
    shares = share_of(np.arange(1, 1_000_000))
    left = 1 / np.log(999_999 + np.e)  # of all later tests together
    assert shares.sum() + left == pytest.approx(1.0, abs=1e-9)
    monitor = Monitor(reference(), max_violation=0.5)
    feed(monitor, stream(np.random.default_rng(0), 20_000, 0.1), check=False)
    starts = monitor._starts
    names = list(zip(starts.level.tolist(), starts.index.tolist(), strict=True))
    assert len(set(names)) == len(names)
    assert starts.shares[0] == 0.75
    assert starts.shares[1:].sum() <= 0.25
    lives = 600 * 2 ** starts.level[1:]
    assert (starts.rows[1:] < lives).all()


@pytest.mark.slow
def test_false_alarms_at_the_budget_are_rare_however_often_one_looks():
    """v equal to the budget for ever: at most 10 % of the streams may raise an alarm at confidence
    0.9.
    """
    rates = (
        np.array([[[0.7, 0.3], [0.8, 0.2]], [[0.2, 0.8], [0.3, 0.7]]]) * np.array([[0.3, 0.2], [0.3, 0.2]])[..., None]
    )
    budget = float(sx.theory.conditional_mutual_information(rates))
    rng, false = np.random.default_rng(6), 0
    table = CountTable(rates, (0, 1), (0, 1), (0, 1), rows=1)
    for _ in range(25):
        monitor = Monitor(table, max_violation=budget, confidence=0.9)
        for _ in range(30):
            batch = rng.multinomial(500, rates.ravel()).reshape(2, 2, 2).astype(float)
            if monitor.update_counts(CountTable(batch, (0, 1), (0, 1), (0, 1), rows=500)):
                false += 1
                break
    assert false <= 0.1 * 25


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: Monitor("adult", max_violation=0.01), "must be an Audit or a CountTable.*got str"),
        (lambda m: Monitor(m.reference, max_violation=-0.1), "not negative, got -0.1"),
        (lambda m: Monitor(m.reference, max_violation=0.1, confidence=95), "For 95 % pass 0.95"),
        (
            lambda m: m.update(["no"], ["no"], sensitive_features=["x"]),
            "`sensitive_features` holds 'x', which is not one of 'f', 'm'",
        ),
        (lambda m: m.update(["no"], ["maybe"], sensitive_features=["f"]), "`y_pred` holds 'maybe'"),
        (lambda m: m.update(["maybe"], ["no"], sensitive_features=["f"]), "`y_true` holds 'maybe'"),
        (lambda m: Monitor.merge([]), "`monitors` is empty"),
        (
            lambda m: Monitor.merge([m, Monitor(m.reference, max_violation=0.5)]),
            "only if reference, budget, confidence and horizon",
        ),
        (lambda m: Monitor.from_json(m.to_json()[:-20]), "not the whole state"),
        (lambda m: Monitor.from_json("[]"), "not the whole state"),
        (lambda m: Monitor.from_json("[" * 100_000), "not the whole state"),
        (lambda m: Monitor.from_json(forged(m, "clock", -1)), "not the whole state"),
        (lambda m: Monitor.from_json(forged(m, "clock", float("inf"))), "not the whole state"),
        (lambda m: Monitor.from_json(forged(m, "level", [3])), "not the whole state"),
        (lambda m: Monitor.from_json(forged(m, "index", [0])), "not the whole state"),
        (lambda m: Monitor.from_json(forged(m, "rows", [1.5])), "bad numbers of rows"),
        (lambda m: Monitor(m.reference, max_violation=0.01, horizon=10), "at least 1,000, got 10"),
        (
            lambda m: Monitor.from_json(m.to_json().replace('"format": 3', '"format": 9')),
            "format 9; this separatrix reads 3",
        ),
        (lambda m: Monitor.load("/nowhere/monitor.json"), "cannot be read"),
        (
            lambda m: m.update_counts(
                count_labels(["no"] * 2, ["no"] * 2, sensitive_features=["f"] * 2, sample_weight=[1, 0.5])
            ),
            "weighted rows",
        ),
    ],
)
def test_errors(call, message):
    monitor = Monitor(reference(200), max_violation=0.01)
    with pytest.raises(InputError, match=message):
        call(monitor)
    assert monitor.rows == 0


def test_no_test_of_a_stream_spends_the_whole_error():
    """Many windows are tested: each needs more evidence than one test alone would."""
    monitor = Monitor(reference(), max_violation=0.01, confidence=0.9)
    feed(monitor, stream(np.random.default_rng(3), 3_000, 0.02))
    assert monitor.report().needed > np.log(1 / 0.1) + 0.1


def _rates(groups, gap, at=0):
    rates = np.repeat([[0.2], [0.7]], groups, axis=1)
    rates[:, at] += gap
    return rates


def _drawn(rng, rates, shares, rows):
    """Counts (y, z, u) of so many rows."""
    cells = rng.multinomial(rows, np.outer([0.5, 0.5], shares).ravel()).reshape(rates.shape)
    positive = rng.binomial(cells, rates)
    return np.stack([cells - positive, positive], -1).astype(float)


def _rows_to_alarm(rng, groups, gap, measure="eo_gap", smallest=None, most=40_000, step=1_000):
    shares = np.full(groups, 1 / groups)
    if smallest is not None:
        shares = np.r_[smallest, np.full(groups - 1, (1 - smallest) / (groups - 1))]
    known = _drawn(rng, _rates(groups, 0.0), shares, 2_000)
    evidence = GapEvidence.from_reference(known, measure, 0.05)
    counts, needed = np.zeros(known.shape), np.log(20)
    for rows in range(step, most + 1, step):
        counts += _drawn(rng, _rates(groups, gap), shares, step)
        ceiling = evidence.ceiling(counts[None], [needed])[0]
        if ceiling >= needed and evidence.log_e(counts, needed) >= needed:
            return rows
    return np.inf


@pytest.mark.parametrize(("groups", "times", "most"), [(2, 2, 12_000), (2, 4, 2_000), (5, 4, 3_000), (9, 4, 5_000)])
def test_a_gap_beyond_the_budget_is_found(groups, times, most):
    rng = np.random.default_rng(groups)
    assert np.median([_rows_to_alarm(rng, groups, times * 0.05) for _ in range(3)]) <= most


@pytest.mark.slow
@pytest.mark.parametrize("measure", ["eo_gap", "tpr_gap", "fpr_gap", "parity_gap"])
@pytest.mark.parametrize(
    ("streams", "groups", "smallest"),
    [(8, 2, None), (4, 5, None)]
    + [pytest.param(200, *x, marks=pytest.mark.nightly) for x in ((2, 0.01), (5, None), (9, None))],
)
def test_a_gap_at_the_budget_hardly_ever_raises_an_alarm(measure, streams, groups, smallest):
    rng = np.random.default_rng(5)
    options = {"measure": measure, "smallest": smallest, "most": 15_000}
    alarms = [_rows_to_alarm(rng, groups, 0.05, **options) < np.inf for _ in range(streams)]
    assert np.sum(alarms) <= stats.binom.ppf(0.999, streams, 0.05)


def test_the_evidence_of_a_gap_is_below_a_martingale():
    """E at rates within the null: its mean over samples of a fixed size is at most one."""
    rng, shares = np.random.default_rng(6), np.array([0.3, 0.3, 0.4])
    rates = _rates(3, 0.05, at=1)
    evidence = GapEvidence.from_reference(_drawn(rng, rates, shares, 500), "eo_gap", 0.05)
    logs = [evidence.log_e(_drawn(rng, rates, shares, 200), np.log(20)) for _ in range(150)]
    assert np.exp(logs).mean() <= 1.0
    tables = np.stack([_drawn(rng, _rates(3, 0.3), shares, 200) for _ in range(5)])
    exact = [evidence.log_e(table, 3.0) for table in tables]
    assert (exact <= evidence.ceiling(tables, np.full(5, 3.0)) + 1e-9).all()


def test_a_monitor_of_a_gap_alarms_in_its_own_words_and_comes_back():
    rng = np.random.default_rng(7)
    y, u, z = _people(rng, 0.0)
    known = sx.audit(y, u, sensitive_features=z)
    monitor = Monitor(known, max_eo_gap=0.05)
    y, u, z = _people(rng, 0.2)
    alarm = monitor.update(y, u, sensitive_features=z)
    assert alarm.measure == "eo_gap"
    assert alarm.value > 0.1
    assert "equalized-odds gap" in str(monitor.report())
    again = Monitor.from_json(monitor.to_json())
    assert again.alarm == alarm
    assert again.report().to_dict() == monitor.report().to_dict()
    lines = monitor.metrics().splitlines()
    assert "separatrix_alarm 1" in lines
    assert "separatrix_eo_gap_budget 0.05" in lines
    assert any(line.startswith('separatrix_rate{label="1",group="0",') for line in lines)
    with pytest.raises(InputError, match="one budget, got `max_eo_gap`, `max_violation`"):
        Monitor(known, max_eo_gap=0.05, max_violation=0.1)


def _people(rng, gap, rows=4_000):
    y, z = rng.integers(0, 2, (2, rows))
    return y, (rng.random(rows) < 0.2 + 0.5 * y + gap * z).astype(int), z
