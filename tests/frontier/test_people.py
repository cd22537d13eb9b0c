"""People in a table: a rare level is nobody's name, copies are said, a person is in one fold."""

import json

import numpy as np
import pytest

import separatrix as sx
from separatrix import datasets
from separatrix.datasets import Grouping
from separatrix.errors import InputError

pytestmark = pytest.mark.slow  # a trace or a cross-fit each

RNG = np.random.default_rng(5)
N = 240


def _table(copies: int = 1) -> dict[str, list]:
    """People with a rare job and a rare group each; every person `copies` times."""
    sex = np.where(np.arange(N) % 2 == 0, "f", "m").astype(object)
    sex[[0, 1]] = "unique-group"
    job = np.where(np.arange(N) % 3 == 0, "cook", "nurse").astype(object)
    job[7] = "unique-job"
    skill = RNG.normal(size=N)
    repaid = np.where(skill + RNG.normal(size=N) > 0, "yes", "no")
    columns = {"sex": sex, "job": job, "skill": skill, "repaid": repaid, "who": np.arange(N)}
    return {name: np.tile(x, copies).tolist() for name, x in columns.items()}


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    rows = _table()
    out = tmp_path_factory.mktemp("people") / "frontier"
    X = {name: rows[name] for name in ("job", "skill")}
    groups = {"sex": ["f" if one == "unique-group" else one for one in rows["sex"]]}
    return sx.trace(
        X, rows["repaid"], sensitive_features=groups, estimator="logistic", cv=3, out=out,
        progress=False,
    )  # fmt: skip


def test_a_level_that_one_person_has_is_in_no_file_of_a_trace(traced):
    texts = [path for path in traced.folder.rglob("*") if path.suffix in (".json", ".csv", ".html")]
    assert texts
    assert not any("unique-job" in path.read_text(encoding="utf-8") for path in texts)
    assert "job=(other)" in traced.manifest["features"]


def test_the_sentences_name_the_column_of_the_group(traced):
    assert "% of sex=f" in str(traced).replace("\n", " ")


def test_rare_groups_are_one_group_and_found_again():
    data = datasets.from_frame(_table(), target="repaid", sensitive="sex", drop=["who"], min_level_rows=5)
    assert data.groups == ("f", "m", "(other)")
    assert data.group_sizes["(other)"] == 2
    again = Grouping.from_dict(json.loads(json.dumps(data.grouping.to_dict())))
    assert again.codes({"sex": ["m", "unique-group", "never seen", "f"]}).tolist() == [1, 2, 2, 0]
    everyone = datasets.from_frame(_table(), target="repaid", sensitive="sex", drop=["who"])
    assert "unique-group" in everyone.groups
    with pytest.raises(InputError, match="never seen"):
        everyone.grouping.codes({"sex": ["never seen"]})


def test_rare_combinations_of_two_columns_are_one_group():
    rows = _table()
    data = datasets.from_frame(rows, target="repaid", sensitive=["sex", "job"], drop=["who"], min_level_rows=5)
    assert data.groups[-1] == ("(other)", "(other)")
    codes = data.grouping.codes({"sex": rows["sex"], "job": rows["job"]})
    assert (codes == data.z).all()


def test_the_positive_label_is_the_second():
    asked = {"target": "repaid", "sensitive": "sex", "drop": ["who"]}
    data = datasets.from_frame(_table(), **asked, positive="no")
    assert data.labels == ("yes", "no")
    assert (data.y == (np.array(_table()["repaid"]) == "no")).mean() > 0.4
    with pytest.raises(InputError, match=r"'never'.*'no'"):
        datasets.from_frame(_table(), **asked, positive="never")


def test_a_name_that_comes_close_is_offered():
    with pytest.raises(InputError, match=r"'repayed'.*Did you mean 'repaid'"):
        datasets.from_frame(_table(), target="repayed", sensitive="sex")


def test_a_person_is_in_one_fold():
    rows = _table(3)
    data = datasets.from_frame(rows, target="repaid", sensitive="sex", unit="who")
    assert "who" not in data.features
    fold = datasets.folds(data.y, data.z, 5, units=data.units)
    assert all(len(set(fold[data.units == person])) == 1 for person in range(N))
    assert np.bincount(fold).min() > 0.9 * len(fold) / 5


def test_copies_are_said_unless_columns_are_so_few_that_rows_repeat():
    from separatrix.frontier.rows import repeated_rows

    asked = {"target": "repaid", "sensitive": "sex", "drop": ["who"]}
    (note,) = repeated_rows(datasets.from_frame(_table(3), **asked))
    assert "480 of 720" in note
    assert "--unit" in note
    assert not repeated_rows(datasets.from_frame(_table(), **asked))
    few = {name: _table(3)[name] for name in ("sex", "job", "repaid")}
    assert not repeated_rows(datasets.from_frame(few, target="repaid", sensitive="sex"))


def test_a_person_with_three_rows_counts_once_in_the_promise():
    rng = np.random.default_rng(2)
    z, X = rng.integers(0, 2, 300), rng.normal(size=(300, 3))
    y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)
    who = np.tile(np.arange(300), 3)
    from sklearn.tree import DecisionTreeClassifier

    def promised(groups):
        model = sx.FrontierClassifier(DecisionTreeClassifier(random_state=0), random_state=0)
        model.fit(X[who], y[who], sensitive_features=z[who], groups=groups)
        return model.promise_["accuracy"]

    honest, flattered = promised(who), promised(None)
    assert flattered.value > 0.95 > 0.8 > honest.value  # a copy of each row was in training
    once = sx.FrontierClassifier(DecisionTreeClassifier(random_state=0), random_state=0)
    alone = once.fit(X, y, sensitive_features=z).promise_["accuracy"]
    assert honest.error == pytest.approx(alone.error, rel=0.35)
