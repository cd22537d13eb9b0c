"""Delimited text to columns, and the dialect of all our readers.

A CSV file is UTF-8 text, plain or .gz, with a header line. The delimiter is comma, semicolon, tab
or bar, whichever the header holds most of. The dialect is the same in memory and in DuckDB:

- an empty field is missing;
- a column whose other values are all numbers holds numbers: integers where all are, else floats;
  there NA, N/A, NaN and null are missing;
- every other column holds text as it stands, without outer blanks: NA is a level like any other,
  yes and no stay yes and no, and 007 is a code, not a number;
- names of columns stand as they are written, trailing blanks too;
- a name that comes twice is an error in a user's file; in a published one (`read_csv`) the second
  column `a` is called `a.1`;
- a row with more or fewer fields than the header is an error, but for delimiters at its end.
"""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.features import NOT_AVAILABLE, Values, is_number
from separatrix.columns.frames import check_present
from separatrix.columns.values import Coded
from separatrix.errors import DataError, InputError

_EMPTY = frozenset({""})
_CHUNK = 2_000  # rows of text in memory at a time; more are not faster
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def read_csv(
    lines: Iterable[str],
    *,
    source: str,
    delimiter: str = ",",
    header: Sequence[str] | None = None,
    only: Sequence[str] | None = None,
    missing: frozenset[str] = _EMPTY,
) -> dict[str, Values]:
    """Columns of delimited text: numbers where every value is one, else categories.

    Args:
        lines: the text, line by line.
        source: what to call it in an error.
        header: the names, where the first line does not hold them.
        only: the columns to keep; the others never leave this function.
        missing: texts that stand for a missing value in any column.

    >>> read_csv(["age,job", "41,cook", "NA,NA"], source="example")["age"]
    array([41., nan])
    """
    names, rows = _rows(lines, source, delimiter, header, numbered=True)
    try:
        check_present(only or (), names, source)
    except InputError as error:
        raise DataError(f"{error} Is it the right file?") from error
    return _columns(names, rows, names if only is None else only, missing)


def read_files(files: Sequence[Path], only: Sequence[str] | None = None) -> dict[str, Values]:
    """The columns of CSV files with one header, typed over all of them."""
    header, _ = read_header(files[0])
    check_present(only or (), header, str(files[0]))

    def chunks() -> Iterator[list[list[str]]]:
        for file in files:
            with _opened(file) as (delimiter, lines, _):
                names, rows = _rows(lines, str(file), delimiter, None)
                if names != header:
                    raise InputError(f"{file} has other columns than {files[0]}.")
                yield from rows

    return _columns(header, chunks(), header if only is None else only)


def text_blocks(path: Path, only: Sequence[str], rows: int) -> Iterator[tuple[dict[str, Values], float]]:
    """Blocks of rows of a CSV file as text, and how much of the file was read.

    A type follows from the whole column, which a block does not show: use `as_numbers` for numbers.
    """
    size = max(path.stat().st_size, 1)
    with _opened(path) as (delimiter, lines, raw):
        names, chunks = _rows(lines, str(path), delimiter, None, rows)
        check_present(only, names, str(path))
        for chunk in chunks:
            yield _columns(names, [chunk], only, None), raw.tell() / size


def read_header(path: Path) -> tuple[list[str], str]:
    """The names of the columns of a CSV file, and its delimiter."""
    with _opened(path) as (delimiter, lines, _):
        return _rows(lines, str(path), delimiter, None)[0], delimiter


def harmless(text: str) -> str:
    """A cell for CSV that no spreadsheet takes for a formula: then with an apostrophe in front.

    >>> harmless("=1+1"), harmless("-5"), harmless("plain")
    ("'=1+1", '-5', 'plain')
    """
    return f"'{text}" if text.startswith(_FORMULA) and not is_number(text) else text


def _columns(
    names: list[str], chunks: Iterable[list[list[str]]], only: Sequence[str], missing: frozenset[str] | None = _EMPTY
) -> dict[str, Values]:
    """Some columns of rows that come in chunks: typed, or all as text where `missing` is None."""
    # of each column the codes, chunk by chunk, and the code of each text
    codes: dict[str, list[NDArray[np.int32]]] = {name: [np.empty(0, np.int32)] for name in only}
    places: dict[str, defaultdict[str, int]] = {name: defaultdict() for name in only}
    for place in places.values():
        place.default_factory = place.__len__
    for rows in chunks:
        table = dict(zip(names, zip(*rows, strict=True), strict=True))
        for name, place in places.items():
            column = map(place.__getitem__, table[name])
            codes[name].append(np.fromiter(column, dtype=np.int32, count=len(rows)))
    dialect: dict[str, Any] = {"numbers": False} if missing is None else {"missing": missing}
    return {name: typed(np.concatenate(codes[name]), list(places[name]), **dialect) for name in only}


def typed(
    codes: NDArray[Any], texts: Sequence[Any], missing: frozenset[str] = _EMPTY, *, numbers: bool = True
) -> Values:
    """The dialect: numbers if all texts are, else categories; code -1 is missing.

    >>> typed(np.array([0, 1, 2]), ["3", "NA", "5"])
    array([ 3., nan,  5.])
    >>> typed(np.array([0, 1, 2]), ["x", "NA", ""]).levels
    ('NA', 'x')
    """
    texts = [text.strip() for text in texts]
    known = [text for text in texts if text not in missing and text not in NOT_AVAILABLE]
    if numbers and known and all(map(is_number, known)):
        whole = len(known) == len(texts) and all(re.fullmatch(r"[+-]?\d{1,18}", t) for t in known)
        if whole and not (codes < 0).any():
            return np.array(list(map(int, texts)), dtype=np.int64)[codes]
        values = [float(text) if is_number(text) else np.nan for text in texts]
        return np.array([*values, np.nan])[codes]
    return Coded(codes, ()).renamed(texts, tuple(sorted(set(texts) - missing)))


def _rows(
    lines: Iterable[str],
    source: str,
    delimiter: str,
    header: Sequence[str] | None,
    size: int | None = None,
    numbered: bool = False,
) -> tuple[list[str], Iterator[list[list[str]]]]:
    """The names of the columns, and the rows in chunks of `size` (or `_CHUNK`)."""
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    names = _distinct(next(reader, []) if header is None else header, source, numbered)
    if not names:
        raise DataError(f"{source} is empty: there are no rows.")
    width = len(names)

    def chunks() -> Iterator[list[list[str]]]:
        try:
            while block := list(islice(reader, size or _CHUNK)):
                # no blank lines, no empty fields behind the last column
                chunk = [row[:width] if len(row) > width and not any(row[width:]) else row for row in block if row]
                if bad := next((row for row in chunk if len(row) != width), None):
                    fields = f"{len(bad)} field{'s' * (len(bad) != 1)} ({', '.join(bad)[:60]})"
                    raise DataError(
                        f"{source}, near line {reader.line_num:,}: a row has {fields}, the header {width}: truncated "
                        f"or damaged, or not delimited by {delimiter!r}."
                    )
                if chunk:
                    yield chunk
        except csv.Error as error:
            raise DataError(f"{source}, line {reader.line_num:,}: {error}.") from error

    return names, chunks()


@contextmanager
def _opened(path: Path) -> Iterator[tuple[str, Iterable[str], IO[bytes]]]:
    """The delimiter of a file's first line, all lines, and the bytes underneath."""
    try:
        with path.open("rb") as raw:
            plain = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            stream = io.TextIOWrapper(plain, encoding="utf-8-sig", newline="")
            first = stream.readline()
            yield max(",;\t|", key=first.count), chain([first] if first else [], stream), raw
    except UnicodeDecodeError as error:
        raise DataError(f"{path} is not UTF-8 text ({error}). Is it a CSV file? Save it as UTF-8.") from error
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DataError(f"{path} cannot be read to its end ({error}).") from error
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror or error}.") from error


def _distinct(names: Iterable[str], source: str, numbered: bool) -> list[str]:
    """Column names as they are written; a repeated one is refused, or gets a number."""
    out: dict[str, None] = {}  # in their order
    for name in (name.removeprefix("\ufeff") for name in names):
        if name in out and name.strip() and not numbered:
            raise InputError(f"{source} has two columns of the name {name!r}. Rename one of them in its first line.")
        again, count = name, 0
        while again in out:
            count += 1
            again = f"{name}.{count}"
        out[again] = None
    return list(out)
