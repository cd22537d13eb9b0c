"""What was changed, cut, newer, forged or a pickle is refused at load, in one sentence."""

from __future__ import annotations

import hashlib
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
from separatrix.crossfit.base_models import Base
from separatrix.errors import DataError, InputError, MissingExtraError
from separatrix.optimum.rules import OneThreshold, PlainRule
from separatrix.predictor.folder import Content, manifest_text
from separatrix.predictor.predictor import Branch


class Bomb:
    """A pickle that tells if it was opened."""

    def __reduce__(self):
        return os.mkdir, ("exploded",)


@pytest.mark.parametrize("name", ["base1.safetensors", "manifest.json", "MODEL_CARD.md"])
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
            manifest["files"][path.name] = listed(path.read_bytes())
    change(manifest)
    (folder / "manifest.json").write_bytes(manifest_text(manifest))


def listed(content):
    """What a manifest says of a file."""
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def rewrite(folder, name, change):
    """Change the arrays of a file, and compute everything anew."""
    from safetensors import safe_open
    from safetensors.numpy import load, save

    path = folder / name
    with safe_open(path, "numpy") as opened:
        about = opened.metadata()
    arrays = {key: array.copy() for key, array in load(path.read_bytes()).items()}
    change(arrays)
    path.write_bytes(save(arrays, about))

    def hashed(manifest):
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        manifest["model"] = Content.from_files(manifest, files).hash

    resign(folder, hashed)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a["weight_0"].__setitem__((0, 0, 0), np.nan), "'weight_0' holds a value that is not"),
        (lambda a: a["weight_0"].__setitem__((0, 0, 0), np.inf), "'weight_0' holds a value that is not"),
        (lambda a: a.update(weight_0=a["weight_0"].astype(np.complex64)), "type complex64"),
        (lambda a: a.update(weight_0=a["weight_0"].astype(np.float16)), "type float16"),
        (lambda a: a.update(weight_0=a["weight_0"][:, :-1]), "`X` must have"),
        (lambda a: a.update(weight_0=a["weight_0"][0]), "layer 0 has"),
        (lambda a: a.update(bias_1=a["bias_1"][:, :1]), "layer 1 has"),
        (lambda a: a.update(n_groups=np.array(5)), "does not describe|must have"),
        (lambda a: a.update(status=np.array([7])), "not a whole base model"),
        (lambda a: a.update(status=np.array([1])), "cannot predict"),
        (lambda a: a.pop("bias_0"), "not a whole base model"),
    ],
)
def test_arrays_that_make_no_sense_are_refused_at_load(single, tmp_path, change, message):
    """Even where a forger computed every checksum anew."""
    folder = single.save(tmp_path / "model")
    rewrite(folder, "base0.safetensors", lambda arrays: None)
    sx.load(folder)
    rewrite(folder, "base0.safetensors", change)
    with pytest.raises(DataError, match=message) as error:
        sx.load(folder)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.update({"branch0.threshold": np.array(np.nan)}), "not finite"),
        (lambda a: a.update({"branch0.threshold": np.array(1j, np.complex64)}), "type complex64"),
        (lambda a: a.pop("branch0.threshold"), "does not describe"),
        (lambda a: a.update({"branch9.x": np.array([1])}), "belongs to no branch"),
    ],
)
def test_rules_that_make_no_sense_are_refused_at_load(single, tmp_path, change, message):
    hard = replace(single, branches=(replace(single.branches[0], rule=OneThreshold(0.4)),))
    folder = hard.save(tmp_path / "model")
    rewrite(folder, "arrays.safetensors", lambda arrays: None)
    assert sx.load(folder).branches[0].rule.threshold == 0.4
    rewrite(folder, "arrays.safetensors", change)
    with pytest.raises(DataError, match=message):
        sx.load(folder)


@pytest.mark.parametrize(
    "text",
    [
        b'{"format": NaN}',
        b'{"format": 3, "labels": [Infinity]}',
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"format": 3, "format": 3}',
        b'{"format": 3' + b"0" * 10_000 + b"}",
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
        replace(single.branches[0].base, trade_off=float("nan"))


def test_a_newer_format_is_refused(folder):
    resign(folder, lambda manifest: manifest.update(format=4))
    with pytest.raises(DataError, match="format 4 by a newer separatrix; this one reads 3"):
        sx.load(folder)


@pytest.mark.slow
def test_a_pickle_is_never_opened(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bomb = pickle.dumps(Bomb())
    (folder / "extra.pkl").write_bytes(bomb)
    with pytest.raises(DataError, match=r"holds 'extra.pkl', which its manifest does not list"):
        sx.load(folder)
    resign(folder, lambda manifest: manifest["files"].update({"extra.pkl": listed(bomb)}))
    with pytest.raises(DataError, match="does not describe a predictor: 'files'"):
        sx.load(folder)
    (folder / "extra.pkl").unlink()
    resign(folder, lambda manifest: manifest["files"].pop("extra.pkl"))
    for name in ("arrays.safetensors", "base0.safetensors"):
        shutil.copy(folder / name, tmp_path / "spare")
        (folder / name).write_bytes(bomb)
        resign(folder, lambda manifest: None)
        with pytest.raises(DataError, match=r"is not a whole|model hash"):
            sx.load(folder)
        shutil.copy(tmp_path / "spare", folder / name)
    assert not (tmp_path / "exploded").exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("branches"),
        lambda m: m["branches"][0].pop("method"),
        lambda m: m["branches"][0].update(method="os"),
        lambda m: m["branches"][0].update(method=""),
        lambda m: m["branches"][0].update(rule="x"),
        lambda m: m["branches"][0].update(rule=["plain"]),
        lambda m: m["branches"][0].update(rule="plain"),
        lambda m: m["branches"][0].update(reads="x"),
        lambda m: m["branches"][0].update(reads="everything"),
        lambda m: m["branches"][0].update(left_out=[-1]),
        lambda m: m["branches"][0].update(weight="much"),
        lambda m: m["branches"].append(m["branches"][0]),
        lambda m: m["preprocessing"].update(version=9),
        lambda m: m["preprocessing"]["features"][0].update(kind="pickle"),
        lambda m: m["preprocessing"]["features"].pop(),
        lambda m: m["branches"][0].update(weight=True),
        lambda m: m["branches"][0].update(weight=-0.3),
        lambda m: m["branches"][0].update(weight=0.5),
        lambda m: m["branches"][0].update(lane=5),
        lambda m: m["branches"][0].update(lane=-1),
        lambda m: m["branches"][0].update(trade_off="0.5"),
        lambda m: m.update(labels=["high"]),
        lambda m: m.update(labels=["high", "high"]),
        lambda m: m.update(labels=["high", "low", "middle"]),
        lambda m: m.update(labels=["high", None]),
        lambda m: m.update(labels=["high", {"a": 1}]),
        lambda m: m.update(labels=["low", "high"]),
        lambda m: m.update(groups=["f", "m", "x"]),
        lambda m: m.update(branches=[]),
        lambda m: m["branches"][0].update(base="../x"),
        lambda m: m["branches"][0].update(base="base0.pickle"),
        lambda m: m["branches"][0].update(base="base1.safetensors"),
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
    for bad, message in ((b"x", "in PEM"), (private, "in PEM"), (tmp_path / "no", "cannot be read")):
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
def test_a_scikit_learn_base_goes_through_skops(single, tmp_path, monkeypatch):
    rows = people(500, seed=21)
    model = LogisticRegression().fit(single.rows(rows), rows["pay"])
    plain = replace(single, branches=(Branch(Base(model), PlainRule(np.ones(2))),))
    plain.save(tmp_path / "model")
    np.testing.assert_allclose(sx.load(tmp_path / "model").predict_proba(rows), plain.predict_proba(rows))
    assert (tmp_path / "model" / "base0.skops").is_file()

    model.hook = Bomb()
    monkeypatch.chdir(tmp_path)
    plain.save(tmp_path / "odd")
    with pytest.raises(DataError, match="types that are not trusted"):
        sx.load(tmp_path / "odd")
    assert not (tmp_path / "exploded").exists()
