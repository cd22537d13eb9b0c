"""The text of a LightGBM model, checked before LightGBM reads it.

LightGBM trusts its files: an index beyond an array ends the process. So each tree is read here
first: every list has its length, every split its feature, and the nodes form a tree.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from separatrix.errors import DataError

_END = "end of trees"


def check_model(text: str, n_features: int | None = None, n_outputs: int | None = None) -> None:
    """Refuse a text that is not a whole LightGBM model, in one sentence.

    Args:
        text: what `Booster.model_to_string` wrote.
        n_features: columns of the matrix that it reads; None for as many as it says.
        n_outputs: raw scores per row, 1 for two labels; None for as many as it says.
    """
    try:
        _check(text, n_features, n_outputs)
    except (KeyError, ValueError, IndexError) as error:
        raise DataError(f"The trees of a boosted model are damaged ({error}). Load another copy.") from error


def _check(text: str, n_features: int | None, n_outputs: int | None) -> None:
    _need(text.startswith("tree\nversion=v"), "it does not begin as a LightGBM model")
    body, end, _ = text.partition(f"\n{_END}\n")
    _need(end, f"the line {_END!r} is missing")
    head, *trees = body.split("\n\nTree=")
    facts = _facts(head)
    n_columns = int(facts["max_feature_idx"]) + 1
    n_features = n_columns if n_features is None else n_features
    named = len(facts["feature_names"].split())
    _need(n_columns == n_features == named, f"it has {n_columns} features, not {n_features}")
    n_outputs = int(facts["num_class"]) if n_outputs is None else n_outputs
    # a multiclass objective writes as many numbers per row as it says itself
    objective = facts.get("objective", "")
    classes = re.search(r"\bnum_class:(-?\d+)", objective)
    fits = n_outputs >= 1 and (classes is None or int(classes[1]) == n_outputs)
    _need(fits, f"its objective is {objective!r} for {n_outputs} scores")
    for name in ("num_class", "num_tree_per_iteration"):
        _need(int(facts[name]) == n_outputs, f"{name} is {facts[name]}, not {n_outputs}")
    sizes = facts["tree_sizes"].split()
    whole = len(sizes) == len(trees) and len(trees) % n_outputs == 0
    _need(whole, f"{len(trees)} of {len(sizes)} trees are there")
    for i, tree in enumerate(trees):
        number, _, rest = tree.partition("\n")
        # a block ends with two empty lines, of which the next block's name takes one
        length = len(f"Tree={number}\n{rest.rstrip()}\n\n\n")
        _need(int(number) == i and int(sizes[i]) == length, f"tree {i} does not have its {sizes[i]} characters")
        _check_tree(_facts(rest), i, n_features)


def _check_tree(facts: dict[str, str], i: int, n_features: int) -> None:
    leaves = int(facts["num_leaves"])
    _need(leaves >= 1 and not int(facts["is_linear"]), f"tree {i} is not one of constant leaves")
    _need(np.isfinite(_numbers(facts, "leaf_value", leaves)).all(), f"tree {i} has a leaf that is not finite")
    if leaves == 1:
        return
    splits = leaves - 1
    feature = _numbers(facts, "split_feature", splits)
    _need(((feature >= 0) & (feature < n_features)).all(), f"tree {i} splits a feature that is not there")
    threshold = _numbers(facts, "threshold", splits)
    _need(not np.isnan(threshold).any(), f"tree {i} has a threshold that is no number")
    categorical = (_numbers(facts, "decision_type", splits).astype(np.int64) & 1) > 0
    sets = int(facts["num_cat"])
    # the threshold of a categorical split is the place of its set of levels
    there = np.isin(threshold[categorical], np.arange(sets)).all()
    _need(there, f"tree {i} splits by a set of levels that is not there")
    if sets:
        ends = _numbers(facts, "cat_boundaries", sets + 1)
        _numbers(facts, "cat_threshold", int(ends[-1]))
        _need(ends[0] == 0 and (np.diff(ends) >= 0).all(), f"the sets of levels of tree {i} overlap")
    children = np.concatenate([_numbers(facts, f"{side}_child", splits) for side in ("left", "right")])
    # leaf k is −k−1: every node but the root and every leaf is the child of one node, a later one
    wanted = np.concatenate([np.arange(1, splits), -np.arange(1, leaves + 1)])
    parent = np.tile(np.arange(splits), 2)
    later = parent[children > 0] < children[children > 0]
    is_tree = later.all() and np.array_equal(np.sort(children), np.sort(wanted))
    _need(is_tree, f"the nodes of tree {i} do not form a tree")


def _facts(block: str) -> dict[str, str]:
    return {name: value for name, equals, value in (line.partition("=") for line in block.splitlines()) if equals}


def _numbers(facts: dict[str, str], name: str, size: int) -> np.ndarray:
    values = np.array(facts[name].split(), dtype=np.float64)
    _need(len(values) == size, f"{name} has {len(values)} entries, not {size}")
    return values


def _need(holds: Any, otherwise: str) -> None:
    if not holds:
        raise ValueError(otherwise)
