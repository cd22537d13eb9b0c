"""No test of the datasets opens a connection; each has a cache of its own."""

from __future__ import annotations

import socket
from pathlib import Path

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
