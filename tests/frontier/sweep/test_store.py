"""Records on disk: what is written is read, stacks are whole or absent, damage is one sentence."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from separatrix.core import information
from separatrix.errors import DataError, InputError
from separatrix.frontier.results import Results, means, select
from separatrix.frontier.store import RECORDS, Record, ReferenceCurve, RunKey, Store


def run_key(fold=0):
    return RunKey(
        dataset="d",
        fingerprint="f",
        folds=5,
        method="m",
        inputs="xz",
        recipe="default",
        details={"hidden": [8, 8]},
        trade_off=0.5,
        fold=fold,
        seed=0,
        source="s",
    )


def table(seed):
    return np.random.default_rng(seed).random((2, 3, 2)) * 100


def test_records_come_back_bit_for_bit(tmp_path):
    store = Store(tmp_path)
    store.add([Record(run_key(fold=f), "ok", "", table(f), table(f + 9), 0.7, 0.4, 1.5) for f in range(3)])
    store = Store(tmp_path, create=False)
    back = store.records()
    for fold, record in enumerate(back):
        assert record.run == run_key(fold=fold)
        assert record.run.key == run_key(fold=fold).key
        np.testing.assert_array_equal(record.soft, table(fold))
        np.testing.assert_array_equal(record.hard, table(fold + 9))
        assert (record.auroc, record.threshold, record.seconds) == (0.7, 0.4, 1.5)


def test_what_judges_scores_and_corrects_bias_comes_back(tmp_path):
    ordered = np.random.default_rng(5).random((2, 3, 20))
    found = {"squares": table(7), "ordered": ordered, "score_gap": 0.25}
    store = Store(tmp_path)
    store.add([Record(run_key(), "ok", "", table(0), table(1), 0.7, **found)])
    (back,) = store.records()
    np.testing.assert_array_equal(back.squares, table(7))
    np.testing.assert_array_equal(back.ordered, ordered)
    assert back.score_gap == 0.25
    columns = Results.read(tmp_path).columns
    v = information.conditional_mutual_information(ordered)
    np.testing.assert_allclose(columns["score_violation"], float(v))
    np.testing.assert_allclose(columns["score_gap"], 0.25)


def test_metrics_are_those_of_the_tables(tmp_path):
    store = Store(tmp_path)
    store.add([Record(run_key(fold=f), "ok", "", table(f), table(f + 9), 0.7, 0.4) for f in range(3)])
    store.add([Record(run_key(fold=3), "diverged", "NaN")])
    columns = Results.read(tmp_path).columns
    for f in range(3):
        for policy, shift in (("randomized", 0), ("deterministic", 9)):
            row = select(columns, fold=f, policy=policy)
            assert row["violation"][0] == information.conditional_mutual_information(table(f + shift))
            assert row["utility"][0] == information.mutual_information(table(f + shift))
            assert row["eo_gap"][0] == information.eo_gap(table(f + shift))
            assert row["accuracy"][0] == information.accuracy(table(f + shift))
    lost = select(columns, fold=3)
    assert np.isnan(lost["violation"]).all()
    assert lost["counts"].tolist() == [None, None]
    mean = select(means(columns), policy="randomized")
    np.testing.assert_array_equal(mean["folds"], [3])
    np.testing.assert_array_equal(mean["lost"], [1])
    v = [float(information.conditional_mutual_information(table(f))) for f in range(3)]
    np.testing.assert_allclose(mean["violation"], np.mean(v))
    np.testing.assert_allclose(mean["violation_sd"], np.std(v, ddof=1))


def test_a_final_record_stays_and_a_failed_one_is_replaced(tmp_path):
    store = Store(tmp_path)
    store.add([Record(run_key(), "error", "it broke")])
    assert [r.status for r in store.records()] == ["error"]
    store.add([Record(run_key(), "ok", "", table(0), table(1), 0.7)])
    assert [r.status for r in store.records()] == ["ok"]
    store.add([Record(run_key(), "ok", "", table(5), table(6), 0.1)])
    store.add([Record(run_key(), "timeout", "late")])
    (record,) = store.records()
    np.testing.assert_array_equal(record.soft, table(0))
    assert record.status == "ok"


def test_a_full_disk_is_one_sentence_and_loses_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    store = Store(tmp_path)
    store.add([Record(run_key(), "ok", "", table(0), table(1), 0.7)])
    many = [Record(run_key(fold=f), "ok", "", table(f), table(f), 0.7) for f in range(1, 20)]
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(DataError, match=r"disk is full.*not lost"):
            store.add(many)
    assert len(store.records()) == 1  # a stack is written whole or not at all
    store.add(many)
    assert len(store.records()) == 20


def test_folders_without_records_newer_and_damaged_files_are_refused(tmp_path):
    with pytest.raises(DataError, match="no results"):
        Results.read(tmp_path)
    Store(tmp_path).add([Record(replace(run_key(), format=99), "ok", "", table(0), table(1))])
    with pytest.raises(DataError, match="format 99"):
        Results.read(tmp_path)
    (path,) = (tmp_path / RECORDS).iterdir()
    for damage in (b"no JSON", b"[{}]", b"[1]", b"7"):
        path.write_bytes(damage)
        with pytest.raises(DataError, match="is damaged"):
            Results.read(tmp_path)


def test_datasets_and_curves_come_back(tmp_path):
    store = Store(tmp_path)
    store.describe("d", {"labels": ["no", "yes"]})
    v, u = np.array([[0.0, 0.1], [0.2, 0.3]])
    store.add_curve(ReferenceCurve("d", "limit", v, u, "what it is of"))
    assert store.datasets() == {"d": {"labels": ["no", "yes"]}}
    (curve,) = store.curves()
    assert (curve.dataset, curve.name, curve.key) == ("d", "limit", "what it is of")
    np.testing.assert_array_equal(curve.utility, [0.2, 0.3])


def test_an_unknown_column_is_named():
    with pytest.raises(InputError, match="no column 'flod'"):
        select({"fold": np.arange(2)}, flod=1)


@pytest.mark.slow
def test_the_example_folder_has_every_cell(results_folder):
    columns = Results.read(results_folder).columns
    assert set(columns["status"]) == {"ok"}
    assert len(columns["fold"]) == 2 * 3 * 2 * (4 + 3 + 1 + 1)
    assert np.isfinite(columns["violation"]).all()
    assert (columns["violation"] >= 0).all()
    assert set(columns["policy"]) == {"randomized", "deterministic"}
    three = select(columns, dataset="three")["counts"]
    assert {c.shape for c in three} == {(3, 3, 3)}
    assert all(c.sum() == pytest.approx(500, abs=1) for c in three)
