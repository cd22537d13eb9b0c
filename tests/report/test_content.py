"""What the page is made of, without a browser."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from separatrix.columns.counting import count_posteriors
from separatrix.core.envelope import concave_envelope, pareto
from separatrix.errors import DataError
from separatrix.frontier import page as report
from separatrix.frontier.page import content, pooled
from separatrix.frontier.results import Results, Series, select, tidy
from separatrix.frontier.results import series as series_of
from separatrix.frontier.store import Record, Store
from separatrix.statistics import bounds


@pytest.fixture(scope="module")
def results(results_folder) -> Results:
    return Results.read(results_folder)


@pytest.fixture(scope="module")
def records(results_folder) -> list[Record]:
    store = Store(results_folder, create=False)
    return [r for r in store.records() if r.run.dataset == "two"]


def of(records, results: Results) -> dict:
    """The content of changed records of dataset `two`."""
    made = content(replace(results, columns=tidy(records)))
    assert json.loads(json.dumps(made, allow_nan=False)) == made
    return made["datasets"][0]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["randomized", "deterministic"])
def test_envelopes_list_the_points_of_every_scope(records, results, policy):
    two = of(records, results)
    points = two["points"][policy]
    for x in ("violation", "eo_gap"):
        for y in ("utility", "accuracy", "auroc"):
            for scope, index in two["envelopes"][policy][x][y].items():
                own = [i for i, p in enumerate(points) if scope in ("all", str(p["series"]))]
                a, b = (np.array([points[i]["mean"][m] for i in own]) for m in (x, y))
                wanted = pareto(a, b) if y == "auroc" else concave_envelope(a, b).index
                assert index == [own[i] for i in wanted]


def test_a_lost_fold_keeps_a_point_off_every_envelope_and_is_told(records, results):
    def lose(record: Record) -> Record:
        q = record.run
        lost = q.method == "cmi" and q.trade_off == 0.3 and q.fold == 1
        return Record(q, "diverged", "its posteriors are not finite") if lost else record

    two = of([lose(r) for r in records], results)
    for policy in ("randomized", "deterministic"):
        (i,) = (i for i, p in enumerate(two["points"][policy]) if p["lost"])
        listed = [i for x in two["envelopes"][policy].values() for y in x.values() for s in y.values() for i in s]
        assert i not in listed
    assert any("1 of 12 runs were lost (1 diverged; its posteriors are not finite)" in note for note in two["notes"])


def test_without_erm_limit_or_second_fold_the_page_says_so(records, results):
    alone = [r for r in records if r.run.method == "cmi" and r.run.fold == 0]
    two = of(alone, replace(results, curves=()))
    assert two["erm"] is None
    assert two["audits"] == {"randomized": None, "deterministic": None}
    assert two["limit"] is None
    assert any("ERM" in note for note in two["notes"])
    assert any("limit of decisions was not computed" in note for note in two["notes"])
    assert all(p["sd"]["utility"] is None for p in two["points"]["randomized"])


def test_a_cell_without_rows_has_no_rate_and_is_named(records, results):
    def hollow(record: Record) -> Record:
        soft, hard = record.soft.copy(), record.hard.copy()
        soft[1, 0] = hard[1, 0] = 0
        return replace(record, soft=soft, hard=hard)

    two = of([hollow(r) for r in records], results)
    assert all(p["rates"][1][0] is None and p["rates"][0][0] is not None for p in two["points"]["deterministic"])
    assert any("without rows" in note and "(1, 0)" in note for note in two["notes"])


def test_one_group_is_said_rather_than_audited(records, results):
    def single(record: Record) -> Record:
        names = "soft", "hard", "squares", "ordered"
        kept = {name: getattr(record, name) for name in names}
        first = {name: table[:, :1] for name, table in kept.items() if table is not None}
        return replace(record, **first)

    about = results.about["two"] | {"groups": ["all"], "cells": [[row[0]] for row in results.about["two"]["cells"]]}
    two = of([single(r) for r in records], replace(results, about={"two": about}))
    assert two["audits"]["deterministic"]["measures"] == []
    assert any("only one group" in note for note in two["notes"])


def test_the_pooled_table_is_of_one_seed(records, results):
    again = [replace(r, run=replace(r.run, seed=7)) for r in records]
    both = replace(results, columns=tidy([*records, *again]))
    series = next(s for s in series_of(select(both.mean, dataset="two")) if s.method == "cmi")
    table = pooled(both, "two", series, "deterministic", 0.3)
    own = select(tidy(records), method="cmi", trade_off=0.3, policy="deterministic")
    assert np.array_equal(table.counts, sum(own["counts"]))
    assert table.rows == 1_500


def test_the_bound_of_a_soft_table_errs_on_the_wide_side_without_the_squares(results):
    """Without the squares of the posteriors it is never below the bound with them."""
    rng = np.random.default_rng(0)
    series = Series("erm", "xz", "default")
    for n in (200, 5_000):
        y, z = rng.integers(0, 2, (2, n))
        q = rng.beta(2, 2, n)
        known = count_posteriors(y, np.column_stack([1 - q, q]), sensitive_features=z)
        columns = {name: np.array([value]) for name, value in series._asdict().items()}
        columns |= {"dataset": np.array(["two"]), "policy": np.array(["randomized"]), "status": np.array(["ok"])}
        columns |= {"trade_off": np.array([0.0]), "seed": np.array([0]), "counts": np.empty(1, dtype=object)}
        columns["squares"] = np.empty(1, dtype=object)
        columns["counts"][0] = known.counts
        table = pooled(replace(results, columns=columns), "two", series, "randomized", 0.0)
        columns["squares"][0] = np.einsum("yzuu->yzu", known.moments)
        same = pooled(replace(results, columns=columns), "two", series, "randomized", 0.0)
        assert bounds.upper_bound(table) >= bounds.upper_bound(known) == pytest.approx(bounds.upper_bound(same))
        low, high = bounds.rate_intervals(table)
        narrow_low, narrow_high = bounds.rate_intervals(known)
        assert (low <= narrow_low).all()
        assert (high >= narrow_high).all()


def test_the_page_holds_every_point_without_a_script(report_path, results):
    text = report_path.read_text()
    rows = re.findall(r"<tr><td>(randomized|deterministic)</td>", text)
    assert len(rows) == len(results.mean["method"])
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    data = json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', text)[1])
    assert [d["name"] for d in data["datasets"]] == ["three", "two"]


def test_it_is_written_whole_or_not_at_all(results_folder, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot be written"):
        report.write(results_folder, tmp_path / "file" / "report.html")
    with pytest.raises(DataError, match="There are no results"):
        report.write(tmp_path, tmp_path / "report.html")
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_no_folder_of_the_data_is_told(records, results):
    about = results.about["two"]
    about = about | {"card": about["card"] | {"read_from": {"/home/someone/secret/people.csv": "0" * 64}}}
    about["card"]["source"] = "/home/someone/secret/people.csv"
    two = of(records, replace(results, about={"two": about}))
    assert two["about"]["card"]["read_from"] == {"people.csv": "0" * 64}
    assert "secret" not in json.dumps(two)
