"""Figures show what the records say: every mark is compared with the fold means, the envelope and
the limit.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from matplotlib.colors import to_hex, to_rgb

from separatrix import methods
from separatrix.core.envelope import concave_envelope
from separatrix.errors import InputError
from separatrix.frontier import figures
from separatrix.frontier.results import Results, Series, batch_series, main_series, select, tidy
from separatrix.frontier.store import Record, Store
from separatrix.report.figures import figure_bytes, write_figure


@pytest.fixture(scope="module")
def results(results_folder) -> Results:
    return Results.read(results_folder)


def lines(ax, colour):
    """The drawn curves of a colour, as (x, y)."""
    return [line.get_xydata() for line in ax.lines if to_hex(line.get_color()) == colour]


def drawn(ax, colour, x, y):
    wanted = np.column_stack([x, y])
    return any(line.shape == wanted.shape and np.allclose(line, wanted) for line in lines(ax, colour))


@pytest.mark.parametrize("dataset", ["two", "three"])
def test_six_panels_show_means_envelopes_and_limit(results, dataset):
    figure = figures.six_panels(results, dataset)
    raw, raw_hard, hull, hull_hard, left, right = figure.axes
    many = dataset == "three"
    for policy, plane, envelope in (("randomized", raw, hull), ("deterministic", raw_hard, hull_hard)):
        for method in ("cmi", "raw_cmi", "erm"):
            mean = select(results.mean, dataset=dataset, policy=policy, method=method, inputs="xz")
            colour = methods.get(method).colour
            assert drawn(plane, colour, mean["violation"], mean["utility"])
            if method != "erm":
                vertices = concave_envelope(mean["violation"], mean["utility"])
                assert drawn(envelope, colour, vertices.violation, vertices.utility)
        for ax in (plane, envelope):
            named = {line.get_label(): line for line in ax.lines}
            limit = named["limit of ERM's decisions"]
            v, u = limit.get_data()
            curve = results.limit(dataset)
            assert np.allclose(u, np.interp(v, curve.violation, curve.utility))
            assert v[-1] == ax.get_xlim()[1]  # as far as the points go, and no farther
    x = "violation" if many else "eo_gap"
    for ax, metric, policy in (
        (left, "accuracy", "randomized" if many else "deterministic"),
        (right, "auroc", "randomized"),
    ):
        mean = select(results.mean, dataset=dataset, policy=policy, method="cmi")
        assert drawn(ax, methods.get("cmi").colour, mean[x], mean[metric])


def test_error_bars_are_one_standard_deviation(results):
    figure = figures.six_panels(results, "two")
    mean = select(results.mean, dataset="two", policy="randomized", method="cmi")
    bars = figure.axes[0].containers[0].lines[2]  # of x, of y
    for bar, name in zip(bars, ("violation", "utility"), strict=True):
        axis = ("violation", "utility").index(name)
        ends = np.array([segment[:, axis] for segment in bar.get_segments()])
        assert np.allclose(ends[:, 1] - ends[:, 0], 2 * mean[f"{name}_sd"])


# linear RGB as seen without one kind of cone (Machado, Oliveira and Fernandes 2009, full severity)
VISION = {
    "all cones": np.eye(3),
    "protanopia": np.array([[0.152, 1.053, -0.205], [0.115, 0.786, 0.099], [-0.004, -0.048, 1.052]]),
    "deuteranopia": np.array([[0.367, 0.861, -0.228], [0.280, 0.673, 0.047], [-0.012, 0.043, 0.969]]),
    "tritanopia": np.array([[1.256, -0.077, -0.179], [-0.078, 0.931, 0.148], [0.005, 0.691, 0.304]]),
}


def lab(colour: str, vision: np.ndarray) -> np.ndarray:
    """CIE L*a*b* of a colour, in which a distance of 2.3 is just noticeable."""
    srgb = np.array(to_rgb(colour))
    linear = np.where(srgb <= 0.04045, srgb / 12.92, ((srgb + 0.055) / 1.055) ** 2.4)
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    xyz = to_xyz @ np.clip(vision @ linear, 0, 1) / [0.9505, 1.0, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("vision", VISION)
def test_every_method_looks_different_to_every_eye(vision):
    """By a colour that is far from the others', five times what is just noticeable, and by the
    marker besides.
    """
    series = [Series(name, "xz", "default") for name in methods.names()]
    assert len({s.marker for s in series}) >= min(len(series), 14)
    for a, b in combinations(series, 2):
        distance = np.linalg.norm(lab(a.colour, VISION[vision]) - lab(b.colour, VISION[vision]))
        assert distance > 11.5, f"{a.name} and {b.name}: {distance:.1f}"


@pytest.mark.nightly
def test_files_are_written_whole_and_repeat_byte_for_byte(results, tmp_path):
    written = figures.draw(results, tmp_path)
    assert [p.name for p in written] == [
        f"{name}.{ending}"
        for name in ("three", "three-gradient-norm", "two", "two-gradient-norm")
        for ending in ("png", "svg")
    ]
    assert sorted(tmp_path.iterdir()) == sorted(written)
    again = figure_bytes(figures.gradient_norms(results, "two"), "svg")
    assert (tmp_path / "two-gradient-norm.svg").read_bytes() == again


def test_a_format_that_matplotlib_does_not_know_is_refused(results, tmp_path):
    with pytest.raises(InputError, match="matplotlib knows"):
        write_figure(figures.six_panels(results, "two"), tmp_path / "two.docx")


@pytest.fixture
def made_up(results_folder):
    """Results with the records of `two` changed by a function."""
    store = Store(results_folder, create=False)
    records, about = ([r for r in store.records() if r.run.dataset == "two"], store.datasets())

    def make(change) -> Results:
        columns = tidy([new for record in records for new in change(record)])
        return Results(results_folder, columns, (), about, {})

    return make


def test_a_path_that_differs_in_the_batch_alone_is_the_ablation(made_up):
    def twice(record: Record) -> list[Record]:
        if record.run.method != "cmi":
            return [record]
        recipe = record.run.recipe.replace("batch=256", "batch=1024")
        details = {**record.run.details, "batch": 1024}
        return [record, replace(record, run=replace(record.run, recipe=recipe, details=details))]

    both = made_up(twice)
    small, large = (batch_series(both.mean, "two")[size] for size in (256, 1024))
    assert "batch=1024" in large.recipe
    assert [s for s in main_series(both.mean, "two") if s.method == "cmi"] == [small]
    figure = figures.batch_sizes(both, "two")
    assert {label for _, label in zip(*figure.axes[0].get_legend_handles_labels(), strict=True)} == {
        "batch 256",
        "batch 1,024",
    }
    assert figures.batch_sizes(made_up(lambda record: [record]), "two") is None
    assert figures.gradient_norms(made_up(lambda r: [r] * (r.run.method != "raw_cmi")), "two") is None


def test_a_method_of_another_version_keeps_its_name():
    assert Series("gone", "xz", "default").name == "gone"


def test_a_point_that_lost_a_fold_is_not_drawn(made_up):
    def lose(record: Record) -> list[Record]:
        q = record.run
        lost = q.method == "cmi" and q.fold == 0 and q.trade_off == 0.3
        return [Record(q, "diverged", "NaN")] if lost else [record]

    results = made_up(lose)
    paths = results.main_paths("two", "randomized")
    (points,) = (points for series, _, points in paths if series.method == "cmi")
    assert 0.3 not in points["trade_off"]
    assert 0.6 in points["trade_off"]


@pytest.mark.slow
def test_any_name_of_a_dataset_is_drawn(made_up):
    odd = r"../50 $ & <b> \frac{"
    results = made_up(lambda r: [replace(r, run=replace(r.run, dataset=odd))])
    results = replace(results, about={odd: results.about["two"]})
    figure = figures.six_panels(results, odd)
    assert b"<b>" not in figure_bytes(figure, "svg")


def test_records_without_a_single_run_are_an_error(tmp_path):
    (tmp_path / "records").mkdir()
    with pytest.raises(InputError, match="no run has finished"):
        Results.read(tmp_path)
    store = Store(tmp_path)
    assert len(tidy(store.records())["dataset"]) == 0
