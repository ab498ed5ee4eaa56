# On a machine with Python 3.11 to 3.13 and make, each of these does everything that is needed for it:
#
#   make demo       simulate data, hide 40 % of it, compare ways of doing PCA; writes nanfold-demo/report.html
#   make test       the tests, but for the slow ones
#   make test-slow  the slow ones
#   make lint       ruff and mypy
#   make docs       the documentation, docs/_build/index.html
#   make format     let ruff put the code in its format
#   make images     draw the pictures of the README and of the gallery again
#   make results    the paper's experiments again, and the page docs/results.md; DATA=dir takes the real sets from there
#   make clean      remove the virtual environment and what was written
#
# PYTHON=python3.12 chooses an interpreter, JOBS=8 the number of test processes.

ifndef PYTHON
PYTHON := $(shell for p in python3 python python3.13 python3.12 python3.11; do \
  $$p -c 'import ensurepip, sys, venv; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo $$p && break; done)
endif
JOBS ?= 2
REPETITIONS ?= 20

VENV := .venv
RUN := $(VENV)/bin/python
# What the tests run in several processes must not be threaded again in each.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NANFOLD_THREADS=1

.PHONY: help demo test test-slow lint docs format images results clean
.DELETE_ON_ERROR:

help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

demo: $(VENV)/.installed-demo
	@$(RUN) -m nanfold.cli demo

test: $(VENV)/.installed-dev
	$(ONE_THREAD) $(RUN) -m pytest -m "not slow" -n $(JOBS) --dist worksteal

# Exit code 5: no test is marked slow.
test-slow: $(VENV)/.installed-dev
	$(RUN) -m pytest -m slow || [ $$? -eq 5 ]

lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy

docs: $(VENV)/.installed-docs
	$(RUN) -m sphinx --fail-on-warning --keep-going -q docs docs/_build
	@echo "The documentation: docs/_build/index.html"

format: $(VENV)/.installed-dev
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

images: demo
	mkdir -p docs/images
	cp nanfold-demo/clusters.png docs/images/demo.png
	cp nanfold-demo/clusters-dark.png docs/images/demo-dark.png
	$(RUN) docs/gallery.py

# Goes on where it was stopped. Exit code 1: a job failed, which the page tells.
results: $(VENV)/.installed-demo
	$(RUN) -m nanfold.cli reproduce simulation --jobs $(JOBS) || [ $$? -eq 1 ]
	$(RUN) -m nanfold.cli reproduce real --jobs $(JOBS) --repetitions $(REPETITIONS) $(if $(DATA),--data-dir "$(DATA)") || [ $$? -eq 1 ]
	cp nanfold-paper/results.md docs/results.md
	for name in $$(grep -o 'images/results-[A-Za-z0-9_.-]*' docs/results.md); do cp nanfold-paper/$$name docs/$$name; done

# The package is installed in place, so only a change of what it needs asks for another installation.
$(VENV)/.installed-demo: pyproject.toml | $(VENV)/.made
	@echo "Installing nanfold and what it needs into $(VENV); this takes a minute or two."
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable ".[demo]"
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/.made
	@echo "Installing nanfold, its tests and linters into $(VENV); this takes a few minutes."
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable ".[test,lint]"
	@touch $@

$(VENV)/.installed-docs: pyproject.toml | $(VENV)/.made
	@echo "Installing nanfold and what its documentation is built with into $(VENV)."
	@$(RUN) -m pip install --quiet --disable-pip-version-check --editable ".[docs]"
	@touch $@

$(VENV)/.made:
	@test -n "$(PYTHON)" || { echo "nanfold needs Python 3.11, 3.12 or 3.13 with venv; name one with make PYTHON=..." >&2; exit 2; }
	@$(PYTHON) -m venv $(VENV)
	@touch $@

clean:
	rm -rf $(VENV) nanfold-demo docs/_build build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
