"""The folder: the same predictor comes back, and whatever was changed, cut, newer or a pickle is
refused in one sentence.
"""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import separatrix as sx
from people import people
from separatrix.deploy import saving
from separatrix.errors import DataError, InputError


class Bomb:
    """A pickle that tells if it was opened."""

    def __reduce__(self):
        return os.mkdir, ("exploded",)


@pytest.fixture
def folder(mixture, tmp_path):
    mixture.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.slow
def test_the_same_predictor_comes_back(mixture, folder):
    again, rows = sx.load(folder), people(400, seed=20)
    np.testing.assert_array_equal(again.branch_proba(rows), mixture.branch_proba(rows))
    np.testing.assert_array_equal(
        again.predict(rows, random_state=1), mixture.predict(rows, random_state=1)
    )
    assert again.weights == mixture.weights
    assert again.about["choice"] == {"max_violation": 0.01}
    assert sorted(p.name for p in folder.iterdir()) == [
        "MODEL_CARD.md",
        "arrays.safetensors",
        "frontier.svg",
        "manifest.json",
    ]
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_the_manifest_names_what_a_reader_needs(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["labels"] == ["high", "low"]
    assert manifest["grouping"] == {"columns": ["sex"], "groups": ["f", "m"]}
    assert [f["column"] for f in manifest["preprocessing"]["features"]] == ["age", "job"]
    assert {"separatrix", "numpy", "python"} <= set(manifest["packages"])
    assert [p["weight"] for p in manifest["components"]] == [0.3, 0.7]


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


def test_the_card_says_what_it_is_and_escapes_the_users_words(mixture, tmp_path):
    evil = replace(
        mixture,
        groups=("f", "<script>alert(1)</script>|x"),
        about={"card": {"title": "*bold* <b>"}},
    )
    evil.save(tmp_path / "model")
    card = (tmp_path / "model" / "MODEL_CARD.md").read_text()
    assert "revealed mixture" in card
    assert "| 0 | 30.0% | CMI | 0 | drawn from the posterior |" in card
    assert "<script" not in card
    assert "<b>" not in card
    assert "fair" not in card.lower()


@pytest.mark.parametrize(
    "name", ["arrays.safetensors", "manifest.json", "MODEL_CARD.md", "frontier.svg"]
)
def test_every_changed_or_cut_byte_is_found(folder, name):
    path, whole = folder / name, (folder / name).read_bytes()
    for place in np.random.default_rng(0).integers(0, len(whole), 12):
        changed = bytearray(whole)
        changed[place] ^= 1
        for damaged in (bytes(changed), whole[:place]):
            path.write_bytes(damaged)
            with pytest.raises(DataError) as error:
                sx.load(folder)
            assert "\n" not in str(error.value)
    path.write_bytes(whole)
    sx.load(folder)
    path.unlink()
    with pytest.raises(DataError, match=r"missing|has no manifest"):
        sx.load(folder)


def resign(folder, change):
    """Change the manifest and compute its checksums anew, as a forger would."""
    manifest = json.loads((folder / "manifest.json").read_text())
    manifest.pop("checksum")
    for path in folder.iterdir():
        if path.name != "manifest.json" and path.name in manifest["files"]:
            manifest["files"][path.name] = {
                "bytes": path.stat().st_size,
                "sha256": hashlib.sha256(path.read_bytes()).hexdigest(),
            }
    change(manifest)
    (folder / "manifest.json").write_text(
        json.dumps(manifest | {"checksum": saving.checksum(manifest)})
    )


def test_a_newer_format_is_refused(folder):
    resign(folder, lambda manifest: manifest.update(format=2))
    with pytest.raises(DataError, match="format 2 by a newer separatrix; this one reads up to 1"):
        sx.load(folder)


@pytest.mark.slow
def test_a_pickle_is_never_opened(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bomb = pickle.dumps(Bomb())
    (folder / "extra.pkl").write_bytes(bomb)
    with pytest.raises(DataError, match=r"holds 'extra.pkl', which its manifest does not list"):
        sx.load(folder)
    resign(
        folder,
        lambda manifest: manifest["files"].update(
            {"extra.pkl": saving.file_entry(folder / "extra.pkl")}
        ),
    )
    with pytest.raises(DataError, match="which no predictor has"):
        sx.load(folder)
    (folder / "extra.pkl").unlink()
    resign(folder, lambda manifest: manifest["files"].pop("extra.pkl"))
    for name in ("arrays.safetensors", "base.skops"):
        shutil.copy(folder / "arrays.safetensors", tmp_path / "spare")
        (folder / name).write_bytes(bomb)
        resign(
            folder, lambda m, name=name: m["files"].update({name: saving.file_entry(folder / name)})
        )
        with pytest.raises(DataError, match="is not a whole"):
            sx.load(folder)
        shutil.copy(tmp_path / "spare", folder / "arrays.safetensors")
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("components"),
        lambda m: m["components"][0].pop("method"),
        lambda m: m["components"][0].update(kind="method", method="os"),
        lambda m: m["components"][0].update(policy="x"),
        lambda m: m["components"][0].update(weight="much"),
        lambda m: m["components"].append(m["components"][0]),
        lambda m: m["preprocessing"].update(version=9),
        lambda m: m["preprocessing"]["features"][0].update(kind="pickle"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_one_sentence(folder, change):
    resign(folder, change)
    with pytest.raises((DataError, InputError)) as error:
        sx.load(folder)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.slow
def test_a_scikit_learn_base_goes_through_skops(mixture, tmp_path, monkeypatch):
    rows = people(500, seed=21)
    matrix = mixture.matrix(rows)
    base = LogisticRegression().fit(matrix, rows["pay"])
    from separatrix import methods
    from separatrix.deploy.predictor import Component
    from separatrix.methods import Lane, Recipe, Sample

    sample = Sample(base.predict_proba(matrix), rows["pay"] == "low", rows["sex"] == "m", 2, 2)
    on_top = methods.fit(
        "cmi", sample, [Lane(0.5)], recipe=Recipe(hidden=(4,), epochs=1, min_steps=0)
    )
    stacked = replace(
        mixture,
        components=(Component.of("cmi", 0.5, "randomized", on_top),),
        weights=(1.0,),
        bases=(base,),
    )
    stacked.save(tmp_path / "model")
    np.testing.assert_allclose(
        sx.load(tmp_path / "model").predict_proba(rows), stacked.predict_proba(rows)
    )
    assert (tmp_path / "model" / "base.skops").is_file()

    base.hook = Bomb()
    monkeypatch.chdir(tmp_path)
    stacked.save(tmp_path / "odd")
    with pytest.raises(DataError, match="types that are not trusted"):
        sx.load(tmp_path / "odd")
    assert not (tmp_path / "exploded").exists()


def test_saving_over_an_old_model_replaces_it_and_over_anything_else_is_refused(
    single, mixture, folder, tmp_path
):
    single.save(folder)
    assert len(sx.load(folder).components) == 1
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
    for _ in range(6):
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(float(rng.uniform(0.05, 0.3)))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
        assert sx.load(folder).labels == ("high", "low")
