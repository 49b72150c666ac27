# Everything a newcomer needs: `make demo` and `make test` set up .venv by themselves.
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.ready
DATA := $(abspath ../shared/data)

# Tests and benchmarks on real data find it here; without it they say so and skip.
ifneq ($(wildcard $(DATA)/README.md),)
export REIGN_DATA ?= $(DATA)
endif

.PHONY: setup demo test slow attack mutate lint format bench clean

setup: $(STAMP)

# torch comes first and exactly: a looser range would bring its CUDA packages along.
$(STAMP): pyproject.toml Makefile
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet torch==2.13.0
	$(BIN)/pip install --quiet --editable ".[train,chem,plot,tune,dev]"
	touch $@

demo: $(STAMP)
	$(BIN)/python examples/demo.py

test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2

slow: $(STAMP)
	$(BIN)/python -m pytest -q -m slow --ignore tests/attack

# 50,000 bad inputs, then a run that is killed 100 times. The seed is printed; give REIGN_ATTACK_SEED to have the same again.
attack: export REIGN_ATTACK_SEED ?= $(shell date +%s)
attack: $(STAMP)
	@echo REIGN_ATTACK_SEED=$(REIGN_ATTACK_SEED)
	REIGN_ATTACK=50000 $(BIN)/python -m pytest -q -n 2 tests/attack/test_attack.py
	$(BIN)/python -m pytest -q -s tests/attack/test_kill.py tests/attack/test_trust.py -m "slow or not slow"

# Every small wrong change of tests/mutants is made to a copy, and must fail the tests that it names.
mutate: $(STAMP)
	$(BIN)/python tests/mutants/run.py

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(STAMP)
	$(BIN)/python benchmarks/policies.py
	$(BIN)/python benchmarks/layers.py

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
