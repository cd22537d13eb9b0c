"""Forged models: honest files with one thing changed, and what loading and predicting do with them.

A case is one number. Files are forged as somebody would who knows the format: numbers inside
arrays, shapes, types, loaders, references; checksums are no help, since anybody can compute them.
"""

from __future__ import annotations

import io
import json
import multiprocessing
import os
import signal
import warnings
from copy import deepcopy
from functools import cache
from zipfile import ZipFile

import numpy as np
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from separatrix.crossfit.array_models import BoostedTrees, Logistic
from separatrix.crossfit.base_models import JointModel
from separatrix.errors import DataError
from separatrix.predictor.models import model_bytes, model_from_bytes

RNG = np.random.default_rng(0)
X = np.c_[RNG.normal(size=(120, 2)), RNG.integers(0, 6, 120)]
Y, Z = (X[:, 0] + (X[:, 2] % 2) > 0.5).astype(int), RNG.integers(0, 2, 120)
WILD = (-1, 0, 1, 2, 7, 255, 2**15, 2**31 - 1, 2**32 - 1, -(2**31), 2**62, float("nan"), 1e308)


@cache
def honest() -> list[bytes]:
    """Files of every kind that can be loaded without a question."""
    hist = HistGradientBoostingClassifier(max_iter=2, max_leaf_nodes=6, categorical_features=[2])
    models = [
        hist,
        RandomForestClassifier(2, max_depth=3, random_state=0),
        GradientBoostingClassifier(n_estimators=2, max_depth=2),
        SVC(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        BoostedTrees(),
        Logistic(),
    ]
    if lightgbm := _lightgbm():
        models.append(lightgbm.LGBMClassifier(n_estimators=2, num_leaves=4, verbose=-1, n_jobs=1))
    files = [model_bytes(model.fit(X, Y)) for model in models]
    return [*files, model_bytes(JointModel(Logistic()).fit(X, Y, Z))]


def _lightgbm():
    try:
        import lightgbm
    except ImportError:
        return None
    return lightgbm


def forged(seed: int) -> bytes:
    """One forged file."""
    rng = np.random.default_rng(seed)
    content = honest()[rng.integers(len(honest()))]
    for _ in range(rng.integers(1, 3)):
        content = _changed(rng, content)
    return content


def _changed(rng, content):
    if rng.random() < 0.05:
        data = bytearray(content)
        for at in rng.integers(0, len(data), 3):
            data[at] = rng.integers(256)
        return bytes(data)
    if content[:2] != b"PK":
        return _safetensors(rng, content)
    try:
        with ZipFile(io.BytesIO(content)) as archive:
            parts = {name: archive.read(name) for name in archive.namelist()}
    except Exception:  # flipped before
        return content
    if "schema.json" not in parts:
        name = sorted(parts)[rng.integers(len(parts))]
        parts[name] = _safetensors(rng, parts[name]) if "model" in name else parts[name][:-1]
    elif rng.random() < 0.6:
        arrays = [name for name in sorted(parts) if name.endswith(".npy")]
        name = arrays[rng.integers(len(arrays))]
        parts[name] = _npy(rng, parts[name])
    else:
        schema = json.loads(parts["schema.json"])
        _node(rng, schema)
        parts["schema.json"] = json.dumps(schema).encode()
    whole = io.BytesIO()
    with ZipFile(whole, "w") as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return whole.getvalue()


def _npy(rng, content):
    try:
        array = np.load(io.BytesIO(content))
    except ValueError:
        return content
    out = io.BytesIO()
    np.save(out, _array(rng, array))
    return out.getvalue()


def _array(rng, array):
    """Another element, another shape, or another type."""
    array = array.copy()
    kind = rng.integers(4) if array.size else 1
    if kind == 1:
        return np.resize(array, rng.integers(0, 9, size=rng.integers(1, 3)))
    if kind == 2 and not array.dtype.names and array.dtype.kind in "fiu":
        return array.astype(rng.choice(["<i8", "<f4", "<u1", "<f8"]))
    flat = array.reshape(-1)
    target = flat[rng.choice(array.dtype.names)] if array.dtype.names else flat
    if target.dtype.kind in "fiub":
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = np.array(WILD[rng.integers(len(WILD))]).astype(target.dtype)
        target[rng.integers(len(target))] = value
    return array


def _safetensors(rng, content):
    from safetensors.numpy import load, save

    try:
        arrays = load(content)
        size = int.from_bytes(content[:8], "little")
        about = json.loads(content[8 : 8 + size])["__metadata__"]
    except Exception:  # flipped before
        return content
    name = sorted(arrays)[rng.integers(len(arrays))]
    if rng.random() < 0.1:
        del arrays[name]
    else:
        arrays[name] = np.ascontiguousarray(_array(rng, arrays[name]))
    if rng.random() < 0.1:
        about = {"about": about["about"].replace("0", "7").replace("logistic", "boosted_trees")}
    return save(arrays, about)


def _node(rng, schema):
    """Change one value, type, loader, reference or text somewhere in a schema."""
    places = []

    def walk(value):
        if isinstance(value, dict):
            places.extend((value, key) for key in value)
            list(map(walk, value.values()))
        elif isinstance(value, list):
            places.extend((value, i) for i in range(len(value)))
            list(map(walk, value))

    walk(schema)
    holder, key = places[rng.integers(len(places))]
    other, place = places[rng.integers(len(places))]
    kind = rng.integers(5)
    if kind == 0:
        holder[key] = deepcopy(other[place])
    elif kind == 1:
        del holder[key]
    elif kind == 2 and isinstance(holder[key], str):
        digits = [i for i, letter in enumerate(holder[key]) if letter.isdigit()]
        if digits:
            at = digits[rng.integers(len(digits))]
            holder[key] = holder[key][:at] + str(rng.integers(-9, 99_999)) + holder[key][at + 1 :]
    elif kind == 3:
        same = [(h, k) for h, k in places if k == key]
        other, place = same[rng.integers(len(same))]
        holder[key] = deepcopy(other[place])
    else:
        value = WILD[rng.integers(len(WILD))]
        holder[key] = json.dumps(value) if key == "content" else value


def run(first: int, cases: int) -> tuple[int, int]:
    """Load and ask so many forged files in a process of its own.

    Returns:
        Its exit code, negative for a signal, and the last case that it began.
    """
    honest()
    last = multiprocessing.get_context("fork").Value("q", -1)
    child = multiprocessing.get_context("fork").Process(target=_try, args=(first, cases, last))
    child.start()
    child.join()
    return child.exitcode, last.value


def _try(first, cases, last):
    import resource

    limit = 6 << 30  # a bomb must not take the machine with it
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    warnings.simplefilter("ignore")
    for seed in range(first, first + cases):
        last.value = seed
        signal.alarm(20)
        try:
            model = model_from_bytes(forged(seed), (), "forged")
        except DataError as error:
            assert "\n" not in str(error)
            continue
        for rows in (X[:5], X[:1] * 1e6, np.full((1, 3), np.nan)):
            try:
                (model.joint_proba if hasattr(model, "joint_proba") else model.predict_proba)(rows)
            except Exception:  # wrong numbers are the forger's; a crash is ours
                continue
    os._exit(0)
