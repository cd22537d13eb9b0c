"""A traced frontier: its points are those of its models on rows they did not see, and it survives
saving.
"""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest

import separatrix as sx
from people import applicants
from separatrix import datasets
from separatrix.errors import DataError, InputError
from separatrix.frontier.folder import check_sums
from separatrix.frontier.results import select
from separatrix.frontier.rows import as_data
from separatrix.frontier.store import ALL_ROWS, Store

pytestmark = pytest.mark.slow

pytest.importorskip("torch")
LAMBDAS = (0.0, 0.5, 1.0)


people = applicants


@pytest.fixture(scope="module")
def frontier(traced):
    return traced


def test_points_are_a_tidy_frame_with_every_cell(frontier):
    points = frontier.points
    cmi = points[points["method"] == "cmi"]
    assert len(cmi) == len(LAMBDAS) * 3 * 2
    assert set(cmi["policy"]) == {"randomized", "deterministic"}
    for name in ("violation", "utility", "eo_gap", "accuracy", "auroc"):
        assert np.isfinite(cmi[name]).all()
    assert set(points["method"]) == {"cmi", "erm", "postprocessing"}


def test_held_out_posteriors_give_the_points(frontier):
    """The audit of the out-of-fold posteriors of a fold is the point of that fold."""
    y, z, fold = (frontier.rows[name] for name in ("y", "z", "fold"))
    for trade_off in LAMBDAS:
        q = frontier.held_out("cmi", trade_off)
        for k in range(3):
            point = select(frontier.columns, method="cmi", trade_off=trade_off, fold=k, policy="randomized")
            a = sx.audit(y[fold == k], q[fold == k], sensitive_features=z[fold == k])
            assert a.violation == pytest.approx(point["violation"][0], abs=1e-6)
            assert a.utility == pytest.approx(point["utility"][0], abs=1e-6)


def test_models_work_on_raw_rows_of_any_order_of_columns(frontier):
    frame = people()
    data = datasets.from_frame(frame, target="hired", sensitive="sex")
    np.testing.assert_array_equal(data.y, frontier.rows["y"])
    for fold in range(3):
        model = frontier.model("cmi", 0.5, fold=fold)
        rows = frontier.rows["fold"] == fold
        X = model.preprocessing.transform(frame[["job", "sex", "age"]])
        (branch,) = model.branches
        q = branch.base.model.posteriors(X[rows], frontier.grouping.codes(frame)[rows])[0]
        np.testing.assert_array_equal(q, frontier.held_out("cmi", 0.5)[rows])
    final = frontier.model("cmi", 0.5)
    assert final.about["run"]["fold"] == ALL_ROWS
    assert final.preprocessing == frontier.preprocessing()
    q = final.predict_proba(frame)
    assert np.isfinite(q).all()


def test_the_envelope_is_concave_and_above_every_point(frontier):
    for policy in ("randomized", "deterministic"):
        hull = frontier.envelope(policy)
        mean = select(frontier.results.mean, policy=policy)
        assert (hull.at(mean["violation"]) >= mean["utility"] - 1e-12).all()
        assert (np.diff(hull.price()) <= 1e-12).all()
        for method, trade_off, v in zip(hull.method, hull.trade_off, hull.violation, strict=True):
            own = select(mean, method=method, trade_off=trade_off)
            assert v in own["violation"]
        assert len(hull.points) == len(hull.violation)
    only = frontier.envelope(method="cmi")
    assert set(only.method) == {"cmi"}


def test_saved_and_loaded_it_is_the_same(frontier, tmp_path):
    place = frontier.save(tmp_path / "kept")
    again = sx.Frontier.load(place)
    pd.testing.assert_frame_equal(again.points, frontier.points)
    np.testing.assert_array_equal(again.held_out("cmi", 0.5), frontier.held_out("cmi", 0.5))
    assert again.labels == ("no", "yes")
    assert again.groups == ("f", "m")
    with pytest.raises(InputError, match="exists already"):
        frontier.save(place)
    assert not list(tmp_path.glob(".kept*"))


def test_plot_and_report_are_whole_files(frontier, tmp_path):
    figure = frontier.plot(tmp_path / "frontier.png")
    assert [ax.get_ylabel() for ax in figure.axes] == ["accuracy", "utility u = I(U;Y), nats"]
    assert (tmp_path / "frontier.png").read_bytes().startswith(b"\x89PNG")
    ax = frontier.plot()
    assert ax.get_ylabel() == "accuracy"
    assert frontier.plot(ax=ax) is ax
    page = frontier.report(tmp_path / "report.html").read_text()
    assert page.rstrip().endswith("</html>")
    assert 'src="http' not in page  # opens offline
    assert "Of people with 'yes'" in str(frontier)
    assert "3 folds" in repr(frontier)
    assert "<table>" in frontier._repr_html_()


def test_the_main_path_from_rows_to_a_decision(frontier, tmp_path):
    """trace → select → save → load → predict, as the README has it."""
    frame = people()
    point = frontier.select(max_eo_gap=0.1)
    point.predictor.save(tmp_path / "model")
    again = sx.load(tmp_path / "model")
    rows = frame[["age", "job"]]
    q = again.predict_proba(rows, sensitive_features=frame["sex"])
    np.testing.assert_array_equal(q, point.predictor.predict_proba(rows, sensitive_features=frame["sex"]))
    decided = again.predict(rows, sensitive_features=frame["sex"], random_state=0)
    assert set(decided) == {"no", "yes"}


@pytest.mark.nightly
def test_the_same_trace_again_resumes(tmp_path):
    frame = people(300)
    asked = {"estimator": "logistic", "method": [], "cv": 3, "out": tmp_path / "f"}
    first = sx.trace(frame[["age"]], frame["hired"], sensitive_features=frame["sex"], **asked)
    before = first.points
    (tmp_path / "f" / "frontier.json").touch()
    again = sx.trace(frame[["age"]], frame["hired"], sensitive_features=frame["sex"], **asked)
    pd.testing.assert_frame_equal(again.points, before)  # training times too: nothing ran again
    with pytest.raises(InputError, match="other rows"):
        sx.trace(frame[["job"]], frame["hired"], sensitive_features=frame["sex"], **asked)


def test_every_kind_of_table_means_the_same_rows():
    frame = people(300)
    expected = datasets.from_frame(frame, target="hired", sensitive="sex")
    kinds = {
        "pandas": as_data(frame[["age", "job"]], frame["hired"], frame["sex"]),
        "polars": as_data(
            pl.from_pandas(frame)[["age", "job"]], pl.from_pandas(frame)["hired"], pl.from_pandas(frame)["sex"]
        ),
        "mapping": as_data(
            {"age": frame["age"].to_numpy(), "job": frame["job"].tolist()},
            frame["hired"].tolist(),
            frame["sex"].tolist(),
        ),
        "with the group among the features": as_data(frame[["age", "job", "sex"]], frame["hired"], frame["sex"]),
    }
    for name, data in kinds.items():
        np.testing.assert_array_equal(data.X, expected.X, err_msg=name)
        np.testing.assert_array_equal(data.y, expected.y)
        np.testing.assert_array_equal(data.z, expected.z)
    numbers = as_data(frame[["age"]].to_numpy(), frame["hired"], frame[["sex", "job"]])
    assert numbers.features == ("x0",)
    assert len(numbers.groups) == 6


def test_a_memory_map_stays_on_disk(tmp_path):
    frame = people(300)
    X = np.lib.format.open_memmap(tmp_path / "x.npy", mode="w+", dtype=np.float32, shape=(300, 2))
    X[:] = np.random.default_rng(0).normal(size=(300, 2))
    data = as_data(X, frame["hired"], frame["sex"])
    assert isinstance(data.X, np.memmap)
    assert data.labels == ("no", "yes")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"method": "cni"}, "no method 'cni'"),
        ({"cv": 2}, "`cv` must be between 3 and the 300 rows"),
        ({"trade_offs": (-1.0,), "method": "cmi"}, "not negative"),
        ({"trade_offs": (0.5,)}, "pass `method` too"),
        ({"sensitive_features": ["f"] * 10}, "same number of rows"),
        ({"y": ["no"] * 300}, "levels"),
    ],
)
def test_bad_input_is_one_sentence(change, message):
    frame = people(300)
    arguments = {"y": frame["hired"], "sensitive_features": frame["sex"], "cv": 3, "estimator": "logistic"} | change
    with pytest.raises(InputError, match=message):
        sx.trace(frame[["age"]], **arguments)


def test_two_rows_are_too_few_whatever_the_folds():
    with pytest.raises(InputError, match="2 rows, too few"):
        sx.trace(pd.DataFrame({"age": [30, 40]}), ["no", "yes"], sensitive_features=["f", "m"], estimator="logistic")


def test_a_label_among_the_features_is_refused():
    frame = people(300)
    with pytest.raises(InputError, match="'hired' is also in `X`"):
        sx.trace(frame, frame["hired"], sensitive_features=frame["sex"])


def test_unknown_points_and_folders_are_named(frontier, tmp_path):
    with pytest.raises(InputError, match=r"no model 'cmi' with λ = 0\.123"):
        frontier.model("cmi", 0.123)
    with pytest.raises(InputError, match="`policy`"):
        frontier.envelope("soft")
    with pytest.raises(DataError, match="no frontier"):
        sx.Frontier.load(tmp_path)
    (tmp_path / "frontier.json").write_text("{")
    with pytest.raises(DataError, match="damaged"):
        sx.Frontier.load(tmp_path)
    (tmp_path / "frontier.json").write_text(json.dumps({"format": 99}))
    with pytest.raises(DataError, match="format 99"):
        sx.Frontier.load(tmp_path)


def test_nothing_in_the_folder_is_a_pickle(frontier):
    for path in frontier.folder.rglob("*"):
        if path.is_file():
            assert path.suffix in (".safetensors", ".json", ".html", ".csv", ".model")
            assert not path.read_bytes().startswith(b"\x80")


def test_thresholds_of_the_final_models_are_kept(frontier):
    store = Store(frontier.folder, create=False)
    final = [r for r in store.records() if r.run.fold == ALL_ROWS]
    check_sums(frontier.folder)  # a look at the records changes no byte of a finished folder
    assert final
    assert all(np.isfinite(r.threshold) and r.soft is None for r in final)


def test_the_report_has_the_promise_and_the_audit_of_the_plain_model(frontier, tmp_path):
    text = frontier.report(tmp_path / "report.html").read_text()
    data = json.loads(text.split('<script type="application/json" id="data">')[1].split("</script>")[0])
    shown = {row["name"]: row for row in data["datasets"][0]["audits"]["deterministic"]["measures"]}
    plain = next(a for a in frontier.answers if a.kind == "plain")
    for name, label in (("accuracy", "accuracy"), ("eo_gap", "EO gap"), ("utility", "u")):
        assert shown[label]["value"] == f"{plain.promise[name][0]:.4f}"
    assert shown["test of v = 0"]["value"].startswith("p ")


def test_a_model_may_be_saved_inside_the_folder_of_its_frontier(traced, tmp_path):
    copy = sx.Frontier.load(traced.save(tmp_path / "frontier"))
    copy.select(max_eo_gap=0.3).save(copy.folder / "model")
    assert sx.Frontier.load(copy.folder).name == traced.name


def test_a_changed_byte_in_a_finished_folder_is_refused(traced, traced_pay, tmp_path):
    """Zeroed codes used to change numbers in silence, an edited answer used to be printed."""
    for frontier, name, change in (
        (traced, "rows.safetensors", lambda raw: raw[:-80] + bytes(80)),
        (traced, "answers.json", lambda raw: raw.replace(b"0.", b"1.", 1)),
        (traced_pay, "rows.safetensors", lambda raw: raw[:-80] + bytes(80)),
    ):
        copy = frontier.save(tmp_path / type(frontier).__name__ / name)
        sx.Frontier.load(copy)
        changed = copy / name
        changed.write_bytes(change(changed.read_bytes()))
        with pytest.raises(DataError, match=f"{name} was changed .* checksum"):
            sx.Frontier.load(copy)
