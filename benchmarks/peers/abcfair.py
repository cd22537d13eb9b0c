"""Ours by ABCFair's protocol and metric code on ACSIncome, beside its published results.

    python -m benchmarks.peers abcfair [--rows 50000] [--seeds 0 ...] [--write]

Needs a checkout of aida-ugent/ABCFair in `.bench/peers/abcfair`; its dataset, method and evaluator
classes are used as they are. A cell is a format of the groups × a notion × a bound k on their
relative violation, as in their tables of hard decisions. What is published was chosen on test rows,
by their rule; what runs here on validation rows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch

import separatrix as sx
from benchmarks._measuring import Kept, in_own_process, publish
from benchmarks.peers.aequitas_flow import within
from benchmarks.peers.compare import python_of
from benchmarks.peers.rows import FOLDER

QUICK = None  # needs a checkout
SEEDS = (0, 1, 2)  # of their five
ROWS = 0  # all
NOTIONS = {"dem_par": "demographic parity", "eq_opp": "equal opportunity", "pred_eq": "predictive equality"}
FORMATS = {  # their name in the code and the k of their table
    "binary": ("one_sens", (0.01, 0.05, 0.1)),
    "parallel": ("all_sens", (0.1, 0.3, 0.5)),
    "intersectional": ("intersect_sens", (0.5, 0.75, 1.0)),
}
BUDGETS = ("parity_gap", "tpr_gap", "fpr_gap", "eo_gap")
STATISTICS = ("pr", "tpr", "fpr", "eo")
LEVELS = {"binary": (0.002, 0.01, 0.05), "intersectional": (0.05, 0.2)}  # of the groups that are asked for
PLAIN, PEER, OURS, WHOLE = "LightGBM", "error_parity", "separatrix", "separatrix, whole budget"


def theirs(checkout: Path, rows: int) -> SimpleNamespace:
    """Their classes, around our rows instead of a download, without the packages of other methods."""
    np.bool8 = np.bool_  # type: ignore[attr-defined]  # numpy 2 dropped the name

    def read(*_: Any, **__: Any) -> pd.DataFrame:
        data = pd.read_parquet(Path(os.environ["SEPARATRIX_DATA"], "acs", "acs_income_2018_1yr_us.parquet"))
        data = data.sample(rows, random_state=code.seed) if rows else data
        return data.drop(columns=["row", "split", "ST"]).reset_index(drop=True)

    def split(data: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, None]:
        return data, data.pop("PINCP_gt_50000").astype(bool).to_frame("PINCP"), None

    folktables: Any = sys.modules.setdefault("folktables", ModuleType("folktables"))
    folktables.ACSIncome = SimpleNamespace(df_to_pandas=split)
    folktables.ACSDataSource = lambda **_: SimpleNamespace(get_data=read)
    sys.path.insert(0, str(checkout / "src"))
    for name in ("dataset", "dataset.folk_datasets", "fairness_method"):  # whose __init__ import all methods
        package: Any = ModuleType(name)
        package.__path__ = [str(checkout / "src" / name.replace(".", "/"))]
        sys.modules[name] = package
    from dataset.folk_datasets.ACSIncome import ACSIncome
    from evaluator.evaluator import Evaluator
    from fairness_method.base import FairnessMethod
    from fairness_method.error_parity import ErrorParity

    code = SimpleNamespace(Data=ACSIncome, Evaluator=Evaluator, Method=FairnessMethod, ErrorParity=ErrorParity, seed=0)
    return code


class Trees:
    """LightGBM in the place of their network: logits of features."""

    def __init__(self, data: Any) -> None:
        from lightgbm import LGBMClassifier

        model = LGBMClassifier(n_jobs=1, random_state=0, verbose=-1)
        self.model = model.fit(data.feat.numpy(), data.label.numpy().ravel())

    def __call__(self, features: Any) -> Any:
        return torch.tensor(self.model.predict(features.numpy(), raw_score=True)[:, None])


def ours_of(base: type) -> Any:
    """Ours as their `FairnessMethod`, around the scores of the given model; fitted once."""

    class Separatrix(base):  # type: ignore[misc]
        name = "separatrix"

        def postprocess(self, model: Any, dataloader: Any) -> Any:
            """(budget, level, whole) → whether a rule was chosen, and their `predict`."""
            data = dataloader.dataset
            fitted = sx.FrontierClassifier("precomputed", max_eo_gap=1.0, random_state=0)
            y, z = data.label.numpy().ravel() > 0.5, _groups(data.sens)
            fitted.fit(_scores(model, data.feat), y, sensitive_features=z)
            return partial(self.asked, fitted)

        def asked(self, fitted: Any, budget: str, level: float, whole: bool) -> tuple[bool, Callable[..., Any]]:
            rule, _ = within(fitted, budget, level, whole)
            return rule.choice_.endswith("rule"), partial(self.predict, rule)

        def predict(self, rule: Any, model: Any, feat: Any, sens: Any) -> Any:
            decided = rule.predict(_scores(model, feat), _groups(sens))
            return torch.tensor(decided[:, None].astype(np.float32))

    return Separatrix()


def _scores(model: Any, features: Any) -> Any:
    p = 1.0 / (1.0 + np.exp(-model(features).numpy().ravel()))
    return np.column_stack([1.0 - p, p])


def _groups(sens: Any) -> Any:
    """As words: numbers of many values would be cut at their quartiles."""
    return sens.argmax(1).numpy().astype(str)


def points(code: SimpleNamespace, data: Any, group: str) -> Iterator[tuple[Sequence[str], str, Callable[..., Any]]]:
    """Methods, settings and `predict` of everything that runs on a format of the groups."""
    model, loader = Trees(data.train_data), data.train_dataloader()
    yield [PLAIN], "", lambda feat, sens: torch.sigmoid(model(feat))
    for statistic, level in product(STATISTICS, LEVELS[group]):
        peer = code.ErrorParity(statistic=statistic, fairness_strength=level)
        try:
            yield [PEER], f"{statistic}, {level:g}", partial(peer.postprocess(model, loader), model)
        except ValueError as error:  # a group with one label has no ROC curve
            print(f"failed: {PEER}, {group}, {statistic}, {level:g}: {error}", file=sys.stderr)
    asked = ours_of(code.Method).postprocess(model, loader)
    for budget, level in product(BUDGETS, LEVELS[group]):
        ruled, decide = asked(budget, level, False)  # then better by more than chance: also the best within the budget
        yield [OURS, WHOLE] if ruled else [OURS], f"{budget}, {level:g}", partial(decide, model)
        if not ruled:
            yield [WHOLE], f"{budget}, {level:g}", partial(asked(budget, level, True)[1], model)


def measured(code: SimpleNamespace, data: Any, rows: Any, predict: Callable[..., Any]) -> dict[str, float]:
    """Accuracy and hard violations by their `Evaluator`, of the notions that are reported."""
    evaluator = code.Evaluator("test", data_info=data.info())
    for kinds in evaluator.calc_metric_dict.values():
        kinds.update(soft={}, hard={notion: kinds["hard"][notion] for notion in NOTIONS})
    evaluator.update(predict(rows.feat, rows.sens), rows.label, rows.sens_formats)
    return {name.removeprefix("test/"): float(value) for name, value in evaluator.compute().items()}


def trials(seeds: Sequence[int], rows: int, checkout: str, file: str) -> dict[str, float]:
    """Every method on every seed and format that is not in the file yet; called in its environment."""
    done, code = Kept(Path(file)), theirs(Path(checkout), rows)
    for seed, group in product(seeds, LEVELS):
        if (rows, seed, group) in done.done("rows", "seed", "group"):
            continue
        code.seed = seed
        np.random.seed(seed)  # noqa: NPY002  # theirs: their split draws from it
        data = code.Data(main_sens_format=group, batch_size=512)
        data.setup()
        found: list[dict[str, Any]] = []
        for methods, settings, predict in points(code, data, group):
            one = {"rows": rows, "seed": seed, "group": group, "settings": settings}
            one |= {part: measured(code, data, getattr(data, f"{part}_data"), predict) for part in ("val", "test")}
            found += [one | {"method": method} for method in methods]
        done.add(found)
    return {}


Point = tuple[float, float, str]  # accuracy, violation, and whose


def published(checkout: Path, bound: str) -> list[Point]:
    """Means over their seeds of every setting that has results."""
    data = pd.read_csv(checkout / "results" / "ACSIncome.csv")
    settings = [name for name in data if name.startswith("method/")] + ["data/main_sens_format"]
    column = "test/hard/" + bound
    means = data.groupby(settings, dropna=False)[["test/accuracy", column]].mean().dropna().reset_index()
    return list(zip(means["test/accuracy"], means[column], means["method/name"], strict=True))


def best(points: Iterable[Point], most: float) -> Point | None:
    """The most accurate of those whose violation is below a bound."""
    return max((point for point in points if point[1] < most), default=None)


def shown(means: pd.DataFrame, bound: str, most: float) -> str:
    """What the test rows show of a method's setting that is best on the validation rows."""
    seen = means.xs("val", level="part")
    found = best(zip(seen["accuracy"], seen[bound], seen.index, strict=True), most)
    return "–" if found is None else "{:.4f} ({:.3f})".format(*means.loc[(found[2], "test"), ["accuracy", bound]])


def main(rows: int = ROWS, seeds: Sequence[int] = SEEDS, only_page: bool = False, write: bool = False) -> None:
    """Run what is not there yet, then the table of docs/evidence/outside.md."""
    checkout, file = FOLDER / "abcfair", FOLDER / "abcfair.jsonl"
    if not (checkout / "src").is_dir():
        sys.exit(f"There is no checkout of aida-ugent/ABCFair in {checkout}: put one there.")
    if not only_page:
        python = str(python_of("abcfair", FOLDER / "environments").absolute())
        in_own_process("benchmarks.peers.abcfair", "trials", seeds, rows, str(checkout), str(file), python=python)
    runs = [one for one in Kept(file).rows if one["rows"] == rows and one["seed"] in seeds]
    for one, part in product(runs, ("val", "test")):
        one[part] |= {"method": one["method"], "settings": f"{one['group']}, {one['settings']}", "part": part}
    both = pd.DataFrame([one[part] for one in runs for part in ("val", "test")])
    grouped, out = both.groupby(["method", "settings", "part"]), list[list[str]]()
    means = grouped.mean()[grouped.size() == grouped.size().max()]  # what ran on every seed
    for (group, (code, bounds)), notion in product(FORMATS.items(), NOTIONS):
        for most in bounds:
            top = best(published(checkout, f"{group}/{notion}"), most)
            theirs = "–" if top is None else "{:.4f} ({:.3f}, {})".format(*top)
            ran = [shown(means.loc[method], f"hard/{code}/{notion}", most) for method in (PLAIN, PEER, OURS, WHOLE)]
            out.append([group, NOTIONS[notion], f"{most:g}", theirs, *ran])
    head = ["groups", "notion", "k", "best published (violation, method)", f"{PLAIN} as it is", f"{PEER}, same trees"]
    publish("outside-abcfair", [*head, OURS, WHOLE], out, write)
