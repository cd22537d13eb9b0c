"""No test of the datasets opens a connection; each has a cache of its own."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a test tried to open a connection")

    monkeypatch.setattr(socket.socket, "connect", refuse)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("SEPARATRIX_CACHE", str(folder))
    return folder


@pytest.fixture
def own_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder as SEPARATRIX_DATA."""
    folder = tmp_path / "data"
    folder.mkdir()
    monkeypatch.setenv("SEPARATRIX_DATA", str(folder))
    return folder


@pytest.fixture(scope="session")
def make_celeba() -> Callable[[Path], Path]:
    """Makes a folder in CelebA's official layout: ten made-up images, three attributes, and a ready
    embedding.
    """

    def make(folder: Path) -> Path:
        from PIL import Image

        smiling, male = [1, -1, 1, 1, -1, -1, 1, -1, 1, -1], [-1, -1, 1, -1, 1, 1, 1, -1, -1, 1]
        (folder / "img_align_celeba").mkdir(parents=True)
        rng = np.random.default_rng(0)
        names = [f"{index + 1:06d}.jpg" for index in range(10)]
        for name in names:
            pixels = np.kron(rng.integers(0, 255, (8, 6, 3)), np.ones((28, 30, 1))).astype(np.uint8)[:218, :178]
            Image.fromarray(pixels).save(folder / "img_align_celeba" / name)
        rows = [f"{name}  {m:2d}  1 {s:2d}" for name, m, s in zip(names, male, smiling, strict=True)]
        (folder / "list_attr_celeba.txt").write_text("\n".join(["10", "Male Young Smiling ", *rows]) + "\n")
        parts = [f"{name} {index * 3 // 10}" for index, name in enumerate(names)]
        (folder / "list_eval_partition.txt").write_text("\n".join(parts) + "\n")
        np.save(folder / "ready.npy", rng.normal(size=(10, 512)).astype(np.float32))
        return folder

    return make
