"""The text of a LightGBM model, checked before LightGBM reads it.

LightGBM trusts its files: an index beyond an array ends the process. So each tree is read here
first: every list has its length, every split its feature, and the nodes form a tree.
"""

from __future__ import annotations

import numpy as np

from separatrix.errors import DataError

__all__ = ["check_model"]

_END = "end of trees"


def check_model(text: str, n_features: int, n_outputs: int) -> None:
    """Refuse a text that is not a whole LightGBM model of numeric splits, in one sentence.

    Args:
        text: what `Booster.model_to_string` wrote.
        n_features: columns of the matrix that it reads.
        n_outputs: raw scores per row: 1 for two labels.
    """
    try:
        _check(text, n_features, n_outputs)
    except (KeyError, ValueError, IndexError) as error:
        raise DataError(
            f"The trees of a boosted model are damaged ({error}): the text was cut or changed. "
            "Load another copy."
        ) from error


def _check(text: str, n_features: int, n_outputs: int) -> None:
    if not text.startswith("tree\nversion=v"):
        raise ValueError("it does not begin as a LightGBM model")
    body, end, _ = text.partition(f"\n{_END}\n")
    if not end:
        raise ValueError(f"the line {_END!r} is missing")
    head, *trees = body.split("\n\nTree=")
    facts = _facts(head)
    found = int(facts["max_feature_idx"]) + 1
    if found != n_features or len(facts["feature_names"].split()) != n_features:
        raise ValueError(f"it has {found} features, not {n_features}")
    for name in ("num_class", "num_tree_per_iteration"):
        if int(facts[name]) != n_outputs:
            raise ValueError(f"{name} is {facts[name]}, not {n_outputs}")
    sizes = facts["tree_sizes"].split()
    if len(sizes) != len(trees) or len(trees) % n_outputs:
        raise ValueError(f"{len(trees)} of {len(sizes)} trees are there")
    for i, tree in enumerate(trees):
        number, _, rest = tree.partition("\n")
        # a block ends with two empty lines, of which the next block's name takes one
        if int(number) != i or int(sizes[i]) != len(f"Tree={number}\n{rest.rstrip()}\n\n\n"):
            raise ValueError(f"tree {i} does not have its {sizes[i]} characters")
        _check_tree(_facts(rest), i, n_features)


def _check_tree(facts: dict[str, str], i: int, n_features: int) -> None:
    leaves = int(facts["num_leaves"])
    if leaves < 1 or int(facts["num_cat"]) or int(facts["is_linear"]):
        raise ValueError(f"tree {i} is not one of numeric splits and constant leaves")
    if not np.isfinite(_numbers(facts, "leaf_value", leaves)).all():
        raise ValueError(f"tree {i} has a leaf that is not finite")
    if leaves == 1:
        return
    splits = leaves - 1
    feature = _numbers(facts, "split_feature", splits)
    if not ((feature >= 0) & (feature < n_features)).all():
        raise ValueError(f"tree {i} splits a feature that is not there")
    if np.isnan(_numbers(facts, "threshold", splits)).any():
        raise ValueError(f"tree {i} has a threshold that is no number")
    kind = _numbers(facts, "decision_type", splits)
    if (kind.astype(np.int64) & 1).any():
        raise ValueError(f"tree {i} has a categorical split")
    children = np.concatenate([_numbers(facts, f"{side}_child", splits) for side in _SIDES])
    # leaf k is −k−1: every node but the root and every leaf is the child of one node, a later one
    wanted = np.concatenate([np.arange(1, splits), -np.arange(1, leaves + 1)])
    if not np.array_equal(np.sort(children), np.sort(wanted)):
        raise ValueError(f"the nodes of tree {i} do not form a tree")
    parent = np.tile(np.arange(splits), 2)
    if (parent[children > 0] >= children[children > 0]).any():
        raise ValueError(f"the nodes of tree {i} do not form a tree")


_SIDES = ("left", "right")


def _facts(block: str) -> dict[str, str]:
    lines = (line.partition("=") for line in block.splitlines() if "=" in line)
    return {name: value for name, _, value in lines}


def _numbers(facts: dict[str, str], name: str, size: int) -> np.ndarray:
    values = np.array(facts[name].split(), dtype=np.float64)
    if len(values) != size:
        raise ValueError(f"{name} has {len(values)} entries, not {size}")
    return values
