# The two commands: `make demo` trains on the embedded default, `make test` passes the suite.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.installed

.PHONY: demo test test-slow test-browser test-wheel check docs format wheel clean

demo: $(SETUP)
	$(BIN)/gpnn train

test: $(SETUP)
	$(BIN)/python -m pytest

test-slow: $(SETUP)
	$(BIN)/python -m pytest -m slow

# Needs Chromium and its driver: apt-get install chromium chromium-driver
test-browser: $(SETUP)
	$(BIN)/python -m pytest -m browser

check: $(SETUP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_imports.py

docs: $(SETUP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	$(BIN)/mkdocs build --strict

format: $(SETUP)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

wheel: $(SETUP)
	$(BIN)/python -m build --wheel

# A wheel built from the tree installs into a clean environment and trains there.
test-wheel: wheel
	rm -rf build/clean
	$(PYTHON) -m venv build/clean
	build/clean/bin/python -m pip install --quiet --constraint constraints.txt torch
	build/clean/bin/python -m pip install --quiet --constraint constraints.txt dist/gpnn-*.whl
	cd build && clean/bin/gpnn train train.epochs=5 --out clean/run

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache

# torch first and pinned: a looser requirement with no torch installed pulls the CUDA packages.
$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,metis]"
	touch $@
