"""What was changed, cut, newer, forged or a pickle is refused at load, in one sentence."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import separatrix as sx
from people import people
from separatrix.errors import DataError, InputError, MissingExtraError
from separatrix.predictor import saving
from separatrix.predictor.content import CORE, model_hash


class Bomb:
    """A pickle that tells if it was opened."""

    def __reduce__(self):
        return os.mkdir, ("exploded",)


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
            manifest["files"][path.name] = saving.file_entry(path.read_bytes())
    change(manifest)
    (folder / "manifest.json").write_text(
        json.dumps(manifest | {"checksum": saving.checksum(manifest)})
    )


def rewrite(folder, change):
    """Change the arrays, and compute everything anew."""
    from safetensors.numpy import load, save

    path = folder / "arrays.safetensors"
    arrays = {name: array.copy() for name, array in load(path.read_bytes()).items()}
    change(arrays)
    path.write_bytes(save(arrays))

    def hashed(manifest):
        core = {name: manifest[name] for name in CORE}
        manifest["model"] = model_hash(core, arrays, [])

    resign(folder, hashed)


WEIGHT = "component0.weight_0"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda a: a[WEIGHT].__setitem__((0, 0, 0), np.nan),
            "'weight_0' holds a value that is not",
        ),
        (
            lambda a: a[WEIGHT].__setitem__((0, 0, 0), np.inf),
            "'weight_0' holds a value that is not",
        ),
        (lambda a: a.update({WEIGHT: a[WEIGHT].astype(np.complex64)}), "type complex64"),
        (lambda a: a.update({WEIGHT: a[WEIGHT].astype(np.float16)}), "type float16"),
        (lambda a: a.update({WEIGHT: a[WEIGHT][:, :-1]}), "`X` must have"),
        (lambda a: a.update({WEIGHT: a[WEIGHT][0]}), "layer 0 has"),
        (lambda a: a.update({"component0.bias_1": a["component0.bias_1"][:, :1]}), "layer 1 has"),
        (lambda a: a.update({"component0.n_groups": np.array(5)}), "does not describe|must have"),
        (lambda a: a.update({"component0.status": np.array([7])}), "does not describe"),
        (lambda a: a.update({"component0.status": np.array([1])}), "cannot predict"),
        (lambda a: a.update({"component9.x": np.array([1])}), "belongs to no component"),
        (lambda a: a.pop("component0.bias_0"), "does not describe"),
    ],
)
def test_arrays_that_make_no_sense_are_refused_at_load(single, tmp_path, change, message):
    """Even where a forger computed every checksum anew."""
    folder = single.save(tmp_path / "model")
    rewrite(folder, lambda arrays: None)
    sx.load(folder)
    rewrite(folder, change)
    with pytest.raises(DataError, match=message) as error:
        sx.load(folder)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    "text",
    [
        b'{"format": NaN}',
        b'{"format": 2, "labels": [Infinity]}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"format": 2, "format": 2}',
        b'{"format": 2' + b"0" * 10_000 + b"}",
        b'"text"',
        b"\xff\xfe",
        b"",
    ],
)
def test_text_that_is_no_strict_json_is_refused(folder, text):
    (folder / "manifest.json").write_bytes(text)
    with pytest.raises(DataError) as error:
        sx.load(folder)
    assert len(str(error.value).splitlines()) == 1
    assert len(str(error.value)) < 400


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs POSIX")
@pytest.mark.parametrize("name", ["manifest.json", "arrays.safetensors", "MODEL_CARD.md"])
def test_pipes_and_links_and_folders_are_refused(folder, tmp_path, name):
    (folder / name).rename(tmp_path / name)
    for make in (
        lambda path: os.mkfifo(path),
        lambda path: path.symlink_to(tmp_path / name),
        lambda path: path.mkdir(),
    ):
        make(folder / name)
        with pytest.raises(DataError, match="cannot be read"):
            sx.load(folder)
        (folder / name).rmdir() if (folder / name).is_dir() else (folder / name).unlink()
    with pytest.raises(DataError, match="no folder"):
        sx.load(tmp_path / "nowhere")
    with pytest.raises(DataError, match="is no folder"):
        sx.load(tmp_path / name)


def test_numbers_about_the_choice_may_be_undefined_and_the_rest_may_not(single, tmp_path):
    about = {"audit": {"auroc": float("nan"), "rows": [1, float("inf")]}}
    again = sx.load(replace(single, about=about).save(tmp_path / "model"))
    assert again.about == {"audit": {"auroc": None, "rows": [1, None]}}
    for weights in ((np.nan,), (np.inf,), (-1.0,)):
        with pytest.raises(InputError, match="sum to one"):
            replace(single, weights=weights)
    with pytest.raises(InputError, match="must be finite"):
        replace(single.components[0], threshold=float("nan"))


def test_a_newer_format_is_refused(folder):
    resign(folder, lambda manifest: manifest.update(format=3))
    with pytest.raises(DataError, match="format 3 by a newer separatrix; this one reads 2"):
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
        lambda manifest: manifest["files"].update({"extra.pkl": saving.file_entry(bomb)}),
    )
    with pytest.raises(DataError, match="which no predictor has"):
        sx.load(folder)
    (folder / "extra.pkl").unlink()
    resign(folder, lambda manifest: manifest["files"].pop("extra.pkl"))
    for name in ("arrays.safetensors", "base0.skops"):
        shutil.copy(folder / "arrays.safetensors", tmp_path / "spare")
        (folder / name).write_bytes(bomb)

        def listed(manifest, name=name):
            manifest["files"][name] = saving.file_entry(bomb)
            manifest["bases"] = [{"kind": "skops", "file": name}] if "base" in name else []

        resign(folder, listed)
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
        lambda m: m["preprocessing"]["features"].pop(),
        lambda m: m["components"][0].update(weight=True),
        lambda m: m["components"][0].update(weight=-0.3),
        lambda m: m["components"][0].update(weight=0.5),
        lambda m: m["components"][0].update(lane=5),
        lambda m: m["components"][0].update(lane=-1),
        lambda m: m["components"][0].update(threshold="0.5"),
        lambda m: m["components"][0].update(kind=["networks"]),
        lambda m: m["components"][0].update(uses_groups=1),
        lambda m: m.update(labels=["high"]),
        lambda m: m.update(labels=["high", "high"]),
        lambda m: m.update(labels=["high", "low", "middle"]),
        lambda m: m.update(labels=["high", None]),
        lambda m: m.update(labels=["high", {"a": 1}]),
        lambda m: m.update(labels=["low", "high"]),
        lambda m: m.update(groups=["f", "m", "x"]),
        lambda m: m.update(components=[]),
        lambda m: m.update(bases=[{"kind": "skops", "file": "../x"}]),
        lambda m: m.update(bases=[{"kind": "pickle", "file": "base0.pickle"}]),
        lambda m: m.update(model="0" * 64),
        lambda m: m.update(key_id="secret"),
        lambda m: m.update(extra=1),
        lambda m: m["files"].update({"../x": {"bytes": 1, "sha256": "0" * 64}}),
        lambda m: m["files"].update({"arrays.safetensors": {"bytes": -1, "sha256": "0" * 64}}),
        lambda m: m["files"].pop("arrays.safetensors"),
    ],
)
def test_a_manifest_that_makes_no_sense_is_one_sentence(folder, change):
    resign(folder, change)
    with pytest.raises(DataError) as error:
        sx.load(folder)
    assert len(str(error.value).splitlines()) == 1


def keys():
    """A private and a public key."""
    pytest.importorskip("cryptography")
    from cryptography.hazmat.primitives import serialization as s
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    private = Ed25519PrivateKey.generate()
    return (
        private.private_bytes(s.Encoding.PEM, s.PrivateFormat.PKCS8, s.NoEncryption()),
        private.public_key().public_bytes(s.Encoding.PEM, s.PublicFormat.SubjectPublicKeyInfo),
    )


def test_a_signed_model_loads_with_its_key_and_a_forged_one_does_not(mixture, tmp_path):
    (private, public), (_, other) = keys(), keys()
    (tmp_path / "private.pem").write_bytes(private)
    folder = mixture.save(tmp_path / "model", sign_key=tmp_path / "private.pem")
    assert sx.load(folder, verify_key=public).weights == mixture.weights
    assert sx.load(folder).weights == mixture.weights
    with pytest.raises(DataError, match="was not signed by the owner of this key"):
        sx.load(folder, verify_key=other)
    resign(folder, lambda manifest: manifest["about"].update(choice="forged"))
    assert sx.load(folder).about["choice"] == "forged"  # checksums do not find it
    with pytest.raises(DataError, match="was not signed by the owner of this key"):
        sx.load(folder, verify_key=public)
    mixture.save(folder)
    with pytest.raises(DataError, match="is not signed"):
        sx.load(folder, verify_key=public)
    for bad, message in (
        (b"x", "in PEM"),
        (private, "in PEM"),
        (tmp_path / "no", "cannot be read"),
    ):
        with pytest.raises(InputError, match=message):
            sx.load(folder, verify_key=bad)
    with pytest.raises(InputError, match="private key in PEM"):
        mixture.save(tmp_path / "new", sign_key=public)
    assert not (tmp_path / "new").exists()


def test_without_the_library_a_signature_names_the_extra(mixture, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(MissingExtraError, match=r"separatrix\[sign\]"):
        mixture.save(tmp_path / "model", sign_key=b"x")


@pytest.mark.slow
def test_a_scikit_learn_base_goes_through_skops(mixture, tmp_path, monkeypatch):
    rows = people(500, seed=21)
    matrix = mixture.matrix(rows)
    base = LogisticRegression().fit(matrix, rows["pay"])
    from separatrix import methods
    from separatrix.methods import Lane, Recipe, Sample
    from separatrix.predictor.component import Component

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
    assert (tmp_path / "model" / "base0.skops").is_file()

    base.hook = Bomb()
    monkeypatch.chdir(tmp_path)
    stacked.save(tmp_path / "odd")
    with pytest.raises(DataError, match="types that are not trusted"):
        sx.load(tmp_path / "odd")
    assert not (tmp_path / "exploded").exists()
