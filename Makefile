# Everything from a fresh clone, with Python and pip only: each target makes what it needs in .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test test-slow lint format bench clean

run: .venv/run  ## all three benchmarks on networks that ship: tables and pages in runs/
	$(BIN)/heatproof run svea --preset standard
	$(BIN)/heatproof run focus --preset quick
	$(BIN)/heatproof run clevr-xai --preset quick

test: .venv/dev  ## the test suite
	$(BIN)/python -m pytest -n 2

test-slow: .venv/dev  ## tests that take minutes: the published numbers on whole runs, training
	$(BIN)/python -m pytest -m slow

lint: .venv/dev  ## formatting, style and types
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy

format: .venv/dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: .venv/dev  ## speed: the standard run, and our explainers over Captum's, zennit's, grad-cam's and lime's
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache

.venv/run: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(INSTALL) --editable .
	touch $@

.venv/dev: .venv/run
	$(INSTALL) --editable '.[dev]'
	touch $@
