"""The folder of a model: the same predictor comes back, whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest

import separatrix as sx
from people import people
from separatrix.columns.groups import OTHER, Grouping
from separatrix.errors import DataError, InputError
from separatrix.io import OpenFolder
from separatrix.predictor.folder import MANIFEST


@pytest.mark.slow
def test_the_same_predictor_comes_back(mixture, folder):
    again, rows = sx.load(folder), people(400, seed=20)
    np.testing.assert_array_equal(again.branch_proba(rows), mixture.branch_proba(rows))
    np.testing.assert_array_equal(again.predict(rows, random_state=1), mixture.predict(rows, random_state=1))
    assert again.weights == mixture.weights
    assert again.about["choice"] == {"max_violation": 0.01}
    assert sorted(p.name for p in folder.iterdir()) == [
        "MODEL_CARD.md",
        "arrays.safetensors",
        "base0.safetensors",
        "base1.safetensors",
        "manifest.json",
    ]
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_merged_small_groups_come_back(single, tmp_path):
    """Groups of a few people are one "(other)", which also stands for groups that nobody saw."""
    grouping = Grouping(("sex",), ("f", OTHER), other=True)
    merged = replace(single, groups=("f", OTHER), grouping=grouping)
    again, rows = sx.load(merged.save(tmp_path / "model")), people(40, seed=23)
    assert again.grouping == grouping
    np.testing.assert_array_equal(again.predict_proba(rows), merged.predict_proba(rows))


def test_the_manifest_names_what_a_reader_needs(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["labels"] == ["high", "low"]
    assert manifest["grouping"] == {"columns": ["sex"], "groups": ["f", "m"]}
    assert [f["column"] for f in manifest["preprocessing"]["features"]] == ["age", "job"]
    assert {"separatrix", "numpy", "python"} <= set(manifest["packages"])
    assert [p["weight"] for p in manifest["branches"]] == [0.3, 0.7]


@pytest.mark.slow
def test_loading_needs_no_torch(folder, tmp_path):
    code = (
        "import sys, importlib.abc\n"
        "class Absent(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.partition('.')[0] == 'torch': raise ImportError(name)\n"
        "sys.meta_path.insert(0, Absent()); import separatrix as sx;"
        f"p = sx.load({str(folder)!r}); "
        f"print(p.predict_proba({{'age': [40.0], 'job': ['cook'], 'sex': ['f']}}).shape)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "(1, 2)", done.stderr


def test_the_card_names_the_column_of_the_groups(mixture, tmp_path):
    named = replace(mixture, grouping=Grouping(("sex",), mixture.groups))
    named.save(tmp_path / "model")
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert f"- groups: {', '.join(f'sex={group}' for group in mixture.groups)}" in card
    assert "- uses the group to predict: yes, the column sex" in card


def test_the_card_says_what_it_is_and_escapes_the_users_words(mixture, tmp_path):
    evil = replace(mixture, groups=("f", "<script>alert(1)</script>|x"), about={"card": {"title": "*bold* <b>"}})
    evil.save(tmp_path / "model")
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert "revealed mixture" in card
    assert "| 0 | 30.0% | CMI | 0 | drawn from the posterior |" in card
    assert "<script" not in card
    assert "<b>" not in card
    assert "fair" not in card.lower()


def test_the_hash_and_the_signature_of_the_file_are_those_of_the_predictor(mixture, folder):
    again = sx.load(folder)
    assert again.model_hash == mixture.model_hash
    assert replace(again, about={}).model_hash == mixture.model_hash
    rows = people(50, seed=22)
    keywords = {"ids": range(50), "salt": "kept by the operator, not in the model"}
    np.testing.assert_array_equal(again.predict(rows, **keywords), mixture.predict(rows, **keywords))


def test_all_files_of_a_model_have_the_same_mode(folder):
    modes = {path.stat().st_mode & 0o777 for path in folder.iterdir()}
    mask = os.umask(0)
    os.umask(mask)
    assert modes == {0o666 & ~mask}


@pytest.mark.nightly
def test_a_reader_beside_a_writer_never_errs(single, mixture, folder):
    """A writer that exchanges two models without a pause; each load is one of the two, whole."""
    code = (
        "import separatrix as sx, dataclasses, sys;"
        f"p = sx.load({str(folder)!r});"
        "one = dataclasses.replace(p, branches=p.branches[:1], weights=(1.0,), about={});"
        "print('ready', flush=True)\n"
        "while True:\n"
        f"    one.save({str(folder)!r}); p.save({str(folder)!r})"
    )
    hashes = {mixture.model_hash, replace(single, about={}).model_hash}
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        seen = [sx.load(folder).model_hash for _ in range(400)]
        writer.kill()
    assert set(seen) == hashes


@pytest.mark.parametrize("after", [MANIFEST, "arrays.safetensors"])
@pytest.mark.parametrize("how", ["saved over", "moved", "copied over"])
def test_a_folder_changed_in_the_middle_of_a_load_is_never_mixed(mixture, folder, tmp_path, monkeypatch, how, after):
    """The other model arrives just after one of the files was read: one of the two, or an error."""
    second = replace(mixture, weights=(0.4, 0.6))
    second.save(tmp_path / "other")
    read, todo = OpenFolder.read, [how]

    def reading(self, name, most):
        content = read(self, name, most)
        if name == after and todo:
            if todo.pop() == "saved over":
                second.save(folder)
            elif how == "moved":
                folder.rename(tmp_path / "old")
                (tmp_path / "other").rename(folder)
            else:
                shutil.copytree(tmp_path / "other", folder, dirs_exist_ok=True)
        return content

    monkeypatch.setattr(OpenFolder, "read", reading)
    try:
        assert sx.load(folder).model_hash in (second.model_hash, mixture.model_hash)
    except DataError as error:
        assert how == "copied over"
        assert "was cut or changed" in str(error)
    assert not todo
    assert sx.load(folder).model_hash == second.model_hash


def test_saving_over_an_old_model_replaces_it_and_over_anything_else_is_refused(single, mixture, folder, tmp_path):
    single.save(folder)
    assert len(sx.load(folder).branches) == 1
    assert [p.name for p in tmp_path.iterdir()] == ["model"]
    (tmp_path / "photos").mkdir()
    with pytest.raises(InputError, match="is not a saved predictor"):
        mixture.save(tmp_path / "photos")
    with pytest.raises(InputError, match="no folder"):
        mixture.save(tmp_path / "nowhere" / "model")
    with pytest.raises(DataError, match="is not a saved predictor"):
        sx.load(tmp_path / "photos")


@pytest.mark.slow
def test_a_kill_at_any_moment_leaves_a_whole_model(folder, tmp_path):
    code = (
        "import separatrix as sx, dataclasses;"
        f"p = sx.load({str(folder)!r}); print('ready', flush=True)\n"
        "i = 0\n"
        f"while True: i += 1; dataclasses.replace(p, about={{'round': i}}).save({str(folder)!r})"
    )
    rng = np.random.default_rng(0)
    for _ in range(2):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(float(rng.uniform(0.05, 0.3)))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert sx.load(folder).labels == ("high", "low")


def test_a_link_is_replaced_and_what_it_points_to_stays(mixture, folder, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(folder)
    before = (folder / "manifest.json").read_bytes()
    mixture.save(link)
    assert not link.is_symlink()
    assert sx.load(link).labels == mixture.labels
    assert (folder / "manifest.json").read_bytes() == before
    assert not list(tmp_path.glob(".*unfinished*"))
