"""What `benchmark` is asked to run."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from separatrix.errors import DataError, InputError, MissingExtraError
from separatrix.frontier import paper as benchmarking
from separatrix.frontier.sweep import Execution

pytest.importorskip("torch")


def test_the_papers_recipe_is_run_of_cmi_and_erm_and_of_what_is_asked_for_by_name():
    def with_it(wanted):
        return {job.method for job in benchmarking._jobs(wanted, False) if job.recipe == "paper"}

    assert with_it(None) == {"cmi", "erm", "raw_cmi"}
    assert with_it(["infofair"]) == {"infofair"}


def test_the_paper_runs_its_methods_and_says_what_is_not_here(tmp_path, monkeypatch):
    """One ACS table has the ablations; an absent dataset is told with its reason, not refused."""

    def load(source):
        if source.name not in ("adult", "acs_occupation", "acs_occupation_large"):
            raise DataError(f"{source.name} is not here.")

    seen = {}
    monkeypatch.setattr(benchmarking.Source, "load", load)
    monkeypatch.setattr(benchmarking, "_run", lambda todo, *rest: seen.update(todo) or iter(()))
    before = SimpleNamespace(datasets=["bank"])  # of an earlier run into the same folder
    monkeypatch.setattr(benchmarking.Results, "read", lambda place: before)
    monkeypatch.setattr(benchmarking, "write_page", lambda results, place, missing: [missing])
    (missing,) = benchmarking.paper_benchmark(["adult"], tmp_path)
    others = {"compas", "acs_occupation", "celeba", "acs_occupation_large"}
    assert missing == dict.fromkeys(others, "it was not asked for.")
    (missing,) = benchmarking.paper_benchmark(None, tmp_path)
    assert set(missing) == {"compas", "celeba"}
    assert "--option celeba.weights=PATH" in missing["celeba"]
    adult, acs, large = ({(j.method, j.inputs, j.name) for j in seen[n]} for n in seen)
    assert {("erm", "x", "paper"), ("exponentiated_gradient", "xz", "default")} <= adult
    own = {("raw_cmi", "xz", "paper"), ("raw_cmi", "xz", "c=1000"), ("uniform", "xz", "default")}
    assert own | {("cmi", "xz", "paper, batch=4096")} <= acs - adult
    assert not {"raw_cmi", "uniform", "fair_dummy"} & {method for method, *_ in large}
    assert "fair_dummy" in {m for m, *_ in adult} - {m for m, *_ in acs}  # nor has the paper's ACS
    with pytest.raises(DataError, match="bank is not here"):
        list(benchmarking.paper_benchmark(["bank"], tmp_path))


def test_a_dataset_that_the_paper_does_not_have_is_refused_before_any_training(tmp_path):
    """Its page would have nothing of it."""
    with pytest.raises(InputError, match="The paper has no dataset 'synthetic'; it has adult"):
        list(benchmarking.paper_benchmark(["adult", "synthetic"], tmp_path))
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_a_method_of_the_paper_whose_library_is_not_here_is_missing(tmp_path, monkeypatch):
    """The command ends with a page that says so, and not with a refusal."""
    real = benchmarking.methods.get

    def get(name):
        if name in ("exponentiated_gradient", "threshold_optimizer"):
            raise MissingExtraError(f"The method {name!r} needs fairlearn.")
        return real(name)

    monkeypatch.setattr(benchmarking.methods, "get", get)
    monkeypatch.setattr(benchmarking, "METHODS", ("erm", "exponentiated_gradient"))
    monkeypatch.setattr(benchmarking, "_QUICK", (("epochs", 1), ("min_steps", 5)))
    monkeypatch.setattr(benchmarking, "_figures", lambda results, dataset: ())
    here = Execution()
    list(benchmarking.paper_benchmark(["adult"], tmp_path, benchmarking.Protocol(quick=True, execution=here)))
    page = (tmp_path / "paper.md").read_text(encoding="utf-8")
    assert "- **exponentiated_gradient**: The method 'exponentiated_gradient' needs" in page


@pytest.mark.nightly
def test_the_paper_by_one_command_resumes(tmp_path):
    pytest.importorskip("fairlearn")

    def said():
        return list(benchmarking.paper_benchmark(["adult"], tmp_path, benchmarking.Protocol(quick=True)))

    assert any("added" in line and "ok" in line for line in said())
    assert any("nothing new" in line for line in said())
    assert "adult: the paper's rows and ours" in (tmp_path / "paper.md").read_text()


def test_folds_that_were_asked_for_are_those_of_a_quick_look(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(benchmarking, "grid", lambda *_, folds, **__: asked.append(folds) or [])
    for folds in (3, None):
        list(benchmarking._run({"adult": []}, tmp_path, benchmarking.Protocol(True, folds)))
    assert asked == [3, 2]


def test_a_recipe_is_named_after_its_method():
    (job,) = benchmarking._jobs(["cmi:score"], quick=False)
    assert (job.method, job.recipe, job.made().level) == ("cmi", "score", "score")
    assert [job.recipe for job in benchmarking._jobs(["cmi"], quick=False)] == ["default", "paper"]
    (unknown,) = benchmarking._jobs(["cmi:best"], quick=False)
    with pytest.raises(InputError, match="'cmi' has no recipe 'best'; it has default"):
        unknown.made()


def test_blind_runs_every_method_that_can_on_x_alone():
    jobs = benchmarking._jobs(["cmi", "erm", "threshold_optimizer"], quick=False, blind=True)
    alone = {job.method for job in jobs if job.inputs == "x"}
    assert alone == {"cmi", "erm"}
    assert len({(job.method, job.inputs, job.recipe) for job in jobs}) == len(jobs)


def test_without_torch_it_says_so_before_it_starts(tmp_path, monkeypatch):
    def missing(name):
        raise MissingExtraError(f"The method {name!r} needs torch.")

    monkeypatch.setattr("separatrix.methods.get", missing)
    with pytest.raises(MissingExtraError, match="'cmi' needs torch"):
        list(benchmarking.benchmark(["adult"], tmp_path / "results"))
    assert not (tmp_path / "results").exists()
