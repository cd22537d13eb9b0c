"""The audit of a stream: state, merging, alarms, and that one may look as often as one likes."""

from __future__ import annotations

import json

import numpy as np
import pytest

import separatrix as sx
from separatrix.columns.counting import count_labels, count_posteriors
from separatrix.core.counts import CountTable
from separatrix.deploy.monitor import _WINDOWS, Monitor
from separatrix.errors import InputError


def feed(monitor, batch, **options):
    y, z, u = batch
    return monitor.update(y, u, sensitive_features=z, **options)


def stream(rng, n, copies):
    """Predictions that copy the group instead of the label in a share of the rows."""
    y, z = rng.choice(["no", "yes"], n), rng.choice(["f", "m"], n)
    return y, z, np.where(rng.random(n) < copies, np.where(z == "m", "yes", "no"), y)


def reference(n=4_000):
    return sx.audit(
        *(lambda y, z, u: (y, u))(*(rows := stream(np.random.default_rng(9), n, 0.02))),
        sensitive_features=rows[1],
    )


def test_a_quiet_stream_raises_no_alarm_and_a_change_does():
    rng, monitor = np.random.default_rng(0), Monitor(reference(), budget=0.01)
    for _ in range(30):
        assert feed(monitor, stream(rng, 500, 0.02)) is None
    alarms = [feed(monitor, stream(rng, 500, 0.3)) for _ in range(12)]
    assert alarms[-1] is not None
    assert alarms[-1].window < alarms[-1].rows  # a window saw it before the mean of all rows did
    assert alarms[-1] is monitor.alarm
    assert monitor.alarm == next(a for a in alarms if a)  # the first one is kept


def test_the_table_is_that_of_all_rows_and_the_report_holds_the_truth():
    rng, monitor = np.random.default_rng(1), Monitor(reference(), budget=0.05)
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
    report = Monitor(reference(), budget=0.01).report()
    assert report.rows == 0
    assert np.isnan(report.violation)
    assert report.interval == (0.0, float("inf"))


def test_state_survives_json_and_a_file(tmp_path):
    rng, monitor = np.random.default_rng(2), Monitor(reference(), budget=0.01)
    feed(monitor, stream(rng, 3_000, 0.02))
    monitor.save(tmp_path / "monitor.json")
    again = Monitor.load(tmp_path / "monitor.json")
    assert again.to_json() == monitor.to_json()
    assert [p.name for p in tmp_path.iterdir()] == ["monitor.json"]
    batch = stream(rng, 9_000, 0.4)
    assert feed(again, batch) == feed(monitor, batch)
    assert again.alarm is not None
    assert Monitor.from_json(again.to_json()).alarm == again.alarm


def test_workers_merge_to_the_monitor_of_all_rows():
    rng, audited = np.random.default_rng(3), reference()
    workers = [Monitor(audited, budget=0.01) for _ in range(3)]
    one = Monitor(audited, budget=0.01)
    for worker in workers:
        batch = stream(rng, 2_000, 0.15)
        feed(worker, batch, check=False)
        feed(one, batch, check=False)
    merged = Monitor.merge([Monitor.from_json(worker.to_json()) for worker in workers])
    assert merged.alarm is None
    assert merged.to_json() == one.to_json()
    assert merged.check() == one.check() is not None


def test_posteriors_and_counts_from_elsewhere_are_taken():
    rng, monitor = np.random.default_rng(4), Monitor(reference(), budget=0.01)
    y, z, _ = stream(rng, 1_000, 0.0)
    q = rng.dirichlet([2, 2], 1_000)
    monitor.update(y, q, sensitive_features=z)
    other = Monitor(reference(), budget=0.01)
    other.update_counts(sx.audit(y, q, sensitive_features=z).table)
    np.testing.assert_allclose(monitor.table.counts, other.table.counts)
    np.testing.assert_allclose(
        monitor.table.counts, count_posteriors(y, q, sensitive_features=z).counts
    )


def test_a_mixture_is_watched_with_its_branches():
    rng = np.random.default_rng(7)
    y, z, u = stream(rng, 2_000, 0.1)
    branch = rng.integers(0, 2, 2_000)
    names = tuple((b, label) for b in (0, 1) for label in ("no", "yes"))
    shares = np.ones((2, 2, 4))
    monitor = Monitor(CountTable(shares, ("no", "yes"), ("f", "m"), names, rows=16), budget=0.05)
    monitor.update(y, u, sensitive_features=z, branch=branch)
    assert (
        monitor.table.counts[1, 0, 3]
        == ((y == "yes") & (z == "f") & (branch == 1) & (u == "yes")).sum()
    )
    assert (
        Monitor.from_json(monitor.to_json()).update(y, u, sensitive_features=z, branch=branch)
        is None
    )
    with pytest.raises(InputError, match="`y_pred` holds 'no'"):
        monitor.update(y, u, sensitive_features=z)
    with pytest.raises(InputError, match="2 columns for the reference's 4"):
        monitor.update(y, rng.dirichlet([1, 1], 2_000), sensitive_features=z)


def test_memory_is_constant():
    rng, monitor = np.random.default_rng(5), Monitor(reference(), budget=0.5)
    sizes = []
    for _ in range(20):
        feed(monitor, stream(rng, 2_000, 0.1))
        sizes.append(len(monitor.to_json()))
    assert max(sizes[5:]) < 1.05 * min(sizes[5:])


def test_the_shares_of_the_error_sum_to_at_most_one():
    monitor = Monitor(reference(), budget=0.01)
    total = 0.0
    for window in monitor._windows:
        for index in range(1, 2_000):
            window.index = index
            total += window.share
    assert 0.99 < total <= 1.0
    assert len(_WINDOWS) == len(monitor._windows)


@pytest.mark.slow
def test_false_alarms_at_the_budget_are_rare_however_often_one_looks():
    """v equal to the budget for ever: at most 10 % of the streams may raise an alarm at confidence
    0.9.
    """
    rates = (
        np.array([[[0.7, 0.3], [0.8, 0.2]], [[0.2, 0.8], [0.3, 0.7]]])
        * np.array([[0.3, 0.2], [0.3, 0.2]])[..., None]
    )
    budget = float(sx.conditional_mutual_information(rates))
    rng, false = np.random.default_rng(6), 0
    table = CountTable(rates, (0, 1), (0, 1), (0, 1), rows=1)
    for _ in range(60):
        monitor = Monitor(table, budget=budget, confidence=0.9)
        for _ in range(60):
            batch = rng.multinomial(500, rates.ravel()).reshape(2, 2, 2).astype(float)
            if monitor.update_counts(CountTable(batch, (0, 1), (0, 1), (0, 1), rows=500)):
                false += 1
                break
    assert false <= 0.1 * 60


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: Monitor("adult", 0.01), "must be an Audit or a CountTable.*got str"),
        (lambda m: Monitor(m.reference, -0.1), "not negative, got -0.1"),
        (lambda m: Monitor(m.reference, 0.1, 95), "For 95 % pass 0.95"),
        (
            lambda m: m.update(["no"], ["no"], sensitive_features=["x"]),
            "`sensitive_features` holds 'x', which is not one of 'f', 'm'",
        ),
        (lambda m: m.update(["no"], ["maybe"], sensitive_features=["f"]), "`y_pred` holds 'maybe'"),
        (lambda m: m.update(["maybe"], ["no"], sensitive_features=["f"]), "`y_true` holds 'maybe'"),
        (lambda m: Monitor.merge([]), "`monitors` is empty"),
        (
            lambda m: Monitor.merge([m, Monitor(m.reference, 0.5)]),
            "only if reference, budget and confidence",
        ),
        (lambda m: Monitor.from_json(m.to_json()[:-20]), "not the whole state"),
        (lambda m: Monitor.from_json("[]"), "not the whole state"),
        (
            lambda m: Monitor.from_json(m.to_json().replace('"format": 1', '"format": 2')),
            "format 2; this separatrix reads 1",
        ),
        (lambda m: Monitor.load("/nowhere/monitor.json"), "cannot be read"),
        (
            lambda m: m.update_counts(
                count_labels(
                    ["no"] * 2, ["no"] * 2, sensitive_features=["f"] * 2, sample_weight=[1, 0.5]
                )
            ),
            "weighted rows",
        ),
    ],
)
def test_errors(call, message):
    monitor = Monitor(reference(200), budget=0.01)
    with pytest.raises(InputError, match=message):
        call(monitor)
    assert monitor.rows == 0
