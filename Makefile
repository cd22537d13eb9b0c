# Every target first builds .venv from nothing: pip, the constraints file, and the CPU build of torch.
PYTHON ?= python3
BIN := .venv/bin
# Real data for tests and benchmarks; what needs it is skipped, with a reason, where the folder is absent.
export SEPARATRIX_DATA ?= $(abspath $(wildcard ../shared/data))
# Parallelism is over processes here; threads inside them only contend for the same cores.
export OMP_NUM_THREADS ?= 1

# The cap on a test's CPU (tests/cpu_cap.py) on a machine that others use too; 1 is strict.
export SEPARATRIX_CPU_FACTOR ?= 2

.PHONY: setup demo docs test test-fast test-site nightly fuzz test-spark test-package test-lowest check format bench clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[figures,torch,boosting,sign,engines,data,docs,dev]'
	touch $@

demo: setup  ## the main job on the embedded Adult data: trace, report, select; about a minute on two cores
	$(BIN)/python examples/demo.py

docs: setup  ## the site in docs/_build/html; runs the gallery; warnings are errors
	$(BIN)/python -m sphinx -W --keep-going -q docs docs/_build/html

test: setup  ## every property, a second of CPU each (tests/cpu_cap.py)
	$(BIN)/python -m pytest -n 2 --dist worksteal --cpu-cap -m 'not nightly and not site and not spark'

test-fast: setup  ## what three quarters of a minute can check
	$(BIN)/python -m pytest -n 2 --dist worksteal -q --cpu-cap -m 'not slow and not browser and not site and not spark'

test-site: docs  ## the site: dead links, errors in the browser, phones
	$(BIN)/python -m pytest -q tests/test_site.py

nightly: setup  ## what `make test` leaves out: long simulations, kills, clusters, memory, fuzz
	$(BIN)/python -m pytest -n 2 --dist worksteal -m 'nightly and not spark'
	$(MAKE) fuzz

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
	$(BIN)/mypy --strict tests/typing/user_program.py
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -q --doctest-modules --doctest-continue-on-failure src/separatrix

format: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv .ruff_cache .mypy_cache .import_linter_cache build dist docs/_build docs/gallery docs/reference/api
