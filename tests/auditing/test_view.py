"""Text, HTML and picture of an audit show the numbers of the audit."""

from __future__ import annotations

import re

import matplotlib as mpl
import numpy as np
import pytest

import separatrix as sx

mpl.use("agg")


@pytest.fixture(scope="module")
def audit():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, 2_000), rng.choice(["f", "m", "x"], 2_000)
    return sx.audit(y, np.where((rng.random(2_000) < 0.3) & (z == "m"), 1, y), sensitive_features=z)


def test_text_has_the_violation_and_names_the_worst_cell(audit):
    text = str(audit)
    assert f"{audit.violation:.4f}" in text
    assert f"{audit.violation_upper:.4f}" in text
    worst = text.split("Who is affected")[1].splitlines()[1]
    assert "Y = 0, m" in worst
    assert max(len(line) for line in text.splitlines()) <= 100


def test_html_holds_the_same_numbers(audit):
    html = audit._repr_html_()
    assert f"{audit.violation:.4f}" in html
    assert f"{audit.eo_gap:.4f}" in html
    assert html.count("<svg") == 2 * 3 + 1  # a rate per label and group, as there are two predictions; and the scale
    assert not re.search(r"nan|None", html)


def test_the_page_opens_with_the_picture_and_five_numbers_and_folds_the_rest(audit):
    shown, folded = audit.to_html().split("<details>")
    assert shown.index("<svg") < shown.index("equalized-odds gap")
    assert shown.count('<th scope="row">') == 5
    assert "Other criteria" in folded


def test_the_picture_draws_every_group_with_its_interval(audit):
    ax = audit.plot()
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["f", "m", "x"]
    assert len(ax.containers) == 2 * 3
    points = sorted(float(container.lines[0].get_ydata()[0]) for container in ax.containers)
    rates = sorted(audit.cells.query("prediction == 1")["rate"])
    np.testing.assert_allclose(points, rates)
    mpl.pyplot.close(ax.figure)


def test_a_constant_prediction_can_be_shown():
    a = sx.audit([0, 1] * 50, [0] * 100, sensitive_features=["a", "a", "b", "b"] * 25)
    assert a.violation == 0
    assert "no interval" in str(a)
    assert a._repr_html_()


def test_the_finding_comes_first_in_words_and_in_the_users_terms():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 2_000))
    apart = sx.audit(y, np.where(rng.random(2_000) < 0.7, y, z), sensitive_features=z)
    u = np.where(rng.random(2_000) < 0.7, y, 1)  # the same people in both groups
    alike = sx.audit(np.r_[y, y], np.r_[u, u], sensitive_features=np.repeat(["a", "b"], 2_000))
    first, second = (str(a).splitlines()[0] for a in (apart, alike))
    assert f"groups differ by {apart.eo_gap:.3f}" in first
    assert first.endswith(": more than chance explains.")
    assert second.endswith(": no more than chance explains.")
    text = str(apart)
    assert text.index("equalized-odds gap") < text.index("accuracy") < text.index("violation v")


@pytest.mark.slow
def test_lines_fit_a_terminal_whatever_the_names_are():
    """100 columns, also for intersections with long names; nothing is cut off."""
    rng = np.random.default_rng(0)
    y, s = rng.integers(0, 2, 3_000), rng.random(3_000)
    names = np.array(["women of the north-east", "men of the north-east"])
    z = {"who": rng.choice(names, 3_000), "age": rng.choice(["up to thirty", "older"], 3_000)}
    labels = np.where(y, "recommended for an interview", "not recommended for an interview")
    u = np.where(rng.random(3_000) < 0.7, labels, labels[0])
    for text in map(str, (sx.audit(labels, u, sensitive_features=z),
                          sx.audit_score(labels, s, sensitive_features=z),
                          sx.audit_regression(s, s + y, sensitive_features=z),
                          sx.limit(labels, s, sensitive_features=z))):  # fmt: skip
        assert max(map(len, text.splitlines())) <= 100
        assert "women of the north-east & age=older" in " ".join(text.split()) or text.startswith("Best")


def test_a_gap_with_two_parts_stands_below_itself():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 2_000))
    lines = str(sx.audit(y, np.where(rng.random(2_000) < 0.7, y, z), sensitive_features=z))
    first, second = (next(line for line in lines.splitlines() if f"{name} gap" in line) for name in ("PPV", "NPV"))
    assert first.index("PPV gap") == second.index("NPV gap")
    assert first.endswith(";")
