"""Find a dataset's files: in the package, SEPARATRIX_DATA, the cache or at the publisher.

The first place that has the file wins. Its unpacked content (plain, .gz, .xz) is checked against
the sha256 that the dataset declares, so a truncated or changed copy is an error. A download goes to
a temporary name and is renamed into the cache once it is checked.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files as resources
from pathlib import Path
from zipfile import BadZipFile

from separatrix.errors import DataError, MissingExtraError
from separatrix.io import whole_file, working

_UNPACK: dict[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.decompress, ".xz": lzma.decompress}


@dataclass(frozen=True)
class File:
    """One file that a dataset needs.

    Args:
        paths: where it may lie in a data folder, packed or not.
        sha256: of the unpacked content; any of these is right. The first one is that of `url`.
            Empty where the publisher states none and `check` must do.
        embedded: its name in the package, if it is there.
        url: the publisher's address.
        check: raises ValueError, or what `zipfile` does, if the content cannot be right.
    """

    paths: tuple[str, ...]
    sha256: tuple[str, ...] = ()
    embedded: str | None = None
    url: str | None = None
    check: Callable[[bytes], None] | None = None


@dataclass(frozen=True)
class Blob:
    """The unpacked content of a file, where it was found, and its hash."""

    content: bytes
    origin: str
    sha256: str

    @property
    def read_from(self) -> dict[str, str]:
        """Its place and hash, for a card."""
        return {self.origin: self.sha256}


def cache_folder() -> Path:
    """The folder of downloads and embeddings: SEPARATRIX_CACHE, or in the user's cache folder."""
    if chosen := os.environ.get("SEPARATRIX_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "separatrix"


def data_folders() -> list[Path]:
    """The folders that are searched for files: SEPARATRIX_DATA if set, then the cache."""
    chosen = os.environ.get("SEPARATRIX_DATA")
    return [*([Path(chosen)] if chosen else []), cache_folder()]


def find(file: File) -> str | None:
    """Where the file is, without reading it: "embedded", its path, or None."""
    if file.embedded is not None:
        return "embedded"
    places = _candidates(file)
    return str(places[0]) if places else None


def read(file: File) -> Blob:
    """The checked content of a file from the first place that has it; downloaded if no place has.

    Raises:
        DataError: the file is nowhere, or not the declared one; says which file to put where.
    """
    if file.embedded is not None:
        packed = resources(__package__).joinpath("data", file.embedded).read_bytes()
        return _checked(packed, Path(file.embedded), file, "embedded")
    damaged: DataError | None = None
    for path in _candidates(file):
        try:
            return _checked(path.read_bytes(), path, file, str(path))
        except DataError as error:
            if not (file.url and path.is_relative_to(cache_folder())):
                raise  # the user's own copy: say so instead of quietly taking another
            damaged = error  # a damaged copy in the cache is replaced by a fresh download
    if file.url is None:
        raise DataError(where_to_put(file)) from damaged
    return _download(file)


def _candidates(file: File) -> list[Path]:
    names = [path + end for path in file.paths for end in _UNPACK]
    places = [folder / name for folder in data_folders() for name in names]
    return [place for place in places if place.is_file()]


def _checked(packed: bytes, path: Path, file: File, origin: str) -> Blob:
    try:
        content = _UNPACK[path.suffix if path.suffix in _UNPACK else ""](packed)
        if file.check is not None:
            file.check(content)
    except (ValueError, OSError, EOFError, zlib.error, lzma.LZMAError, BadZipFile) as error:
        raise DataError(f"{path} is damaged or truncated ({error}). Delete it and get it again.") from error
    digest = hashlib.sha256(content).hexdigest()
    if file.sha256 and digest not in file.sha256:
        known = " or ".join(right[:12] + "…" for right in file.sha256)
        source = f" from {file.url}" if file.url else ""
        raise DataError(
            f"{path} is not the file that was expected: its content has sha256 {digest[:12]}…, not {known}. It is "
            f"truncated or changed: delete it and get the original{source}."
        )
    return Blob(content, origin, digest)


def where_to_put(file: File) -> str:
    """The sentence that says which file belongs where."""
    chosen = os.environ.get("SEPARATRIX_DATA")
    folder = Path(chosen) if chosen else cache_folder()
    hint = "" if chosen else " (or set SEPARATRIX_DATA to the folder that holds it)"
    source = f", from {file.url}" if file.url else ""
    return f"{Path(file.paths[0]).name} is not here: put it at {folder / file.paths[0]}{source}{hint}."


def _download(file: File) -> Blob:
    """Fetch under a temporary name, check, then rename, so the cache holds right files only."""
    assert file.url is not None
    try:
        import pooch
    except ImportError as error:
        raise MissingExtraError(f"{where_to_put(file)} To download it: pip install 'separatrix[data]'.") from error
    target = cache_folder() / file.paths[0]
    with working(f"Downloading {target.name}"), whole_file(target, parents=True) as temporary:
        try:
            pooch.HTTPDownloader(timeout=30)(file.url, temporary, None)
            return _checked(temporary.read_bytes(), target, file, str(target))
        except DataError as error:
            raise DataError(
                f"{file.url} did not give the expected file (another sha256, or cut short); nothing was kept. Try "
                f"again, or put the original at {target}."
            ) from error
        except OSError as error:  # those of requests are OSErrors: no network, no such host, 404, …
            raise DataError(f"{where_to_put(file)} Its download failed ({type(error).__name__}).") from error
