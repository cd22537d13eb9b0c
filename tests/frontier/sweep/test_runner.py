"""A sweep gives the same records wherever and however often it runs; what fails is a record; kills
lose nothing.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from separatrix import methods
from separatrix.columns.counting import count_labels
from separatrix.errors import DataError, InputError
from separatrix.frontier import sweep
from separatrix.frontier.store import Store
from separatrix.frontier.sweep import Execution, Job, Source, best_threshold, grid, run, time_limit, work
from separatrix.io import write_whole

pytest.importorskip("torch")
HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from killing import JOBS, LAW, stacks  # noqa: E402

pytestmark = pytest.mark.slow


def contents(folder):
    """Everything that a record says but how long it took."""
    store = Store(folder, create=False)
    return [
        (r.run.key, r.status, r.message, r.soft.tobytes(), r.hard.tobytes(), r.auroc, str(r.threshold))
        for r in store.records()
    ]


def files(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "models").iterdir())}


@pytest.fixture(scope="module")
def serial(tmp_path_factory):
    folder = tmp_path_factory.mktemp("serial")
    run(stacks(), folder)
    return folder


def script(*arguments):
    return [sys.executable, str(HERE / "killing.py"), *map(str, arguments)]


@pytest.mark.parametrize("kills", [2, pytest.param(10, marks=pytest.mark.nightly)])
def test_kill_9_and_the_rerun_finds_the_same_numbers(serial, tmp_path, kills):
    command = script(tmp_path, "killed", kills)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    counts = [int(line) for line in done.stdout.split()]
    assert len(counts) == kills
    assert counts == sorted(counts)  # nothing that was finished is ever lost
    assert 0 < counts[0] < 30  # the first kill came in the middle
    assert run(stacks(), tmp_path).skipped >= counts[-1] - 3  # at most the stack in progress
    assert contents(tmp_path) == contents(serial)
    assert files(tmp_path) == files(serial)  # and nothing that a killed run left half-written


@pytest.mark.nightly
def test_two_processes_on_one_folder_end_with_the_same_records(serial, tmp_path):
    both = [subprocess.Popen(script(tmp_path, "once", 0), stderr=subprocess.PIPE, text=True) for _ in range(2)]
    for process in both:
        _, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
    assert contents(tmp_path) == contents(serial)
    assert files(tmp_path) == files(serial)


@pytest.mark.slow
def test_local_processes_give_the_same_bits(serial, tmp_path):
    run(stacks(), tmp_path, Execution(n_jobs=2))
    assert contents(tmp_path) == contents(serial)
    assert files(tmp_path) == files(serial)


@pytest.mark.nightly
def test_a_dask_cluster_gives_the_same_bits_although_a_worker_is_killed(serial, tmp_path):
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        address = cluster.scheduler_address
        data = sweep.datasets.load("synthetic", **LAW)
        own = [replace(stack, source=Source("synthetic", data=data)) for stack in stacks()]
        failed: list[BaseException] = []

        def run_it():
            try:
                run(own, tmp_path, Execution(backend="dask", scheduler=address))
            except BaseException as error:
                failed.append(error)

        thread = threading.Thread(target=run_it)
        thread.start()
        until = time.monotonic() + 60
        while time.monotonic() < until and not failed:
            store = Store(tmp_path)
            if store.records():
                break
            time.sleep(0.02)
        os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        thread.join(100)
        assert not thread.is_alive()
    assert not failed
    assert contents(tmp_path) == contents(serial)
    assert files(tmp_path) == files(serial)


def test_a_rerun_skips_what_is_finished_and_adds_what_is_new(serial, tmp_path):
    small = [s for s in stacks() if s.job.method == "raw_cmi"]
    first = run(small[:2], tmp_path)
    assert (first.skipped, first.added) == (0, {"ok": 4})
    second = run(small, tmp_path)
    assert (second.skipped, second.added) == (4, {"ok": 6})
    more = grid([Source("synthetic", LAW)], [replace(JOBS[1], trade_offs=(0.0, 0.5, 1.0))])
    third = run(more, tmp_path)
    assert (third.skipped, third.added) == (10, {"ok": 5})
    known = contents(serial)
    assert len([row for row in contents(tmp_path) if row in known]) == 10


@pytest.mark.parametrize(
    ("other", "message"),
    [
        (lambda: grid([Source("synthetic", LAW)], [JOBS[2]], folds=3), "with folds = 2"),
        (lambda: grid([Source("synthetic", LAW)], [JOBS[2]], folds=2, seed=1), "with seed = 0"),
        (lambda: grid([Source("synthetic", {**LAW, "n": 1_300})], [JOBS[2]], folds=2), "with other rows"),
    ],
)
def test_two_protocols_do_not_mix_in_one_folder(tmp_path, other, message):
    run(grid([Source("synthetic", LAW)], [JOBS[2]], folds=2), tmp_path)
    with pytest.raises(InputError, match=message):
        run(other(), tmp_path)


def test_a_lost_model_file_is_made_again(serial, tmp_path):
    keeping = [s for s in stacks() if s.job.keep][:1]
    run(keeping, tmp_path)
    (path,) = (tmp_path / "models").iterdir()
    before = path.read_bytes()
    path.unlink()
    assert run(keeping, tmp_path).added == {"ok": 3}
    assert path.read_bytes() == before


def test_kept_models_give_the_kept_posteriors(serial):
    data = sweep.datasets.load("synthetic", **LAW)
    saved = Store(serial).saved_runs()
    assert [k.first.fold for k in saved] == [0, 1, 2, 3, 4]
    for k in saved:
        fold = sweep.datasets.folds(data.y, data.z, k.first.folds, k.first.seed)
        X, _ = data.prepared(np.flatnonzero(fold != k.first.fold))
        rows = np.flatnonzero(fold == k.first.fold)
        fitted = methods.get("cmi").restore(k.arrays)
        np.testing.assert_array_equal(fitted.posteriors(X[rows], data.z[rows]), k.held_out)


def test_the_threshold_is_tuned_on_the_training_rows(serial):
    """t* of the record is the best on the rows that trained, with w = λ; the hard table is that of
    the test rows.
    """
    data = sweep.datasets.load("synthetic", **LAW)
    store = Store(serial)
    thresholds = {(r.run.trade_off, r.run.fold): r for r in store.records() if r.run.method == "cmi"}
    for k in Store(serial).saved_runs():
        fold = sweep.datasets.folds(data.y, data.z, 5, 0)
        train, test = fold != k.first.fold, fold == k.first.fold
        X, _ = data.prepared(np.flatnonzero(train))
        q = methods.get("cmi").restore(k.arrays).posteriors(X[train], data.z[train])
        for lane, run_key in enumerate(k.runs):
            record = thresholds[run_key.trade_off, run_key.fold]
            cut = best_threshold(q[lane, :, 1], data.y[train], data.z[train], 2, run_key.trade_off)
            assert record.threshold == cut
            hard = count_labels(
                data.y[test], (k.held_out[lane, :, 1] > cut).astype(int), sensitive_features=data.z[test], labels=[0, 1]
            )
            np.testing.assert_array_equal(record.hard, hard.counts)


def test_what_fails_is_a_record_and_is_tried_again(tmp_path, monkeypatch):
    (stack,) = grid([Source("synthetic", LAW)], [JOBS[2]], folds=2)[:1]

    def broken(*args, **kwargs):
        raise RuntimeError("the method broke")

    with monkeypatch.context() as patch:
        patch.setattr(sweep.methods, "fit", broken)
        assert run([stack], tmp_path).added == {"error": 1}
    store = Store(tmp_path)
    (record,) = store.records()
    assert (record.status, record.message, record.soft) == ("error", "RuntimeError: the method broke", None)
    assert run([stack], tmp_path).added == {"ok": 1}


def test_a_diverged_lane_is_a_record_and_does_not_touch_the_others(tmp_path):
    explode = replace(JOBS[1], trade_offs=(0.0, 1.0), changes=(*JOBS[1].changes, ("learning_rate", 1e30)))
    assert run(grid([Source("synthetic", LAW)], [explode], folds=2), tmp_path).added["diverged"] > 0
    store = Store(tmp_path)
    lost = [r for r in store.records() if r.status == "diverged"]
    assert all(r.soft is None and "not finite" in r.message for r in lost)
    assert run(grid([Source("synthetic", LAW)], [explode], folds=2), tmp_path).added == {}  # final: not tried again


def test_a_stack_that_takes_too_long_is_given_up(tmp_path):
    slow = replace(JOBS[0], keep=False, changes=(("epochs", 100_000),))
    (stack,) = grid([Source("synthetic", LAW)], [slow], folds=2)[:1]
    started = time.monotonic()
    answer = work(stack, timeout=0.3)
    assert time.monotonic() - started < 20
    assert {r.status for r in answer.records} == {"timeout"}
    assert "0.3 s" in answer.records[0].message


@pytest.mark.nightly
def test_the_time_limit_works_in_any_thread_and_leaves_nothing_behind():
    seen = []

    def busy(limit):
        try:
            with time_limit(limit):
                until = time.monotonic() + 0.5
                while time.monotonic() < until:
                    pass
            seen.append("finished")
        except TimeoutError:
            seen.append("late")
        for _ in range(10_000):
            pass

    for limit in (0.1, 5.0, None):
        thread = threading.Thread(target=busy, args=(limit,))
        thread.start()
        thread.join()
    assert seen == ["late", "finished", "finished"]


def test_rows_other_than_those_asked_about_are_refused():
    (stack,) = grid([Source("synthetic", LAW)], [JOBS[2]], folds=2)[:1]
    other = replace(stack, source=Source("synthetic", {**LAW, "n": 1_201}))
    (record,) = work(other).records
    assert record.status == "error"
    assert "not the one that was asked about" in record.message


def test_keys_name_everything_that_decides_the_result_and_no_path():
    base = grid([Source("synthetic", LAW)], [JOBS[1]], folds=2)
    keys = {run.key for stack in base for run in stack.runs}
    changed = [
        grid([Source("synthetic", {**LAW, "random_state": 1})], [JOBS[1]], folds=2),
        grid([Source("synthetic", LAW)], [replace(JOBS[1], inputs="x")], folds=2),
        grid([Source("synthetic", LAW)], [replace(JOBS[1], changes=())], folds=2),
        grid([Source("synthetic", LAW)], [JOBS[1]], folds=2, seed=1),
        grid([Source("synthetic", LAW)], [JOBS[1]], folds=3),
    ]
    for stack in (s for other in changed for s in other):
        assert not keys & {run.key for run in stack.runs}
    assert "/" not in repr(base[0].runs)


def test_methods_are_left_out_where_they_do_not_fit():
    names = methods.names()
    binary_only = [n for n in names if not methods.get(n).multiclass]
    found = grid([Source("synthetic", {"labels": 3, "n": 500})], [Job(n) for n in names], folds=2)
    assert not {s.job.method for s in found} & set(binary_only)
    assert "cmi" in {s.job.method for s in found}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"backend": "spark"}, "'spark'"),
        ({"backend": "dask"}, "address of a Dask scheduler"),
        ({"scheduler": "tcp://here:1"}, "only then"),
        ({"n_jobs": 0}, "got 0"),
    ],
)
def test_bad_settings_are_refused_before_any_work(tmp_path, wrong, message):
    with pytest.raises(InputError, match=message):
        run([], tmp_path, Execution(**wrong))


def test_a_scheduler_that_does_not_answer_is_one_sentence(monkeypatch):
    with pytest.raises(InputError, match="No Dask scheduler answers"), sweep._dask("tcp://127.0.0.1:1", [], patience=1):
        pass


def test_a_written_file_has_the_usual_permissions(tmp_path):
    write_whole(tmp_path / "a", b"x")
    (tmp_path / "b").write_bytes(b"x")
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "b").stat().st_mode


def test_a_full_disk_under_a_model_file_leaves_no_half_file(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    (tmp_path / "m").mkdir()
    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(DataError, match="The disk is full"):
        write_whole(tmp_path / "m" / "model.safetensors", b"x" * 100)
    assert list((tmp_path / "m").iterdir()) == []
