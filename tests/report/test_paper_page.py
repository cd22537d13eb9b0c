"""The page of `separatrix benchmark --paper`: the paper's rows, ours, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from separatrix.frontier import paper as paper_page
from separatrix.frontier.results import Results, select

pytest.importorskip("torch")


@pytest.fixture(scope="module")
def results(results_folder):
    """The small sweep as if it were Adult with the paper's recipe; `raw_cmi` stays "default"."""
    found = Results.read(results_folder)
    columns = select(found.columns, dataset="two")
    size = len(columns["dataset"])
    theirs = columns["method"] != "raw_cmi"
    recipes = [r.replace("default", "paper") for r in columns["recipe"].tolist()]
    columns["dataset"] = np.full(size, "adult")
    columns["recipe"] = np.where(theirs, recipes, columns["recipe"])
    return replace(found, columns=columns, about={"adult": found.about["two"]})


def test_ours_is_the_best_mean_within_the_budget(results):
    table = paper_page.beside(results, "adult")
    assert len(table.rows) == 66
    for row, theirs in zip(table.rows, paper_page.paper_rows("adult"), strict=True):
        own = select(results.mean, method=theirs.method, inputs=theirs.inputs, policy=theirs.policy)
        within = own[theirs.metric][own[theirs.constraint] <= theirs.budget]
        if not len(within):
            assert row[-2:] == (None, None)
            continue
        assert row[-2][0] == within.max()
        assert row[-1] == pytest.approx(within.max() - theirs.value)
    assert any(row[0] == "CMI" and row[-1] is not None for row in table.rows)


def test_a_path_that_only_falls_goes_backwards_nowhere(results):
    columns = {name: column.copy() for name, column in results.columns.items()}
    columns["violation"] = 1.0 - columns["trade_off"]
    one_up = {name: column.copy() for name, column in columns.items()}
    one_up["violation"][one_up["trade_off"] == 1.0] = 1.0
    shares = [dict(paper_page.stability(replace(results, columns=own)).rows)["CMI"] for own in (columns, one_up)]
    assert shares[0].startswith("0.00")
    assert shares[1].startswith("0.50")  # down by 0.6, then up by 0.6


def test_the_page_has_the_papers_series_and_what_is_missing(results, tmp_path, monkeypatch):
    drawn = []
    seen = lambda r, name: drawn.append((set(r.columns["method"]), r.curves))  # noqa: E731
    monkeypatch.setattr(paper_page.figures, "six_panels", seen)
    monkeypatch.setattr(paper_page, "write_figure", lambda figure, path: None)
    list(paper_page.write_page(results, tmp_path, {"celeba": "no images."}))
    page = (tmp_path / "paper.md").read_text(encoding="utf-8")
    assert drawn == [({"cmi", "erm"}, ())]  # nor the limit, which is ours
    assert "- **celeba**: no images." in page
    ours_and_theirs = [line for line in page.splitlines() if "| randomized |" in line]
    ours_and_theirs += [line for line in page.splitlines() if "| deterministic |" in line]
    assert len(ours_and_theirs) == 204  # all of the paper's rows, whatever was run
    assert len((tmp_path / "paper" / "adult.csv").read_text().splitlines()) == 67
