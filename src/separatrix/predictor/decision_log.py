"""The decision log: what was drawn for whom, so that every decision can be computed again.

A record holds the model's hash, the key id of the secret, a keyed digest of the person's id, the
coins, the branch and the prediction. Without the secret it names nobody. A file ending in .csv is
CSV, any other is JSON lines. `replay` compares a log with the model, and with the rows if it has
them.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from separatrix.columns.draws import id_digests, id_texts, key_id
from separatrix.columns.text import harmless
from separatrix.errors import DataError, InputError
from separatrix.io import appending
from separatrix.predictor.saving import plain

if TYPE_CHECKING:
    from separatrix.predictor.predictor import Predictor

__all__ = ["Comparison", "Drawn", "append", "records", "replay", "write"]

Record = dict[str, Any]
_COINS = ("coin_branch", "coin_value")  # the second one draws a label or the level of a score
FIELDS = ("model", "key", "id", *_COINS, "branch", "prediction")


@dataclass(frozen=True, eq=False)
class Drawn:
    """Coins (n, 2) and what they gave: codes and names of labels (n,), branches (n,).

    `proba` (n, labels) is the law before the draw; of a score [1 − score, score] after it.
    `scores` (n, labels) is what the one model behind the decision says; None if there are several.
    """

    coins: NDArray[np.float64]
    codes: NDArray[np.intp]
    labels: NDArray[Any]
    branch: NDArray[np.intp]
    proba: NDArray[np.float64]
    scores: NDArray[np.float64] | None = None


def records(
    predictor: Predictor, drawn: Drawn, ids: Any = None, salt: str | bytes | None = None
) -> list[Record]:
    """One record per decision."""
    model, known = predictor.model_hash, [None] * len(drawn.labels)
    if ids is not None and salt is not None:
        known = id_digests(ids, salt, bytes.fromhex(model))  # type: ignore[assignment]
    key = None if salt is None else key_id(salt)
    labels = map(plain, drawn.labels.tolist())
    rows = zip(known, *drawn.coins.T.tolist(), drawn.branch.tolist(), labels, strict=True)
    return [dict(zip(FIELDS, (model, key, *row), strict=True)) for row in rows]


def write(file: IO[str], path: Path, found: Iterable[Record], first: bool) -> None:
    """Add records to an open text file; the first ones of a CSV file with a header."""
    if path.suffix != ".csv":
        file.writelines(json.dumps(one, ensure_ascii=False) + "\n" for one in found)
        return
    out = csv.writer(file)
    if first:
        out.writerow(FIELDS)
    for one in found:
        out.writerow(harmless(x) if isinstance(x, str) else x for x in one.values())


def append(path: Path, found: Sequence[Record]) -> None:
    """Add records to a log in one piece, also where several processes write to it."""
    with appending(path) as file:
        text = StringIO(newline="")
        write(text, path, found, first=file.tell() == 0)
        file.write(text.getvalue().encode())


def replay(
    predictor: Predictor,
    log: str | Path,
    rows: Any = None,
    sensitive_features: Any = None,
    *,
    ids: Any = None,
    salt: str | bytes | None = None,
) -> int:
    """Compare a log with what the model gives; the first difference is a `DataError`.

    Args:
        predictor: the model of the log.
        log: the file.
        rows, sensitive_features: the decided rows, in the order of the log; predictions are then
            computed again. Without them only branches are.
        ids, salt: the rows' identities and the secret; coins are then computed again.

    Returns:
        The number of decisions that were compared.
    """
    comparison = Comparison(predictor, Path(log), salt)
    if rows is None and ids is None:
        comparison.rest()
    else:
        comparison.block(rows, sensitive_features, ids)
        comparison.end()
    return comparison.done


class Comparison:
    """A log that is compared block by block.

    Args:
        predictor: the model.
        log: the file.
        salt: the secret, where ids will come.
    """

    def __init__(self, predictor: Predictor, log: Path, salt: str | bytes | None) -> None:
        self.predictor, self.log, self.salt, self.done = predictor, log, salt, 0
        self._records = _read(log)

    def block(self, rows: Any, sensitive_features: Any, ids: Any) -> None:
        """Compare the next records with their rows, their identities, or both."""
        if rows is None:
            self._compare(self._next(len(id_texts(ids))), None, ids)
            return
        found: list[Record] = []

        def coins(n: int) -> NDArray[np.float64]:
            found.extend(self._next(n))
            return self._coins(found, ids)

        self._compare(found, self.predictor.drawn(rows, sensitive_features, coins), ids)

    def _next(self, n: int) -> list[Record]:
        found = list(islice(self._records, n))
        if len(found) < n:
            raise DataError(
                f"{self.log} has {self.done + len(found):,} decisions, fewer than there are rows."
            )
        return found

    def _coins(self, found: Sequence[Record], ids: Any) -> NDArray[np.float64]:
        """Computed again where that is possible, else those of the log."""
        if ids is not None and self.salt is not None and self.predictor.randomized:
            return self.predictor.coins(len(found), ids=ids, salt=self.salt)
        told = [[one[name] for name in _COINS] for one in found]
        return np.array(told, dtype=np.float64).reshape(len(found), len(_COINS))

    def rest(self) -> None:
        """Compare what is left with the model alone."""
        while found := list(islice(self._records, 10_000)):
            self._compare(found, None, None)
        if not self.done:
            raise DataError(f"{self.log} holds no decision.")

    def end(self) -> None:
        """Refuse a log that has more decisions than there were rows."""
        if next(self._records, None) is not None:
            raise DataError(f"{self.log} has more decisions than there are rows, {self.done:,}.")

    def _compare(self, found: Sequence[Record], drawn: Drawn | None, ids: Any) -> None:
        predictor, n = self.predictor, len(found)
        keyed = ids is not None and self.salt is not None
        skipped = set() if keyed else {"key", "id"}
        if drawn is None:
            coins = self._coins(found, ids)
            none = np.zeros(n, dtype=np.intp)
            drawn = Drawn(coins, none, none, predictor.branch_of(coins), np.zeros((n, 0)))
            skipped |= {"prediction"}
        known, salt = (ids, self.salt) if keyed else (None, None)
        expected = records(predictor, drawn, known, salt)
        for i, (told, true) in enumerate(zip(found, expected, strict=True)):
            for name in FIELDS:
                if name not in skipped and not _same(told[name], true[name]):
                    raise DataError(
                        f"{self.log}, decision {self.done + i + 1:,}: {name} is {told[name]!r}, "
                        f"this model gives {true[name]!r}."
                    )
        self.done += n


def _same(told: Any, true: Any) -> bool:
    if isinstance(told, str) and not isinstance(true, str):  # CSV
        return told == ("" if true is None else str(true))
    return bool(told == true) or (isinstance(true, str) and told == harmless(true))


def _read(path: Path) -> Iterator[Record]:
    at = 1
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines: Iterable[Any] = csv.DictReader(file) if path.suffix == ".csv" else file
            for at, line in enumerate(lines, 1):  # noqa: B007
                one = line if isinstance(line, Mapping) else json.loads(line)
                if not isinstance(one, Mapping) or set(one) != set(FIELDS):
                    raise ValueError("its fields are not those of a decision")
                record = {name: one[name] for name in FIELDS}
                for name in (*_COINS, "branch"):
                    record[name] = (int if name == "branch" else float)(record[name])
                if not all(0.0 <= record[name] < 1.0 for name in _COINS):
                    raise ValueError("a coin is not in [0, 1)")
                yield record
    except OSError as error:
        raise InputError(f"The log {str(path)!r} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError, KeyError, RecursionError, csv.Error) as error:
        raise DataError(f"{path}, record {at:,} is not a whole decision ({error}).") from error
