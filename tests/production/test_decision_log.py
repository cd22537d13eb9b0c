"""A decision log replays, names nobody, and shows whatever was changed in it."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import polars as pl
import pytest

from people import people
from separatrix.errors import DataError, InputError
from separatrix.production.streaming import predict_file, replay_file

SALT = "kept by the operator, not in the model"


@pytest.fixture
def rows():
    return people(60, seed=50) | {"id": [f"person {i}" for i in range(60)]}


@pytest.mark.parametrize("name", ["log.jsonl", "log.csv"])
@pytest.mark.parametrize("keyed", [True, False])
def test_a_log_replays_from_memory_and_from_a_file(mixture, rows, tmp_path, name, keyed):
    pl.DataFrame(rows).write_csv(tmp_path / "rows.csv")
    draws = {"ids": rows["id"], "salt": SALT} if keyed else {"random_state": 3}
    again = {"ids": rows["id"], "salt": SALT} if keyed else {}
    mixture.predict(rows, **draws, log=tmp_path / name)
    assert mixture.replay(tmp_path / name) == 60
    assert mixture.replay(tmp_path / name, rows, **again) == 60
    draws = {"id_column": "id", "salt": SALT} if keyed else {"random_state": 3}
    again = draws if keyed else {}
    predict_file(mixture, tmp_path / "rows.csv", tmp_path / "out.csv", log=tmp_path / f"f_{name}", **draws)
    assert replay_file(mixture, tmp_path / f"f_{name}", tmp_path / "rows.csv", **again) == 60
    assert (tmp_path / f"f_{name}").read_bytes() == (tmp_path / name).read_bytes()
    assert "person" not in (tmp_path / name).read_text()


def test_one_log_for_many_requests(mixture, rows, tmp_path):
    """Also from several threads at once: every record is whole."""
    log = tmp_path / "log.jsonl"
    single = [{k: v[i : i + 1] for k, v in rows.items()} for i in range(60)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda r: mixture.predict(r, ids=r["id"], salt=SALT, log=log), single))
    assert mixture.replay(log) == 60
    found = map(json.loads, log.read_text().splitlines())
    told = {one["id"]: one["prediction"] for one in found}
    mixture.predict(rows, ids=rows["id"], salt=SALT, log=tmp_path / "whole.jsonl")
    for line in (tmp_path / "whole.jsonl").read_text().splitlines():
        assert told[json.loads(line)["id"]] == json.loads(line)["prediction"]


@pytest.mark.parametrize("field", ["model", "key", "id", "coin_branch", "coin_value"])
def test_what_was_changed_is_named(mixture, rows, tmp_path, field):
    log = tmp_path / "log.jsonl"
    mixture.predict(rows, ids=rows["id"], salt=SALT, log=log)
    found = [json.loads(line) for line in log.read_text().splitlines()]
    found[7][field] = 0.123 if "coin" in field else "0" * len(found[7][field])
    log.write_text("".join(json.dumps(one) + "\n" for one in found))
    with pytest.raises(DataError, match=f"decision 8: {field} is"):
        mixture.replay(log, rows, ids=rows["id"], salt=SALT)


def test_another_branch_label_model_secret_or_row_is_found(mixture, rows, tmp_path):
    log = tmp_path / "log.jsonl"
    mixture.predict(rows, ids=rows["id"], salt=SALT, log=log)
    whole = log.read_text()
    one = json.loads(whole.splitlines()[0])
    for name, value in (
        ("branch", 1 - one["branch"]),
        ("prediction", "low" if one["prediction"] == "high" else "high"),
    ):
        log.write_text(json.dumps(one | {name: value}) + "\n" + whole.partition("\n")[2])
        with pytest.raises(DataError, match=f"decision 1: {name}"):
            mixture.replay(log, rows, ids=rows["id"], salt=SALT)
    log.write_text(whole)
    with pytest.raises(DataError, match="model is"):
        replace(mixture, weights=(0.5, 0.5)).replay(log)
    with pytest.raises(DataError, match="key is"):
        mixture.replay(log, rows, ids=rows["id"], salt="another secret of the operator")
    with pytest.raises(DataError, match="fewer than there are rows"):
        mixture.replay(log, {k: list(v) * 2 for k, v in rows.items()})
    with pytest.raises(DataError, match="more decisions than there are rows"):
        mixture.replay(log, {k: v[:9] for k, v in rows.items()})
    for text in ("{}\n", "no json\n", '{"model": 1}\n', whole.replace('"coin_value": 0', '"x": 9')):
        log.write_text(text)
        with pytest.raises(DataError, match="is not a whole decision"):
            mixture.replay(log)
    with pytest.raises(InputError, match="cannot be read"):
        mixture.replay(tmp_path / "nowhere.jsonl")
    log.write_text("")
    with pytest.raises(DataError, match="holds no decision"):
        mixture.replay(log)
