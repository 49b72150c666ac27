# `make help` lists the targets. Each target sets up .venv if needed.
BIN := .venv/bin
STAMP := .venv/.ready
DOCS := .venv/.docs
DATA := $(abspath ../shared/data)
TORCH ?= 2.13.0
TORCHES ?= 2.11.0 2.13.0 2.15.0
WORKERS ?= 2

# The first Python that is new enough and can make environments, unless one is given: make PYTHON=python3.12
GOOD := 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'
ifndef PYTHON
PYTHON := $(shell for p in python3.11 python3.12 python3.13 python3.14 python3 python; do $$p -c $(GOOD) 2>/dev/null && echo $$p && break; done)
endif

# The data for tests and benchmarks on real data; without it, they are skipped with a message.
ifneq ($(wildcard $(DATA)/README.md),)
export REIGN_DATA ?= $(DATA)
endif

# Tests start many processes, which share what one of them has compiled, even where Python is told not to keep it.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo docs test slow attack mutate coverage lint format bench package clean
.DEFAULT_GOAL := help

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*##  *\(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "%-16s %s\n", $$1, $$2 }'

setup: $(STAMP)  ## set up .venv with everything needed for development

# torch is installed first, with an exact version, so that the next step keeps it.
$(STAMP): pyproject.toml Makefile
	@$(or $(PYTHON),false) -c $(GOOD) || { \
	  echo "reign needs Python 3.11 or later, with venv and pip. $(if $(PYTHON),$(PYTHON) is not one.,There is none on the PATH.)"; \
	  echo "Install one (the packages are often called python3.12 and python3.12-venv), or give its path: make setup PYTHON=/path/to/python3"; \
	  exit 1; }
	@echo "1/3  making .venv with $(PYTHON)"
	@$(PYTHON) -m venv .venv
	@echo "2/3  installing torch $(TORCH)"
	@$(BIN)/python -m pip install --quiet torch==$(TORCH)
	@echo "3/3  installing reign and its tools"
	@$(BIN)/python -m pip install --quiet --editable ".[train,chem,plot,tune,dev]"
	@touch $@

demo: $(STAMP)  ## train two small models that count cycles, in a few minutes
	$(BIN)/python examples/demo.py

# The tools come once; what follows needs no network. Every warning is an error.
$(DOCS): $(STAMP)
	@$(BIN)/python -m pip install --quiet --editable ".[train,chem,plot,tune,docs]"
	@touch $@

docs: $(DOCS)  ## build the documentation in build/docs/html, check all links, and look at it in a browser
	$(BIN)/python -m sphinx -W --keep-going -q -E -b html -d build/docs/tree docs build/docs/html
	$(BIN)/python docs/builder/links.py build/docs/html
	$(BIN)/python -m pytest -q -rs -m slow tests/docs/test_look.py

test: $(STAMP)  ## run the tests, under 8 minutes on two cores
	$(BIN)/python -m pytest -q -n $(WORKERS)

slow: $(STAMP)  ## run the tests that take longer
	$(BIN)/python -m pytest -q -m slow --ignore tests/attack

# The seed is printed; set REIGN_ATTACK_SEED to repeat a run.
attack: export REIGN_ATTACK_SEED ?= $(shell date +%s)
attack: $(STAMP)  ## try 50,000 bad inputs, and kill a training run 100 times
	@echo REIGN_ATTACK_SEED=$(REIGN_ATTACK_SEED)
	REIGN_ATTACK=50000 $(BIN)/python -m pytest -q -n $(WORKERS) tests/attack/test_attack.py
	$(BIN)/python -m pytest -q -n $(WORKERS) -rP tests/attack/test_kill.py -m slow
	$(BIN)/python -m pytest -q tests/attack/test_trust.py

mutate: $(STAMP)  ## make about 250 small wrong changes to copies of the source, each of which must fail a test
	$(BIN)/python tests/mutants/run.py

coverage: $(STAMP)  ## run the tests, and check that they reach 92 % of the lines
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -q -n $(WORKERS)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report --skip-covered

lint: $(STAMP)  ## check style and types with ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)  ## fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)  ## measure policies, layers and start-up
	$(BIN)/python benchmarks/policies.py
	$(BIN)/python benchmarks/layers.py
	$(BIN)/python benchmarks/startup.py

# With MATRIX=1, every Python on the PATH and all TORCHES: versions, or folders of environments that have one. CUDA=1 allows builds with CUDA (6 GB each).
package: $(STAMP)  ## build wheel and sdist, check them, and run the README from the wheel alone
	rm -rf dist
	$(BIN)/python -m build --quiet
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python tests/package.py dist $(if $(MATRIX),--matrix $(TORCHES),$(TORCH))

clean:  ## remove .venv and all build products
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage* src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
