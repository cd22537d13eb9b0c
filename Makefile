# Every target first builds .venv from nothing: pip, the constraints file, and the CPU build of torch.
PYTHON ?= python3
BIN := .venv/bin
# Real data for tests and benchmarks; what needs it is skipped, with a reason, where the folder is absent.
export SEPARATRIX_DATA ?= $(abspath $(wildcard ../shared/data))
# Parallelism is over processes here; threads inside them only contend for the same cores.
export OMP_NUM_THREADS ?= 1

.PHONY: setup demo docs test test-fast fuzz test-spark test-package test-lowest check format bench clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[figures,torch,boosting,sign,engines,data,deploy,docs,dev]'
	touch $@

demo: setup  ## the main job on the embedded Adult data: trace, report, select; about a minute on two cores
	$(BIN)/python examples/demo.py

docs: setup  ## the site in docs/_build/html; runs the gallery; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html

test: docs  ## the tests of the site open what `make docs` built
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'not spark'

test-fast: setup  ## what a minute can check
	$(BIN)/python -m pytest -n 2 --dist worksteal -q -m 'not slow and not spark and not browser'

fuzz: setup  ## the property tests with fresh random examples, 1,000 each where a test sets no number
	SEPARATRIX_PROFILE=fuzz $(BIN)/python -m pytest -n 2 -q -m hypothesis

test-spark: setup  ## downloads the [spark] extra (450 MB); needs Java 17
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[spark]'
	$(BIN)/python -m pytest -m spark

test-package: setup  ## wheel and sdist, built and tried on a bare install
	.ci/package

test-lowest:  ## the core's tests with the lowest versions allowed
	.ci/lowest

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q --doctest-modules --doctest-continue-on-failure src/separatrix

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv .ruff_cache .mypy_cache .import_linter_cache build dist docs/_build docs/gallery docs/reference/api
