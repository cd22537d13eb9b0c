"""Where the bytes come from, and that wrong bytes never become a result nor stay in the cache."""

from __future__ import annotations

import gzip
import hashlib
import lzma
import sys
from pathlib import Path
from typing import Any

import pytest

from separatrix.datasets import _files
from separatrix.datasets._files import File
from separatrix.errors import DataError, MissingExtraError

CONTENT = b"age,job\n41,cook\n" * 100
DIGEST = hashlib.sha256(CONTENT).hexdigest()
FILE = File(("some/rows.csv", "some/other.csv"), (DIGEST,), url="https://publisher.invalid/rows.csv")


def put(folder: Path, content: bytes, name: str = "some/rows.csv") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A stand-in for the publisher's server behind pooch: what it sends, and how often it was
    asked.
    """
    import pooch

    state: dict[str, Any] = {"sends": CONTENT, "asked": 0}

    class Server:
        def __init__(self, timeout: int) -> None: ...

        def __call__(self, url: str, output_file: str, mypooch: Any) -> None:
            state["asked"] += 1
            sends = state["sends"]
            if isinstance(sends, Exception):
                Path(output_file).write_bytes(CONTENT[:10])  # the line broke in the middle
                raise sends
            Path(output_file).write_bytes(sends)

    monkeypatch.setattr(pooch, "HTTPDownloader", Server)
    return state


@pytest.mark.parametrize(("end", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
@pytest.mark.parametrize("name", FILE.paths)
def test_a_file_may_be_packed_and_have_either_name(own_data: Path, end: str, pack: Any, name: str) -> None:
    path = put(own_data, pack(CONTENT), name + end)
    blob = _files.read(FILE)
    assert (blob.content, blob.origin, blob.sha256) == (CONTENT, str(path), DIGEST)


def test_the_data_folder_comes_before_the_cache(own_data: Path, cache: Path, publisher: dict[str, Any]) -> None:
    put(cache, CONTENT)
    assert _files.find(FILE) == _files.read(FILE).origin == str(cache / "some/rows.csv")
    put(own_data, CONTENT)
    assert _files.find(FILE) == _files.read(FILE).origin == str(own_data / "some/rows.csv")
    assert publisher["asked"] == 0


def test_a_changed_copy_is_refused_and_not_replaced(own_data: Path, publisher: dict[str, Any]) -> None:
    path = put(own_data, CONTENT + b"12,spy\n")
    with pytest.raises(DataError, match=rf"is not the file that was expected: .* not {DIGEST[:12]}"):
        _files.read(FILE)
    assert publisher["asked"] == 0
    assert path.read_bytes().endswith(b"spy\n")


@pytest.mark.parametrize(("end", "pack"), [("", bytes), (".gz", gzip.compress), (".xz", lzma.compress)])
def test_a_truncated_copy_is_refused(own_data: Path, end: str, pack: Any) -> None:
    put(own_data, pack(CONTENT)[:-9], "some/rows.csv" + end)
    with pytest.raises(DataError, match=r"rows\.csv.* (truncated|damaged)"):
        _files.read(FILE)


def test_a_download_lands_in_the_cache_and_is_asked_for_once(
    own_data: Path, cache: Path, publisher: dict[str, Any]
) -> None:
    assert _files.find(FILE) is None
    for _ in range(2):
        assert _files.read(FILE).content == CONTENT
    assert publisher["asked"] == 1
    assert [path.name for path in (cache / "some").iterdir()] == ["rows.csv"]


def test_poochs_own_downloader_writes_what_the_server_sends(
    own_data: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real downloader, with the reply of the server made up one level below it."""
    import requests

    class Reply:
        headers = {"content-length": str(len(CONTENT))}  # noqa: RUF012

        def raise_for_status(self) -> None: ...

        def close(self) -> None: ...

        def iter_content(self, chunk_size: int) -> Any:
            yield from (CONTENT[start : start + 500] for start in range(0, len(CONTENT), 500))

    monkeypatch.setattr(requests, "get", lambda url, **_: Reply())
    monkeypatch.setattr(requests.Session, "get", lambda self, url, **_: Reply())
    assert _files.read(FILE).content == CONTENT
    assert [path.name for path in (cache / "some").iterdir()] == ["rows.csv"]


@pytest.mark.parametrize("sends", [CONTENT[:-5], b"<html>moved</html>", b""], ids=["cut", "page", "empty"])
def test_a_wrong_download_is_not_kept(own_data: Path, cache: Path, publisher: dict[str, Any], sends: bytes) -> None:
    publisher["sends"] = sends
    with pytest.raises(DataError, match=r"did not give the expected file .*; nothing was kept"):
        _files.read(FILE)
    assert list((cache / "some").iterdir()) == []
    publisher["sends"] = CONTENT
    assert _files.read(FILE).content == CONTENT


def test_without_network_one_sentence_says_which_file_to_put_where(
    own_data: Path, cache: Path, publisher: dict[str, Any]
) -> None:
    publisher["sends"] = ConnectionError("no route to host")
    with pytest.raises(DataError) as caught:
        _files.read(FILE)
    assert str(caught.value) == (
        f"rows.csv is not here: put it at {own_data}/some/rows.csv, from "
        f"https://publisher.invalid/rows.csv. "
        "Its download failed (ConnectionError)."
    )
    assert list((cache / "some").iterdir()) == []


def test_a_damaged_cache_is_replaced(own_data: Path, cache: Path, publisher: dict[str, Any]) -> None:
    path = put(cache, CONTENT[:50])
    assert _files.read(FILE).content == CONTENT
    assert path.read_bytes() == CONTENT


def test_a_damaged_cache_survives_a_failed_download_and_is_still_no_result(
    own_data: Path, cache: Path, publisher: dict[str, Any]
) -> None:
    put(cache, CONTENT[:50])
    publisher["sends"] = ConnectionError()
    with pytest.raises(DataError):
        _files.read(FILE)


def test_without_pooch_the_extra_is_named(own_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(MissingExtraError, match=r"put it at .*separatrix\[data\]"):
        _files.read(FILE)


def test_without_an_address_the_place_is_named(monkeypatch: pytest.MonkeyPatch, cache: Path) -> None:
    monkeypatch.delenv("SEPARATRIX_DATA", raising=False)
    with pytest.raises(DataError, match=rf"put it at {cache}/a/b.csv \(or set SEPARATRIX_DATA"):
        _files.read(File(("a/b.csv",)))


def test_the_users_cache_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("SEPARATRIX_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert _files.cache_folder() == tmp_path / "separatrix"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert _files.cache_folder() == Path.home() / ".cache" / "separatrix"
