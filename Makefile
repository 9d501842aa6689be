# Everything from a fresh clone, with Python and pip only: each target makes what it needs in .venv.
PYTHON ?= python3
BIN := .venv/bin
VENV := .venv
INSTALL = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable
PYTHONS ?= 3.10 3.11 3.12 3.13
PROCESSORS := host avx2 sse
NUMERIC := tests/benchmarks tests/clevr tests/explainers tests/focus tests/metrics tests/models tests/results \
           tests/test_exact.py tests/test_mnist1d.py tests/test_pooling.py

.PHONY: run test test-slow test-processors test-pythons reproducibility papers facts package docs zoo chaos lint format bench clean

run: .venv/run  ## all three benchmarks on networks that ship, and one page over them: runs/report.html
	$(BIN)/heatproof run svea --preset standard
	$(BIN)/heatproof run focus --preset quick
	$(BIN)/heatproof run clevr-xai --preset quick
	$(BIN)/heatproof run clevr-xai --preset quick --questions complex
	@$(BIN)/heatproof report runs/svea-standard runs/focus-quick runs/clevr-xai-quick runs/clevr-xai-complex-quick

test: .venv/dev  ## the test suite
	$(BIN)/python -m pytest -n 2

test-slow: .venv/dev  ## tests that take minutes: the published numbers on whole runs, training
	$(BIN)/python -m pytest -m slow

test-processors: .venv/dev  ## the numeric tests, on this processor and made to work like two older ones
	for name in $(PROCESSORS); do \
	  echo "== $$name"; \
	  $(BIN)/python -m benchmarks.processors $$name $(BIN)/python -m pytest -q -n 2 $(NUMERIC) || exit 1; \
	done

test-pythons:  ## the test suite under every further Python that is found (on the path, or pyenv's)
	@for version in $(PYTHONS); do \
	  python=$$(command -v python$$version || ls -d $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$version.*/bin/python 2>/dev/null | tail -1); \
	  if [ -z "$$python" ] || ! "$$python" -c '' 2>/dev/null; then echo "== Python $$version: not found"; continue; fi; \
	  echo "== $$("$$python" --version)"; \
	  $(MAKE) --no-print-directory .venv-$$version/dev PYTHON="$$python" VENV=.venv-$$version || exit 1; \
	  .venv-$$version/bin/python -m pytest -q -n 2 || exit 1; \
	done

reproducibility: .venv/dev  ## the tables of docs/reproducibility.md: what is the same on other processors, and how closely
	$(BIN)/python -m benchmarks.processors tables

papers: .venv/dev  ## every line of the three papers that what ships can show: paper and ours, for docs/papers.md
	$(BIN)/python -m papers

facts: .venv/dev  ## what is measured of every explainer, for its fact sheet; with how it does in quick runs
	$(BIN)/heatproof run svea --preset quick --target logit --out runs/facts-svea --explainers "$$($(BIN)/python -m facts names)"
	$(BIN)/heatproof run focus --preset quick --out runs/facts-focus
	$(BIN)/heatproof run clevr-xai --preset quick --out runs/facts-clevr-xai
	$(BIN)/heatproof run focus --preset quick --model object_vit --out runs/facts-focus-vit --explainers "$$($(BIN)/python -m facts vit)"
	$(BIN)/heatproof run svea --preset quick --out runs/facts-papers-svea
	$(BIN)/python -m facts --runs runs/facts-svea runs/facts-focus runs/facts-clevr-xai runs/facts-focus-vit \
	  --papers runs/facts-papers-svea runs/facts-focus runs/facts-clevr-xai

package: .venv/dev  ## sdist and wheel in dist/, the wheel tried in an empty environment, far from the repository
	rm -rf dist build/empty
	$(BIN)/python -m build --no-isolation --outdir dist .
	$(BIN)/python -m venv build/empty
	build/empty/bin/python -m pip install --quiet --constraint constraints.txt dist/*.whl
	cd build && empty/bin/heatproof doctor && empty/bin/heatproof run all --explainers gradient,random --out empty/runs

docs: .venv/dev  ## the documentation as a site, strictly and without network: build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

zoo: .venv/dev  ## every method on every network: the matrix of docs/explainers/networks.md
	PYTHONPATH=tests $(BIN)/python -m zoo

chaos: .venv/dev  ## harm done on purpose (kills, faults, damage, bad input, two owners): the tables of docs/reliability.md
	$(BIN)/python -m chaos $(CHAOS)

lint: .venv/dev  ## formatting, style, types, who may import whom, and what is known to be risky
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --recursive --configfile pyproject.toml src

format: .venv/dev
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

bench: .venv/dev  ## speed: the standard run, and our explainers over Captum's, zennit's, grad-cam's and lime's
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv .venv-* build dist .mypy_cache .ruff_cache .pytest_cache

%/run: pyproject.toml constraints.txt
	@test -x $(VENV)/bin/python || $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null || \
	  { echo "Heatproof needs Python 3.10 or newer, and $(PYTHON) is not: name one with make $(MAKECMDGOALS) PYTHON=..."; exit 1; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV) >/dev/null 2>&1 || { rm -rf $(VENV); \
	  echo "$(PYTHON) cannot make a virtual environment: install its venv module (Debian, Ubuntu: apt-get install python3-venv)."; exit 1; }
	@$(call installed,.)
	@touch $@

%/dev: %/run
	@$(call installed,'.[dev]')
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps lxt==2.1  # without what its patched models need
	@touch $@

installed = echo "$(VENV): installing"; $(INSTALL) $(1) 2>$(VENV)/install.log || { rm -f $(VENV)/run $(VENV)/dev; \
  echo "Packages could not be installed: the first time needs a connection to a package index; $(VENV)/install.log says what pip said."; exit 1; }
