"""The key of a run holds all that decides its result, the code included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from separatrix import methods
from separatrix.errors import DataError, InputError
from separatrix.frontier.sweep import keys
from separatrix.frontier.sweep.jobs import Job, Source, grid
from separatrix.frontier.sweep.keys import RunKey, source_hash
from separatrix.frontier.sweep.runner import run

LAW = {"law": "bayes", "n": 400}
QUICK = (("epochs", 1), ("min_steps", 5), ("batch", 128))


def stacks(method="erm"):
    return grid([Source("synthetic", LAW)], [Job(method, (0.0,), changes=QUICK)], folds=2)


@pytest.fixture
def edited(monkeypatch):
    """Call it with the path of a file to add a line to that file, as an editor would."""
    real = keys.read_source

    def edit(path):
        def read(asked):
            return real(asked) + ("\nEDITED = True\n" if asked == path else "")

        monkeypatch.setattr(keys, "read_source", read)
        source_hash.cache_clear()

    yield edit
    source_hash.cache_clear()


def test_json_gives_the_same_key_back():
    (first, *_) = stacks()[0].runs
    again = RunKey.from_json(first.to_json())
    assert again == first
    assert again.key == first.key
    assert again.series == ("synthetic", "erm", "xz", first.recipe)
    for broken in ("{}", "[1]", "no", first.to_json().replace("trade_off", "lambda")):
        with pytest.raises(DataError, match="not the key of a run"):
            RunKey.from_json(broken)


def test_every_field_changes_the_key():
    (first, *_) = stacks()[0].runs
    for name in RunKey.__dataclass_fields__:
        value = {"details": {}, "weight": 0.5}.get(name, "other")
        assert replace(first, **{name: value}).key != first.key, name


def test_results_of_changed_code_are_not_used_again(tmp_path, edited):
    pytest.importorskip("torch")
    assert run(stacks(), tmp_path / "a").added == {"ok": 2}
    before = stacks()[0].key
    edited("methods/erm.py")
    assert stacks()[0].key != before
    with pytest.raises(InputError, match="'erm' on 'synthetic' with other code of that method"):
        run(stacks(), tmp_path / "a")
    assert run(stacks(), tmp_path / "b").added == {"ok": 2}  # nothing was found finished


@pytest.mark.parametrize(
    ("path", "changed"),
    [
        ("nn/stack.py", ["cmi", "erm", "postprocessing"]),  # trains every loss
        ("nn/information.py", ["cmi"]),  # what the method imports
        ("methods/erm.py", ["erm", "postprocessing"]),  # the base of another method
        ("optimum/limit.py", ["postprocessing"]),
        ("optimum/roc/regions.py", ["postprocessing"]),
        ("methods/_adversaries.py", ["adversarial"]),
        ("show/tables.py", []),  # makes no number
        ("methods/__init__.py", []),
    ],
)
def test_the_hash_of_a_method_covers_what_it_imports_and_no_more(path, changed, edited):
    names = ["adversarial", "cmi", "erm", "postprocessing"]
    before = {name: source_hash(name) for name in names}
    edited(path)
    assert {name for name in names if source_hash(name) != before[name]} >= set(changed)
    if not changed:
        assert {name: source_hash(name) for name in names} == before


def test_every_method_has_its_own_hash():
    assert len({source_hash(name) for name in methods.names()}) == len(methods.names())
