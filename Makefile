# Each target does its own set-up in .venv, so it works in a fresh checkout.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
USED := $(VENV)/.used
INSTALLED := $(VENV)/.installed
ENGINES := $(VENV)/.engines
DOCS := $(VENV)/.docs
PAPER := $(VENV)/.paper
# Workers share the cores, so that each takes one thread and what another worker has left to do.
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto -q

.PHONY: demo drill paper test test-all test-lowest lint format bench bench-json docs docs-serve clean

demo: $(USED)  ## four hospitals, one question; the first time it installs what the package needs
	$(BIN)/fedwad demo

drill: $(INSTALLED)  ## nodes as processes: killed, stopped, flooded, a full disk, a rotated ledger; at most two minutes
	$(BIN)/python scripts/drill.py

paper: $(PAPER)  ## trials of all experiments of the paper, which judge nothing; in earnest: python -m paper NAME
	$(BIN)/python -m paper all --quick

test: $(INSTALLED)  ## everything but the slow tests
	$(PYTEST) --dist worksteal -m "not slow"

test-lowest: ## the tests with the lowest versions that pyproject.toml allows, in an environment of their own
	test -x build/lowest/bin/python || $(PYTHON) -m venv build/lowest
	build/lowest/bin/python -m pip install --quiet --disable-pip-version-check -c constraints-lowest.txt -e ".[plot]" \
		pillow pooch hypothesis pandas polars pytest pytest-xdist
	build/lowest/bin/python -m pytest -n auto --dist loadfile -q -m "not slow"

# Slow tests of one file share engines, so that a file stays with one worker.
test-all: $(ENGINES)  ## every test, engines as real processes and pages in a real browser included
	$(PYTEST) --dist worksteal -m "not slow"
	$(PYTEST) --dist loadfile -m slow

lint: $(ENGINES)  ## style, formatting and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(INSTALLED)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: $(INSTALLED)  ## ours against named rivals, in one run; at most two minutes a table
	$(BIN)/python -m benchmarks

bench-json: $(INSTALLED)
	$(BIN)/python -m benchmarks --json

$(USED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	test -e $(INSTALLED) || $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(INSTALLED): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

$(ENGINES): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,docs,flower,flare,learn,oracles]"
	touch $@

$(DOCS): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

$(PAPER): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[paper]"
	touch $@

docs: $(DOCS)  ## the documentation as a site in build/site (search: make docs-serve); a broken link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

docs-serve: $(DOCS)  ## the same at http://127.0.0.1:8000
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs serve

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
