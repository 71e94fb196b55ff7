# The two commands: `make demo` trains on the embedded default, `make test` passes the suite.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.installed

.PHONY: demo test test-all test-slow test-gpu test-browser test-wheel test-lowest test-newest fuzz fuzz-guided soak audit check docs \
	format wheel clean

demo: $(SETUP)
	$(BIN)/gpnn train budget=10s

# Every room, in a few minutes: parallel workers with one thread each.
WORKERS ?= auto
PYTEST := OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile
test: $(SETUP)
	$(PYTEST)

# The rest of what CI runs: kills, full disks, damaged files, lost processes, measured memory, a browser.
test-all: test
	$(PYTEST) -m thorough

test-slow: $(SETUP)
	$(PYTEST) -m slow

# The kernels' tests: on a GPU, or with triton installed and TRITON_INTERPRET=1 on a CPU.
test-gpu: $(SETUP)
	$(BIN)/python -m pytest tests/kernels/test_gpu.py tests/kernels/test_gpu_rows.py tests/kernels/test_gpu_gru.py \
		tests/kernels/test_gpu_convolution.py tests/kernels/test_gpu_masks.py \
		tests/engine/test_gpu.py tests/engine/test_lower_csr.py tests/partition/test_clustered.py \
		tests/trust/test_agreement.py tests/trust/test_determinism.py

# Needs Chromium and its driver: apt-get install chromium chromium-driver
test-browser: $(SETUP)
	$(BIN)/python -m pytest -m browser

# Every reader of files, ten thousand damaged ones each; READERS="pickle tables" and CASES=100 choose.
CASES ?= 10000
fuzz: $(SETUP)
	$(BIN)/python -m tests.trust.fuzz --cases $(CASES) --out benchmarks/results/fuzz.json $(READERS)

# The same readers, guided by what each input reaches, each for so many seconds: needs Python 3.11 to 3.13.
SECONDS ?= 300
fuzz-guided: $(SETUP)
	$(BIN)/python -m pip install --quiet atheris
	$(BIN)/python -m tests.trust.guided --seconds $(SECONDS) --out benchmarks/results/fuzz.json $(READERS)

# Thousands of epochs: memory must stay flat.
soak: $(SETUP)
	$(BIN)/python benchmarks/soak.py --out benchmarks/results/soak.md

# The suite with the lowest versions that pyproject.toml admits, and with the newest there are. PyPI's torch brings CUDA:
# about 5 GB each under build/; UV=--torch-backend=cpu takes builds without it where PyTorch's own index can be reached.
# Old versions warn of themselves, so that warnings are no errors there. Where no 3.13 is found (pyenv's are not),
# NEWEST_PYTHON names one; NEWEST=3.12 takes another. TESTS chooses: TESTS="-m 'not browser' tests/data".
EXTRAS := --extra dev --extra metis
build/uv/bin/uv:
	$(PYTHON) -m venv build/uv
	build/uv/bin/python -m pip install --quiet uv

LOWEST_PYTHON ?= 3.11
test-lowest: build/uv/bin/uv
	$< pip compile --quiet --upgrade --resolution lowest-direct --python-version 3.11 $(EXTRAS) $(UV) \
		--output-file build/lowest.txt pyproject.toml
	$< venv --quiet --clear --python $(LOWEST_PYTHON) build/lowest
	$< pip install --quiet $(UV) --python build/lowest/bin/python --requirement build/lowest.txt
	PYTHONPATH=$(CURDIR) build/lowest/bin/python -m pytest -W default $(TESTS)

NEWEST ?= 3.13
NEWEST_PYTHON ?= $(NEWEST)
test-newest: build/uv/bin/uv
	$< pip compile --quiet --upgrade --resolution highest --python-version $(NEWEST) $(EXTRAS) $(UV) \
		--output-file build/newest.txt pyproject.toml
	$< venv --quiet --clear --python $(NEWEST_PYTHON) build/newest
	$< pip install --quiet $(UV) --python build/newest/bin/python --requirement build/newest.txt
	PYTHONPATH=$(CURDIR) build/newest/bin/python -m pytest $(TESTS)

# What is installed fits together; then known vulnerabilities of the pinned versions, by the Python Packaging Advisory
# Database. An old Jinja2 with known ones is asked for first: where it is not reported, the database does not answer,
# and nothing was audited.
AUDIT := build/audit/bin/pip-audit --strict --no-deps --disable-pip --progress-spinner off
audit: $(SETUP)
	$(BIN)/python -m pip check
	$(PYTHON) -m venv build/audit
	build/audit/bin/python -m pip install --quiet pip-audit
	@echo "jinja2==2.4.1" > build/audit/known.txt
	@$(AUDIT) --requirement build/audit/known.txt 2>&1 | grep --quiet --extended-regexp "CVE-|GHSA-|PYSEC-" || { \
		echo "make audit: the advisory database cannot be reached from here. Nothing was audited." >&2; exit 2; }
	$(AUDIT) --requirement constraints.txt

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

# An sdist of the tree, and a wheel of that sdist.
wheel: $(SETUP)
	rm -rf dist
	$(BIN)/python -m build

# The wheel in a clean environment, outside the tree: it trains, then passes the suite of the sdist, whose package gives way
# to the installed one. What a newcomer has who takes both. TESTS chooses, as above.
test-wheel: wheel
	rm -rf build/clean build/sdist
	$(PYTHON) -m venv build/clean
	build/clean/bin/python -m pip install --quiet --constraint constraints.txt torch
	build/clean/bin/python -m pip install --quiet --constraint constraints.txt "$$(echo dist/gpnn-*.whl)[dev,metis]"
	cd build && clean/bin/gpnn train train.epochs=5 --out clean/run
	mkdir build/sdist && tar --extract --gzip --file dist/gpnn-*.tar.gz --directory build/sdist --strip-components 1
	rm -r build/sdist/gpnn
	ln -s "$$(cd build && clean/bin/python -c 'import gpnn; print(*gpnn.__path__)')" build/sdist/gpnn
	cd build/sdist && OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 ../clean/bin/python -m pytest --numprocesses $(WORKERS) \
		--dist loadfile $(TESTS)

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache

# torch first and pinned: a looser requirement with no torch installed pulls the CUDA packages.
$(SETUP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev,metis]"
	touch $@
