"""What every room shows in a notebook and on axes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import separatrix as sx
from separatrix.errors import MissingExtraError
from separatrix.report.figures import new_axes, root_scale
from separatrix.report.words import preformatted


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    y, z = rng.integers(0, 2, (2, 600))
    return y, np.clip(0.6 * y + 0.4 * rng.random(600), 0, 1), z


def test_small_values_can_be_told_from_zero():
    """On the scale of roots v = 0.005 is a tenth of the way to 0.5; on a linear one a hundredth."""
    pytest.importorskip("matplotlib")
    ax = new_axes(4, 3)
    ax.plot([0, 0.5], [0, 1])
    root_scale(ax, (0.0, 0.5))
    place = ax.transData.transform([[0.0, 0.0], [0.005, 0.0], [0.5, 0.0]])[:, 0]
    assert (place[1] - place[0]) / (place[2] - place[0]) == pytest.approx(0.1)
    assert ax.get_xticks()[0] == 0.0


def test_marks_do_not_touch():
    pytest.importorskip("matplotlib")
    ax = new_axes(4, 3)
    root_scale(ax, (0.0, 0.2))
    steps = np.diff(np.sqrt(ax.get_xticks())) / np.sqrt(0.2)
    assert steps.min() > 0.09


def test_text_is_escaped_in_a_notebook():
    assert preformatted("<b>f</b>") == "<pre>&lt;b&gt;f&lt;/b&gt;</pre>"


def test_every_result_shows_itself_in_a_notebook(rows):
    y, s, z = rows
    u = (s > 0.5).astype(int)
    a, b = (sx.audit(y, d, sensitive_features=z) for d in (u, 1 - u))
    monitor = sx.Monitor(a, max_violation=0.05)
    monitor.update(y, u, sensitive_features=z)
    results = [
        a,
        sx.compare(a, b),
        sx.audit_score(y, s, sensitive_features=z),
        monitor.report(),
        sx.limit(y, s, sensitive_features=z, levels=[0.01]),
        sx.theory.separate(y, s, sensitive_features=z),
    ]
    for result in results:
        assert result._repr_html_().startswith("<"), type(result)


def test_plots_take_axes_and_return_them(rows):
    pytest.importorskip("matplotlib")
    y, s, z = rows
    results = [
        sx.audit(y, (s > 0.5).astype(int), sensitive_features=z),
        sx.audit_score(y, s, sensitive_features=z),
        sx.limit(y, s, sensitive_features=z, levels=[0.0, 0.01]),
    ]
    for result in results:
        ax = new_axes(4, 3)
        assert result.plot(ax=ax) is ax
        assert result.plot().figure is not ax.figure


def test_a_figure_without_matplotlib_is_one_sentence(rows, monkeypatch):
    y, s, z = rows
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    audit = sx.audit(y, (s > 0.5).astype(int), sensitive_features=z)
    with pytest.raises(MissingExtraError, match=r"needs matplotlib.*separatrix\[figures\]"):
        audit.plot()
