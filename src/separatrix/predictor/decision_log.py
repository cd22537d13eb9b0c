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
from itertools import islice, repeat
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import _num_samples

from separatrix.columns.draws import Salt, id_digests, id_texts, key_id
from separatrix.columns.groups import to_plain
from separatrix.columns.text import harmless
from separatrix.errors import DataError, InputError
from separatrix.io import appending

if TYPE_CHECKING:
    from separatrix.predictor.predictor import Predictor

Record = dict[str, Any]
Block = tuple[Any, Any, Any]  # decided rows, their groups, their identities
_COINS = ("coin_branch", "coin_value")  # the second one draws a label or the level of a score
_FIELDS = ("model", "key", "id", *_COINS, "branch", "prediction")
_AT_ONCE = 10_000  # records, where no rows say how many


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


def records(predictor: Predictor, drawn: Drawn, ids: Any = None, salt: Salt = None) -> list[Record]:
    """One record per decision."""
    model, known = predictor.model_hash, [None] * len(drawn.labels)
    if ids is not None and salt is not None:
        known = id_digests(ids, salt, bytes.fromhex(model))  # type: ignore[assignment]
    key = None if salt is None else key_id(salt)
    labels = map(to_plain, drawn.labels.tolist())
    rows = zip(known, *drawn.coins.T.tolist(), drawn.branch.tolist(), labels, strict=True)
    return [dict(zip(_FIELDS, (model, key, *row), strict=True)) for row in rows]


def write(file: IO[str], path: Path, records: Iterable[Record], first: bool) -> None:
    """Add records to an open text file; the first ones of a CSV file with a header."""
    if path.suffix != ".csv":
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records)
        return
    out = csv.writer(file)
    if first:
        out.writerow(_FIELDS)
    for record in records:
        out.writerow(harmless(x) if isinstance(x, str) else x for x in record.values())


def append(path: Path, records: Sequence[Record]) -> None:
    """Add records to a log in one piece, also where several processes write to it."""
    with appending(path) as file:
        text = StringIO(newline="")
        write(text, path, records, first=file.tell() == 0)
        file.write(text.getvalue().encode())


def replay(predictor: Predictor, log: Path, blocks: Iterable[Block] | None = None, salt: Salt = None) -> int:
    """Compare a log with what the model gives; the first difference is a `DataError`.

    Args:
        predictor: the model of the log.
        log: the file.
        blocks: the decided rows, their groups and their identities, in the order of the log. Where
            rows are None only branches are computed again, and without any blocks of all decisions.
        salt: the secret; where there are identities coins are then computed again.

    Returns:
        The number of decisions that were compared.
    """
    logged, done = _read(log), 0
    for rows, groups, ids in repeat((None, None, None)) if blocks is None else blocks:
        seen = None if rows is None else predictor.seen(rows, groups)
        n = _AT_ONCE if ids is None else len(id_texts(ids))
        n = n if seen is None else _num_samples(seen[0])
        decisions = list(islice(logged, n))
        if blocks is None and not decisions:
            break
        if blocks is not None and len(decisions) < n:
            raise DataError(f"{log} has {done + len(decisions):,} decisions, fewer than there are rows.")
        keyed = ids is not None and salt is not None
        coins = np.array([[decision[name] for name in _COINS] for decision in decisions]).reshape(-1, 2)
        if keyed and predictor.randomized:
            coins = predictor.coins(n, ids=ids, salt=salt)
        unknown = np.zeros(len(decisions), dtype=np.intp)
        drawn = Drawn(coins, unknown, unknown, predictor.branch_of(coins), coins)
        drawn = drawn if seen is None else predictor.decided(*seen, coins)
        skipped = ({"prediction"} if seen is None else set()) | (set() if keyed else {"key", "id"})
        expected = records(predictor, drawn, *((ids, salt) if keyed else ()))
        for record, true in zip(decisions, expected, strict=True):
            done += 1
            for name in _FIELDS:
                if name not in skipped and not _same(record[name], true[name]):
                    different = f"{name} is {record[name]!r}, this model gives {true[name]!r}"
                    raise DataError(f"{log}, decision {done:,}: {different}.")
    if next(logged, None) is not None:
        raise DataError(f"{log} has more decisions than there are rows, {done:,}.")
    if blocks is None and not done:
        raise DataError(f"{log} holds no decision.")
    return done


def _same(logged: Any, true: Any) -> bool:
    if isinstance(logged, str) and not isinstance(true, str):  # CSV
        return logged == ("" if true is None else str(true))
    return bool(logged == true) or (isinstance(true, str) and logged == harmless(true))


def _read(path: Path) -> Iterator[Record]:
    place = 1
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines: Iterable[Any] = csv.DictReader(file) if path.suffix == ".csv" else file
            for place, line in enumerate(lines, 1):  # noqa: B007
                record = line if isinstance(line, Mapping) else json.loads(line)
                if not isinstance(record, Mapping) or set(record) != set(_FIELDS):
                    raise ValueError("its fields are not those of a decision")
                numbers = {name: float(record[name]) for name in _COINS}
                if not all(0.0 <= coin < 1.0 for coin in numbers.values()):
                    raise ValueError("a coin is not in [0, 1)")
                yield {**record, **numbers, "branch": int(record["branch"])}
    except OSError as error:
        raise InputError(f"The log {str(path)!r} cannot be read: {error.strerror}.") from error
    except (ValueError, TypeError, KeyError, RecursionError, csv.Error) as error:
        raise DataError(f"{path}, record {place:,} is not a whole decision ({error}).") from error
